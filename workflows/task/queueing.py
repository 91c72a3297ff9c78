"""Before an attempt: waiting for the time it may start, for the dispatcher's answer, and in line.

Each state of the lifecycle is a coroutine that ends in another state.
"""

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow

from droidherd.contracts.tasks import Failure
from droidherd.domain import messages as m
from droidherd.domain.errors import Verdict
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.lifecycle import TaskEvent
from workflows.task.loop import TaskLoop, until_s
from workflows.task.state import TaskState

STARTS = "the time it may start"
FOREVER = float("inf")
JITTER = 0.1
"""By up to this share a request is repeated later, so that many are not repeated at once."""
AWAY_S = 30.0
"""A timer that rings so late says that Temporal or its workers were away."""
NO_EMULATOR = "cannot_be_satisfied"
REASONS = {
    "queue_full": "the queue is full",
    "duplicate": "the same account and type is queued already",
    "account_running": "the account is in use already",
    NO_EMULATOR: "no emulator of the pool can run it",
}


async def pending(task: TaskLoop) -> None:
    """Wait for the time it may start, then ask for an emulator."""
    state, claim = task.state, task.state.claim
    state.why = ""
    if until_s(state.not_before) > 0:
        state.why = f"not before {state.not_before:%Y-%m-%d %H:%M:%S %Z}"
        if not await _start_time(task):
            state.take_effect()
            return
    if state.intent:
        claim.disclaim(state.key())
        state.take_effect()
    elif _is_too_late(state):
        claim.disclaim(state.key())
        _expire(state)
    else:
        if state.waits_for() and state.home_until is None:
            _wait_for_home(state)
        # A ticket once drawn is kept until a retry or a resume throws it away.
        claim.request(request_of(state))
        await _admission(task)


async def wait_in_line(task: TaskLoop) -> None:
    """In line, until an emulator is granted."""
    state, claim = task.state, task.state.claim

    def answered() -> bool:
        return bool(claim.lease or state.intent or claim.rejected)

    while not (answered() or await wait_for_answer(task, answered, _patience_s(state))):
        if _is_too_late(state):
            claim.done()
            _expire(state)
            return
        if _is_home_overdue(state):
            claim.done()
            state.move(TaskEvent.LEASE_LOST, reason=state.left_home)
            return
    if state.intent and claim.lease is None:
        claim.done()
        state.take_effect()
    elif claim.rejected:
        _leave_home_if_lost(state, claim.rejected)
        state.move(TaskEvent.LEASE_LOST, reason=state.left_home or claim.rejected.reason)
    else:
        state.position, state.why = 0, ""
        state.move(TaskEvent.GRANTED)


def request_of(state: TaskState, *, rolls_back: bool = False) -> m.Enqueue:
    """What it asks its dispatcher for."""
    spec, plan, timing = state.spec, state.the_plan(), state.timing
    home = "" if rolls_back else state.waits_for()
    named = state.bound_to() or spec.emulator or plan.emulator
    bound = named or home
    # A rollback needs the emulator that was changed, whatever its labels are by now.
    labels = () if state.rollback is not None else (*plan.requires, *spec.requires)
    requires = {*labels, *((f"emulator_id={bound}",) if bound else ())}
    return m.Enqueue(
        key=state.key(),
        seq=0,
        lane=state.lane,
        task_type=spec.type,
        requires=tuple(sorted(requires)),
        account=spec.account,
        mutex=spec.mutex,
        priority=state.priority,
        on_busy=OnBusy.QUEUE if rolls_back or state.was_in_line() else spec.on_busy,
        ticket=state.claim.ticket,
        hold_s=plan.policy.time_limit_s + timing.cleanup_s + timing.lease_margin_s,
        single=state.jobs_left() == 1,
        sticky="" if named else home,
        avoid="" if bound or rolls_back else state.avoid,
    )


async def wait_for_answer(task: TaskLoop, answered: Callable[[], bool], limit_s: float = FOREVER) -> bool:
    """Wait for the dispatcher's word. The request is repeated when it takes too long; False: time passed."""
    claim = task.state.claim
    repeat_s = claim.repeat_after_s * (1 + workflow.random().random() * JITTER)
    summary = "asks the dispatcher again" if repeat_s <= limit_s else "has waited long enough"
    if await task.wait(answered, min(repeat_s, limit_s), summary):
        return True
    if repeat_s <= limit_s:
        claim.repeat()
    return False


def why_rejected(news: m.Rejected) -> str:
    """A refusal of the dispatcher, for people."""
    held_by = f" by task {news.holder}" if news.holder and news.reason in ("duplicate", "account_running") else ""
    return REASONS.get(news.reason, news.reason) + held_by


async def _start_time(task: TaskLoop) -> bool:
    """False: somebody wants something else. Where emulators may be switched off, the pool is told beforehand."""
    state = task.state
    start_s = until_s(state.not_before)
    latest_s = start_s if state.attempts else until_s(state.spec.expires_at, far=start_s)
    lead_s = state.timing.startup_lead_s
    if not lead_s or latest_s < start_s or state.not_before is None:
        return await task.idle(min(start_s, latest_s), STARTS if start_s <= latest_s else "it is too late to start")
    if start_s > lead_s and not await task.idle(start_s - lead_s, "tells the pool that it needs an emulator soon"):
        return False
    request = request_of(state)
    state.claim.soon(state.key(), int(state.not_before.timestamp() * 1000), request.requires, request.lane)
    return await task.idle(until_s(state.not_before), STARTS)


async def _admission(task: TaskLoop) -> None:
    """Admitted, granted or rejected; or somebody wants something else."""
    state, claim = task.state, task.state.claim

    def answered() -> bool:
        return bool(claim.rejected or claim.admitted or claim.lease or state.intent)

    while not await wait_for_answer(task, answered, _patience_s(state)):
        if _is_too_late(state):
            claim.done()
            _expire(state)
            return
        if _is_home_overdue(state):
            claim.done()
            return
    if claim.rejected and _leave_home_if_lost(state, claim.rejected):
        return
    if claim.rejected:
        _reject(state, claim.rejected)
    elif claim.lease or claim.admitted:
        show_place(state)
        state.move(TaskEvent.ADMITTED)
    else:
        claim.done()
        state.take_effect()


def show_place(state: TaskState) -> None:
    """Its place in line by the dispatcher's last word; with a lease it has none."""
    admitted = None if state.claim.lease else state.claim.admitted
    state.position, state.why = (admitted.position, admitted.why) if admitted else (0, "")


def _reject(state: TaskState, news: m.Rejected) -> None:
    message, remedy = why_rejected(news), ""
    bound = "" if state.spec.emulator else state.the_plan().emulator
    if news.reason == NO_EMULATOR and bound:
        message = f"account {state.account} is bound to emulator {bound}, which its pool does not have"
        remedy = f"connect {bound}, or bind the account to another one: droidherd account set"
    failure = Failure(kind=news.reason, verdict=Verdict.FINAL, message=message, remedy=remedy)
    if state.was_in_line():
        state.fail(failure)  # it may have changed things: it can be tried again, and taken back
        return
    state.error = failure
    state.move(TaskEvent.REJECTED, reason=why_rejected(news))


def _patience_s(state: TaskState) -> float:
    """How long a task that has not started yet may wait; `expires_at` says so."""
    if state.attempts:
        return max(until_s(state.home_until, far=FOREVER), 0.01) if state.waits_for() else FOREVER
    return max(until_s(state.spec.expires_at, far=FOREVER), 0.01)


def _wait_for_home(state: TaskState) -> None:
    state.home_until = workflow.now() + timedelta(seconds=state.timing.home_wait_s)


def _is_home_overdue(state: TaskState) -> bool:
    """Whether it has waited long enough for the emulator of its stages, not counting time in which nobody was there."""
    late_s = -until_s(state.home_until, far=FOREVER)
    if not state.waits_for() or late_s < 0:
        return False
    if late_s > AWAY_S:
        _wait_for_home(state)
        return False
    state.leave_home(f"{state.home()} was not free within {state.timing.home_wait_s:g} s")
    return True


def _leave_home_if_lost(state: TaskState, news: m.Rejected) -> bool:
    """Whether it was refused the emulator of its stages alone, which does not live any more: any other will do."""
    if news.reason == m.EMULATOR_LOST:
        state.leave_home(f"{state.home()} is {news.holder}")
        return True
    if news.reason == NO_EMULATOR and _needs_no_other(state):
        state.leave_home(f"{state.home()} is gone")
        return True
    return False


def _needs_no_other(state: TaskState) -> bool:
    """Whether it asked for one emulator only because its stages completed there."""
    return bool(state.waits_for()) and not (state.bound_to() or state.spec.emulator or state.the_plan().emulator)


def _is_too_late(state: TaskState) -> bool:
    """`expires_at` says until when a start makes sense; a task that has started once may go on."""
    return not state.attempts and until_s(state.spec.expires_at, far=1.0) <= 0


def _expire(state: TaskState) -> None:
    message = f"no emulator was free before {state.spec.expires_at}"
    state.fail(Failure(kind="expired", verdict=Verdict.FINAL, message=message))
