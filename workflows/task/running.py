"""Runs the jobs of one attempt on the emulator that was granted, and draws the consequences.

Stages that run and stages that are taken back share this path. What follows a failure, `domain.task.reaction` decides.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout

from droidherd.contracts import inbound, names
from droidherd.contracts.changes import Undo, Value
from droidherd.contracts.plan import Plan, RetryOn, Stage
from droidherd.contracts.stage import WROTE, Captured, StageFailure, StageOutcome, StageReport, StageWork, UndoWork
from droidherd.contracts.tasks import Failure, Question
from droidherd.domain import messages as m
from droidherd.domain.errors import Verdict
from droidherd.domain.messages import RevokeReason
from droidherd.domain.task.lifecycle import Intent, TaskEvent, TaskNote
from droidherd.domain.task.reaction import FENCED, Budget, FailureCause, Next, again_s, react
from workflows import calls, options
from workflows.task.loop import TaskLoop
from workflows.task.state import SentTry, TaskState

FAILURES_IN_A_ROW = 8
REMIND_S = 2.0
STILL_BUSY = "StillBusyError"
NOT_RELEASED = "NotReleasedError"
NEEDS_PERSON = "NeedsPersonError"
SLACK_S = 5.0
ASKS_ANEW = "; its question is withdrawn, and asked anew where it comes to it again"


@dataclass(frozen=True, slots=True)
class EmulatorJob:
    """One activity on an emulator's queue."""

    activity: str
    reports: type[StageReport]
    index: int
    what: str
    last: bool = False
    """Nothing follows it on this emulator: it cleans up and lets go."""
    stage: Stage | None = None
    undo: Undo | None = None


class Jobs(Protocol):
    """What is to be done under one lease, and what becomes of it."""

    def next(self) -> EmulatorJob | None:
        """What comes next on the present emulator."""
        ...

    def began(self, job: EmulatorJob) -> None: ...

    def completed(self, job: EmulatorJob, report: StageReport) -> Failure | None:
        """A failure that the report itself tells of."""
        ...

    def broke_off(self, job: EmulatorJob, after: tuple[Value, ...]) -> None:
        """It did not complete, and left these things changed."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended on its emulator."""

    next: Next | None
    """None: all jobs completed, or it stopped because it was asked to."""
    stopped: bool = False
    abandoned: bool = False
    """It may still run: a person would not wait for it."""
    clean: bool = True
    failure: Failure | None = None
    counts: bool = True
    """Whether it uses up one of the moves: being taken off deck does not."""
    seconds: float = 0.0
    """Of work; time on deck is none."""
    question: Question | None = None
    returns: bool = False
    """The emulator lives: it was not lost for anything that it did or could not do."""
    quiet: bool = False
    """Its last job ended by itself: no command of it can be under way."""
    unserved: bool = False
    """Nobody takes stages from the emulator's queue."""


class StageJobs:
    """The task's stages. Before a stage that changes things by value, their values are captured."""

    def __init__(self, state: TaskState) -> None:
        self._state = state

    def next(self) -> EmulatorJob | None:
        state = self._state
        index = state.next_stage()
        if index is None:
            return None
        stage = state.the_plan().stages[index]
        if state.must_capture(index):
            return EmulatorJob("capture_before", Captured, index, f"{stage.name}: before", stage=stage)
        return EmulatorJob("run_stage", StageReport, index, stage.name, state.is_last(index), stage)

    def began(self, job: EmulatorJob) -> None:
        if job.reports is StageReport:
            self._state.stage_began(job.index)

    def completed(self, job: EmulatorJob, report: StageReport) -> None:
        if isinstance(report, Captured):
            self._state.note_capture(job.index, report.before)
            return
        self._state.stage_ended(job.index, completed=True)
        self._state.again_at = report.again_at or self._state.again_at
        self._state.note_changes(job.index, report.after, completed=True)

    def broke_off(self, job: EmulatorJob, after: tuple[Value, ...]) -> None:
        if job.reports is not Captured:
            self._state.stage_ended(job.index, completed=False)
        self._state.note_changes(job.index, after, completed=False)


async def running(task: TaskLoop) -> None:
    """The state `running`: the task's stages, under one lease."""
    state, claim = task.state, task.state.claim
    ended = await run_jobs(task, StageJobs(state))
    if ended is None:
        return
    if ended.stopped:
        cancelled = state.intent in (Intent.CANCEL, Intent.FORCE)
        _let_go(state, ended, "cancelled" if cancelled else "paused", "cancelled" if cancelled else "")
        state.take_effect() if state.intent else state.move(TaskEvent.LEASE_LOST, reason="resumed at once")
    elif ended.next is not None:
        _go_on(state, ended, ended.next)
        await wait_for_key(task, ended)
    elif state.again_at is not None:
        _let_go(state, ended, "completed", "completed")
        claim.renounce()
        state.take_effect() if state.intent else state.next_round()
    else:
        _let_go(state, ended, "completed", "completed", final=True)
        state.error = None  # that of an earlier attempt stands with that attempt
        state.move(TaskEvent.COMPLETED)


async def run_jobs(task: TaskLoop, jobs: Jobs) -> Ended | None:
    """One attempt under the present lease, until the lease may be given back. None: there is no lease any more."""
    state = task.state
    lease = state.claim.lease
    if lease is None:
        state.move(TaskEvent.LEASE_LOST, reason="its lease did not survive a continue-as-new")
        return None
    state.attempt_began(lease)
    ended = await LeaseRun(task, lease, jobs).run()
    if not (ended.clean or ended.abandoned or ended.quiet) and (state.account or state.spec.mutex):
        # A line of ours may still stand in the emulator. The account stays ours until its guard has run out, or until
        # the emulator, booted anew, refuses it.
        await task.wait(
            lambda: state.claim.is_fenced, state.timing.lease_ttl_s + 1.0, "its last command cannot act any more"
        )
    return ended


def _go_on(state: TaskState, ended: Ended, following: Next) -> None:
    """The attempt did not end well: move, ask, retry or fail."""
    failure, emulator = ended.failure, state.emulator
    reason = failure.message if failure else ""
    if following is Next.MOVE:
        _let_go(state, ended, "lost", "")
        state.moves += ended.counts
        state.avoid = "" if ended.returns and emulator == state.home() else emulator
        state.move(TaskEvent.LEASE_LOST, reason=reason)
    elif following is Next.ASK:
        _let_go(state, ended, "waiting", "")
        if ended.question is not None:
            state.ask(ended.question)
    elif following is Next.RETRY:
        _let_go(state, ended, "failed", "retry")
        state.error = failure
        state.move(TaskEvent.RETRY, reason=reason)
    else:
        _let_go(state, ended, "failed", "failed")
        state.fail(failure)


async def wait_for_key(task: TaskLoop, ended: Ended) -> None:
    """It let go of its emulator because its worker lacks a key: it does not ask for another one at once."""
    if ended.next is Next.MOVE and ended.failure is not None and ended.failure.kind == calls.MISSING_KEY:
        task.state.why = ended.failure.message
        await task.wait_for_key()
        task.state.why = ""


def _let_go(state: TaskState, ended: Ended, attempt: str, outcome: str, *, final: bool = False) -> None:
    """Note how the attempt ended, and tell the dispatcher."""
    state.attempt_ended(attempt, ended.failure)
    state.claim.unserved = ended.unserved
    state.claim.done(
        outcome,
        clean=ended.clean,
        seconds=ended.seconds or state.seconds(),
        final=final,
        abandoned=ended.abandoned,
    )


@dataclass(frozen=True, slots=True)
class _Failed:
    """One job that did not complete."""

    cause: FailureCause
    failure: Failure
    clean: bool = False
    counts: bool = True
    after: tuple[Value, ...] = ()
    question: Question | None = None
    returns: bool = False
    waited: bool = False
    """For its turn, on deck: nothing was interrupted."""
    unserved: bool = False
    """Nobody took it from the emulator's queue."""


class LeaseRun:
    """One attempt, one lease. It ends with the lease at the latest."""

    def __init__(self, task: TaskLoop, lease: m.Lease, jobs: Jobs) -> None:
        self._task = task
        self._state = task.state
        self._claim = task.state.claim
        self._plan = task.state.the_plan()
        self._jobs = jobs
        self._lease = lease
        self._tries = 0
        """Part of the token: grows with everything that is run under this lease."""
        self._failures = 0
        """In a row."""
        self._spent_s = 0.0
        self._touched = False
        """Whether a try of this lease may have left something on the emulator."""
        self._between_jobs = False
        """One completed, and the next has not begun: to clean up here takes nothing from one that goes on."""
        self._asked_to_stop = False
        self._answered: m.Revoked | None = None
        self._orphan: calls.Call[StageReport] | None = None
        """The try that was given up because its worker was restarted."""
        self._orphan_s = 0.0
        self._sent: dict[calls.Call[StageReport], SentTry] = {}
        """Those that have not reported yet."""

    async def run(self) -> Ended:
        """One after the other, until all are done, somebody asks to stop, or the lease or the attempt ends."""
        while (job := self._jobs.next()) is not None:
            if self._stop_asked():
                return await self._leave()
            if self._between_jobs and self._task.is_history_long():
                return await self._leave_for_new_run()
            ended = await self._one(job)
            if ended is not None:
                return ended
        return Ended(None, seconds=self._spent_s)

    async def _one(self, job: EmulatorJob) -> Ended | None:
        """One job, once. None: go on, with it or with the next."""
        self._jobs.began(job)
        self._between_jobs = False
        self._tries += 1
        reason = self._revoked_for() if self._is_revoked() else RevokeReason.RESTARTED
        if reason is RevokeReason.RESTARTED:
            result = await self._run_job(job)
        else:
            result = self._revoke(reason, clean=not self._touched)
        self._touched = self._touched or _may_have_touched(result)
        if isinstance(result, StageReport):
            self._spent_s += result.seconds
            self._state.note_report(result.worker, result.artifacts)
            if result.outcome is StageOutcome.COMPLETED:
                return self._end_of(job, result)
        self._jobs.broke_off(job, result.after)
        if self._is_forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        if isinstance(result, StageReport):
            if self._stop_asked() and result.outcome is StageOutcome.NOT_BEGUN:
                return await self._leave()
            if self._stop_asked() or (self._asked_to_stop and result.outcome is StageOutcome.STOPPED):
                return Ended(None, stopped=True, clean=result.clean, seconds=self._spent_s)
            lost = _infrastructure("its worker was shut down")
            result = _Failed(FailureCause.REVOKED, lost, self._is_clean(result), counts=False, returns=True)
        return await self._after_failure(job, result)

    async def _after_failure(self, job: EmulatorJob, result: _Failed) -> Ended | None:
        """What comes next is decided elsewhere, and done here."""
        self._failures += 1
        following = react(result.cause, result.failure.kind, result.failure.verdict, self._budget(counts=result.counts))
        self._note_interruption(job, result, following)
        if following is Next.AGAIN:
            await self._before_again(result)
            return None
        if following is Next.ASK and result.question is not None and job.undo is None:
            return await self._ask(result.question, result)
        if following is Next.ASK:
            following = Next.FAIL  # it does not say what; and who takes something back asks nobody
        ended = Ended(following, clean=result.clean, failure=result.failure, counts=result.counts)
        return replace(ended, seconds=self._spent_s, returns=result.returns, unserved=result.unserved)

    def _note_interruption(self, job: EmulatorJob, failed: _Failed, following: Next) -> None:
        """Say in the audit what did not come to its end, and what becomes of it."""
        if following not in (Next.AGAIN, Next.MOVE) or failed.waited or failed.failure.kind == NOT_RELEASED:
            return
        lease, again = self._lease, "it runs again there"
        if following is Next.MOVE:
            again = "the task asks for an emulator again"
        where = f"{job.what} on {lease.emulator_id} of host {lease.host_id}, try {self._tries}"
        self._state.note(TaskNote.INTERRUPTED, f"{where}: {failed.failure.message}; {again}")

    def _end_of(self, job: EmulatorJob, report: StageReport) -> Ended | None:
        """It did what it could. Whether that is good, the report itself may deny."""
        self._failures, self._between_jobs = 0, True
        if job.reports is not Captured:  # a capture is repeated on each emulator, and is no progress
            self._state.lacked_key = 0
        failure = self._jobs.completed(job, report)
        if failure is not None:
            return Ended(Next.FAIL, clean=report.clean, failure=failure, seconds=self._spent_s)
        if not report.released or self._jobs.next() is None:
            return None
        # Its worker ends, and left the emulator in order after the stage it was at; what follows, another one does.
        lost = _infrastructure("its worker was shut down")
        ended = Ended(Next.MOVE, clean=report.clean, failure=lost, counts=False, seconds=self._spent_s)
        return replace(ended, returns=True)

    async def _before_again(self, failed: _Failed) -> None:
        """A moment for the emulator to come back; or, on deck, ask whether the one before is through."""
        before = self._claim.lease
        if failed.cause is FailureCause.RESTARTED:
            return
        seconds = again_s(self._failures)
        if failed.failure.kind == NOT_RELEASED:
            # Mostly ours was merely the faster of the two on the emulator's queue: a moment later it stands behind.
            seconds = min(seconds, REMIND_S)
            if self._failures > 1:
                self._claim.repeat()
        # By value: the same grant again is no news, and must not set off another try.
        await self._task.wait(
            lambda: self._claim.lease != before or self._is_revoked() or self._stop_asked(),
            seconds,
            f"tries again on {self._lease.emulator_id}",
        )

    def _is_forced(self) -> bool:
        return self._state.intent is Intent.FORCE

    async def _ask(self, question: Question, failed: _Failed) -> Ended | None:
        """Ask a person. None: answered, the same job goes on with it. The emulator is kept as it is, or freed."""
        state, spent_s = self._state, self._spent_s
        if not question.keep:
            return Ended(Next.ASK, clean=failed.clean, failure=failed.failure, seconds=spent_s, question=question)
        self._claim.extend(int((workflow.time() + question.within_s + self._plan.policy.time_limit_s) * 1000))
        state.ask(question)
        await self._task.wait(
            lambda: state.answer is not None or self._stop_asked() or self._is_taken(),
            state.patience_s(),
            "nobody answered the question in time",
        )
        if self._is_taken():
            return self._lose_screen(self._revoke(self._revoked_for(), clean=failed.clean))
        stops = self._stop_asked()
        if (answer := state.take_answer()) is not None:
            state.go_on_with(answer, later=False)  # a stop that comes with it takes effect before the next job
            self._failures = 0
            return None
        unanswered = state.drop_question()  # nobody may answer it while the emulator is cleaned up
        left = await self._leave()
        if self._stop_asked():
            return left
        if stops:  # and was asked to go on, while it let go of what it had kept
            resumed = _infrastructure(f"resumed after emulator {self._lease.emulator_id} was left{ASKS_ANEW}")
            moves = Ended(Next.MOVE, clean=left.clean, failure=resumed, counts=False, seconds=spent_s)
            return replace(moves, returns=True)
        return Ended(Next.FAIL, clean=left.clean, failure=unanswered, seconds=spent_s)

    def _lose_screen(self, lost: _Failed) -> Ended:
        """What it asked was about the screen of an emulator that is wanted back: an answer would come to nothing."""
        self._state.withdraw_question()
        following = react(lost.cause, lost.failure.kind, lost.failure.verdict, self._budget(counts=lost.counts))
        asks = ASKS_ANEW if following is Next.MOVE else ""
        failure = lost.failure.model_copy(update={"message": f"{lost.failure.message}{asks}"})
        ended = Ended(following, clean=lost.clean, failure=failure, counts=lost.counts, seconds=self._spent_s)
        return replace(ended, returns=lost.returns, quiet=True)

    def _stop_asked(self) -> bool:
        return self._state.intent is not Intent.NONE

    def _budget(self, *, counts: bool) -> Budget:
        """`counts`: a move that does not count is always left."""
        policy = self._plan.policy
        return Budget(
            tries_left=FAILURES_IN_A_ROW - self._failures,
            moves_left=max(self._state.timing.moves - self._state.moves, 0 if counts else 1),
            retries_left=policy.retries - (self._state.attempt - self._state.first_attempt),
            timeouts_only=policy.retry_on is RetryOn.TIMEOUT,
        )

    async def _leave(self) -> Ended:
        """Asked to stop between two stages: clean up and let go, on the emulator itself."""
        if not self._touched:
            return Ended(None, stopped=True)
        if self._is_forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        self._tries += 1
        result = await self._run_job(_cleanup(self._plan), asked_to_stop=True)
        if self._is_forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        clean = isinstance(result, StageReport) and result.clean
        return Ended(None, stopped=True, clean=clean, seconds=self._spent_s)

    async def _leave_for_new_run(self) -> Ended:
        """Between two stages: let go, and ask for the same emulator in a new run, which takes messages again."""
        left = await self._leave()
        if left.abandoned or self._stop_asked():
            return left
        why = _infrastructure("its history is long: it goes on in a new run", "ContinuedAsNew")
        return Ended(Next.MOVE, clean=left.clean, failure=why, counts=False, seconds=left.seconds, returns=True)

    # --- one job ----------------------------------------------------------------------------------------------

    async def _run_job(self, job: EmulatorJob, *, asked_to_stop: bool = False) -> StageReport | _Failed:
        handle = self._start(self._work(job), job)
        if job.stage is not None and job.reports is StageReport:
            self._sent[handle] = self._state.try_sent(job.index, self._lease.token, self._tries)
            handle.on_done(self._hear_report)
        if job.last and not asked_to_stop and self._claim.ask is not None and not self._claim.ask.single:
            self._claim.ending()
        self._asked_to_stop = asked_to_stop
        while True:
            await self._task.wait(
                lambda: (
                    handle.done()
                    or self._orphan_ended()
                    or self._is_revoked()
                    or self._is_forced()
                    or (self._stop_asked() and not self._asked_to_stop)
                )
            )
            if self._orphan_ended() and self._orphan is not None:
                orphan, self._orphan = self._orphan, None
                result = await self._result(orphan)
                if isinstance(result, StageReport):
                    handle.drop()  # before it was ever sent: both commands vanish
                    return result
                continue
            if handle.done():
                return await self._result(handle)
            if self._is_forced():
                handle.drop()
                return _Failed(FailureCause.REVOKED, _infrastructure("nobody waits for it"))
            if self._is_revoked():
                return await self._give_up(handle)
            self._asked_to_stop = True
            handle.cancel()

    def _orphan_ended(self) -> bool:
        """Whether the try that was given up for a restart had ended before: its result came in the same activation."""
        return self._orphan is not None and self._orphan.done() and self._orphan_s == workflow.time()

    def _revoked_for(self) -> RevokeReason:
        """Why the lease is wanted back. A restart is answered by going on; everything else stands."""
        revoked = self._claim.revoked
        if revoked is None:
            return RevokeReason.DOWN
        if revoked.reason is RevokeReason.RESTARTED:
            self._answered = revoked
        return revoked.reason

    def _is_taken(self) -> bool:
        """The emulator is wanted back. A worker that restarts leaves it as it is while nothing runs there."""
        return self._is_revoked() and self._revoked_for() is not RevokeReason.RESTARTED

    def _is_revoked(self) -> bool:
        return self._claim.revoked is not None and self._claim.revoked is not self._answered

    def _work(self, job: EmulatorJob) -> StageWork:
        plan, state = self._plan, self._state
        self._lease = self._claim.lease or self._lease
        ahead_s = max(self._lease.expires_at_ms / 1000 - workflow.time(), 0.0) if self._lease.after else 0.0
        work = StageWork(
            task_id=state.task_id,
            key=state.key(),
            emulator_id=self._lease.emulator_id,
            lease=self._lease.token,
            after=self._lease.after,
            waiting=self._lease.waiting,
            stage_index=job.index,
            tries=self._tries,
            task_type=plan.task_type,
            account=state.account,
            flow=plan.flow,
            flow_hash=plan.flow_hash,
            app=plan.app,
            params=plan.params,
            ahead_s=ahead_s,
            answers=state.answers,
            rounds=state.rounds,
            limit_s=self._limit_s(job),
            stage=job.stage,
            cleanup=plan.cleanup,
            screen_map=plan.screen_map,
            last=job.last,
            timing=state.timing,
        )
        if job.undo is None:
            return work.model_copy(update={"wrote_under": state.acted_under(job.index, self._lease.token)})
        force = state.rollback is not None and state.rollback.force
        return UndoWork(**dict(work), undo=job.undo, force=force)

    def _start(self, work: StageWork, job: EmulatorJob) -> calls.Call[StageReport]:
        timing = self._state.timing
        return calls.start_activity(
            job.activity,
            work,
            job.reports,
            task_queue=names.emulator_id(work.emulator_id),
            schedule_to_start_timeout=options.seconds(max(work.ahead_s, timing.heartbeat_timeout_s)),
            # A worker may take it while the one ahead still runs; how long it works itself, the stage watches.
            start_to_close_timeout=options.seconds(work.ahead_s + work.limit_s + timing.cleanup_s + SLACK_S),
            heartbeat_timeout=options.seconds(timing.heartbeat_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=options.ONCE,
            summary=f"{job.what} on {work.emulator_id}",
        )

    def _limit_s(self, job: EmulatorJob) -> float:
        """What is left of the attempt's time, and no more than the stage's own."""
        left_s = max(self._plan.policy.time_limit_s - self._spent_s, 1.0)
        if job.undo is not None:
            return left_s
        return min(left_s, job.stage.limit_s) if job.stage is not None else 0.0

    # --- how it ended -----------------------------------------------------------------------------------------

    def _hear_report(self, done: calls.Call[StageReport]) -> None:
        """Also of a try that nobody waits for any more."""
        if (this := self._sent.pop(done, None)) is not None:
            self._state.try_ended(this, acted=_may_have_acted(done))

    async def _result(self, handle: calls.Call[StageReport]) -> StageReport | _Failed:
        if handle.done():
            self._hear_report(handle)
        try:
            report = await handle
        except ActivityError as error:
            return self._cause_of(error)
        except asyncio.CancelledError:
            return StageReport(outcome=StageOutcome.NOT_BEGUN)
        return self._asked(report, report.asks) if report.asks is not None else report

    def _asked(self, report: StageReport, details: StageFailure) -> _Failed:
        """The stage asks a person: no failure, but it did not complete either."""
        self._state.note_report(report.worker, details.artifacts)
        failure = failure_from(NEEDS_PERSON, details)
        return _Failed(FailureCause.ERROR, failure, details.clean, after=details.after, question=details.question)

    def _cause_of(self, error: ActivityError) -> StageReport | _Failed:
        cause = error.cause
        if isinstance(cause, ActivityTimeout):
            return _timed_out(cause)
        if isinstance(cause, ApplicationError):
            return self._reported_failure(cause)
        if cause is not None and type(cause).__name__ == "CancelledError":
            return StageReport(outcome=StageOutcome.NOT_BEGUN)
        return _Failed(FailureCause.ERROR, failure_of(cause or error))

    def _reported_failure(self, error: ApplicationError) -> _Failed:
        """The stage said itself how it failed."""
        if error.type == calls.BAD_RESULT:
            # It may have done all of its work, or none: the journal on the emulator knows.
            return _Failed(FailureCause.ERROR, _infrastructure(error.message, calls.BAD_RESULT))
        details = details_of(error)
        if calls.lacks_key(error):
            # Without details its worker could not even read what it was to do: nor can it read another stage.
            return self._without_key(error, details)
        if details is None:
            return _Failed(FailureCause.ERROR, failure_of(error))
        self._state.note_report(details.worker, details.artifacts)
        cause = FailureCause.NOT_STARTED if error.type == STILL_BUSY else FailureCause.ERROR
        failed = _Failed(cause, failure_of(error), details.clean, after=details.after, question=details.question)
        # Refused before it began, by a token that its dispatcher did not know of: that hears of it now.
        counts = error.type != FENCED or details.seized
        return replace(failed, counts=counts)

    def _without_key(self, error: ApplicationError, details: StageFailure | None) -> _Failed:
        """It moves, and that counts as no move. What it had done on this emulator is worth coming back to."""
        lacks = _infrastructure(str(error.cause or error), calls.MISSING_KEY)
        failed = _Failed(FailureCause.NOT_STARTED, lacks, clean=not self._touched, counts=False)
        if details is None:
            return replace(failed, unserved=True)
        if not details.seized:
            return replace(failed, returns=True)
        self._state.note_report(details.worker, details.artifacts)
        began = replace(failed, cause=FailureCause.REVOKED, clean=details.clean, returns=True)
        return replace(began, after=details.after)

    async def _give_up(self, handle: calls.Call[StageReport]) -> StageReport | _Failed:
        """The lease is wanted back. Wait until nothing can act in our name any more, then let go."""
        reason = self._revoked_for()
        if reason is RevokeReason.RESTARTED:
            # Signals are handled before results of the same activation: the stage may have completed already.
            self._orphan, self._orphan_s = handle, workflow.time()
            return _Failed(FailureCause.RESTARTED, _infrastructure("the worker was restarted"))
        handle.cancel()
        timing = self._state.timing
        patience_s = timing.heartbeat_timeout_s + timing.cleanup_s + timing.lease_ttl_s + SLACK_S
        await self._task.wait(
            lambda: handle.done() or self._claim.is_over, patience_s, "waits no longer for its worker"
        )
        if not handle.done():
            return self._revoke(reason, clean=False)
        result = await self._result(handle)
        if isinstance(result, StageReport) and result.outcome is StageOutcome.COMPLETED:
            return result
        return self._revoke(reason, clean=isinstance(result, StageReport) and self._is_clean(result))

    def _is_clean(self, report: StageReport) -> bool:
        """What never began left nothing behind; what the stages before it left, it did not clean up either."""
        return report.clean and not (report.outcome is StageOutcome.NOT_BEGUN and self._touched)

    def _revoke(self, reason: RevokeReason, *, clean: bool) -> _Failed:
        counts = reason is not RevokeReason.DECK
        failure = _infrastructure(f"emulator {self._lease.emulator_id} was taken back: {reason}")
        returns = reason is not RevokeReason.DOWN
        waited = reason is RevokeReason.DECK
        return _Failed(FailureCause.REVOKED, failure, clean=clean, counts=counts, returns=returns, waited=waited)


def _cleanup(plan: Plan) -> EmulatorJob:
    """Clean up and let go, and nothing else."""
    return EmulatorJob("run_stage", StageReport, len(plan.stages), "cleanup", last=True)


def _may_have_touched(result: StageReport | _Failed) -> bool:
    """All but a try that never began, or that the emulator refused because the one before was still there."""
    if isinstance(result, StageReport):
        return result.outcome is not StageOutcome.NOT_BEGUN
    return result.cause is not FailureCause.NOT_STARTED and result.failure.kind != NOT_RELEASED


def _may_have_acted(done: calls.Call[StageReport]) -> bool:
    """Whether a try of a stage that ended wrote to its journal. Only what says that it did not, did not."""
    try:
        report = done.result()
    except asyncio.CancelledError:
        return False  # before it was sent
    except ActivityError as error:
        return _failed_after_acting(error)
    return report.wrote or (report.asks is not None and report.asks.wrote)


def _failed_after_acting(error: ActivityError) -> bool:
    cause = error.cause
    if isinstance(cause, ActivityTimeout):  # its worker says so, and waits until Temporal knows, before it acts
        return cause.type != TimeoutType.SCHEDULE_TO_START and WROTE in cause.last_heartbeat_details
    if isinstance(cause, ApplicationError):
        details = details_of(cause)
        # Whoever lacks a key, and says no more, could not even read what was to be done.
        return details.wrote if details is not None else not calls.lacks_key(cause)
    # Cancelled: by Temporal before a worker took it; or somebody else says so in the worker's place.
    return error.started_event_id > 0


def _timed_out(cause: ActivityTimeout) -> _Failed:
    if cause.type == TimeoutType.HEARTBEAT:
        return _Failed(FailureCause.SILENT, _infrastructure("its worker fell silent"))
    if cause.type == TimeoutType.SCHEDULE_TO_START:
        nobody = _infrastructure("nobody took the stage from the emulator's queue")
        return _Failed(FailureCause.NOT_STARTED, nobody, unserved=True)
    failure = Failure(kind="StageTimeoutError", verdict=Verdict.RETRYABLE, message="the stage took too long")
    return _Failed(FailureCause.TOO_LONG, failure)


def _infrastructure(message: str, kind: str = "EmulatorLostError") -> Failure:
    return Failure(kind=kind, verdict=Verdict.INFRASTRUCTURE, message=message)


def failure_of(error: BaseException) -> Failure:
    """What an activity said went wrong. Without a verdict it is final: nobody classified it."""
    if not isinstance(error, ApplicationError):
        return Failure(kind=type(error).__name__, verdict=Verdict.FINAL, message=str(error))
    if (details := details_of(error)) is not None:
        return failure_from(error.type or "Error", details)
    return Failure(kind=error.type or "Error", verdict=Verdict.FINAL, message=error.message)


def details_of(error: ApplicationError) -> StageFailure | None:
    """What a stage says of its failure. None: nothing, or nothing that can be read: anybody can fail an activity."""
    if not error.details:
        return None
    try:
        return inbound.check(StageFailure, error.details[0])
    except inbound.UnreadableError as unreadable:
        workflow.logger.error("the details of %s cannot be read: %s", error.type, unreadable)
        return None


def failure_from(kind: str, details: StageFailure) -> Failure:
    """The same of what a stage reports."""
    fields = details.model_dump(include={"verdict", "message", "remedy", "retry_after_s"})
    return Failure(kind=kind, **fields)
