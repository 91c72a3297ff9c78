"""Taking a task back: emulator by emulator, change by change, the last one first."""

from droidherd.contracts.changes import Conflict, Undo, Value
from droidherd.contracts.plan import Plan, Stage
from droidherd.contracts.stage import StageReport, UndoReport
from droidherd.contracts.tasks import Failure
from droidherd.domain import messages as m
from droidherd.domain.errors import Verdict
from droidherd.domain.task.lifecycle import TaskEvent
from droidherd.domain.task.reaction import Next
from workflows.task.loop import TaskLoop
from workflows.task.queueing import NO_EMULATOR, request_of, show_place, wait_for_answer, why_rejected
from workflows.task.running import EmulatorJob, Ended, run_jobs, wait_for_key
from workflows.task.state import TaskState

CONFLICT = "ConflictError"


def bare(task_type: str) -> Plan:
    """For a task whose type cannot be resolved any more: values can still be restored."""
    return Plan(task_type=task_type, flow="", flow_hash="", stages=(Stage(name="rollback", steps=()),))


class UndoJobs:
    """Stages to take back on the present emulator, the last one first."""

    def __init__(self, state: TaskState) -> None:
        self._state = state

    def next(self) -> EmulatorJob | None:
        entry = self._state.next_undo()
        if entry is None or entry.emulator != self._state.emulator:
            return None
        last = self._state.jobs_left() == 1
        what = f"undo {entry.stage}"
        return EmulatorJob("undo_stage", UndoReport, entry.stage_index, what, last, self._stage(entry), undo=entry)

    def _stage(self, entry: Undo) -> Stage | None:
        """As the flow had it that changed things: what its steps may have made of them is known then."""
        plan = self._state.plan
        if plan is None or plan.flow_hash != entry.flow_hash:
            return None
        return next((stage for stage in plan.stages if stage.name == entry.stage), None)

    def began(self, job: EmulatorJob) -> None:
        """Nothing is noted: an undo that broke off is compared anew."""

    def completed(self, job: EmulatorJob, report: StageReport) -> Failure | None:
        if not isinstance(report, UndoReport) or job.undo is None:
            return None
        if report.conflicts:
            return _conflict(job.undo, report.conflicts)
        self._state.undone()
        return None

    def broke_off(self, job: EmulatorJob, after: tuple[Value, ...]) -> None:
        """What is half restored is compared anew next time."""


async def rollback_pending(task: TaskLoop) -> None:
    """Wait for the emulator that was changed, and for no other."""
    state, claim = task.state, task.state.claim
    if state.next_undo() is None:
        why = "nothing is left" if state.skipped() else "nothing was changed"
        state.move(TaskEvent.ROLLBACK_STARTED, reason=why)
        _end(state)
        return
    if state.intent:
        claim.disclaim(state.key())
        state.take_effect()
        return
    claim.request(request_of(state, rolls_back=True))

    def answered() -> bool:
        return bool(claim.lease or claim.rejected or state.intent)

    while not answered():
        known = claim.admitted
        await wait_for_answer(task, lambda known=known: answered() or claim.admitted is not known)
        show_place(state)
    state.position, state.why = 0, ""
    if claim.lease:
        state.move(TaskEvent.ROLLBACK_STARTED)
    elif claim.rejected and _skips(state, claim.rejected):
        state.move(TaskEvent.ROLLBACK_STARTED, reason=f"{state.skipped()[-1]} is gone: goes on without it")
        state.move(TaskEvent.LEASE_LOST, reason="goes on with another emulator")
    elif claim.rejected:
        state.move(TaskEvent.ROLLBACK_STARTED, reason="no emulator for it")
        _break(state, _rejection(state, claim.rejected))
    else:
        claim.done()
        state.take_effect()


async def rollback_running(task: TaskLoop) -> None:
    """Take back what was changed on one emulator, under one lease."""
    state = task.state
    ended = await run_jobs(task, UndoJobs(state))
    if ended is None:
        return
    outcome = "cancelled" if ended.stopped else "undone" if ended.next is None else "failed"
    state.attempt_ended("lost" if ended.next is Next.MOVE else outcome, ended.failure)
    state.claim.unserved = ended.unserved
    state.claim.done("", clean=ended.clean, seconds=ended.seconds, abandoned=ended.abandoned)
    _go_on(state, ended)
    await wait_for_key(task, ended)


def _go_on(state: TaskState, ended: Ended) -> None:
    if ended.stopped and state.intent:
        state.take_effect()
    elif ended.stopped:
        state.move(TaskEvent.LEASE_LOST, reason="resumed at once")
    elif ended.next is Next.MOVE:
        state.moves += ended.counts
        state.move(TaskEvent.LEASE_LOST, reason=ended.failure.message if ended.failure else "")
    elif ended.next is not None:
        _break(state, _locate(state, ended.failure))
    elif state.next_undo() is not None:
        state.claim.renounce()
        state.move(TaskEvent.LEASE_LOST, reason="goes on with another emulator")
    else:
        _end(state)


def _end(state: TaskState) -> None:
    """All that can be taken back is. What cannot is named, and stays to be asked for again."""
    if not state.skipped():
        state.error = None
        state.move(TaskEvent.ROLLBACK_DONE)
        return
    left = [f"stage {one.stage} on {one.emulator}" for one in state.undo if not one.undone]
    message = f"all is taken back but {', '.join(left)}: gone from the pool"
    remedy = "connect the emulator again, then roll back once more"
    _break(state, Failure(kind=NO_EMULATOR, verdict=Verdict.FINAL, message=message, remedy=remedy))


def _rejection(state: TaskState, rejected: m.Rejected) -> Failure | None:
    """Why it gets no emulator to take something back on."""
    message, remedy, entry = why_rejected(rejected), "", state.next_undo()
    if rejected.reason == NO_EMULATOR and entry is not None:
        message = f"emulator {entry.emulator} is not in pool {state.pool}"
        remedy = (
            f"connect {entry.emulator} again, then roll back once more; "
            "or roll back with force, which leaves what was changed there"
        )
    return _locate(state, Failure(kind=rejected.reason, verdict=Verdict.FINAL, message=message, remedy=remedy))


def _skips(state: TaskState, rejected: m.Rejected) -> bool:
    """Forced, it goes on without an emulator that is not there any more."""
    rollback, entry = state.rollback, state.next_undo()
    if rollback is None or entry is None or not rollback.force or rejected.reason != NO_EMULATOR:
        return False
    state.rollback = rollback.model_copy(update={"skipped": (*rollback.skipped, entry.emulator)})
    return True


def _locate(state: TaskState, failure: Failure | None) -> Failure | None:
    """With the stage that could not be taken back."""
    entry = state.next_undo()
    if failure is None or entry is None or failure.kind == CONFLICT:
        return failure
    return failure.model_copy(update={"message": f"undo of stage {entry.stage} on {entry.emulator}: {failure.message}"})


def _break(state: TaskState, failure: Failure | None) -> None:
    state.error = failure
    state.move(TaskEvent.ROLLBACK_BROKE, reason=failure.message if failure else "")


def _conflict(undo: Undo, conflicts: tuple[Conflict, ...]) -> Failure:
    first = conflicts[0]
    more = f", and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
    return Failure(
        kind=CONFLICT,
        verdict=Verdict.FINAL,
        message=(
            f"stage {undo.stage}, step {first.step}: {first.thing} {first.name} on {undo.emulator} is "
            f"{first.found or 'gone'}, neither as the task left it nor as it was before{more}"
        ),
        remedy="look at it, then roll back with force to restore it all the same",
    )
