"""Begins a dispatcher with a state: by continuing as new, since it takes none from a client."""

from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.contracts import names
from droidherd.contracts.queue import DispatcherInput
from droidherd.testing.skipping import until

QUEUE = "hands-over"
TRIES = 5


@workflow.defn(name=names.Workflow.DISPATCHER.value, sandboxed=False)
class HandsOver:
    """The run before."""

    @workflow.run
    async def run(self, given: DispatcherInput) -> None:
        workflow.continue_as_new(given, task_queue=names.FLEET_QUEUE)


async def hand_over(client: Client, given: DispatcherInput, **options: Any) -> str:
    """The id of the run that continues with it.

    A worker that looks just then ends the run before as somebody else's: then it is begun once more.
    """
    runner = UnsandboxedWorkflowRunner()
    workflow_id = names.dispatcher_id(given.pool)
    async with Worker(client, task_queue=QUEUE, workflows=[HandsOver], workflow_runner=runner):
        for _ in range(TRIES):
            first: WorkflowHandle[Any, Any] = await client.start_workflow(
                names.Workflow.DISPATCHER.value,
                given,
                id=workflow_id,
                task_queue=QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
                **options,
            )

            async def ended(run: str | None = first.result_run_id) -> WorkflowExecutionStatus | None:
                status = (await client.get_workflow_handle(workflow_id, run_id=run).describe()).status
                return status if status is not WorkflowExecutionStatus.RUNNING else None

            if await until(ended, f"{first.id} to continue as new") is WorkflowExecutionStatus.CONTINUED_AS_NEW:
                return (await client.get_workflow_handle(workflow_id).describe()).run_id
    raise AssertionError(f"{workflow_id} was ended {TRIES} times before it continued as new")
