"""Questions to the engine itself, asked for workflows: who is closed, what a dead dispatcher left behind."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from droidherd.connection import NoEngineError
from droidherd.contracts import names
from droidherd.contracts.engine import CancelWork, Closed, HoldersWork, PoolSettings, PoolWork, Predecessor
from droidherd.contracts.fleet import HostInput, Join, Joined
from droidherd.contracts.queue import DispatcherInput, LaneView, Order, Ordered, QueuePage, QueueQuery, QueueSettings
from droidherd.domain.lifecycle import TaskState

log = logging.getLogger("droidherd.worker")

AT_ONCE = 16
LET_IN = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY_PENDING, TaskState.WAITING, TaskState.COMPLETED)
"""What a task is that some dispatcher let in."""
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=2)
ORDER_TIMEOUT = timedelta(seconds=5)
JOIN_TIMEOUT_S = 60.0
JOIN_AGAIN_S = 0.5


class EngineActivities:
    """The engine's second home, beside the gateway of the API."""

    def __init__(self, client: Client, pool: PoolSettings) -> None:
        """`pool` is what the operator set for pools."""
        self._client = client
        self._pool = pool

    @activity.defn
    async def read_pool(self, work: PoolWork) -> PoolSettings:  # noqa: ARG002 - one setting for all pools so far
        return self._pool

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        """The snapshot of the run before this one, if it can still be asked, and all open tasks of the pool."""
        workflow_id = names.dispatcher_id(work.pool)
        before, existed = "", False
        async for run in self._client.list_workflows(f"WorkflowId = '{workflow_id}'", page_size=10):
            if run.run_id == work.run_id or run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
                continue
            # One that was terminated before it had found its own predecessor knows nothing: ask the one before. If it
            # knew more and cannot be asked, what the one before it knew is out of date.
            known, existed = await self._snapshot(workflow_id, run.run_id), True
            before = known or ""
            if known != "":
                break
        tasks: dict[str, str] = {}
        mine = f"({names.Attribute.POOL_ID} = '{work.pool}' OR {names.Attribute.POOL_ID} IS NULL)"
        running = f"WorkflowType = '{names.Workflow.TASK}' AND ExecutionStatus = 'Running' AND {mine}"
        async for task in self._client.list_workflows(running, page_size=1000):
            tasks[task.id] = task.run_id
        known = f"WorkflowType = '{names.Workflow.EMULATOR}' AND ExecutionStatus = 'Running'"
        emulators = [one.id async for one in self._client.list_workflows(known, page_size=1000)]
        return Predecessor(
            existed=existed or await self._let_in(work.pool),
            snapshot=before,
            open_tasks=tasks,
            emulators=tuple(one.removeprefix(names.emulator_id("")) for one in emulators),
        )

    async def _let_in(self, pool: str) -> bool:
        """Whether some dispatcher let tasks of this pool in. All its runs may have been deleted since."""
        states = ", ".join(f"'{state}'" for state in LET_IN)
        tasks = f"WorkflowType = '{names.Workflow.TASK}' AND {names.Attribute.POOL_ID} = '{pool}'"
        found = await self._client.count_workflows(f"{tasks} AND {names.Attribute.TASK_STATE} IN ({states})")
        return found.count > 0

    async def _snapshot(self, workflow_id: str, run_id: str) -> str | None:
        """Empty: it never knew anything. None: it cannot be asked what it knew."""
        run = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            return await run.query("snapshot", result_type=str)
        except (RPCError, WorkflowQueryFailedError) as error:
            unready = isinstance(error, RPCError) and error.status is RPCStatusCode.FAILED_PRECONDITION
            if unready and not await _has_decided(run):
                return ""  # otherwise it lost its last decisions one after the other
            activity.logger.warning("the predecessor of %s cannot be asked: %s", workflow_id, error)
            return None

    @activity.defn
    async def closed_holders(self, work: HoldersWork) -> Closed:
        """Which of these tasks are closed, in just that run."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def closed(task_id: str, run: str) -> tuple[str, str] | None:
            async with gate:
                return (task_id, run) if await self._is_closed(task_id, run) else None

        found = await asyncio.gather(*(closed(t, run) for t, run in work.holders.items()))
        return Closed(holders=dict(pair for pair in found if pair))

    async def _is_closed(self, task_id: str, run: str) -> bool:
        try:
            described = await self._client.get_workflow_handle(task_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return True
            raise
        first = described.raw_description.workflow_execution_info.first_run_id or described.run_id
        same = run in (first, described.run_id)
        return not same or described.status is not WorkflowExecutionStatus.RUNNING

    @activity.defn
    async def request_cancel(self, work: CancelWork) -> None:
        await self._client.get_workflow_handle(work.task_id, run_id=work.run_id).cancel()

    async def keep_dispatcher(self, pool: str) -> None:
        """Start the pool's dispatcher when it was terminated and nobody has missed it yet."""
        handle = self._client.get_workflow_handle(names.dispatcher_id(pool))
        try:
            if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                return
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        await self._client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool=pool),
            id=handle.id,
            task_queue=names.FLEET_QUEUE,
            start_signal=names.Signal.WAKE,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
            static_summary=f"dispatcher of pool {pool}",
        )

    async def configure(self, pool: str) -> None:
        """Tell a dispatcher that runs what the settings are now. One that does not will ask for them."""
        told = QueueSettings.model_validate(self._pool.model_dump(include=set(QueueSettings.model_fields)))
        try:
            await self._client.get_workflow_handle(names.dispatcher_id(pool)).signal(names.Signal.CONFIGURE, told)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    # --- for the sentry of a host's disks: the port `droidherd.sentry.Lanes` ------------------------------------

    async def lanes(self, pool: str) -> tuple[LaneView, ...] | None:
        handle = self._client.get_workflow_handle(names.dispatcher_id(pool))
        try:
            page = await handle.query(
                names.Query.QUEUE, QueueQuery(limit=1), result_type=QueuePage, rpc_timeout=ORDER_TIMEOUT
            )
        except (RPCError, WorkflowQueryFailedError) as error:
            missing = isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
            log.log(logging.DEBUG if missing else logging.WARNING, "the lanes of %s are not known: %s", pool, error)
            return None
        whole = LaneView(
            name="", waiting=0, running=0, capacity=0, paused_by=page.paused_by, paused_why=page.paused_why
        )
        return (whole, *page.lanes)

    async def pause(self, pool: str, actor: str, reason: str) -> bool:
        return await self._order(pool, names.Update.PAUSE_LANE, Order(actor=actor, reason=reason))

    async def resume(self, pool: str, lane: str, actor: str) -> bool:
        return await self._order(pool, names.Update.RESUME_LANE, Order(actor=actor, lane=lane))

    async def _order(self, pool: str, update: names.Update, order: Order) -> bool:
        handle = self._client.get_workflow_handle(names.dispatcher_id(pool))
        try:
            done = await handle.execute_update(update, order, result_type=Ordered, rpc_timeout=ORDER_TIMEOUT)
        except (RPCError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            log.warning("pool %s did not answer the order %s: %s", pool, update, error)
            return False
        return done.done

    # --- for a worker that starts -----------------------------------------------------------------------------

    async def join(self, join: Join, workflow_task_timeout: timedelta = WORKFLOW_TASK_TIMEOUT) -> Joined:
        """Take the host's place in the engine. Raises NoEngineError, or RPCError."""
        host = await self._client.start_workflow(
            names.Workflow.HOST,
            HostInput(host_id=join.host_id),
            id=names.host_id(join.host_id),
            task_queue=names.FLEET_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=workflow_task_timeout,
            static_summary=f"host {join.host_id}",
        )
        try:
            async with asyncio.timeout(JOIN_TIMEOUT_S):
                while True:
                    try:
                        return await host.execute_update(names.Update.JOIN, join, result_type=Joined)
                    except RPCError as error:
                        # A workflow that just lost a decision takes no update until its next. Joining twice is once.
                        if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                            raise
                    await asyncio.sleep(JOIN_AGAIN_S)
        except WorkflowUpdateFailedError as error:
            return Joined(accepted=False, reason=str(error.cause or error))
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            raise NoEngineError(
                f"the workflow {host.id} did not let its host join within {JOIN_TIMEOUT_S:g} s: does a worker with "
                "the role `workflow` run? The Temporal Web UI shows what it waits for"
            ) from error

    async def forget_dead_workers(self, workflow_ids: list[str]) -> None:
        """A worker that was killed is still expected to have these in its cache; each would wait for that in vain."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def forget(workflow_id: str) -> None:
            request = ResetStickyTaskQueueRequest(
                namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
            )
            async with gate:
                try:
                    await self._client.workflow_service.reset_sticky_task_queue(request)
                except RPCError as error:
                    if error.status is not RPCStatusCode.NOT_FOUND:
                        raise

        await asyncio.gather(*map(forget, workflow_ids))

    async def open_tasks_on(self, emulators: list[str]) -> list[str]:
        """Tasks that ran on these emulators when last heard of."""
        if not emulators:
            return []
        wanted = ", ".join(f"'{emulator}'" for emulator in emulators)
        query = f"ExecutionStatus = 'Running' AND {names.Attribute.EMULATOR_ID} IN ({wanted})"
        return [task.id async for task in self._client.list_workflows(query, page_size=1000)]

    def all(self) -> list[Callable[..., object]]:
        return [self.read_pool, self.find_predecessor, self.closed_holders, self.request_cancel]


async def _has_decided(run: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ever came to the end of a workflow task."""
    async for event in run.fetch_history_events():
        if event.HasField("workflow_task_completed_event_attributes"):
            return True
    return False
