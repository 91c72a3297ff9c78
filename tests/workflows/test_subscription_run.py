"""One run of a subscription: its task, its end, and what it hands over to the next one."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import SearchAttributeKey

from droidherd.contracts import names
from droidherd.contracts.subscriptions import AuditLine, SubscriptionRunState, WaitingTask
from droidherd.contracts.tasks import OperatorRequest, TaskInput
from droidherd.domain.errors import FlowError
from droidherd.domain.schedule.catchup import NOT_STARTED, CatchUp, OnStuck, Overlap
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Hold, Play, fails
from tests.workflows.subscription_runs import DUE, LONG_AGO, due, ended, subscription, task_id
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF = SearchAttributeKey.for_keyword(names.Attribute.SUBSCRIPTION_ID)
REGION = SearchAttributeKey.for_keyword(names.Attribute.REGION)
TAGS = SearchAttributeKey.for_keyword_list(names.Attribute.TAGS)


async def memo(handle: "WorkflowHandle[Any, Any]") -> SubscriptionRunState:
    return await (await handle.describe()).memo_value(names.MEMO_SUBSCRIPTION_RUN, type_hint=SubscriptionRunState)


async def test_a_run_starts_its_task_under_the_name_of_its_time_and_lasts_as_long(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task), hold)
    await hold.began.wait()
    assert (task_id(task), "", None) == ((now := await memo(handle)).task_id, now.outcome, now.ended_at)
    hold.let_go.set()
    found: SubscriptionRunState = await handle.result()
    assert (task_id(task), DUE, "completed") == (found.task_id, found.scheduled_at, found.outcome)
    assert (found, DUE, 0) == (await memo(handle), found.catch_up.until, found.catch_up.missed)
    known = await here.task(task_id(task)).describe()
    assert (task, "default") == (known.typed_search_attributes[OF], known.typed_search_attributes[REGION])


async def test_its_task_holds_the_mutex_of_the_subscription_beside_its_own(here: World, task: str):
    """So that no two tasks of it run at once, whoever started them."""
    hold = Hold()
    mine = await due(here, subscription(task), hold)
    await hold.began.wait()
    await here.submit("rival-" + task, mutex=(f"subscription.{task}",))
    view = await here.reached("rival-" + task, TaskStatus.QUEUED)
    assert (5, task) == ((await here.view(task_id(task))).priority, (await here.view(task_id(task))).account)
    assert f"subscription.{task}" in (await here.queue()).queue[0].blocked_by, view.why
    hold.let_go.set()
    await mine.result()
    await here.ended("rival-" + task)


@pytest.mark.parametrize(("play", "expected"), [(fails(FlowError("no such screen")), "failed")], ids=["failed"])
async def test_however_its_task_ends_the_run_completes_and_says_so(here: World, task: str, play: Play, expected: str):
    handle = await due(here, subscription(task), play)
    assert expected == (await handle.result()).outcome
    assert WorkflowExecutionStatus.COMPLETED == (await handle.describe()).status


async def test_a_task_that_is_rejected_ends_the_run(here: World, task: str):
    hold = Hold()
    await here.submit("holder-" + task, hold, account=task)
    await hold.began.wait()
    assert "rejected" == (await (await due(here, subscription(task))).result()).outcome
    hold.let_go.set()


async def test_a_task_that_is_terminated_ends_the_run(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task), hold)
    await hold.began.wait()
    await here.task(task_id(task)).terminate("test")
    assert "terminated" == (await handle.result()).outcome
    await here.idle()


async def test_a_task_that_is_cancelled_by_a_person_ends_the_run(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task), hold)
    await hold.began.wait()
    await here.control(task_id(task), "cancel")
    assert "cancelled" == (await handle.result()).outcome


async def test_a_run_that_is_stopped_cancels_its_task_in_the_name_of_the_actor(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task), hold)
    await hold.began.wait()
    await handle.signal(names.Signal.CANCEL, OperatorRequest(actor="system:subscription", reason="deleted"))
    assert "cancelled" == (await handle.result()).outcome
    line = (await here.view(task_id(task))).events[-1]
    assert ("cancelled", "system:subscription", "deleted") == (line.event, line.actor, line.reason)


@pytest.mark.parametrize(
    ("overlap", "reason"), [(Overlap.CANCEL_OTHER, "the next run is due"), (Overlap.SKIP, "cancelled in Temporal")]
)
async def test_a_cancel_of_the_engine_reaches_the_task_and_the_run_still_completes(
    here: World, task: str, overlap: Overlap, reason: str
):
    hold = Hold()
    handle = await due(here, subscription(task, overlap=overlap), hold)
    await hold.began.wait()
    await handle.cancel()
    assert "cancelled" == (await handle.result()).outcome
    line = (await here.view(task_id(task))).events[-1]
    assert ("system:subscription", reason) == (line.actor, line.reason)


async def test_a_run_that_was_stopped_before_it_began_starts_nothing(here: World, task: str):
    handle = await here.client.start_workflow(
        names.Workflow.SUBSCRIPTION_RUN,
        subscription(task),
        id=f"{names.subscription_run_id(task)}-2026-01-02T03:04:06Z",
        task_queue=names.QUEUE,
        result_type=SubscriptionRunState,
        start_signal=names.Signal.CANCEL,
        start_signal_args=[OperatorRequest(actor="ann")],
    )
    found: SubscriptionRunState = await handle.result()
    assert ("", "cancelled") == (found.task_id, found.outcome)
    history = await handle.fetch_history()
    assert not any(e.HasField("start_child_workflow_execution_initiated_event_attributes") for e in history.events)


async def test_when_somebody_has_the_name_already_the_task_gets_a_mark(here: World, task: str):
    await here.submit(task_id(task))
    await here.ended(task_id(task))
    found: SubscriptionRunState = await (await due(here, subscription(task))).result()
    assert (True, "completed") == (found.task_id.startswith(f"{task_id(task)}-"), found.outcome)
    assert "completed" == (await here.view(found.task_id)).state


async def test_its_task_goes_on_when_the_run_is_terminated(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task), hold)
    await hold.began.wait()
    await handle.terminate("test")
    hold.let_go.set()
    assert TaskStatus.COMPLETED == (await here.ended(task_id(task))).state


# --- a task that waits for too long ------------------------------------------------------------------------------


async def test_a_task_that_is_paused_for_too_long_is_reported_until_it_goes_on(here: World, task: str):
    hold, more = Hold(), Hold()
    handle = await due(here, subscription(task, stuck_after_s=1), hold, more)
    await hold.began.wait()
    await here.control(task_id(task), "pause")
    stuck = await until(lambda: _stuck(handle), "the report")
    assert (task_id(task), "paused") == (stuck.task_id, stuck.state)
    assert "paused by anna" in stuck.why
    known = (await handle.describe()).typed_search_attributes
    assert (["stuck"], "default") == (known[TAGS], known[REGION])
    assert "- stuck: paused since" in await here.details(handle.id)
    await here.control(task_id(task), "resume")
    await more.began.wait()

    async def cleared() -> bool | None:
        return (await memo(handle)).stuck is None or None

    await until(cleared, "the report's end")
    assert TAGS not in (await handle.describe()).typed_search_attributes
    more.let_go.set()
    assert "completed" == (await handle.result()).outcome


async def test_a_task_that_waits_for_too_long_is_cancelled_where_that_is_wanted(here: World, task: str):
    hold = Hold()
    await here.submit("holder-" + task, hold, account=task)
    await hold.began.wait()
    spec = subscription(task).task.model_copy(update={"on_busy": "queue"})
    handle = await due(here, subscription(task, task=spec, stuck_after_s=1, on_stuck=OnStuck.CANCEL))
    ended = await handle.result()
    assert ("cancelled", None, 1) == (ended.outcome, ended.stuck, ended.stuck_tasks)
    view = await here.view(task_id(task))
    assert view.why.startswith("cancelled by system:subscription: queued since")
    line = view.events[-1]
    assert ("cancelled", "system:subscription") == (line.event, line.actor)
    assert "queued since" in line.reason
    hold.let_go.set()
    await here.ended("holder-" + task)


async def test_a_task_that_runs_for_long_is_not_stuck(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task, stuck_after_s=1, on_stuck=OnStuck.CANCEL), hold)

    async def looked() -> bool | None:
        history = await handle.fetch_history()
        kinds = [one.activity_task_scheduled_event_attributes.activity_type.name for one in history.events]
        return kinds.count("look_at_task") > 1 or None

    await until(looked, "two looks")
    assert (await memo(handle)).stuck is None
    hold.let_go.set()
    assert "completed" == (await handle.result()).outcome


async def _stuck(handle: "WorkflowHandle[Any, Any]") -> WaitingTask | None:
    return (await memo(handle)).stuck


# --- what was missed ---------------------------------------------------------------------------------------------


async def test_what_was_due_since_the_one_before_and_did_not_run_is_handed_on(here: World, task: str):
    before = ended(10, missed=7)
    found: SubscriptionRunState = await (await due(here, subscription(task, catch_up=LONG_AGO), before=before)).result()
    assert (DUE, 7 + 4) == (found.catch_up.until, found.catch_up.missed)
    assert [DUE - timedelta(seconds=n) for n in (8, 6, 4, 2)] == list(found.catch_up.rows[-1].times)


async def test_a_change_of_the_subscription_counts_more_than_an_older_run(here: World, task: str):
    one = subscription(task, catch_up=CatchUp(DUE - timedelta(seconds=3), missed=9))
    found: SubscriptionRunState = await (await due(here, one, before=ended(10, missed=7))).result()
    assert (9 + 1, DUE) == (found.catch_up.missed, found.catch_up.until)


async def test_a_run_by_hand_while_it_is_paused_misses_nothing(here: World, task: str):
    line = AuditLine(at=DUE, what="run", actor="ann")
    one = subscription(task, paused_at=DUE - timedelta(seconds=60), changes=(line,), catch_up=LONG_AGO)
    found: SubscriptionRunState = await (await due(here, one, before=ended(60.5))).result()
    assert 0 == found.catch_up.missed


@pytest.mark.parametrize("before", ["nonsense", {"an": "object"}, [1], 7])
async def test_whatever_the_one_before_left_the_next_one_begins(here: World, task: str, before: object):
    found: SubscriptionRunState = await (await due(here, subscription(task), before=before)).result()
    assert ("completed", 0) == (found.outcome, found.catch_up.missed)


async def test_a_run_does_not_fail_over_its_catch_up(here: World, task: str):
    """A time zone this worker does not know: what was missed stays open, and the task runs."""
    one = subscription(task, every_s=0, cron="* * * * *", time_zone="Mars/Base")
    found: SubscriptionRunState = await (await due(here, one, before=ended(120, missed=3))).result()
    assert ("completed", one.catch_up) == (found.outcome, found.catch_up)
    assert NOT_STARTED not in str(found.catch_up)


async def test_the_web_ui_tells_what_it_does(here: World, task: str):
    hold = Hold()
    handle = await due(here, subscription(task, catch_up=LONG_AGO), hold, before=ended(10))
    await hold.began.wait()

    async def details() -> str | None:
        text = await here.details(handle.id)
        return text if task_id(task) in text else None

    text = await until(details, "the details")
    assert (True, True) == ("**running**" in text, "4 runs missed so far" in text)
    hold.let_go.set()
    await handle.result()


async def test_the_task_is_started_as_any_task_is(here: World, task: str):
    await due(here, subscription(task))
    await here.ended(task_id(task))
    history = await here.task(task_id(task)).fetch_history()
    (given,) = await here.client.data_converter.decode(
        history.events[0].workflow_execution_started_event_attributes.input.payloads, [TaskInput]
    )
    assert (("other", f"subscription.{task}"), f"subscription:{task}") == (given.spec.mutex, given.spec.actor)
