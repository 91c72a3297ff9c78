"""What a dispatcher that lost its memory finds in Temporal: its predecessor's snapshot, and the pool's open tasks."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.engine import EarlierRun, Predecessor
from droidherd.contracts.names import Attribute, Workflow
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.visibility import quote, running

AT_ONCE = 16
ADMITTED = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.RETRY_PENDING, TaskStatus.WAITING, TaskStatus.COMPLETED)
"""States that a task reaches only after some dispatcher admitted it."""

OPEN_OR_CONTINUED = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)

log = logging.getLogger("droidherd.engine")


async def find_predecessor(client: Client, pool: str, run_id: str) -> Predecessor:
    """The snapshot of the run before `run_id`, if that can still be queried, and all open tasks of the pool."""
    workflow_id = names.dispatcher_id(pool)
    snapshot, existed = "", False
    async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'", page_size=10):
        if run.run_id == run_id or run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
            continue
        # A run that was terminated before it found its own predecessor knows nothing: ask the run before it. If a run
        # knew more and cannot be asked, what the run before it knew is out of date.
        known, existed = await _snapshot(client, workflow_id, run.run_id), True
        snapshot = known or ""
        if known != "":
            break
    ours = f"({Attribute.POOL_ID} = '{pool}' OR {Attribute.POOL_ID} IS NULL)"
    tasks = client.list_workflows(f"{running(Workflow.TASK)} AND {ours}", page_size=1000)
    open_tasks = {task.id: task.run_id async for task in tasks}
    emulators = [one.id async for one in client.list_workflows(running(Workflow.EMULATOR), page_size=1000)]
    return Predecessor(
        existed=existed or await _admitted_any(client, pool),
        snapshot=snapshot,
        open_tasks=open_tasks,
        emulators=tuple(one.removeprefix(names.emulator_id("")) for one in emulators),
    )


async def find_earlier_run(client: Client, task_id: str, run_id: str) -> EarlierRun:
    """A run of this task id that ended before this one. Temporal lists a run from its start on."""
    async for run in client.list_workflows(f"WorkflowId = {quote(task_id)}", page_size=10):
        if run.run_id != run_id and run.status not in OPEN_OR_CONTINUED:
            return EarlierRun(run_id=run.run_id, status=run.status.name.lower() if run.status else "ended")
    return EarlierRun()


async def closed_holders(client: Client, holders: Mapping[str, str]) -> dict[str, str]:
    """Which of these tasks (id → first run id) are closed, in just that run."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def closed(task_id: str, run: str) -> bool:
        async with gate:
            return await _is_closed(client, task_id, run)

    found = await asyncio.gather(*(closed(task_id, run) for task_id, run in holders.items()))
    return {task_id: run for (task_id, run), over in zip(holders.items(), found, strict=True) if over}


async def _admitted_any(client: Client, pool: str) -> bool:
    """Whether some dispatcher admitted tasks of this pool. All its runs may have been deleted since."""
    states = ", ".join(f"'{state}'" for state in ADMITTED)
    tasks = f"WorkflowType = {quote(Workflow.TASK)} AND {Attribute.POOL_ID} = '{pool}'"
    return (await client.count_workflows(f"{tasks} AND {Attribute.TASK_STATE} IN ({states})")).count > 0


async def _snapshot(client: Client, workflow_id: str, run_id: str) -> str | None:
    """Empty: that run never knew anything. None: it cannot be asked what it knew."""
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    try:
        return await run.query("snapshot", result_type=str)
    except (RPCError, WorkflowQueryFailedError) as error:
        unready = isinstance(error, RPCError) and error.status is RPCStatusCode.FAILED_PRECONDITION
        if unready and not await _completed_a_task(run):
            return ""  # otherwise its last workflow tasks failed one after the other
        log.warning("the predecessor of %s cannot be asked: %s", workflow_id, error)
        return None


async def _completed_a_task(run: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ever completed a workflow task."""
    async for event in run.fetch_history_events():
        if event.HasField("workflow_task_completed_event_attributes"):
            return True
    return False


async def _is_closed(client: Client, task_id: str, run: str) -> bool:
    try:
        described = await client.get_workflow_handle(task_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return True
        raise
    first = described.raw_description.workflow_execution_info.first_run_id or described.run_id
    same = run in (first, described.run_id)
    return not same or described.status is not WorkflowExecutionStatus.RUNNING
