"""How a task's workflow closes: completed → Completed; failed, rejected → Failed with details; cancelled → Canceled."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.engine import CancelWork
    from droidherd.contracts.tasks import Failure, TaskView
    from droidherd.domain.errors import Verdict
    from droidherd.domain.lifecycle import TaskState
    from workflows import options
    from workflows.ledger import Ledger

WELL = (TaskState.COMPLETED, TaskState.ROLLBACK_COMPLETED)


async def close(ledger: Ledger, *, engine_cancels: bool) -> TaskView:
    """`engine_cancels`: the engine was asked for it already."""
    view = ledger.view(events=True)
    if ledger.state in WELL:
        return view
    if ledger.state is TaskState.CANCELLED:
        if not engine_cancels:
            await _cancel_on_engine()
        raise asyncio.CancelledError
    error = ledger.error or Failure(kind="Failed", verdict=Verdict.FINAL, message=str(ledger.state))
    raise ApplicationError(error.message, view, type=error.kind, non_retryable=True)


async def _cancel_on_engine() -> None:
    """Only a cancel of the engine's own closes a workflow as cancelled."""
    info = workflow.info()
    await workflow.execute_activity(
        "request_cancel",
        CancelWork(task_id=info.workflow_id, run_id=info.run_id),
        start_to_close_timeout=options.ENGINE_TIMEOUT,
        schedule_to_close_timeout=options.ENGINE_TOTAL,
        retry_policy=options.ENGINE_RETRY,
        cancellation_type=workflow.ActivityCancellationType.ABANDON,
    )
    await workflow.sleep(options.ENGINE_TOTAL)
