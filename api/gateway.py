"""The door's adapter to the engine: the only place in `api` that speaks to Temporal."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistoryEventFilterType,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError, TemporalError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from api import engine as e
from api.asking import asking
from api.places import with_place
from api.runs import Runs, not_possible, refuse_illegal
from api.starting import KEYWORD, MEMO_KEY, MEMO_REQUEST, House, dispatcher_options, start_options
from api.visibility import Status, as_cursor, from_cursor, last_run_of, query_for, settled
from droidherd.contracts import names
from droidherd.contracts.fleet import CareOrder, EmulatorView
from droidherd.contracts.names import Attribute, Query, Signal, Update, Workflow
from droidherd.contracts.queue import (
    AuditPage,
    AuditQuery,
    EmulatorsPage,
    Order,
    Ordered,
    Place,
    Places,
    PlacesQuery,
    QueuePage,
    QueueQuery,
    StatsPage,
)
from droidherd.contracts.tasks import Admission, Again, Ask, Control, Rollback, TaskInput, TaskView, Undoing
from droidherd.contracts.tasks import Answer as Told
from droidherd.domain.lifecycle import FINAL, TaskState

Answer = TypeVar("Answer")

ENGINE_S = 3.0
"""For what the engine answers by itself."""
REPEAT_EVERY_S = 0.05
COUNTS_KEPT_S = 1.5
COUNTS_KEPT = 256
UNWRITTEN = {TaskState.REJECTED, TaskState.FAILED}
"""Ends that a task may reach before it wrote anything down."""


class Gateway:
    """Implements `api.engine.Engine` on a Temporal client."""

    def __init__(self, client: Client, house: House) -> None:
        """The client carries the data converter, the retry limits and the tracing."""
        self._client = client
        self._house = house
        self._counts: dict[str, tuple[float, int]] = {}
        self._runs = Runs(client, house)

    # --- tasks ------------------------------------------------------------------------------------------------

    async def submit(self, request: e.Request) -> e.Submitted:
        operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            Workflow.TASK.value, TaskInput(spec=request.spec), **start_options(request, self._house)
        )
        try:
            admission = await self._admitted(operation, request.ask_id)
        except WorkflowAlreadyStartedError:
            return await self._repeated(request)
        except (WorkflowUpdateRPCTimeoutOrCancelledError, e.SilentError):
            return await self._made_durable(request)
        except WorkflowUpdateFailedError:
            admission = await self._written_admission(request.task_id)
        return e.Submitted(request.task_id, admission)

    async def _admitted(self, operation: WithStartWorkflowOperation[Any, Any], ask_id: str) -> Admission:
        """Start and hear the verdict in one call."""
        try:
            async with asking(self._house.verdict_s + 0.5, worker=True):
                return await self._client.execute_update_with_start_workflow(
                    Update.ADMISSION.value,
                    start_workflow_operation=operation,
                    id=ask_id,
                    result_type=Admission,
                    rpc_timeout=timedelta(seconds=self._house.verdict_s),
                )
        except (TemporalError, e.EngineError):
            # The SDK keeps the failure in a future as well; left alone, it is reported as never looked at.
            kept = asyncio.ensure_future(operation.workflow_handle())
            kept.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(0)
            kept.cancel()
            raise

    async def _made_durable(self, request: e.Request) -> e.Submitted:
        """The verdict is late. Make sure that at least the task is there before saying so."""
        try:
            async with asking(ENGINE_S):
                await self._client.start_workflow(
                    Workflow.TASK.value, TaskInput(spec=request.spec), **start_options(request, self._house)
                )
        except WorkflowAlreadyStartedError:
            async with asking(ENGINE_S):
                known = await self._handle(request.task_id).describe()
            await _refuse_another(request, known)
        return e.Submitted(request.task_id, None)

    async def _repeated(self, request: e.Request) -> e.Submitted:
        async with asking(ENGINE_S):
            known = await self._handle(request.task_id).describe()
        if not request.key or await known.memo_value(MEMO_KEY, "") != request.key:
            raise e.TakenError(request.task_id)
        await _refuse_another(request, known)
        if known.status == WorkflowExecutionStatus.RUNNING:
            admission = await self._ask_admission(request)
        else:
            admission = await self._past_admission(request, known)
        return e.Submitted(request.task_id, admission)

    async def _ask_admission(self, request: e.Request) -> Admission | None:
        handle = self._handle(request.task_id)
        try:
            async with asking(self._house.verdict_s, worker=True):
                return await handle.execute_update(Update.ADMISSION.value, id=request.ask_id, result_type=Admission)
        except (e.SilentError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return None
        except e.MissingError:  # it ended while we asked
            return await self._written_admission(request.task_id)

    async def _past_admission(self, request: e.Request, known: WorkflowExecution) -> Admission:
        """The same answer as then, kept by the engine; else what the task wrote down."""
        handle = self._handle(known.id).get_update_handle(
            request.ask_id, workflow_run_id=known.run_id, result_type=Admission
        )
        try:
            async with asking(ENGINE_S):
                return await handle.result()
        except (e.EngineError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return await self._written_admission(known.id)

    async def _written_admission(self, task_id: str) -> Admission:
        view = (await self.view(task_id)).view
        return Admission(task_id=task_id, state=view.state, reason=view.error.kind if view.error else view.why)

    async def view(self, task_id: str) -> e.Reading:
        """Ask the task itself; when it ended, or nobody can speak for it, read what it wrote down."""
        asked = await self._asked(task_id, QueryRejectCondition.NOT_OPEN)
        if asked is not None:
            return e.Reading(await self._with_place(asked))
        async with asking(ENGINE_S):
            known = await self._handle(task_id).describe()
        reading = await _reading(known)
        if not reading.open and reading.view.state in UNWRITTEN and reading.view.error is None:
            asked = await self._asked(task_id, QueryRejectCondition.NONE)
        if asked is not None:
            return e.Reading(settled(asked, _status(known.status), known.close_time), open=False)
        return e.Reading(reading.view, open=reading.open, stale=reading.open)

    async def _with_place(self, view: TaskView) -> TaskView:
        """Where it stands and why, by the dispatcher's word now; a task knows what it was told when it got in line."""
        if view.state is not TaskState.QUEUED:
            return view
        place = Place()
        with suppress(e.EngineError):
            place = await self.ask_pool(view.pool, Query.PLACE, view.task_id, Place)
        return with_place(view, place)

    async def audit(self, task_id: str) -> e.Reading:
        reading = await self.view(task_id)
        if reading.open:
            return reading
        asked = await self._asked(task_id, QueryRejectCondition.NONE)
        if asked is None:
            return e.Reading(reading.view, open=False, stale=True)
        return e.Reading(reading.view.model_copy(update={"events": asked.events}), open=False)

    async def _asked(self, task_id: str, unless: QueryRejectCondition) -> TaskView | None:
        """None: it ended, or nobody answers for it."""
        try:
            async with asking(self._house.answer_s, worker=True):
                return await self._handle(task_id).query(
                    Query.VIEW.value, result_type=TaskView, reject_condition=unless
                )
        except (WorkflowQueryRejectedError, WorkflowQueryFailedError, e.SilentError):
            return None
        except ValidationError:
            # Something of another name and another kind has a query `view`, too.
            return None

    async def wait_end(self, task_id: str, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._ended(task_id):
                    pass

    async def _ended(self, task_id: str) -> bool:
        """Wait for the end of the run at hand. False: another run followed, or the engine was away for a moment."""
        events = self._handle(task_id).fetch_history_events(
            wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        )
        last = EventType.EVENT_TYPE_UNSPECIFIED
        try:
            async with asking(None):
                async for event in events:
                    last = event.event_type
        except e.AwayError:
            await asyncio.sleep(0.5)
            return False
        if last == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            await asyncio.sleep(REPEAT_EVERY_S)
        unfinished = {EventType.EVENT_TYPE_UNSPECIFIED, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW}
        return last not in unfinished

    async def control(self, task_id: str, control: Control, request_id: str) -> e.Reading | None:
        handle = self._handle(task_id)
        try:
            try:
                view = await self.update(handle, Update.CONTROL, control, request_id, TaskView)
            except e.SilentError:
                async with asking(ENGINE_S):
                    await _reading(await handle.describe())
                    await handle.signal(_signal(control), _said(control))
                return None
        except WorkflowUpdateFailedError as error:
            return _already(control, await self.view(task_id), _cause(error))
        except e.MissingError:
            now = await self.view(task_id)
            return _already(control, now, not_possible(control.action, now.view))
        return e.Reading(view)

    async def again(self, task_id: str, ask: Ask, rollback: Rollback | None) -> e.Reading:
        now = await self.audit(task_id)
        if now.open and now.view.state in FINAL:  # it has said so, and is about to close
            await self.wait_end(task_id, ENGINE_S)
            now = await self.audit(task_id)
        if now.stale:
            raise e.SilentError("no worker answers, so nobody can say what the task did")
        wish = Again(past=now.view, ask=ask, rollback=rollback)
        refuse_illegal(wish, now)
        await self._runs.start(wish, now)
        return await self.view(task_id)

    # --- lists ------------------------------------------------------------------------------------------------

    async def tasks(self, filters: e.Filters, cursor: str, limit: int) -> e.TaskPage:
        query = query_for(filters)
        token = from_cursor(cursor, query)
        try:
            rows, following = await self._page(query, token, limit)
        except (e.MissingError, e.BrokenError) as error:
            if token is None:
                raise
            raise e.CursorError("the cursor is too old, or is not one of ours") from error
        return e.TaskPage(tuple([await _row(one) for one in rows]), as_cursor(following, query))

    async def count(self, filters: e.Filters) -> int:
        query, now = query_for(filters), time.monotonic()
        known = self._counts.get(query)
        if known is not None and now - known[0] < COUNTS_KEPT_S:
            return known[1]
        async with asking(ENGINE_S):
            found = await self._client.count_workflows(query)
        if len(self._counts) >= COUNTS_KEPT:
            self._counts.clear()
        self._counts[query] = (now, found.count)
        return found.count

    async def last_run(self, account: str) -> TaskView | None:
        rows, _ = await self._page(last_run_of(account), None, 1)
        return await _row(rows[0]) if rows else None

    async def _page(self, query: str, token: bytes | None, limit: int) -> tuple[list[WorkflowExecution], bytes | None]:
        pages = self._client.list_workflows(query, page_size=limit, next_page_token=token)
        async with asking(ENGINE_S):
            await pages.fetch_next_page()
        return list(pages.current_page or ()), pages.next_page_token

    # --- pools and emulators ----------------------------------------------------------------------------------

    async def queue(self, pool: str, query: QueueQuery) -> QueuePage:
        return await self.ask_pool(pool, Query.QUEUE, query, QueuePage)

    async def places(self, pool: str, query: PlacesQuery) -> Places:
        return await self.ask_pool(pool, Query.PLACES, query, Places)

    async def emulators(self, pool: str) -> EmulatorsPage:
        return await self.ask_pool(pool, Query.EMULATORS, None, EmulatorsPage)

    async def stats(self, pool: str) -> StatsPage:
        return await self.ask_pool(pool, Query.STATS, None, StatsPage)

    async def pool_audit(self, pool: str, query: AuditQuery) -> AuditPage:
        return await self.ask_pool(pool, Query.AUDIT, query, AuditPage)

    async def configure(self) -> None:
        """A dispatcher that does not run will ask for the settings itself."""
        with suppress(e.MissingError):
            async with asking(ENGINE_S):
                await self._handle(names.dispatcher_id(self._house.pool)).signal(Signal.CONFIGURE, self._house.queue)

    async def order(self, pool: str, update: Update, order: Order) -> Ordered:
        handle = self._handle(names.dispatcher_id(pool))
        try:
            return await self.update(handle, update, order, order.request_id, Ordered)
        except e.MissingError:
            await self._wake(pool)
            return await self.update(handle, update, order, order.request_id, Ordered)
        except WorkflowUpdateFailedError as error:
            return Ordered(done=False, detail=_cause(error))

    async def emulator(self, emulator_id: str) -> EmulatorView:
        """What it says of itself, and who holds it by the word of its dispatcher."""
        handle = self._handle(names.emulator_id(emulator_id))
        view = await self._query(handle, Query.VIEW, None, EmulatorView)
        known = await self.emulators(view.pool or self._house.pool)
        row = next((one for one in known.emulators if one.emulator_id == emulator_id), None)
        held = row.model_dump(include={"task", "on_deck", "idle_since"}) if row else {}
        return view.model_copy(update={"emulator_id": emulator_id, **held})

    async def care(self, emulator_id: str, order: CareOrder) -> Ordered:
        return await self.update(
            self._handle(names.emulator_id(emulator_id)), Update.CARE, order, order.request_id, Ordered
        )

    async def knows_emulator(self, emulator_id: str) -> bool:
        return await self._knows(names.emulator_id(emulator_id))

    async def knows_pool(self, pool: str) -> bool:
        return pool == self._house.pool or await self._knows(names.dispatcher_id(pool))

    async def ready(self) -> e.Ready:
        parts = {"engine": "", "dispatcher": ""}
        try:
            async with asking(ENGINE_S):
                await self._client.service_client.check_health()
        except e.EngineError as error:
            return e.Ready({"engine": str(error), "dispatcher": "unknown while the engine is away"})
        try:
            await self.queue(self._house.pool, QueueQuery(limit=1))
        except e.EngineError as error:
            parts["dispatcher"] = str(error)
        return e.Ready(parts)

    # --- how it is asked --------------------------------------------------------------------------------------

    def _handle(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(workflow_id)

    async def _knows(self, workflow_id: str) -> bool:
        try:
            async with asking(ENGINE_S):
                await self._handle(workflow_id).describe()
        except e.MissingError:
            return False
        return True

    async def ask_pool(self, pool: str, query: Query, arg: object, kind: type[Answer]) -> Answer:
        handle = self._handle(names.dispatcher_id(pool))
        try:
            return await self._query(handle, query, arg, kind)
        except e.MissingError:
            await self._wake(pool)
            return await self._query(handle, query, arg, kind)

    async def _wake(self, pool: str) -> None:
        """Start the dispatcher of our own pool if it is gone. Other pools are not ours to start."""
        if pool != self._house.pool:
            raise e.MissingError(f"there is no pool {pool}")
        async with asking(ENGINE_S):
            await self._client.start_workflow(
                Workflow.DISPATCHER.value,
                self._house.dispatcher,
                **dispatcher_options(self._house),
                start_signal=Signal.WAKE.value,
            )

    async def _query(self, handle: WorkflowHandle[Any, Any], query: Query, arg: object, kind: type[Answer]) -> Answer:
        args = [] if arg is None else [arg]
        try:
            async with asking(self._house.answer_s, worker=True):
                while True:
                    try:
                        return await handle.query(query.value, args=args, result_type=kind)
                    except RPCError as error:
                        # A workflow that only just started cannot be asked yet.
                        if error.status != RPCStatusCode.FAILED_PRECONDITION:
                            raise
                    await asyncio.sleep(REPEAT_EVERY_S)
        except WorkflowQueryFailedError as error:
            raise e.SilentError(f"the worker could not answer: {error}") from error

    async def update(
        self, handle: WorkflowHandle[Any, Any], update: Update, arg: object, request_id: str, kind: type[Answer]
    ) -> Answer:
        try:
            async with asking(self._house.answer_s, worker=True):
                while True:
                    try:
                        return await handle.execute_update(update.value, arg, id=request_id or None, result_type=kind)
                    except RPCError as error:
                        # The same request id again: at most one of them counts.
                        if error.status != RPCStatusCode.FAILED_PRECONDITION:
                            raise
                    await asyncio.sleep(REPEAT_EVERY_S)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise e.SilentError("no worker answered in time") from error


async def _refuse_another(request: e.Request, known: WorkflowExecution) -> None:
    if await known.memo_value(MEMO_REQUEST, "") != request.digest:
        raise (e.KeyReusedError if request.key else e.TakenError)(request.task_id)


def _already(control: Control, now: e.Reading, refusal: str) -> e.Reading:
    """Of two who cancel, the second one has what was wanted, too. Everything else that is not possible is refused."""
    if control.action == "cancel" and now.view.state is TaskState.CANCELLED:
        return now
    raise e.IllegalError(refusal, now)


def _signal(control: Control) -> str:
    """What stands for an update that nobody answered in time."""
    return Signal.FORCE_CANCEL.value if control.force and control.action == "cancel" else control.action


def _said(control: Control) -> Ask | Told:
    if control.action == "rollback":
        return Undoing(**dict(control.ask), force=control.force)
    return Told(choice=control.choice, ask=control.ask) if control.action == "answer" else control.ask


def _cause(error: WorkflowUpdateFailedError) -> str:
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) else str(cause)


def _status(status: WorkflowExecutionStatus | None) -> Status:
    words = {
        WorkflowExecutionStatus.COMPLETED: Status.COMPLETED,
        WorkflowExecutionStatus.FAILED: Status.FAILED,
        WorkflowExecutionStatus.CANCELED: Status.CANCELED,
        WorkflowExecutionStatus.TERMINATED: Status.TERMINATED,
        WorkflowExecutionStatus.TIMED_OUT: Status.TIMED_OUT,
        WorkflowExecutionStatus.CONTINUED_AS_NEW: Status.CONTINUED,
    }
    return words.get(status, Status.RUNNING) if status else Status.RUNNING


async def _reading(known: WorkflowExecution) -> e.Reading:
    """A task from what it wrote down. Anything that is not a task is not there."""
    if known.workflow_type != Workflow.TASK:
        raise e.MissingError(f"there is no task {known.id}")
    view = await _row(known)
    return e.Reading(view, open=_status(known.status) in {Status.RUNNING, Status.CONTINUED})


async def _row(known: WorkflowExecution) -> TaskView:
    """A task in a list. Its memo may be older than its state, which every transition mirrors."""
    found = known.typed_search_attributes
    state = _state(found.get(KEYWORD[Attribute.TASK_STATE]))
    view = await _written(known)
    if view is None:
        view = TaskView(
            task_id=known.id,
            type=found.get(KEYWORD[Attribute.TASK_TYPE]) or "",
            account=found.get(KEYWORD[Attribute.ACCOUNT_ID]) or "",
            pool=found.get(KEYWORD[Attribute.POOL_ID]) or "",
            lane=found.get(KEYWORD[Attribute.LANE]) or "",
            state=state,
            created_at=known.start_time,
            updated_at=known.start_time,
        )
    fresh = view.model_copy(update={"state": state, "run_id": view.run_id or known.run_id})
    return settled(fresh, _status(known.status), known.close_time)


async def _written(known: WorkflowExecution) -> TaskView | None:
    """What a task wrote down. A foreign client may have put anything there: one task must not spoil a list."""
    try:
        return await known.memo_value(names.MEMO_TASK, None, type_hint=TaskView)
    except (ValueError, TypeError, RuntimeError):
        return None


def _state(text: str | None) -> TaskState:
    return TaskState(text) if text in set(TaskState) else TaskState.PENDING
