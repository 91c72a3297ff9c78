"""Ends a workflow run that no worker can play, and starts what takes its place."""

import logging
from datetime import UTC, datetime, timedelta

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.engine import Holders
from droidherd.contracts.fleet import EmulatorInput
from droidherd.contracts.names import Signal, Workflow
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.tasks import TaskView
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.replay import FailedRun
from droidherd.engine import memos
from droidherd.engine.accounts import AccountsClient, start_again
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import EngineError, NotFoundError, limit_call
from droidherd.engine.queue import QueueClient
from droidherd.engine.visibility import (
    DELAYED,
    REPLACED,
    REPLACING,
    SERVICES,
    foreigners,
    is_foreign,
    kind_of,
    was_delayed,
)

REPLACE_S = 10.0
TEXT_MAX = 1_000
EVENTS_PER_PAGE, PAGES_READ = 500, 10
"""Of the history of a run that fails. What is behind 5,000 messages no longer counts."""
NO_FAILURES = frozenset(
    {
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_UPDATE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
    }
)
FOREIGN, FOREIGN_BY = "somebody else's workflow had the id of a service", "system:foreign"
FOREIGN_S, FOREIGN_MAX, LISTED = 15.0, 100, 1_000

log = logging.getLogger("droidherd.engine")


class RunReplacement:
    """Terminates, starts anew, and tells the pool's audit. Raises EngineError."""

    def __init__(self, client: Client, config: EngineConfig, queue: QueueClient) -> None:
        """`queue` is told who is closed, and keeps the audit."""
        self._client = client
        self._config = config
        self._queue = queue

    async def failures(self, run: FailedRun) -> int | None:
        """How often its workflow task was tried in a row, on whatever worker. None: it is closed.

        Temporal's own count begins anew with each signal that comes in between. So it is added to the failures that
        stand in the history since the last workflow task that was completed: of each such row, the first one does.
        """
        try:
            async with limit_call(REPLACE_S):
                described = await self._handle(run).describe()
                if described.status is not WorkflowExecutionStatus.RUNNING:
                    return None
                attempt = described.raw_description.pending_workflow_task.attempt
                written = await self._written_failures(run) if attempt else 0
        except NotFoundError:
            return None
        return attempt + (written - 1 if attempt > 1 and written else written)

    async def _written_failures(self, run: FailedRun) -> int:
        """Failed workflow tasks at the end of its history, behind the last one that was completed."""
        found = 0
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self._client.namespace,
            execution=Execution(workflow_id=run.workflow_id, run_id=run.run_id),
            maximum_page_size=EVENTS_PER_PAGE,
        )
        for _ in range(PAGES_READ):
            page = await self._client.workflow_service.get_workflow_execution_history_reverse(request, retry=True)
            for event in page.history.events:
                if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                    return found
                found += _is_failure(event)
            request.next_page_token = page.next_page_token
            if not page.next_page_token:
                break
        return found

    async def replace(self, run: FailedRun) -> None:
        """What it was waiting for goes on elsewhere: its successor asks, its lease is fenced, its task is failed."""
        reason = f"{REPLACED} {run.times} times in a row and is replaced: {run.error}"[:TEXT_MAX]
        async with limit_call(REPLACE_S):
            handle = self._handle(run)
            described = await handle.describe()
            record = await memos.read(described, names.MEMO_ACCOUNT, AccountRecord)
            view = await memos.read(described, names.MEMO_TASK, TaskView)
            first_run = described.raw_description.workflow_execution_info.first_run_id or run.run_id
            # Temporal encrypts no reason: with keys, only the details say what went wrong.
            plain = reason if self._client.data_converter.payload_codec is None else reason.partition(": ")[0]
            await handle.terminate({"error": run.error[:TEXT_MAX], "failures": run.times}, reason=plain)
        log.error("%s %s was terminated: %s", run.kind, run.workflow_id, reason)
        pool = view.pool if view is not None else self._config.pool
        async with limit_call(REPLACE_S):
            await self._start_successor(run, record)
            if run.kind == Workflow.TASK:
                await self._free(run.workflow_id, first_run, pool)
        name = run.workflow_id
        entry = AuditEntry(
            "replaced", REPLACING, reason, task_id=name if run.kind == Workflow.TASK else "", detail=name
        )
        await self._queue.note(pool, entry)

    def _handle(self, run: FailedRun) -> "WorkflowHandle[object, object]":
        return self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)

    async def _start_successor(self, run: FailedRun, record: AccountRecord | None) -> None:
        """A host's is started by its worker, that of a task by nobody: who wants it done submits it again."""
        name = run.workflow_id.partition("/")[2]
        start: DispatcherInput | EmulatorInput
        if run.kind == Workflow.DISPATCHER:
            start = DispatcherInput(pool=name)
        elif run.kind == Workflow.EMULATOR:
            start = EmulatorInput(emulator_id=name)
        else:
            if run.kind == Workflow.ACCOUNT and record is not None:
                await start_again(self._client, self._config, record)
            return
        await self._client.start_workflow(
            run.kind,
            start,
            id=run.workflow_id,
            task_queue=names.FLEET_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=timedelta(seconds=self._config.workflow_task_s),
            static_summary=run.workflow_id.replace("/", " "),
        )

    async def _free(self, task_id: str, first_run: str, pool: str) -> None:
        """Have its emulator fenced, and its keys freed after that."""
        try:
            dispatcher = self._client.get_workflow_handle(names.dispatcher_id(pool))
            await dispatcher.signal(Signal.CLOSED.value, Holders(holders={task_id: first_run}))
        except RPCError as error:
            log.warning("the dispatcher of %s is not told of %s, a worker will find it: %s", pool, task_id, error)


def _is_failure(event: HistoryEvent) -> bool:
    """Of a workflow task, by its run or its worker. Not when a message came first, or a worker's cache was gone."""
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
        return event.workflow_task_failed_event_attributes.cause not in NO_FAILURES
    timed_out = event.workflow_task_timed_out_event_attributes
    ran = timed_out.timeout_type == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
    return event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT and ran


class ForeignRuns:
    """Ends what somebody started under the id of a service, where the right one can then not run. Raises EngineError.

    Who looks after a kind of service starts it again: workers their dispatcher and hosts, hosts their emulators.
    """

    def __init__(self, client: Client, config: EngineConfig, queue: QueueClient) -> None:
        """`queue` starts the dispatcher, and keeps the audit."""
        self._client = client
        self._queue, self._accounts, self._pool = queue, AccountsClient(client, config), config.pool
        self._to_restore: dict[str, None] = {}
        """Accounts behind foreign runs that were ended, until their own are started again."""

    async def end(self) -> int:
        """How many there were. One that waits for its time is one: nothing of ours is started with a delay."""
        async with limit_call(FOREIGN_S):
            query = foreigners(datetime.now(UTC) + DELAYED)
            listed = self._client.list_workflows(query, page_size=LISTED)
            found = [run async for run in listed if was_delayed(run) or is_foreign(run, kind_of(run.id))]
        for run in found[:FOREIGN_MAX]:
            await self._end(run)
        for workflow_id in list(self._to_restore):
            await self._restore(workflow_id)
        return len(found)

    async def _restore(self, workflow_id: str) -> None:
        try:
            await self._accounts.restore(workflow_id)
        except EngineError as error:
            log.warning("%s is not started again yet, trying again: %s", workflow_id, error)
        else:
            self._to_restore.pop(workflow_id, None)

    async def _end(self, run: WorkflowExecution) -> None:
        starts = f", to start at {run.execution_time:%Y-%m-%d %H:%M:%S} UTC" if was_delayed(run) else ""
        reason = f"{FOREIGN}: a {run.workflow_type} on the queue {run.task_queue}{starts}"[:TEXT_MAX]
        try:
            async with limit_call(REPLACE_S):
                await self._client.get_workflow_handle(run.id, run_id=run.run_id).terminate(reason=reason)
        except NotFoundError:
            return  # another worker was faster, and says so
        log.error("%s was terminated, and what belongs there is started: %s", run.id, reason)
        if run.id.startswith(SERVICES[Workflow.ACCOUNT]):
            self._to_restore[run.id] = None
            if len(self._to_restore) > LISTED:
                del self._to_restore[next(iter(self._to_restore))]
        await self._queue.note(self._pool, AuditEntry("replaced", FOREIGN_BY, reason, detail=run.id[:TEXT_MAX]))
