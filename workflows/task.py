"""One task, from submission to its end. Each state of the lifecycle has one coroutine that ends in another state."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.plan import Plan
    from droidherd.contracts.stage import Planned, PlanRequest
    from droidherd.contracts.tasks import (
        Admission,
        Answer,
        Ask,
        Carry,
        Control,
        Failure,
        Rollback,
        TaskInput,
        TaskView,
        Undoing,
    )
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.errors import Verdict
    from droidherd.domain.lifecycle import (
        FINAL,
        Intent,
        TaskEvent,
        TaskState,
        Wish,
        combine,
        may,
        possible,
        refusal,
    )
    from droidherd.domain.reaction import Next, delay_s
    from workflows import options
    from workflows.chain import follow
    from workflows.courier import Courier
    from workflows.direct import Direct
    from workflows.ending import close
    from workflows.errands import Forward
    from workflows.handles import unless_ended
    from workflows.intake import Given, event_of, id_problem, understood
    from workflows.ledger import ENGINE, Ledger
    from workflows.queueing import Queueing
    from workflows.rollback import RollingBack, bare
    from workflows.stages import Ended, Stages, said, unanswered

DELAY_OUTLIVES_PAUSE = "the-delay-outlives-a-pause"
PRECEDENCE_IS_KEPT = "precedence-is-kept"
THE_PRESENT_IS_INSISTED_ON = "the-present-is-insisted-on"
POLICY = "policy"
"""The actor of what the submitter asked for beforehand."""

UNCUT = (TaskState.RUNNING, TaskState.ROLLBACK_RUNNING, TaskState.WAITING)
"""States that are not cut in two: in them a task holds an emulator, or somebody waits for what an answer does."""


@workflow.defn(name=names.Workflow.TASK)
class TaskWorkflow:
    """A task's life. Its id is the workflow's id."""

    @workflow.init
    def __init__(self, given: Given = None) -> None:
        """What a foreign client gave may be anything: what cannot be read fails the task, and does not block it."""
        start, self._unreadable = understood(given)
        self._spec = start.spec
        self._ledger = Ledger(start)
        carry = start.carry
        seq = carry.seq if carry else int(workflow.info().workflow_start_time.timestamp() * 1000)
        self._claim = Claim(names.dispatcher_id(start.spec.pool), seq, run=self._ledger.run)
        self._claim.ticket = -self._ledger.precedence
        if carry:
            self._claim.ticket, self._claim.given_up = carry.ticket, carry.given_up
            self._claim.outbox.restore(carry.outbox)
        self._asked = (carry.asked if carry else None) or Ask()
        self._engine_cancel = False
        self._again = start.again if carry is None else None
        self._line = Queueing(self._ledger, self._claim, self._the_plan, self._take_effect, self._idle)
        self._back = RollingBack(self._ledger, self._claim, self._the_plan, self._take_effect)
        self._life: asyncio.Task[None] | None = None

    @workflow.run
    async def run(self, given: Given = None) -> TaskView:  # noqa: ARG002 - taken by __init__
        courier = asyncio.create_task(Courier(self._claim.outbox, directly=Direct(self._hear).carry).run())
        life = self._life = asyncio.create_task(self._live())
        while not life.done():
            try:
                await unless_ended(life.done, courier)
            except asyncio.CancelledError:
                self._engine_cancel = True
                self._want(Intent.CANCEL, Ask(actor="temporal", reason="cancel requested on the engine"))
        await life
        await unless_ended(lambda: not self._claim.outbox and workflow.all_handlers_finished(), courier)
        courier.cancel()
        if self._ledger.state in FINAL:
            # In the same breath as the end itself: one write for both.
            self._ledger.store()
            self._ledger.show()
        else:
            workflow.continue_as_new(TaskInput(spec=self._spec, carry=self._carry()))
        return await close(self._ledger, engine_cancels=self._engine_cancel)

    def _carry(self) -> Carry:
        carry = self._ledger.carry(self._claim)
        return carry.model_copy(update={"asked": self._asked})

    # --- what others say --------------------------------------------------------------------------------------

    @workflow.signal
    def pause(self, ask: Ask) -> None:
        self._want(Intent.PAUSE, ask)

    @workflow.signal
    def cancel(self, ask: Ask) -> None:
        self._want(Intent.CANCEL, ask)

    @workflow.signal
    def force_cancel(self, ask: Ask) -> None:
        self._want(Intent.FORCE, ask)

    @workflow.signal
    def rollback(self, ask: Undoing) -> None:
        """Stop, then take back what was changed."""
        self._roll_back(Rollback(force=ask.force, ask=ask))

    @workflow.signal
    def answer(self, answer: Answer) -> None:
        """What a task asked a person. Anything it did not offer is no answer."""
        question = self._ledger.question
        if self._may_answer() and question is not None and answer.choice in question.choices:
            self._ledger.answer = answer

    @workflow.signal
    def resume(self, ask: Ask) -> None:
        if self._may_resume():
            self._resume(ask)

    @workflow.update
    async def control(self, control: Control) -> TaskView:
        """Pause, resume or cancel, and say what the task is then. What is not possible is refused."""
        if control.action == "resume":
            self._resume(control.ask)
        elif control.action == "pause":
            self._want(Intent.PAUSE, control.ask)
        elif control.action == "answer":
            self.answer(Answer(choice=control.choice, ask=control.ask))
            await workflow.wait_condition(lambda: self._ledger.state is not TaskState.WAITING)
        elif control.action == "rollback":
            self._roll_back(Rollback(force=control.force, ask=control.ask))
        else:
            self._want(Intent.FORCE if control.force else Intent.CANCEL, control.ask)
        return self._ledger.view(events=False)

    @control.validator
    def _check_control(self, control: Control) -> None:
        ledger, question = self._ledger, self._ledger.question
        left = [wish for wish in possible(ledger.state, ledger.intent) if not self._has(wish)]
        problem = ""
        if control.action not in left:
            problem = refusal(control.action, ledger.state, ledger.intent, left)
        elif ledger.state in FINAL:
            problem = f"{control.action} begins another run of a task that is {ledger.state}; this one closes now"
        elif control.action == "answer" and question is not None and control.choice not in question.choices:
            problem = f"{control.choice!r} is no answer; choose one of: {', '.join(question.choices)}"
        if problem:
            raise ApplicationError(problem, type=names.ILLEGAL_TRANSITION, non_retryable=True)

    def _has(self, wish: Wish) -> bool:
        """Whether it was told so already, and has yet to do it."""
        ledger = self._ledger
        return (wish is Wish.ROLLBACK and ledger.rollback is not None and ledger.state not in FINAL) or (
            wish is Wish.ANSWER and ledger.answer is not None
        )

    @workflow.update
    async def admission(self) -> Admission:
        """What became of the submission: answers as soon as the dispatcher has said it."""
        ledger = self._ledger
        await workflow.wait_condition(self._answered)
        rejected = self._claim.rejected
        return Admission(
            task_id=workflow.info().workflow_id,
            state=ledger.state,
            position=ledger.position,
            reason=rejected.reason if rejected else (ledger.error.message if ledger.error else ""),
            holder=rejected.holder if rejected else "",
        )

    def _answered(self) -> bool:
        ledger = self._ledger
        early = ledger.not_before is not None and workflow.now() < ledger.not_before
        over = self._life is not None and self._life.done()
        return ledger.state is not TaskState.PENDING or ledger.attempt > 1 or early or over

    @workflow.query
    def view(self) -> TaskView:
        return self._ledger.view(events=True)

    # --- what the dispatcher says -----------------------------------------------------------------------------

    @workflow.signal
    def admitted(self, message: m.Admitted) -> None:
        self._hear(message)

    @workflow.signal
    def rejected(self, message: m.Rejected) -> None:
        self._claim.on_rejected(message)

    @workflow.signal
    def grant(self, message: m.Grant) -> None:
        keeps = not self._claim.overtakes(message) or workflow.patched(PRECEDENCE_IS_KEPT)
        insists = not self._claim.is_behind(message) or workflow.patched(THE_PRESENT_IS_INSISTED_ON)
        self._claim.on_grant(message, keeps=keeps, insists=insists)

    @workflow.signal
    def revoked(self, message: m.Revoked) -> None:
        self._claim.on_revoked(message)

    @workflow.signal
    def recall(self, message: m.Recall) -> None:
        self._claim.on_recall(message)

    def _hear(self, news: m.Admitted | m.Rejected | m.Recall) -> None:
        late = isinstance(news, m.Admitted) and self._claim.comes_late(news)
        self._claim.hear(news, again=not late or workflow.patched(PRECEDENCE_IS_KEPT))
        self._ledger.stands(self._claim)

    def _roll_back(self, rollback: Rollback) -> None:
        """First it is cancelled like any other."""
        if self._ledger.state not in FINAL and self._ledger.rollback is None:
            self._ledger.rollback = rollback
            self._want(Intent.CANCEL, rollback.ask)

    def _may_answer(self) -> bool:
        ledger = self._ledger
        return ledger.state is TaskState.WAITING and ledger.answer is None and not ledger.intent

    # --- intents ----------------------------------------------------------------------------------------------

    def _want(self, intent: Intent, ask: Ask) -> None:
        ledger = self._ledger
        if ledger.state in FINAL or (intent is Intent.PAUSE and not may(ledger.state, TaskEvent.PAUSED)):
            return
        combined = combine(ledger.intent, intent)
        if combined is not ledger.intent:
            ledger.intent, self._asked = combined, ask

    def _may_resume(self) -> bool:
        return Wish.RESUME in possible(self._ledger.state, self._ledger.intent)

    def _resume(self, ask: Ask) -> None:
        """Back into line; or, when the pause had not taken effect yet, take it back."""
        ledger = self._ledger
        if ledger.intent is Intent.PAUSE:
            ledger.intent = Intent.NONE
        elif ledger.state is TaskState.PAUSED:
            ledger.move(TaskEvent.RESUMED, ask.actor, ask.reason)
            ledger.why = ""

    def _take_effect(self) -> None:
        """The boundary is reached: what was asked for becomes true."""
        ledger = self._ledger
        event = TaskEvent.PAUSED if ledger.intent is Intent.PAUSE else TaskEvent.CANCELLED
        ledger.intent = Intent.NONE
        ledger.move(event, self._asked.actor, self._asked.reason)
        ledger.why = ""

    # --- the life ---------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """State after state."""
        ledger = self._ledger
        if self._again is not None:
            # Whoever tries again what failed is never a duplicate, and never rejected for good.
            ledger.move(event_of(self._again), self._again.ask.actor, self._again.ask.reason)
        if ledger.plan is None:
            await self._plan()
        steps: dict[TaskState, Callable[[], Awaitable[None]]] = {
            TaskState.PENDING: self._line.pending,
            TaskState.QUEUED: self._line.queued,
            TaskState.RUNNING: self._running,
            TaskState.RETRY_PENDING: self._retry_pending,
            TaskState.PAUSED: self._paused,
            TaskState.WAITING: self._waiting,
            TaskState.ROLLBACK_PENDING: self._back.pending,
            TaskState.ROLLBACK_RUNNING: self._back.running,
        }
        while ledger.state not in FINAL or self._rolls_back():
            if ledger.state not in UNCUT and workflow.info().is_continue_as_new_suggested():
                self._step_back()
                return
            await steps[ledger.state]()
        rollback = ledger.rollback
        await follow(ledger, by_policy=rollback is not None and rollback.ask.actor == POLICY)

    def _rolls_back(self) -> bool:
        """It ended, and is to be taken back in the same breath: a person, or its submitter, wished so."""
        ledger = self._ledger
        rollback = ledger.rollback
        if (
            rollback is None
            and ledger.state is TaskState.FAILED
            and ledger.undo
            and ledger.spec.on_failure == "rollback"
        ):
            rollback = Rollback(ask=Ask(actor=POLICY, reason="it failed"))
        if rollback is None or rollback.begun or not may(ledger.state, TaskEvent.ROLLBACK_ASKED):
            return False
        ledger.rollback = rollback.model_copy(update={"begun": True})
        ledger.attempt += 1
        ledger.moves = 0  # it may have failed because it had lost one emulator too many
        self._claim.renounce()
        ledger.move(TaskEvent.ROLLBACK_ASKED, rollback.ask.actor, rollback.ask.reason)
        return True

    def _step_back(self) -> None:
        """Before continuing as new: out of the line. The next run asks again, with the ticket it has."""
        self._claim.done()
        if self._ledger.state is TaskState.QUEUED:
            self._ledger.move(TaskEvent.LEASE_LOST, ENGINE, "continues as new")

    async def _plan(self) -> None:
        """Resolve the type with its parameters, once; what comes out stands in history."""
        ledger = self._ledger
        refused = self._unreadable or id_problem(workflow.info().workflow_id)
        if refused:
            self._ledger.fail(Failure(kind="BadParametersError", verdict=Verdict.FINAL, message=refused))
            return
        failure: Failure | None = None
        try:
            planned = await workflow.execute_local_activity(
                "plan_task",
                PlanRequest(spec=ledger.spec),
                result_type=Planned,
                start_to_close_timeout=options.PLANNING_TIMEOUT,
                retry_policy=options.PLANNING_RETRY,
            )
        except FailureError as error:  # as an ActivityError the first time, and unwrapped when it is replayed
            failure = said((error.cause if isinstance(error, ActivityError) else error) or error)
        else:
            ledger.planned(planned.plan)
            ledger.physics = planned.physics
        if failure is not None and ledger.rollback is not None:
            ledger.planned(bare(ledger.spec.type))
        elif failure is not None:
            self._ledger.fail(failure)

    async def _running(self) -> None:
        """One stay on one emulator."""
        ledger, claim = self._ledger, self._claim
        lease, plan = claim.lease, self._the_plan()
        if lease is None:
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, "its lease did not survive a continue-as-new")
            return
        ledger.attempt_began(lease)
        ended = await Stages(ledger, claim, plan, lease, Forward(ledger, plan)).run()
        if not ended.clean and not ended.abandoned and (ledger.spec.account or ledger.spec.mutex):
            # A line of ours may still stand in the emulator; until its guard has run out the account stays ours.
            await workflow.sleep(ledger.physics.lease_ttl_s + 1.0)
        seconds = ended.seconds or ledger.seconds()
        if ended.stopped:
            outcome = "cancelled" if ledger.intent in (Intent.CANCEL, Intent.FORCE) else "paused"
            self._let_go("cancelled" if outcome == "cancelled" else "", outcome, ended, seconds)
            self._take_effect() if ledger.intent else ledger.move(TaskEvent.LEASE_LOST, ENGINE, "resumed at once")
        elif ended.next is None and ledger.again_at is not None:
            self._let_go("completed", "completed", ended, seconds)
            claim.renounce()
            self._take_effect() if ledger.intent else self._next_round()
        elif ended.next is None:
            self._let_go("completed", "completed", ended, seconds, parting=True)
            ledger.move(TaskEvent.COMPLETED, ENGINE)
        else:
            self._next(ended, ended.next, lease, seconds)

    def _next_round(self) -> None:
        self._claim.forget()
        self._ledger.next_round()

    def _next(self, ended: Ended, following: Next, lease: m.Lease, seconds: float) -> None:
        """The attempt's stay did not end well: move, retry or fail."""
        ledger = self._ledger
        failure = ended.failure
        reason = failure.message if failure else ""
        if following is Next.MOVE:
            self._let_go("", "lost", ended, seconds)
            ledger.moves += ended.counts
            ledger.avoid = lease.emulator_id
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, reason)
        elif following is Next.ASK:
            self._let_go("", "waiting", ended, seconds)
            if failure is not None and ended.question is not None:
                ledger.asks(ended.question)
        elif following is Next.RETRY:
            self._let_go("retry", "failed", ended, seconds)
            ledger.error = failure
            ledger.move(TaskEvent.RETRY, ENGINE, reason)
        else:
            self._let_go("failed", "failed", ended, seconds)
            self._ledger.fail(failure)

    def _let_go(
        self, outcome: str, attempt_outcome: str, ended: Ended, seconds: float, *, parting: bool = False
    ) -> None:
        """Say it to the dispatcher, write it into the book."""
        ledger, claim = self._ledger, self._claim
        ledger.attempt_ended(attempt_outcome, ended.failure)
        claim.done(outcome, clean=ended.clean, seconds=seconds, parting=parting, abandoned=ended.abandoned)

    async def _retry_pending(self) -> None:
        """The durable pause between two attempts."""
        ledger = self._ledger
        policy, error = self._the_plan().policy, ledger.error
        failed = ledger.attempt - ledger.first_attempt + 1
        delay = delay_s(policy.backoff, policy.backoff_s, failed, error.retry_after_s if error else 0.0)
        over_at = workflow.now() + timedelta(seconds=delay)
        ledger.why = f"attempt {ledger.attempt + 1} in {delay:g} s"
        ledger.show()
        waited = await self._idle(delay)
        if ledger.intent in (Intent.NONE, Intent.PAUSE):
            # Also when it is paused now: the attempt that failed is over, and its journal is not to be continued.
            ledger.attempt += 1
            ledger.begun_on = ledger.why = ""
            self._claim.renounce()
        if ledger.intent is Intent.PAUSE and workflow.patched(DELAY_OUTLIVES_PAUSE):
            ledger.not_before = over_at
        if waited:
            ledger.move(TaskEvent.DELAY_OVER, ENGINE)
        else:
            self._take_effect()

    async def _waiting(self) -> None:
        """For a person, without an emulator."""
        ledger = self._ledger
        if not await self._idle(ledger.patience_s(), lambda: bool(ledger.intent or ledger.answer)):
            if ledger.intent:
                ledger.question = None
                self._take_effect()
            elif (answer := ledger.take_answer()) is not None:
                ledger.answered(answer.choice, answer.ask.actor, answer.ask.reason, later=True)
            return
        self._ledger.fail(unanswered(ledger.question))
        ledger.question = None

    async def _paused(self) -> None:
        ledger = self._ledger
        ledger.why = f"paused by {self._asked.actor}" + (f": {self._asked.reason}" if self._asked.reason else "")
        ledger.show()
        await workflow.wait_condition(lambda: ledger.state is not TaskState.PAUSED or bool(ledger.intent))
        ledger.why = ""
        if ledger.state is TaskState.PAUSED:
            self._take_effect()
        else:
            self._claim.renounce()

    # --- small things -----------------------------------------------------------------------------------------

    def _the_plan(self) -> Plan:
        if self._ledger.plan is None:
            raise RuntimeError("a task runs only after it was planned")
        return self._ledger.plan

    async def _idle(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Sleep, durably. False when somebody wants something else."""
        try:
            wanted = until or (lambda: bool(self._ledger.intent))
            await workflow.wait_condition(wanted, timeout=max(seconds, 0.0))
        except TimeoutError:
            return True
        return False
