"""A task that another workflow starts."""

from temporalio import workflow
from temporalio.common import TypedSearchAttributes, WorkflowIDReusePolicy

from droidherd.contracts import names
from droidherd.contracts.tasks import TaskInput, TaskSpec, TaskView
from workflows import calls, options

Task = calls.Call[TaskView]


async def start_task(
    task_id: str, spec: TaskSpec, summary: str, attributes: TypedSearchAttributes | None = None
) -> Task:
    """It outlives whoever started it. WorkflowAlreadyStartedError: there was a task of this id before."""
    return await calls.start_child(
        names.Workflow.TASK.value,
        TaskInput(spec=spec),
        TaskView,
        id=task_id,
        task_queue=names.QUEUE,
        task_timeout=options.STARTING_TIMEOUT,
        parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        search_attributes=attributes,
        static_summary=summary,
        static_details=spec.details(),
    )
