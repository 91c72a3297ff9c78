"""One task, from submission to its end. Each state of the lifecycle has one coroutine that ends in another state."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, WorkflowAlreadyStartedError

from droidherd.contracts import names
from droidherd.contracts.engine import CancelWork, EarlierRun, EarlierRunWork
from droidherd.contracts.inbound import UnreadableError
from droidherd.contracts.stage import Planned, PlanRequest
from droidherd.contracts.tasks import (
    Admission,
    Answer,
    Chain,
    Control,
    Failure,
    OperatorRequest,
    Rerun,
    Rollback,
    RollbackRequest,
    TaskInput,
    TaskSpec,
    TaskView,
    shown_params,
)
from droidherd.domain import ids
from droidherd.domain import messages as m
from droidherd.domain.errors import Verdict
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.lifecycle import (
    FINAL,
    Intent,
    TaskAction,
    TaskEvent,
    TaskStatus,
    may,
    possible,
    refusal,
    why_chain_ends,
)
from droidherd.domain.task.reaction import delay_s
from workflows import calls, options
from workflows.children import start_task
from workflows.inbound import continues, protected, waits_when
from workflows.task.loop import ContinueAsNewError, TaskLoop, TaskResetError, until_s
from workflows.task.queueing import pending, wait_in_line
from workflows.task.rollback import bare, rollback_pending, rollback_running
from workflows.task.running import failure_of, running
from workflows.task.state import TaskState

ANOTHER_ID = "submit under another id; to try it again or take it back, see docs/contract.md"
POLICY = "policy"
"""The actor of what the submitter asked for beforehand."""
UNCUT = (TaskStatus.RUNNING, TaskStatus.ROLLBACK_RUNNING, TaskStatus.WAITING)
"""In these a task does not continue as new: it holds an emulator, or somebody waits for what an answer does."""
RUN_ID_CHARACTERS = 6
"""Of the run id, that tell the next link of a chain from another task of its name."""

Given = TaskState | TaskInput | UnreadableError
"""The state of the run before; or what a client gave, which may be anything."""


def _takes_an_answer(_task: "TaskWorkflow", control: Control) -> bool:
    return control.action == "answer"


def _is_undecided(task: "TaskWorkflow") -> bool:
    return not task._is_decided()  # noqa: SLF001 (its handlers ask)


@protected(start=TaskInput, state=TaskState, tells=True)
@workflow.defn(name=names.Workflow.TASK)
class TaskWorkflow:
    """A task's life. Its id is the workflow's id."""

    @workflow.init
    def __init__(self, given: Given) -> None:
        """Input that cannot be read fails the task, and does not block it."""
        self._again: Rerun | None = None
        self._begins = not isinstance(given, TaskState)
        self._unreadable = ""
        if isinstance(given, TaskState):
            self._state = given
        else:
            start, self._unreadable = read_input(given)
            self._again = start.again
            self._state = TaskState.begin(start)
        self._task = TaskLoop(self._state)
        self._lived = False

    @workflow.run
    async def run(self, given: Given) -> TaskView:  # noqa: ARG002 - taken by __init__
        state = self._state
        try:
            self._task.check_reset()
            await self._live()
            self._lived = True
            await self._task.drain()
        except TaskResetError:
            await self._end_as_before()
        if state.status not in FINAL:
            state.stop_listening()
            workflow.continue_as_new(state)
        self._task.show_end()
        return await _close(state, cancelled=self._task.cancelled)

    async def _live(self) -> None:
        """State after state."""
        state = self._state
        if state.ended_as is not None:
            return
        if self._again is not None:
            # A task that ended and runs once more is never a duplicate, and never rejected for good.
            state.move(event_of(self._again), self._again.actor, self._again.reason)
        if self._begins:
            await self._check_start()
        if state.ended_as is not None:
            return
        while state.status not in FINAL or _rolls_back(state):
            try:
                if self._must_plan():
                    await self._plan()
                    continue
                self._task.may_continue = state.status not in UNCUT
                await STATES[state.status](self._task)
            except ContinueAsNewError:
                _leave_line(state)
                return
            finally:
                self._task.may_continue = False
        await _follow(self._task)

    async def _end_as_before(self) -> None:
        """It was reset: write down how the task had ended, and do nothing else. It may be reset once more meanwhile."""
        while True:
            try:
                earlier = await self._find_earlier_run(reset=True)
                self._state.end_after_reset(earlier.view)
                self._lived = True
                await self._task.drain()
            except TaskResetError:
                continue
            return

    def _must_plan(self) -> bool:
        """Not while it is paused, and not for a task that never ran: there is nothing to take back."""
        state = self._state
        if state.status is TaskStatus.ROLLBACK_PENDING and self._again is None and state.next_undo() is None:
            return False
        return state.plan is None and state.status is not TaskStatus.PAUSED

    async def _check_start(self) -> None:
        """End a task that must not run: its input is bad, or it ran before.

        If it ran before, the task is shown as that run left it: a start that is refused takes nothing away.
        """
        state, refused = self._state, None
        if problem := self._unreadable or id_problem(state.task_id, state.spec):
            refused = Failure(kind="BadParametersError", verdict=Verdict.FINAL, message=problem)
        if not ids.id_problem(state.task_id) and (refused or self._again is None):
            try:
                earlier = await self._refusal_of_another_run()
            except ActivityError as error:
                state.fail(refused or failure_of(error.cause or error))
                return
            if earlier and not refused:
                state.error = Failure(kind=names.ALREADY_RUN, verdict=Verdict.FINAL, message=earlier, remedy=ANOTHER_ID)
                state.move(TaskEvent.REJECTED, reason=earlier)
        if refused:
            state.fail(refused)

    async def _plan(self) -> None:
        """Resolve the type with its parameters, once; what comes out stands in history."""
        state = self._state
        try:
            planned = await self._planned()
        except FailureError as error:  # as an ActivityError the first time, and unwrapped when it is replayed
            if state.rollback is not None:
                state.set_plan(bare(state.type))
            else:
                state.fail(failure_of((error.cause if isinstance(error, ActivityError) else error) or error))
        else:
            if planned is None:
                state.take_effect()
                return
            state.set_plan(planned.plan)
            state.timing = planned.timing

    async def _planned(self) -> Planned | None:
        """What its account is bound to may be encrypted with a key that is missing: then it asks again.

        None: somebody wants something else meanwhile. A run that continues as new still says what it waits for.
        """
        state = self._state
        while True:
            planning = calls.start_local_activity(
                "plan_task",
                PlanRequest(spec=state.spec),
                Planned,
                start_to_close_timeout=options.PLANNING_TIMEOUT,
                retry_policy=options.PLANNING_RETRY,
                summary=f"plans {state.type}",
            )
            await self._task.wait(planning.done)
            try:
                planned = await planning
            except FailureError as error:
                if not calls.lacks_key(error):
                    state.found_key()
                    raise
                state.why = str(error.cause or error)
            else:
                state.found_key()
                return planned
            self._task.may_continue = True
            await self._task.wait_for_key()
            self._task.may_continue = False
            if state.intent:
                state.found_key()
                return None

    async def _refusal_of_another_run(self) -> str:
        """Why this would be done twice. Our own clients and workflows have Temporal refuse an id that was used."""
        info, state = workflow.info(), self._state
        if info.attempt > 1 or info.cron_schedule or (info.continued_run_id and not continues()):
            return f"task {state.task_id} ran before: Temporal's own retries and cron do not apply to tasks"
        if info.parent is not None or names.MEMO_REQUEST in info.raw_memo:
            return ""
        earlier = await self._find_earlier_run()
        if earlier.view is not None:
            state.keep_end(earlier.view)
        state.is_rerun = state.is_rerun or earlier.refused
        return f"task {state.task_id} has {earlier.status} before, in run {earlier.run_id}" if earlier.run_id else ""

    async def _find_earlier_run(self, *, reset: bool = False) -> EarlierRun:
        looking = calls.start_activity(
            "find_earlier_run",
            EarlierRunWork(task_id=self._state.task_id, run_id=workflow.info().run_id, reset=reset),
            EarlierRun,
            start_to_close_timeout=options.ENGINE_TIMEOUT,
            retry_policy=options.ENGINE_RETRY,
            summary="looks for how it had ended" if reset else "looks for an earlier run of this id",
        )
        await self._task.wait(looking.done)
        return await looking

    # --- people -----------------------------------------------------------------------------------------------

    @workflow.signal
    def pause(self, request: OperatorRequest) -> None:
        """Stop at the next step boundary, clean up, and wait for `resume`."""
        self._state.ask_for(Intent.PAUSE, request)

    @workflow.signal
    def cancel(self, request: OperatorRequest) -> None:
        """Stop at the next step boundary, clean up, and end as cancelled."""
        self._state.ask_for(Intent.CANCEL, request)

    @workflow.signal
    def force_cancel(self, request: OperatorRequest) -> None:
        """End as cancelled at once: wait neither for what runs nor for its cleanup."""
        self._state.ask_for(Intent.FORCE, request)

    @workflow.signal
    def rollback(self, request: RollbackRequest) -> None:
        """Stop, then take back what was changed."""
        self._state.roll_back(Rollback(**dict(request)))

    @workflow.signal
    def answer(self, answer: Answer) -> None:
        """To what the task asked a person."""
        self._state.hear_answer(answer)

    @workflow.signal
    def resume(self, request: OperatorRequest) -> None:
        """Go on after a pause: back into line."""
        if TaskAction.RESUME in possible(self._state.status, self._state.intent):
            self._state.resume(request)

    @workflow.update
    @waits_when(_takes_an_answer)
    async def control(self, control: Control) -> TaskView:
        """What an operator asks for, and what the task is then. What is not possible is refused."""
        state = self._state
        match control.action:
            case "pause":
                state.ask_for(Intent.PAUSE, control.ask)
            case "resume":
                state.resume(control.ask)
            case "cancel":
                state.ask_for(Intent.FORCE if control.force else Intent.CANCEL, control.ask)
            case "rollback":
                state.roll_back(Rollback(**dict(control.ask), force=control.force))
            case "answer":
                number = state.question.number if state.question else state.questions
                state.hear_answer(Answer(**dict(control.ask), choice=control.choice, question=number))
                await workflow.wait_condition(lambda: state.question is None or state.question.number != number)
                if state.answered < number:  # it lost its emulator, or was stopped, at the same moment
                    problem = state.problem_of(control.choice, number)
                    raise ApplicationError(problem, type=names.ILLEGAL_TRANSITION, non_retryable=True)
        return state.view(events=False)

    @control.validator
    def _check_control(self, control: Control) -> None:
        state = self._state
        left = [action for action in possible(state.status, state.intent) if not self._has_yet_to(action)]
        problem = ""
        if control.action not in left:
            problem = refusal(control.action, state.status, state.intent, left)
            if control.action == "answer" and state.questions and state.question is None and state.status not in FINAL:
                problem = f"{problem}; {state.problem_of(control.choice, control.question)}"
        elif state.status in FINAL:
            problem = f"{control.action} begins another run of a task that is {state.status}; this one closes now"
        elif control.action == "answer":
            problem = state.problem_of(control.choice, control.question)
        if problem:
            raise ApplicationError(problem, type=names.ILLEGAL_TRANSITION, non_retryable=True)

    def _has_yet_to(self, action: TaskAction) -> bool:
        """Whether it was asked for already, and has not been done yet."""
        state = self._state
        return (action is TaskAction.ROLLBACK and state.rollback is not None and state.status not in FINAL) or (
            action is TaskAction.ANSWER and state.answer is not None
        )

    @workflow.update
    @waits_when(_is_undecided)
    async def admission(self) -> Admission:
        """What became of the submission: answers as soon as the dispatcher has decided."""
        await workflow.wait_condition(self._is_decided)
        state = self._state
        rejected = state.claim.rejected
        return Admission(
            task_id=state.task_id,
            state=state.status,
            position=state.position,
            reason=rejected.reason if rejected else (state.error.message if state.error else ""),
            holder=rejected.holder if rejected else "",
        )

    def _is_decided(self) -> bool:
        state = self._state
        early = state.not_before is not None and workflow.now() < state.not_before
        known = state.plan is not None
        return state.status is not TaskStatus.PENDING or state.attempt > 1 or (early and known) or self._lived

    @workflow.query
    def view(self) -> TaskView:
        """The task, whole, with its audit."""
        return self._state.view(events=True)

    # --- the dispatcher ---------------------------------------------------------------------------------------

    @workflow.signal
    def admitted(self, message: m.Admitted) -> None:
        self._state.claim.hear(message)

    @workflow.signal
    def rejected(self, message: m.Rejected) -> None:
        self._state.claim.hear(message)

    @workflow.signal
    def grant(self, message: m.Grant) -> None:
        self._state.claim.hear(message)

    @workflow.signal
    def revoked(self, message: m.Revoked) -> None:
        self._state.claim.hear(message)

    @workflow.signal
    def recall(self, message: m.Recall) -> None:
        self._state.claim.hear(message)


# --- states without an emulator -----------------------------------------------------------------------------------


async def _retry_pending(task: TaskLoop) -> None:
    """The durable delay between two attempts."""
    state, policy = task.state, task.state.the_plan().policy
    failed = state.attempt - state.first_attempt + 1
    delay = delay_s(policy.backoff, policy.backoff_s, failed, state.error.retry_after_s if state.error else 0.0)
    over_at = state.retry_at or workflow.now() + timedelta(seconds=delay)
    state.why = f"attempt {state.attempt + 1} in {delay:g} s"
    state.retry_at = over_at
    waited = await task.idle(max(until_s(over_at), 0.0), f"attempt {state.attempt + 1} begins")
    state.retry_at = None
    if state.intent in (Intent.NONE, Intent.PAUSE):
        # Also when it is paused now: the attempt that failed is over, and its journal is not to be continued.
        state.begin_attempt()
        state.why = ""
        state.claim.renounce()
    if state.intent is Intent.PAUSE:
        state.not_before = over_at
    if waited:
        state.move(TaskEvent.DELAY_OVER)
    else:
        state.take_effect()


async def _waiting(task: TaskLoop) -> None:
    """For a person, without an emulator."""
    state = task.state
    answered = await task.wait(
        lambda: bool(state.intent or state.answer), state.patience_s(), "nobody answered the question in time"
    )
    if not answered:
        state.fail(state.drop_question())
    elif (answer := state.take_answer()) is not None:
        state.go_on_with(answer, later=True)  # it came before whatever else is wanted: that takes effect in line
    else:
        state.withdraw_question()
        state.take_effect()


async def _wait_while_paused(task: TaskLoop) -> None:
    state = task.state
    await task.wait(lambda: state.status is not TaskStatus.PAUSED or bool(state.intent))
    if state.status is TaskStatus.PAUSED:
        state.take_effect()
    else:
        state.claim.renounce()


STATES: Mapping[TaskStatus, Callable[[TaskLoop], Awaitable[None]]] = {
    TaskStatus.PENDING: pending,
    TaskStatus.QUEUED: wait_in_line,
    TaskStatus.RUNNING: running,
    TaskStatus.RETRY_PENDING: _retry_pending,
    TaskStatus.PAUSED: _wait_while_paused,
    TaskStatus.WAITING: _waiting,
    TaskStatus.ROLLBACK_PENDING: rollback_pending,
    TaskStatus.ROLLBACK_RUNNING: rollback_running,
}


def _rolls_back(state: TaskState) -> bool:
    """It ended, and is to be taken back at once: a person, or its submitter, wants that."""
    rollback = state.rollback
    if rollback is None and state.status is TaskStatus.FAILED and state.undo and state.spec.on_failure == "rollback":
        rollback = Rollback(actor=POLICY, reason="it failed")
    if rollback is None or rollback.begun or not may(state.status, TaskEvent.ROLLBACK_ASKED):
        return False
    state.rollback = rollback.model_copy(update={"begun": True})
    state.attempt += 1
    state.moves = 0  # it may have failed because it had lost one emulator too many
    state.claim.renounce()
    state.why = ""
    state.move(TaskEvent.ROLLBACK_ASKED, rollback.actor, rollback.reason)
    return True


def _leave_line(state: TaskState) -> None:
    """Before continuing as new. The next run asks again, with the ticket it has."""
    state.claim.done()
    if state.status is TaskStatus.QUEUED:
        state.move(TaskEvent.LEASE_LOST, reason="continues as new")


# --- beginning and end --------------------------------------------------------------------------------------------


def read_input(given: TaskInput | UnreadableError) -> tuple[TaskInput, str]:
    """The input, or a stand-in and why it cannot be read."""
    if isinstance(given, UnreadableError):
        return TaskInput(spec=TaskSpec(type="unreadable")), str(given)
    return _possible(given)


def _possible(start: TaskInput) -> tuple[TaskInput, str]:
    """A new run of a task that ended must be one that the table allows."""
    again = start.again
    if again is None:
        return start, ""
    if changed := _changed(start.spec, again.past):
        refused = f"again: the spec must be that of the task that ended; {changed} is another"
        return start.model_copy(update={"again": None}), refused
    if again.closes and again.past.state is TaskStatus.FAILED:
        return start, ""
    if may(again.past.state, event_of(again)):
        return start, ""
    action, past = (TaskAction.ROLLBACK if again.rollback else TaskAction.RETRY), again.past
    refused = f"again: {refusal(action, past.state, Intent.NONE, possible(past.state))}"
    return start.model_copy(update={"again": None}), refused


def _changed(spec: TaskSpec, past: TaskView) -> str:
    """What is not as in the task that ended; a view has the parameters with their defaults, and no secrets."""
    for name in ("type", "account", "pool", "labels"):
        if getattr(spec, name) != getattr(past, name):
            return name
    known, given = shown_params(past.params), shown_params(spec.params)
    return next((f"params.{name}" for name in given if name in known and known[name] != given[name]), "")


def event_of(again: Rerun) -> TaskEvent:
    """What a new run of a task begins with."""
    return TaskEvent.ROLLBACK_ASKED if again.rollback else TaskEvent.MANUAL_RETRY


def id_problem(task_id: str, spec: TaskSpec) -> str:
    """Why this cannot be the id of this task; an empty text when it can."""
    problem = ids.id_problem(task_id) or spec.chain_problem(task_id)
    return f"a task id {problem}; not {task_id!r}" if problem else ""


async def _follow(task: TaskLoop) -> None:
    """Start the next link of its chain, or note why none does. What followed before does not follow again."""
    state, spec = task.state, task.state.spec
    if not spec.then or state.following:
        return
    by_policy = state.rollback is not None and state.rollback.actor == POLICY
    ends = why_chain_ends(state.status, critical=spec.critical, by_policy=by_policy)
    state.chain_ends = ends or id_problem(state.task_id, spec)
    if state.chain_ends:
        return
    first, following = _next_link(state)
    account = f" for {following.account}" if following.account else ""
    mark = f"-{state.run_id[:RUN_ID_CHARACTERS]}"
    for task_id in (first, f"{first[: ids.ID_MAX - len(mark)]}{mark}"):
        summary = f"{following.type}{account}, after {state.task_id}"
        starting = asyncio.create_task(start_task(task_id, following, summary))
        await task.wait(starting.done)  # a cancel of Temporal's comes too late to change anything, and must not end it
        try:
            starting.result()
        except WorkflowAlreadyStartedError:
            continue  # somebody else's: what followed this task once is known, and does not come here
        state.following = task_id
        return
    state.chain_ends = f"{first} is the name of another task"


def _next_link(state: TaskState) -> tuple[str, TaskSpec]:
    """Its id tells its place; what the links do not say stays as it was."""
    spec, me = state.spec, state.task_id
    chain = Chain(head=me, place=2, previous=me)
    if spec.chain is not None:
        chain = Chain(head=spec.chain.head, place=spec.chain.place + 1, previous=me)
    link, *rest = spec.then
    last = state.attempts[-1].emulator if state.attempts else ""
    changes = {
        **dict(link),
        "then": tuple(rest),
        "chain": chain,
        "emulator": last or spec.emulator,
        "on_busy": OnBusy.QUEUE,
        "not_before": None,
        "expires_at": None,
    }
    return f"{ids.file_of(chain.head)}.{chain.place}", spec.model_copy(update=changes)


async def _close(state: TaskState, *, cancelled: bool) -> TaskView:
    """Completed → Completed; failed, rejected → Failed with details; cancelled → Canceled."""
    view = state.view(events=True)
    if state.status in (TaskStatus.COMPLETED, TaskStatus.ROLLBACK_COMPLETED):
        return view
    if state.status is TaskStatus.CANCELLED:
        if not cancelled:
            await _cancel_in_temporal(state)
        raise asyncio.CancelledError
    error = state.error or Failure(kind="Failed", verdict=Verdict.FINAL, message=str(state.status))
    raise ApplicationError(error.message, view, type=error.kind, non_retryable=True)


async def _cancel_in_temporal(state: TaskState) -> None:
    """Only a cancel of Temporal's own closes a workflow as cancelled. It ends this wait, and nothing else does."""
    while True:
        try:
            await calls.execute_activity(
                "request_cancel",
                CancelWork(task_id=state.task_id, run_id=state.run_id),
                None,
                start_to_close_timeout=options.ENGINE_TIMEOUT,
                schedule_to_close_timeout=options.ENGINE_TOTAL,
                retry_policy=options.ENGINE_RETRY,
                cancellation_type=workflow.ActivityCancellationType.ABANDON,
                summary="closes as cancelled",
            )
        except ActivityError as error:
            if workflow.cancellation_reason() is not None:
                raise
            workflow.logger.warning("Temporal is asked once more to cancel: %s", error.cause)
        await workflow.sleep(options.CANCEL_PATIENCE, summary="waits to be closed as cancelled")
