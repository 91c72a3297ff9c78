"""Tasks in Temporal: started, read, changed, listed. The only place outside workflows where a task is started."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import WorkflowExecutionTerminatedEventAttributes
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.converter import decode_typed_search_attributes
from temporalio.exceptions import TemporalError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.engine import EarlierRun
from droidherd.contracts.names import Attribute, Query, Signal, Update, Workflow
from droidherd.contracts.tasks import (
    Admission,
    Answer,
    Control,
    OperatorRequest,
    Rerun,
    RollbackRequest,
    TaskInput,
    TaskSpec,
    TaskView,
)
from droidherd.domain.task.lifecycle import FINAL, TaskAction, TaskStatus, possible, refusal
from droidherd.engine import memos, task_options
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import (
    FULL,
    RPC_S,
    CursorError,
    EngineError,
    IdTakenError,
    KeyReusedError,
    MissingKeyError,
    NotFoundError,
    NoWorkerError,
    RequestFailedError,
    UnavailableError,
    limit_call,
)
from droidherd.engine.queue import QueueClient
from droidherd.engine.task_options import KEYWORD, MEMO_KEY, MEMO_START, NewTask
from droidherd.engine.visibility import (
    ENDS,
    OPEN,
    REPLACED,
    REPLACING,
    ExecutionStatus,
    TaskFilters,
    Termination,
    as_cursor,
    broken_off_in,
    from_cursor,
    last_run_of,
    query_for,
    quote,
    reruns_of,
    settle_view,
    status_of,
    was_refused,
    with_ids,
    with_termination,
)
from droidherd.engine.workflow_calls import REPEAT_EVERY_S, WorkflowCalls, cause_of, discard_start, is_ask_again

SYSTEM = "system:terminated"
"""The actor of a run that writes down how the one before ended."""
RUNS_READ = 10
"""Runs of a task that was reset, of which the one that ended last is looked for."""
ENDS_AT_ONCE = 50
COUNTS_KEPT_S = 1.5
COUNTS_KEPT = 256
READS_PER_PAGE = 10
"""Of Temporal, to fill one page of tasks when superseded runs are among what it finds."""
IDS_PER_QUERY = 200
ROWS_PER_QUERY = 1_000
UNWRITTEN = {TaskStatus.REJECTED, TaskStatus.FAILED}
"""Ends that a task may reach before it wrote anything down."""

log = logging.getLogger("droidherd.engine")


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What became of a submission."""

    task_id: str
    admission: Admission | None
    """None: the task is durable, but the dispatcher did not answer in time."""


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A task as it was read."""

    view: TaskView
    open: bool = True
    """Its workflow still runs."""
    stale: bool = False
    """No worker answered: this is what the task wrote down last."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: tuple[TaskView, ...] = ()
    cursor: str = ""
    """Empty: this was the last page."""


class IllegalStateError(EngineError):
    """The task is in a state in which this is not possible."""

    def __init__(self, message: str, now: TaskReading) -> None:
        """`now` is the task as it stands."""
        super().__init__(message)
        self.now = now


class TasksClient:
    """Every method is bounded in time, and raises an EngineError when Temporal or the task refuses."""

    def __init__(self, client: Client, config: EngineConfig, queue: QueueClient) -> None:
        """`queue` knows the positions of queued tasks."""
        self._client = client
        self._config = config
        self._queue = queue
        self._calls = WorkflowCalls(client, config)
        self._handle = self._calls.handle
        self._counts: dict[str, tuple[float, int]] = {}

    # --- starting ---------------------------------------------------------------------------------------------

    async def submit(self, new: NewTask) -> SubmitResult:
        """Start a task and hear in the same call whether the dispatcher admits it."""
        try:
            return await self._submit(new, task_options.first_run(new, self._config))
        except WorkflowAlreadyStartedError:
            return await self._repeat(new)

    async def _submit(self, new: NewTask, options: dict[str, Any]) -> SubmitResult:
        operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            Workflow.TASK.value, TaskInput(spec=new.spec), **options
        )
        try:
            admission = await self._start_and_ask(operation, new.update_id)
        except (WorkflowUpdateRPCTimeoutOrCancelledError, NoWorkerError):
            return await self._made_durable(new, options)
        except WorkflowUpdateFailedError:
            admission = await self._written_admission(new.task_id)
        return SubmitResult(new.task_id, admission)

    async def again(self, task_id: str, action: TaskAction, request: RollbackRequest) -> TaskReading:
        """Start another run of a task that ended: tried again, or rolled back."""
        now = await self.audit(task_id)
        if now.open and now.view.state in FINAL:  # it has written its end, and is about to close
            await self.wait_end(task_id, RPC_S)
            now = await self.audit(task_id)
        if now.stale:
            raise NoWorkerError("no worker answers, so it is not known what the task did")
        retry = action is TaskAction.RETRY
        again = Rerun(past=now.view, action="retry" if retry else "rollback", **dict(request))
        if now.view.state not in FINAL or action not in possible(now.view.state):
            raise IllegalStateError(not_possible(action, now.view), now)
        async with limit_call(RPC_S):
            spec, subscription = await self._submission_of(task_id, now.view.run_id)
        options, mine = task_options.another_run(again, spec, self._config, subscription), secrets.token_hex(12)
        options["memo"][MEMO_START] = mine
        try:
            async with limit_call(RPC_S):
                await self._client.start_workflow(Workflow.TASK.value, TaskInput(spec=spec, again=again), **options)
        except (WorkflowAlreadyStartedError, UnavailableError) as error:
            # The answer to the start may be lost, and a repeated start meets its own run: then it is done.
            async with limit_call(RPC_S):
                known = await self._handle(task_id).describe()
            if await memos.read_text(known, MEMO_START) != mine:
                if isinstance(error, UnavailableError):
                    raise
                raise IllegalStateError(f"{action} is not possible: another request was faster", now) from error
        return await self.view(task_id)

    async def write_down_ends(self, given_up: Collection[str] = ()) -> list[str]:
        """Start a run for each task of our pool that was terminated and could not say so, which does nothing else.

        Until then its query, its memo and its search attributes say that it goes on. Returns the runs of those for
        which that is not possible; those in `given_up` are left alone.
        """
        rows, _ = await self._newest(broken_off_in(self._config.pool), None, ENDS_AT_ONCE)
        failed: list[str] = []
        for row in rows:
            if row.run_id in given_up:
                continue
            try:
                await self._write_down_end(row)
            except WorkflowAlreadyStartedError:
                continue  # somebody tries it again, or was faster
            except MissingKeyError as error:
                log.warning("how task %s ended is written down later: %s", row.id, error)
            except (RequestFailedError, NotFoundError, ValueError, RuntimeError) as error:
                log.warning("how task %s ended cannot be written down: %s", row.id, error)
                failed.append(row.run_id)
        return failed

    async def _write_down_end(self, row: WorkflowExecution) -> None:
        now = await self.audit(row.id)
        if now.open or now.view.error is None:
            return
        async with limit_call(RPC_S):
            spec, subscription = await self._submission_of(row.id, now.view.run_id)
        again = Rerun(past=now.view, actor=SYSTEM, reason=now.view.error.message, closes=True)
        options = task_options.another_run(again, spec, self._config, subscription)
        known = {name: await memos.read_text(row, name) for name in (MEMO_KEY, names.MEMO_REQUEST)}
        options["memo"] |= {name: text for name, text in known.items() if text}
        async with limit_call(RPC_S):
            await self._client.start_workflow(Workflow.TASK.value, TaskInput(spec=spec, again=again), **options)
        log.warning("task %s was terminated: it is written down as %s", row.id, now.view.state)

    async def _start_and_ask(self, operation: WithStartWorkflowOperation[Any, Any], update_id: str) -> Admission:
        try:
            async with limit_call(self._config.admission_s + 0.5, worker=True):
                return await self._client.execute_update_with_start_workflow(
                    Update.ADMISSION.value,
                    start_workflow_operation=operation,
                    id=update_id,
                    result_type=Admission,
                    rpc_timeout=timedelta(seconds=self._config.admission_s),
                )
        except (TemporalError, EngineError):
            await discard_start(operation)
            raise

    async def _made_durable(self, new: NewTask, options: dict[str, Any]) -> SubmitResult:
        """The admission is late. Make sure that at least the task exists before saying so."""
        try:
            async with limit_call(RPC_S):
                await self._client.start_workflow(Workflow.TASK.value, TaskInput(spec=new.spec), **options)
        except WorkflowAlreadyStartedError:
            async with limit_call(RPC_S):
                known = await self._handle(new.task_id).describe()
            await _refuse_another(new, known)
        return SubmitResult(new.task_id, None)

    async def _repeat(self, new: NewTask) -> SubmitResult:
        async with limit_call(RPC_S):
            known = await self._handle(new.task_id).describe()
        if not await _is_own(new, known):
            return await self._submit_again(new, known)
        await _refuse_another(new, known)
        if known.status == WorkflowExecutionStatus.RUNNING:
            admission = await self._ask_admission(new)
        else:
            admission = await self._past_admission(new, known)
        return SubmitResult(new.task_id, admission)

    async def _submit_again(self, new: NewTask, known: WorkflowExecution) -> SubmitResult:
        """Under an id that was used, which is possible when it was refused then."""
        if not was_refused(await _row(known), status_of(known.status)):
            raise IdTakenError(new.task_id)
        async with limit_call(RPC_S):
            if (await find_earlier_run(self._client, new.task_id, known.run_id)).run_id:  # one before it did something
                raise IdTakenError(new.task_id)
        try:
            return await self._submit(new, task_options.first_run(new, self._config, refused_before=True))
        except WorkflowAlreadyStartedError as error:
            async with limit_call(RPC_S):
                now = await self._handle(new.task_id).describe()
            if not await _is_own(new, now):  # somebody else was faster
                raise IdTakenError(new.task_id) from error
            return SubmitResult(new.task_id, await self._ask_admission(new))

    async def _ask_admission(self, new: NewTask) -> Admission | None:
        handle = self._handle(new.task_id)
        try:
            async with limit_call(self._config.admission_s, worker=True):
                return await handle.execute_update(Update.ADMISSION.value, id=new.update_id, result_type=Admission)
        except (NoWorkerError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return None
        except WorkflowUpdateFailedError as error:
            if is_ask_again(error):
                return None
            raise
        except NotFoundError:  # it ended meanwhile
            return await self._written_admission(new.task_id)

    async def _past_admission(self, new: NewTask, known: WorkflowExecution) -> Admission:
        """The same answer as then, if Temporal still keeps it; else what the task wrote down."""
        handle = self._handle(known.id).get_update_handle(
            new.update_id, workflow_run_id=known.run_id, result_type=Admission
        )
        try:
            async with limit_call(RPC_S):
                return await handle.result()
        except (EngineError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return await self._written_admission(known.id)

    async def _written_admission(self, task_id: str) -> Admission:
        view = (await self.view(task_id)).view
        return Admission(task_id=task_id, state=view.state, reason=view.error.kind if view.error else view.why)

    async def _submission_of(self, task_id: str, run_id: str) -> tuple[TaskSpec, str]:
        """What was submitted, and by which subscription: the first event of the history has both.

        `run_id`: the run that the task's view is of. One that came later was refused, with whatever it was given.
        """
        run = self._client.get_workflow_handle(task_id, run_id=run_id or None)
        async for event in run.fetch_history_events(page_size=1):
            started = event.workflow_execution_started_event_attributes
            [start] = await self._client.data_converter.decode(list(started.input.payloads), [TaskInput])
            if isinstance(start, TaskInput):
                known = decode_typed_search_attributes(started.search_attributes)
                return start.spec, known.get(KEYWORD[Attribute.SUBSCRIPTION_ID]) or ""
            break
        raise RequestFailedError(f"the history of task {task_id} does not begin with a submission")

    # --- reading ----------------------------------------------------------------------------------------------

    async def view(self, task_id: str) -> TaskReading:
        """Ask the task itself; when it ended, or no worker answers, read what it wrote down."""
        view = await self._query(task_id, QueryRejectCondition.NOT_OPEN)
        if view is not None:
            return TaskReading(await self._queue.with_position(view))
        async with limit_call(RPC_S):
            known = await self._handle(task_id).describe()
        reading = await _reading(known)
        if not reading.open and reading.view.state in UNWRITTEN and reading.view.error is None:
            view = await self._query(task_id, QueryRejectCondition.NONE)
        status, ended_by = status_of(known.status), await self._termination(known)
        if view is not None or ended_by is not None:
            settled = settle_view(view or reading.view, status, known.close_time, ended_by)
            return TaskReading(settled, open=False)
        if reading.open and (why := await self._calls.why_stuck(task_id)):
            reading = replace(reading, view=reading.view.model_copy(update={"why": why}))
        return TaskReading(reading.view, open=reading.open, stale=reading.open)

    async def _termination(self, known: WorkflowExecution) -> Termination | None:
        """Who terminated it and why, as the last event of its history says. None: nobody did, or gave a reason."""
        if status_of(known.status) is not ExecutionStatus.TERMINATED:
            return None
        last = self._client.get_workflow_handle(known.id, run_id=known.run_id).fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        )
        async with limit_call(RPC_S):
            async for event in last:
                ended = event.workflow_execution_terminated_event_attributes
                if ended.reason.startswith(REPLACED):
                    return Termination(REPLACING, await self._why_replaced(ended))
                return Termination("temporal", ended.reason) if ended.reason else None
        return None

    async def _why_replaced(self, ended: WorkflowExecutionTerminatedEventAttributes) -> str:
        """With the error, which stands in the details alone where payloads are encrypted."""
        if ": " not in ended.reason:
            with suppress(*memos.UNREADABLE):
                found = await self._client.data_converter.decode(ended.details.payloads, [dict])
                return f"{ended.reason}: {found[0]['error']}"
        return ended.reason

    async def audit(self, task_id: str) -> TaskReading:
        """Like `view`, with the events also of a task that ended."""
        reading = await self.view(task_id)
        if reading.open:
            return reading
        async with limit_call(RPC_S):
            known = await self._handle(task_id).describe()
            ended_by = await self._termination(known)
        view = await self._query(task_id, QueryRejectCondition.NONE)
        if view is None:
            return TaskReading(with_termination(reading.view, ended_by), open=False, stale=True)
        if view.state in FINAL:
            whole = reading.view.model_copy(update={"events": view.events})
        else:  # it was terminated: it knows more than it had written down
            whole = settle_view(view, status_of(known.status), known.close_time, ended_by)
        return TaskReading(with_termination(whole, ended_by), open=False)

    async def _query(self, task_id: str, unless: QueryRejectCondition) -> TaskView | None:
        """None: the task ended, or no worker answers."""
        try:
            async with limit_call(self._config.answer_s, worker=True):
                return await self._handle(task_id).query(
                    Query.VIEW.value, result_type=TaskView, reject_condition=unless
                )
        except (WorkflowQueryRejectedError, WorkflowQueryFailedError, NoWorkerError):
            return None
        except ValidationError:  # a workflow of another type has a query `view`, too
            return None

    async def wait_end(self, task_id: str, seconds: float) -> None:
        """Return when the task ended, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._wait_for_end(task_id):
                    pass

    async def _wait_for_end(self, task_id: str) -> bool:
        """Wait for the end of the present run. False: another run followed, or Temporal was away for a moment."""
        events = self._handle(task_id).fetch_history_events(
            wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        )
        last = EventType.EVENT_TYPE_UNSPECIFIED
        try:
            async with limit_call(None):
                async for event in events:
                    last = event.event_type
        except UnavailableError:
            await asyncio.sleep(0.5)
            return False
        if last == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            await asyncio.sleep(REPEAT_EVERY_S)
        unfinished = {EventType.EVENT_TYPE_UNSPECIFIED, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW}
        return last not in unfinished

    # --- changing ---------------------------------------------------------------------------------------------

    async def control(self, task_id: str, control: Control, request_id: str) -> TaskReading | None:
        """The task after the change. None: no worker answered in time, but the request is durable.

        A run that takes no more messages can be cancelled all the same: Temporal's own cancel is no message.
        """
        try:
            try:
                view = await self._calls.update(task_id, Update.CONTROL, control, request_id, TaskView)
            except NoWorkerError:
                handle = self._handle(task_id)
                async with limit_call(RPC_S):
                    await _reading(await handle.describe())
                    try:
                        await handle.signal(_signal(control), _argument(control))
                    except RPCError as error:
                        if FULL not in error.message or control.action != "cancel":
                            raise
                        await handle.cancel()
                return None
        except WorkflowUpdateFailedError as error:
            return _already(control, await self.view(task_id), cause_of(error))
        except NotFoundError as error:
            now = await self.view(task_id)
            if now.open and control.action in possible(now.view.state, now.view.intent):
                raise RequestFailedError(f"Temporal refused to take the request to the task: {error}") from error
            return _already(control, now, not_possible(control.action, now.view))
        return TaskReading(view)

    # --- lists ------------------------------------------------------------------------------------------------

    async def page(self, filters: TaskFilters, cursor: str, limit: int) -> TaskPage:
        query = query_for(filters)
        token = from_cursor(cursor, query)
        try:
            rows, following = await self._newest(query, token, limit)
        except (NotFoundError, RequestFailedError) as error:
            if token is None:
                raise
            raise CursorError("the cursor has expired: start again at the first page") from error
        return TaskPage(tuple([await _row(one) for one in rows]), as_cursor(following, query))

    async def count(self, filters: TaskFilters) -> int:
        """How many tasks there are; kept for a moment, since counting is expensive."""
        query, now = query_for(filters), time.monotonic()
        known = self._counts.get(query)
        if known is not None and now - known[0] < COUNTS_KEPT_S:
            return known[1]
        async with limit_call(RPC_S):
            runs = (await self._client.count_workflows(query)).count
        found = max(0, runs - await self._superseded(filters))
        if len(self._counts) >= COUNTS_KEPT:
            self._counts.clear()
        self._counts[query] = (now, found)
        return found

    async def last_run(self, account: str) -> TaskView | None:
        """The last closed task of an account."""
        rows, _ = await self._newest(last_run_of(account), None, 1)
        return await _row(rows[0]) if rows else None

    async def _newest(
        self, query: str, token: bytes | None, limit: int
    ) -> tuple[list[WorkflowExecution], bytes | None]:
        """The newest runs of tasks; where the next page begins. A run that another one followed is no task any more."""
        found: list[WorkflowExecution] = []
        for _ in range(READS_PER_PAGE):
            rows, token = await self._rows(query, token, limit - len(found))
            newest = await self._newest_runs([row.id for row in rows if row.close_time is not None])
            found += [row for row in rows if newest.get(row.id, row.run_id) == row.run_id]
            if len(found) >= limit or not token:
                break
        return found, token

    async def _superseded(self, filters: TaskFilters) -> int:
        """How many runs pass the filters although their task has a newer run. Only tasks with a rerun have any."""
        rerun = {row.id async for row in self._all(reruns_of(filters))}
        found = 0
        for ids in batched(sorted(rerun), IDS_PER_QUERY):
            newest = await self._newest_runs(ids)
            matching = self._all(f"{query_for(filters)} AND {with_ids(ids)}")
            found += len([row async for row in matching if newest.get(row.id, row.run_id) != row.run_id])
        return found

    async def _newest_runs(self, task_ids: Sequence[str]) -> dict[str, str]:
        """Task id → the run that started last."""
        newest: dict[str, WorkflowExecution] = {}
        for ids in batched(dict.fromkeys(task_ids), IDS_PER_QUERY):
            async for row in self._all(f"{ENDS} AND {with_ids(ids)}"):
                if row.id not in newest or newest[row.id].start_time < row.start_time:
                    newest[row.id] = row
        return {task_id: row.run_id for task_id, row in newest.items()}

    async def _all(self, query: str) -> AsyncGenerator[WorkflowExecution]:
        """Every run that fits, page by page."""
        token: bytes | None = None
        while True:
            rows, token = await self._rows(query, token, ROWS_PER_QUERY)
            for row in rows:
                yield row
            if not token:
                return

    async def _rows(self, query: str, token: bytes | None, limit: int) -> tuple[list[WorkflowExecution], bytes | None]:
        pages = self._client.list_workflows(query, page_size=limit, next_page_token=token)
        async with limit_call(RPC_S):
            await pages.fetch_next_page()
        return list(pages.current_page or ()), pages.next_page_token


def batched(values: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    """`itertools.batched`, which Python has from 3.12 on."""
    rest = iter(values)
    while batch := tuple(islice(rest, size)):
        yield batch


def not_possible(action: str, now: TaskView) -> str:
    """Says that an action is not possible, and which ones are."""
    return refusal(action, now.state, now.intent, possible(now.state, now.intent))


async def _refuse_another(new: NewTask, known: WorkflowExecution) -> None:
    if await memos.read_text(known, names.MEMO_REQUEST) != new.digest:
        raise (KeyReusedError if new.key else IdTakenError)(new.task_id)


def _already(control: Control, now: TaskReading, refusal: str) -> TaskReading:
    """A second cancel finds the task as it wants it. Everything else that is not possible is refused."""
    if control.action == "cancel" and now.view.state is TaskStatus.CANCELLED:
        return now
    raise IllegalStateError(refusal, now)


def _signal(control: Control) -> str:
    """The signal that stands for an update no worker answered in time."""
    return Signal.FORCE_CANCEL.value if control.force and control.action == "cancel" else control.action


def _argument(control: Control) -> OperatorRequest | Answer:
    """The argument of that signal."""
    if control.action == "rollback":
        return RollbackRequest(**dict(control.ask), force=control.force)
    if control.action == "answer":
        return Answer(choice=control.choice, question=control.question, **dict(control.ask))
    return control.ask


async def outcome_of(client: Client, task_id: str) -> str:
    """How a task ended, in one word; empty while it runs."""
    try:
        known = await client.get_workflow_handle(task_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return "unknown"  # a cleanup was faster
        raise
    if status_of(known.status) in OPEN:
        return ""
    return "terminated" if status_of(known.status) is ExecutionStatus.TERMINATED else (await _row(known)).state


async def _is_own(new: NewTask, known: WorkflowExecution) -> bool:
    """Whether this run was started by this submission: its start was repeated, or its key is the same."""
    if await memos.read_text(known, MEMO_START) == new.update_id:
        return True
    return bool(new.key) and await memos.read_text(known, MEMO_KEY) == new.key


async def find_earlier_run(client: Client, task_id: str, run_id: str) -> EarlierRun:
    """A run of this task id that ended before this one. Temporal lists a run from its start on.

    One that was refused did nothing, and does not count.
    """
    refused = False
    async for run in client.list_workflows(f"WorkflowId = {quote(task_id)}", page_size=10):
        if run.run_id == run_id or status_of(run.status) in OPEN:
            continue
        if run.workflow_type == Workflow.TASK and was_refused(await _written(run), status_of(run.status)):
            refused = True
            continue
        status = run.status.name.lower() if run.status else "ended"
        return EarlierRun(run_id=run.run_id, status=status, view=await _view_of_run(client, task_id, run.run_id))
    return EarlierRun(refused=refused)


async def find_end_before_reset(client: Client, task_id: str, run_id: str) -> EarlierRun:
    """How a task had ended before it was reset in Temporal. A run that went on was terminated by the reset."""
    closed: list[tuple[datetime, WorkflowExecution]] = []
    async for run in client.list_workflows(f"WorkflowId = {quote(task_id)}", page_size=RUNS_READ, limit=RUNS_READ):
        # Described, since what Temporal lists may be some moments old.
        known = await client.get_workflow_handle(task_id, run_id=run.run_id).describe()
        if known.run_id != run_id and known.close_time is not None and status_of(known.status) not in OPEN:
            closed.append((known.close_time, known))
    if not closed:
        return EarlierRun()
    last_at, last = max(closed, key=lambda one: one[0])
    status, view = status_of(last.status), await _view_of_run(client, task_id, last.run_id)
    by_reset = Termination("temporal", "it was reset, and a task does not go on from an earlier point")
    view = view and settle_view(view, status, last_at, by_reset)
    return EarlierRun(run_id=last.run_id, status=status.value.lower(), view=view)


async def _view_of_run(client: Client, task_id: str, run_id: str) -> TaskView | None:
    """How a task ended in this closed run; without its events when no worker answers. None: it was no task."""
    handle = client.get_workflow_handle(task_id, run_id=run_id)
    known = await handle.describe()
    if known.workflow_type != Workflow.TASK:
        return None
    written = await _written(known)
    try:
        view = await handle.query(Query.VIEW.value, result_type=TaskView, rpc_timeout=timedelta(seconds=RPC_S))
    except (RPCError, WorkflowQueryFailedError, ValidationError):
        return written
    return written.model_copy(update={"events": view.events})


async def _reading(known: WorkflowExecution) -> TaskReading:
    """A task from what it wrote down. NotFoundError: the workflow is not a task."""
    if known.workflow_type != Workflow.TASK:
        raise NotFoundError(f"no task `{known.id}`")
    return TaskReading(await _row(known), open=status_of(known.status) in OPEN)


async def _written(known: WorkflowExecution) -> TaskView:
    """What a task wrote down, for a decision. MissingKeyError: a list may leave out what cannot be read, not this."""
    await memos.read(known, names.MEMO_TASK, TaskView)
    return await _row(known)


async def _row(known: WorkflowExecution) -> TaskView:
    """A task in a list. Its memo may be older than its state, which every transition writes to a search attribute."""
    found = known.typed_search_attributes
    state = _state(found.get(KEYWORD[Attribute.TASK_STATE]))
    view, why = await _view_in_memo(known)
    if view is None:
        view = TaskView(
            task_id=known.id,
            why=why,
            type=found.get(KEYWORD[Attribute.TASK_TYPE]) or "",
            account=found.get(KEYWORD[Attribute.ACCOUNT_ID]) or "",
            pool=found.get(KEYWORD[Attribute.POOL_ID]) or "",
            lane=found.get(KEYWORD[Attribute.LANE]) or "",
            state=state,
            created_at=known.start_time,
            updated_at=known.start_time,
        )
    # Whose run it is Temporal knows, whatever the memo says.
    fresh = view.model_copy(update={"task_id": known.id, "state": state, "run_id": view.run_id or known.run_id})
    return settle_view(fresh, status_of(known.status), known.close_time)


async def _view_in_memo(known: WorkflowExecution) -> tuple[TaskView | None, str]:
    """The view in a task's memo. None: there is none yet, or somebody else wrote something there; and why."""
    try:
        return await memos.read_or_why(known, names.MEMO_TASK, TaskView)
    except MissingKeyError as error:
        return None, str(error)


def _state(text: str | None) -> TaskStatus:
    return TaskStatus(text) if text in set(TaskStatus) else TaskStatus.PENDING
