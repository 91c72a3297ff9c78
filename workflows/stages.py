"""Runs the errands of one attempt on the emulator that was granted. Decides nothing: `domain.reaction` does."""

import asyncio
import contextlib
from dataclasses import dataclass, replace

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.changes import Value
    from droidherd.contracts.plan import Plan, RetryOn
    from droidherd.contracts.stage import StageOutcome, StageReport, StageTrouble, StageWork, UndoWork
    from droidherd.contracts.tasks import Answer, Failure, Question
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.errors import Verdict
    from droidherd.domain.lifecycle import Intent
    from droidherd.domain.messages import RevokeReason
    from droidherd.domain.reaction import Budget, Next, Trouble, again_s, react
    from workflows import options
    from workflows.errands import Errand, Errands, cleanup
    from workflows.handles import ignore
    from workflows.ledger import Ledger

TROUBLES_IN_A_ROW = 8
REMIND_S = 2.0
STILL_BUSY = "StillBusyError"
SLACK_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt's stay on an emulator ended."""

    next: Next | None
    """None: all stages completed, or it stopped because it was asked to."""
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


@dataclass(frozen=True, slots=True)
class _Hit:
    """One stage that did not complete."""

    trouble: Trouble
    failure: Failure
    clean: bool = False
    counts: bool = True
    after: tuple[Value, ...] = ()
    question: Question | None = None


class Stages:
    """One attempt, one lease. Lives as long as the lease does."""

    def __init__(self, ledger: Ledger, claim: Claim, plan: Plan, lease: m.Lease, errands: Errands) -> None:
        self._ledger = ledger
        self._errands = errands
        self._claim = claim
        self._plan = plan
        self._lease = lease
        self._tries = 0
        """Part of the token: grows with everything that is run under this lease."""
        self._troubles = 0
        self._spent_s = 0.0
        self._touched = False
        """Whether a try of this lease may have left something on the emulator."""
        self._told_to_stop = False
        self._answered: m.Revoked | None = None
        self._ghost: workflow.ActivityHandle[StageReport] | None = None
        self._ghost_s = 0.0

    async def run(self) -> Ended:
        """One after the other, until all are done, somebody asks to stop, or the lease or the attempt ends."""
        while (errand := self._errands.next()) is not None:
            if self._stop_asked():
                return await self._leave()
            ended = await self._one(errand)
            if ended is not None:
                return ended
        return Ended(None, seconds=self._spent_s)

    async def _one(self, errand: Errand) -> Ended | None:
        """One errand, once. None: go on, with it or with the next."""
        self._errands.began(errand)
        self._tries += 1
        reason = self._revoked_for() if self._news() else RevokeReason.RESTARTED
        if reason is RevokeReason.RESTARTED:
            result = await self._run_errand(errand)
        else:
            result = self._taken_back(reason, clean=not self._touched)
        self._touched = self._touched or _may_have_touched(result)
        if isinstance(result, StageReport):
            self._spent_s += result.seconds
            self._ledger.reported(result.worker, result.artifacts)
            if result.outcome is StageOutcome.COMPLETED:
                return self._completed(errand, result)
        self._errands.ended(errand, None)
        self._errands.left(errand, result.after)
        if self._forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        if isinstance(result, StageReport):
            if self._stop_asked() and result.outcome is StageOutcome.NOT_BEGUN:
                return await self._leave()
            if self._stop_asked() or (self._told_to_stop and result.outcome is StageOutcome.STOPPED):
                return Ended(None, stopped=True, clean=result.clean, seconds=self._spent_s)
            lost = _infrastructure("its worker was shut down")
            result = _Hit(Trouble.REVOKED, lost, self._is_clean(result), counts=False)
        return await self._troubled(errand, result)

    async def _troubled(self, errand: Errand, result: "_Hit") -> Ended | None:
        """What comes next is decided elsewhere, and done here."""
        self._troubles += 1
        following = react(result.trouble, result.failure.kind, result.failure.verdict, self._budget())
        if following is Next.AGAIN:
            await self._before_again(result)
            return None
        if following is Next.ASK and result.question is not None and errand.undo is None:
            return await self._ask(result.question, result)
        if following is Next.ASK:
            following = Next.FAIL  # it does not say what; and who takes something back asks nobody
        return Ended(following, clean=result.clean, failure=result.failure, counts=result.counts, seconds=self._spent_s)

    def _completed(self, errand: Errand, report: StageReport) -> Ended | None:
        """It did what it could. Whether that is good, the report itself may deny."""
        self._troubles = 0
        failure = self._errands.ended(errand, report)
        if failure is not None:
            return Ended(Next.FAIL, clean=report.clean, failure=failure, seconds=self._spent_s)
        if not report.released or self._errands.next() is None:
            return None
        # Its worker ends, and left the emulator in order after the stage it was at; what follows, another one does.
        lost = _infrastructure("its worker was shut down")
        return Ended(Next.MOVE, clean=report.clean, failure=lost, counts=False, seconds=self._spent_s)

    async def _before_again(self, hit: "_Hit") -> None:
        """A moment for the emulator to come back; or, on deck, ask whether the one before is through."""
        before = self._claim.lease
        if hit.trouble is Trouble.RESTARTED:
            return
        seconds = again_s(self._troubles)
        if hit.failure.kind == "NotReleasedError":
            # Mostly ours was merely the faster of the two on the emulator's queue: a moment later it stands behind.
            seconds = min(seconds, REMIND_S)
            if self._troubles > 1:
                self._claim.repeat()
        with contextlib.suppress(TimeoutError):
            # By value: the same grant again is no news, and must not set off another try.
            await workflow.wait_condition(
                lambda: self._claim.lease != before or self._claim.revoked is not None or self._stop_asked(),
                timeout=seconds,
            )

    def _forced(self) -> bool:
        return self._ledger.intent is Intent.FORCE

    async def _ask(self, question: Question, hit: "_Hit") -> Ended | None:
        """A person. None: answered, the same errand goes on with it. The emulator is kept as it is, or freed."""
        ended = Ended(Next.ASK, clean=hit.clean, failure=hit.failure, seconds=self._spent_s, question=question)
        if not question.keep:
            return ended
        self._claim.extend(int((workflow.time() + question.within_s + self._plan.policy.time_limit_s) * 1000))
        self._ledger.asks(question)
        answer: Answer | None = None

        def spoken() -> bool:
            nonlocal answer
            answer = answer or self._ledger.take_answer()
            return answer is not None or self._stop_asked() or self._taken()

        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(spoken, timeout=self._ledger.patience_s())
        if self._taken():
            return ended
        if answer is not None and not self._stop_asked():
            self._ledger.answered(answer.choice, answer.ask.actor, answer.ask.reason, later=False)
            self._troubles = 0
            return None
        stops = self._stop_asked()
        left = await self._leave()
        if self._stop_asked():
            self._ledger.question = None
            return left
        if stops:  # and was asked to go on, while it let go of what it had kept: the question still stands
            self._ledger.answer = answer
            return replace(ended, clean=left.clean)
        failure = unanswered(self._ledger.question)
        self._ledger.question = None
        return Ended(Next.FAIL, clean=left.clean, failure=failure, seconds=self._spent_s)

    def _stop_asked(self) -> bool:
        return self._ledger.intent is not Intent.NONE

    def _budget(self) -> Budget:
        policy = self._plan.policy
        return Budget(
            tries_left=TROUBLES_IN_A_ROW - self._troubles,
            moves_left=self._ledger.physics.moves - self._ledger.moves,
            retries_left=policy.retries - (self._ledger.attempt - self._ledger.first_attempt),
            timeouts_only=policy.retry_on is RetryOn.TIMEOUT,
        )

    async def _leave(self) -> Ended:
        """Asked to stop between two stages: clean up and let go, on the emulator itself."""
        if not self._touched:
            return Ended(None, stopped=True)
        if self._forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        self._tries += 1
        result = await self._run_errand(cleanup(self._plan), told_to_stop=True)
        if self._forced():
            return Ended(None, stopped=True, abandoned=True, clean=False, seconds=self._spent_s)
        clean = isinstance(result, StageReport) and result.clean
        return Ended(None, stopped=True, clean=clean, seconds=self._spent_s)

    # --- one stage --------------------------------------------------------------------------------------------

    async def _run_errand(self, errand: Errand, *, told_to_stop: bool = False) -> StageReport | _Hit:
        handle = self._start(self._work(errand), errand)
        if errand.last and not told_to_stop and self._claim.ask is not None and not self._claim.ask.single:
            self._claim.ending()
        self._ledger.show()
        self._told_to_stop = told_to_stop
        while True:
            await workflow.wait_condition(
                lambda: (
                    handle.done()
                    or self._ghost_is_back()
                    or self._news()
                    or self._forced()
                    or (self._stop_asked() and not self._told_to_stop)
                )
            )
            if self._ghost_is_back() and self._ghost is not None:
                ghost, self._ghost = self._ghost, None
                result = await self._result(ghost)
                if isinstance(result, StageReport):
                    ignore(handle)
                    handle.cancel()  # before it was ever sent: both commands vanish
                    return result
                continue
            if handle.done():
                return await self._result(handle)
            if self._forced():
                ignore(handle)
                handle.cancel()
                return _Hit(Trouble.REVOKED, _infrastructure("nobody waits for it"))
            if self._news():
                return await self._give_up(handle)
            self._told_to_stop = True
            handle.cancel()

    def _ghost_is_back(self) -> bool:
        """Whether the try that was given up for a restart had ended before: its result came in the same activation."""
        return self._ghost is not None and self._ghost.done() and self._ghost_s == workflow.time()

    def _revoked_for(self) -> RevokeReason:
        """Why the lease is wanted back. A restart is answered by going on; everything else stands."""
        revoked = self._claim.revoked
        if revoked is None:
            return RevokeReason.DOWN
        if revoked.reason is RevokeReason.RESTARTED:
            self._answered = revoked
        return revoked.reason

    def _taken(self) -> bool:
        """The emulator is wanted back. A worker that restarts leaves it as it is while nothing runs there."""
        return self._news() and self._revoked_for() is not RevokeReason.RESTARTED

    def _news(self) -> bool:
        return self._claim.revoked is not None and self._claim.revoked is not self._answered

    def _work(self, errand: Errand) -> StageWork:
        plan, ledger = self._plan, self._ledger
        self._lease = self._claim.lease or self._lease
        ahead_s = max(self._lease.expires_at_ms / 1000 - workflow.time(), 0.0) if self._lease.after else 0.0
        work = StageWork(
            task_id=workflow.info().workflow_id,
            key=ledger.key(),
            emulator_id=self._lease.emulator_id,
            lease=self._lease.token,
            after=self._lease.after,
            stage_index=errand.index,
            tries=self._tries,
            task_type=plan.task_type,
            account=ledger.spec.account,
            flow=plan.flow,
            flow_hash=plan.flow_hash,
            app=plan.app,
            params=plan.params,
            ahead_s=ahead_s,
            answers=ledger.answers,
            rounds=ledger.rounds,
            limit_s=self._limit_s(errand),
            stage=errand.stage,
            cleanup=plan.cleanup,
            chart=plan.chart,
            last=errand.last,
            physics=ledger.physics,
        )
        if errand.undo is None:
            return work
        force = ledger.rollback is not None and ledger.rollback.force
        return UndoWork(**dict(work), undo=errand.undo, force=force)

    def _start(self, work: StageWork, errand: Errand) -> "workflow.ActivityHandle[StageReport]":
        physics = self._ledger.physics
        return workflow.start_activity(
            errand.activity,
            work,
            task_queue=names.emulator_id(work.emulator_id),
            result_type=errand.reports,
            schedule_to_start_timeout=options.seconds(max(work.ahead_s, physics.heartbeat_timeout_s)),
            # A worker may take it while the one ahead still runs; how long it works itself, the stage watches.
            start_to_close_timeout=options.seconds(work.ahead_s + work.limit_s + physics.cleanup_s + SLACK_S),
            heartbeat_timeout=options.seconds(physics.heartbeat_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=options.ONCE,
            summary=f"{errand.what} on {work.emulator_id}",
        )

    def _limit_s(self, errand: Errand) -> float:
        """What is left of the attempt's time, and no more than the stage's own."""
        left_s = max(self._plan.policy.time_limit_s - self._spent_s, 1.0)
        if errand.undo is not None:
            return left_s
        return min(left_s, errand.stage.limit_s) if errand.stage is not None else 0.0

    # --- how it ended -----------------------------------------------------------------------------------------

    async def _result(self, handle: "workflow.ActivityHandle[StageReport]") -> StageReport | _Hit:
        try:
            return await handle
        except ActivityError as error:
            return self._hit(error)
        except asyncio.CancelledError:
            return StageReport(outcome=StageOutcome.NOT_BEGUN)

    def _hit(self, error: ActivityError) -> StageReport | _Hit:
        cause = error.cause
        if isinstance(cause, ActivityTimeout):
            return _timed_out(cause)
        if isinstance(cause, ApplicationError):
            return self._said(cause)
        if cause is not None and type(cause).__name__ == "CancelledError":
            return StageReport(outcome=StageOutcome.NOT_BEGUN)
        return _Hit(Trouble.ERROR, Failure(kind=type(cause).__name__, verdict=Verdict.FINAL, message=str(cause)))

    def _said(self, cause: ApplicationError) -> _Hit:
        details = StageTrouble.model_validate(cause.details[0]) if cause.details else None
        if details is None:
            return _Hit(Trouble.ERROR, said(cause))
        self._ledger.reported(details.worker, details.artifacts)
        trouble = Trouble.NOT_STARTED if cause.type == STILL_BUSY else Trouble.ERROR
        return _Hit(trouble, said(cause), clean=details.clean, after=details.after, question=details.question)

    async def _give_up(self, handle: "workflow.ActivityHandle[StageReport]") -> StageReport | _Hit:
        """The lease is wanted back. Wait until nothing can act in our name any more, then let go."""
        reason = self._revoked_for()
        if reason is RevokeReason.RESTARTED:
            # Signals are handled before results of the same activation: the stage may have completed already.
            self._ghost, self._ghost_s = handle, workflow.time()
            ignore(handle)
            return _Hit(Trouble.RESTARTED, _infrastructure("the worker was restarted"))
        handle.cancel()
        physics = self._ledger.physics
        patience_s = physics.heartbeat_timeout_s + physics.cleanup_s + physics.lease_ttl_s + SLACK_S
        try:
            await workflow.wait_condition(handle.done, timeout=patience_s)
        except TimeoutError:
            ignore(handle)
        else:
            result = await self._result(handle)
            if isinstance(result, StageReport) and result.outcome is StageOutcome.COMPLETED:
                return result
            if isinstance(result, StageReport):
                return self._taken_back(reason, clean=self._is_clean(result))
        return self._taken_back(reason, clean=False)

    def _is_clean(self, report: StageReport) -> bool:
        """What never began left nothing behind; what the stages before it left, it did not clean up either."""
        return report.clean and not (report.outcome is StageOutcome.NOT_BEGUN and self._touched)

    def _taken_back(self, reason: RevokeReason, *, clean: bool) -> _Hit:
        counts = reason is not RevokeReason.DECK
        failure = _infrastructure(f"emulator {self._lease.emulator_id} was taken back: {reason}")
        return _Hit(Trouble.REVOKED, failure, clean=clean, counts=counts)


def unanswered(question: Question | None) -> Failure:
    """Nobody said anything in time."""
    asked = question.text if question else "something"
    return Failure(kind="NobodyAnsweredError", verdict=Verdict.FINAL, message=f"nobody answered in time: {asked}")


def _may_have_touched(result: StageReport | _Hit) -> bool:
    """All but a try that never began, or that the emulator refused because the one before was still there."""
    if isinstance(result, StageReport):
        return result.outcome is not StageOutcome.NOT_BEGUN
    return result.trouble is not Trouble.NOT_STARTED and result.failure.kind != "NotReleasedError"


def _timed_out(cause: ActivityTimeout) -> _Hit:
    if cause.type == TimeoutType.HEARTBEAT:
        return _Hit(Trouble.SILENT, _infrastructure("its worker fell silent"))
    if cause.type == TimeoutType.SCHEDULE_TO_START:
        return _Hit(Trouble.NOT_STARTED, _infrastructure("nobody took the stage from the emulator's queue"))
    failure = Failure(kind="StageTimeoutError", verdict=Verdict.RETRYABLE, message="the stage took too long")
    return _Hit(Trouble.TOO_LONG, failure)


def _infrastructure(message: str) -> Failure:
    return Failure(kind="EmulatorLostError", verdict=Verdict.INFRASTRUCTURE, message=message)


def said(error: BaseException) -> Failure:
    """What an activity said went wrong. Without a verdict it is final: nobody classified it."""
    if not isinstance(error, ApplicationError):
        return Failure(kind=type(error).__name__, verdict=Verdict.FINAL, message=str(error))
    details = StageTrouble.model_validate(error.details[0]) if error.details else None
    return Failure(
        kind=error.type or "Error",
        verdict=details.verdict if details else Verdict.FINAL,
        message=details.message if details else error.message,
        remedy=details.remedy if details else "",
        retry_after_s=details.retry_after_s if details else 0.0,
    )
