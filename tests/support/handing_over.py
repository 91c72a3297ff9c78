"""Begins a dispatcher with a state: by continuing as new, since it takes none from a client."""

from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.contracts import names
from droidherd.contracts.queue import DispatcherInput
from droidherd.testing.skipping import until

QUEUE = "hands-over"


@workflow.defn(name=names.Workflow.DISPATCHER.value, sandboxed=False)
class HandsOver:
    """The run before."""

    @workflow.run
    async def run(self, given: DispatcherInput) -> None:
        workflow.continue_as_new(given, task_queue=names.FLEET_QUEUE)


async def hand_over(client: Client, given: DispatcherInput, **options: Any) -> str:
    """The id of the run that continues with it."""
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=QUEUE, workflows=[HandsOver], workflow_runner=runner):
        first: WorkflowHandle[Any, Any] = await client.start_workflow(
            names.Workflow.DISPATCHER.value, given, id=names.dispatcher_id(given.pool), task_queue=QUEUE, **options
        )

        async def following() -> str | None:
            run = (await client.get_workflow_handle(first.id).describe()).run_id
            return run if run != first.result_run_id else None

        return await until(following, f"{first.id} to continue as new")
