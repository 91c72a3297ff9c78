"""How runs by hand, and tasks, are written down in what is shown of a subscription."""

from datetime import UTC, datetime, timedelta

import pytest

from api.bodies import ActionRequest
from api.subscriptions.schemas import _last
from api.subscriptions.service import ManualRun
from droidherd.contracts.subscriptions import AuditLine, Subscription
from droidherd.contracts.tasks import Failure, TaskSpec, TaskView
from droidherd.domain.errors import Verdict
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.schedules import StartedRun, SubscriptionReading

REQUEST = ActionRequest(actor="ann", reason="now")


def now() -> datetime:
    return datetime.now(UTC)


def seconds_around(moment: datetime) -> list[datetime]:
    """Enough of them that the second of an order made now is among them."""
    whole = moment.replace(microsecond=0)
    return [whole + timedelta(seconds=n) for n in range(-30, 300)]


def found(*changes: AuditLine, begun: tuple[datetime, ...] = ()) -> SubscriptionReading:
    subscription = Subscription(
        id="daily",
        task=TaskSpec(type="tap_once"),
        every_s=86_400,
        created_at=now(),
        catch_up=CatchUp(now()),
        changes=changes,
    )
    runs = tuple(StartedRun(f"subscription-run/daily-{one}", "r", one) for one in begun)
    return SubscriptionReading(subscription, paused=False, note="", token=b"", begun=runs)


def lines(what: str, moments: list[datetime]) -> list[AuditLine]:
    return [AuditLine(at=one, what=what, due=one, id=str(one)) for one in moments]


def test_an_order_is_dated_when_it_was_given_and_its_moment_is_nobody_elses():
    before = now()
    taken = seconds_around(before)
    order = ManualRun(REQUEST)
    line = order.write(found(*lines("run", taken))).subscription.changes[-1]
    assert ("run", "ann", "now") == (line.what, line.actor, line.reason)
    assert before <= line.at <= now()
    assert (taken[0] - timedelta(seconds=1), order.at) == (line.due, order.at), "the first second that is free"
    assert order.at == line.due


def test_a_moment_that_a_run_had_is_taken():
    taken = seconds_around(now())
    order = ManualRun(REQUEST)
    order.write(found(begun=tuple(taken)))
    assert taken[0] - timedelta(seconds=1) == order.at


def test_a_run_that_was_refused_takes_no_moment_from_the_next_one():
    before = now().replace(microsecond=0)
    order = ManualRun(REQUEST)
    order.write(found(*lines("refused", seconds_around(before))))
    assert before <= order.at <= now()


def test_a_refusal_takes_the_place_of_the_run_and_says_why():
    order = ManualRun(REQUEST)
    written = order.write(found(AuditLine(at=now(), what="created", id="c"))).subscription
    others = AuditLine(at=now(), what="paused", actor="ben", id="p")
    there = found(*written.changes, others)
    line = (edited := order.refuse(there, "the queue is full")).subscription.changes[-1]
    assert ["created", "paused", "refused"] == [one.what for one in edited.subscription.changes]
    assert ("ann", "now", "the queue is full", order.at) == (line.actor, line.reason, line.why, line.due)
    assert line.id not in {one.id for one in there.subscription.changes}, "so that it is seen whether it counted"


@pytest.mark.parametrize(("state", "shown"), [("queued", "e1 is draining"), ("failed", "home did not appear")])
def test_a_task_in_line_again_says_what_it_waits_for_not_how_it_failed(state: TaskStatus, shown: str):
    failed = Failure(kind="ScreenNotReachedError", verdict=Verdict.RETRYABLE, message="home did not appear")
    at = datetime(2026, 3, 1, tzinfo=UTC)
    task = TaskView(
        task_id="t1", type="scan", state=TaskStatus(state), why="e1 is draining", error=failed, created_at=at,
        updated_at=at, ended_at=at if state == "failed" else None,
    )  # fmt: skip
    assert shown == _last(task).why


def test_only_a_run_that_came_about_was_by_hand():
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    ran, refused = (found(*lines(what, [moment])).subscription for what in ("run", "refused"))
    assert (True, False) == (ran.by_hand(moment), refused.by_hand(moment))
