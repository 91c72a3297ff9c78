"""What a worker process asks of Temporal when it starts: to join as its host, and to forget workers that died."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.fleet import HostInput, Join, Joined
from droidherd.contracts.names import Attribute, Update, Workflow
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import RPC_S, UnavailableError, limit_call, translate
from droidherd.engine.visibility import is_foreign, quote, running
from droidherd.engine.workflow_calls import ended_unanswered

AT_ONCE = 16
LIST_S = 30.0
WAITING_AT_MOST = 1000
"""Queued tasks whose sticky queues are reset: three times what a worker keeps in its cache."""
IN_A_QUERY = 100
"""Ids that are named in one list query."""
JOIN_TIMEOUT_S = 60.0
JOIN_AGAIN_S = 0.5


class HostsClient:
    """Hosts, and the workflows a dead worker of a host had cached. Raises EngineError."""

    def __init__(self, client: Client, config: EngineConfig) -> None:
        """The client is the worker's."""
        self._client = client
        self._config = config

    async def join(self, join: Join) -> Joined:
        """Let this worker serve the host; start the host's workflow if it does not run."""
        try:
            return await self._join(join)
        except WorkflowUpdateFailedError as error:
            if ended_unanswered(error) or await self._is_squatted(join.host_id):
                text = f"{names.host_id(join.host_id)} is no workflow of ours, or was replaced just now"
                raise UnavailableError(text) from error
            return Joined(accepted=False, reason=str(error.cause or error))
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            raise UnavailableError(
                f"the workflow {names.host_id(join.host_id)} did not let its host join within {JOIN_TIMEOUT_S:g} s: "
                "does a worker with the role `workflow` run? The Temporal Web UI shows what it waits for"
            ) from error
        except RPCError as error:
            raise translate(error) from error

    async def _is_squatted(self, host_id: str) -> bool:
        """Whether somebody else's workflow has the id of this host: that is replaced (`ForeignRuns`)."""
        async with limit_call(RPC_S):
            found = await self._client.get_workflow_handle(names.host_id(host_id)).describe()
        return is_foreign(found, Workflow.HOST)

    async def _join(self, join: Join) -> Joined:
        host = await self._client.start_workflow(
            Workflow.HOST,
            HostInput(host_id=join.host_id),
            id=names.host_id(join.host_id),
            task_queue=names.FLEET_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=timedelta(seconds=self._config.workflow_task_s),
            static_summary=f"host {join.host_id}",
        )
        async with asyncio.timeout(JOIN_TIMEOUT_S):
            while True:
                try:
                    return await host.execute_update(Update.JOIN, join, result_type=Joined)
                except RPCError as error:
                    # A workflow whose last workflow task failed takes no update until the next. Joining twice is once.
                    if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                        raise
                await asyncio.sleep(JOIN_AGAIN_S)

    async def emulator_runs(self, emulators: Iterable[str]) -> dict[str, str]:
        """The run of the workflow of each of these emulators that has one."""
        found: dict[str, str] = {}
        async with limit_call(LIST_S):
            for some in _batches([*emulators], IN_A_QUERY):
                wanted = ", ".join(quote(names.emulator_id(emulator)) for emulator in some)
                query = f"{running(Workflow.EMULATOR)} AND WorkflowId IN ({wanted})"
                async for one in self._client.list_workflows(query, page_size=1000):
                    found[one.id.removeprefix(names.emulator_id(""))] = one.run_id
        return found

    async def forget_dead_workers(self, host: str, emulators: list[str]) -> None:
        """Reset the sticky queues of what a worker of this host had cached when it was killed.

        Temporal still expects that worker to have it cached, and each workflow would wait for it in vain.
        """
        workflows = [names.host_id(host), names.dispatcher_id(self._config.pool)]
        tasks = await self._open_tasks_on(emulators)
        await self._forget([*workflows, *map(names.emulator_id, emulators), *tasks])

    async def forget_dead_workers_of_waiting(self) -> None:
        """The same for queued tasks. Each of the next grants would wait for a dead worker's cache, wave after wave."""
        query = (
            f"{running(Workflow.TASK)} AND {Attribute.POOL_ID} = {quote(self._config.pool)} "
            f"AND {Attribute.TASK_STATE} = {quote(TaskStatus.QUEUED)}"
        )
        async with limit_call(LIST_S):
            found = self._client.list_workflows(query, page_size=1000, limit=WAITING_AT_MOST)
            tasks = [task.id async for task in found]
        await self._forget(tasks)

    async def _forget(self, workflows: list[str]) -> None:
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
                        raise translate(error) from error

        await asyncio.gather(*map(forget, workflows))

    async def _open_tasks_on(self, emulators: list[str]) -> list[str]:
        """Tasks that ran on these emulators by their last word."""
        if not emulators:
            return []
        wanted = ", ".join(f"'{emulator}'" for emulator in emulators)
        query = f"ExecutionStatus = 'Running' AND {Attribute.EMULATOR_ID} IN ({wanted})"
        async with limit_call(LIST_S):
            return [task.id async for task in self._client.list_workflows(query, page_size=1000)]


def _batches(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[at : at + size] for at in range(0, len(ids), size))
