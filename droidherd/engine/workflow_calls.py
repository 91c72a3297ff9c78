"""Queries and updates of one workflow: bounded in time, repeated while the workflow cannot answer yet."""

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.names import Query, Update
from droidherd.engine import memos
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import RPC_S, EngineError, NotFoundError, NoWorkerError, OverloadedError, limit_call

Answer = TypeVar("Answer")

REPEAT_EVERY_S = 0.05
STUCK_FROM = 3
"""Tries of one workflow task. The second one may follow a refusal of our own guard."""
LAST_EVENTS = 20
STUCK_MAX = 1_000
LACKS_KEY = ("LockedValueError", "MissingKeyError")
"""Types of errors, as `workflows/guard.py` gives them."""
ENDED_UNANSWERED = "AcceptedUpdateCompletedWorkflow"
"""Temporal's type for an update that was accepted by a run that then ended."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the workflow tasks of a workflow fail, one after the other."""

    text: str = ""
    """Empty: they do not, or it is not known."""
    lacks_key: bool = False
    """It waits for a key. The text names that key, and tells nothing else."""


class WorkflowCalls:
    """What all clients of this package use to speak to workflows."""

    def __init__(self, client: Client, config: EngineConfig) -> None:
        """The client carries the data converter, the retry limits and the tracing."""
        self._client = client
        self._config = config

    def handle(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(workflow_id)

    async def exists(self, workflow_id: str) -> bool:
        try:
            async with limit_call(RPC_S):
                await self.handle(workflow_id).describe()
        except NotFoundError:
            return False
        return True

    async def why_stuck(self, workflow_id: str) -> str:
        """Why its workflow tasks fail, one after the other. Empty: they do not, or that is not known."""
        return (await self.find_fault(workflow_id)).text

    async def find_fault(self, workflow_id: str) -> Fault:
        """The error with which its workflow tasks fail, one after the other."""
        try:
            async with limit_call(RPC_S):
                known = await self.handle(workflow_id).describe()
                if known.raw_description.pending_workflow_task.attempt < STUCK_FROM:
                    return Fault()
                execution = WorkflowExecution(workflow_id=workflow_id, run_id=known.run_id)
                last = await self._client.workflow_service.get_workflow_execution_history_reverse(
                    GetWorkflowExecutionHistoryReverseRequest(
                        namespace=self._client.namespace, execution=execution, maximum_page_size=LAST_EVENTS
                    )
                )
            failed = (one.workflow_task_failed_event_attributes for one in last.history.events)
            failure = next((one.failure for one in failed if one.HasField("failure")), None)
            error: BaseException | None = failure and await self._client.data_converter.decode_failure(failure)
        except (EngineError, *memos.UNREADABLE):
            return Fault()
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        if error is None:
            return Fault()
        lacks_key = isinstance(error, ApplicationError) and error.type in LACKS_KEY
        return Fault(f"its workflow tasks fail: {error}"[:STUCK_MAX], lacks_key)

    async def query(self, workflow_id: str, query: Query, arg: object, kind: type[Answer]) -> Answer:
        args = [] if arg is None else [arg]
        handle = self.handle(workflow_id)
        try:
            async with limit_call(self._config.answer_s, worker=True):
                while True:
                    try:
                        return await handle.query(query.value, args=args, result_type=kind)
                    except RPCError as error:
                        # A workflow that has just started cannot be queried before its first workflow task.
                        if error.status != RPCStatusCode.FAILED_PRECONDITION:
                            raise
                    await asyncio.sleep(REPEAT_EVERY_S)
        except WorkflowQueryFailedError as error:
            raise NoWorkerError(f"the worker could not answer: {error}") from error

    async def update(
        self, workflow_id: str, update: Update, arg: object, request_id: str, kind: type[Answer]
    ) -> Answer:
        """The same request id again: at most one of them counts. Raises WorkflowUpdateFailedError on a refusal."""
        handle = self.handle(workflow_id)
        try:
            async with limit_call(self._config.answer_s, worker=True):
                while True:
                    try:
                        return await handle.execute_update(update.value, arg, id=request_id or None, result_type=kind)
                    except RPCError as error:
                        if error.status != RPCStatusCode.FAILED_PRECONDITION:
                            raise
                    await asyncio.sleep(REPEAT_EVERY_S)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise NoWorkerError("no worker answered in time") from error
        except WorkflowUpdateFailedError as error:
            if is_ask_again(error):
                raise OverloadedError(cause_of(error)) from error
            raise


def is_ask_again(error: WorkflowUpdateFailedError) -> bool:
    """Whether enough others wait for an answer of this workflow."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == names.ASK_AGAIN


def cause_of(error: WorkflowUpdateFailedError) -> str:
    """The message with which a workflow refused an update."""
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) else str(cause)


def ended_unanswered(error: WorkflowUpdateFailedError) -> bool:
    """Whether the workflow refused nothing: it took the update, and ended before it answered."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == ENDED_UNANSWERED


async def discard_start(operation: Any) -> None:
    """Retrieve the failure of an update-with-start a second time.

    The SDK keeps it in a future as well; left alone, asyncio reports it as never retrieved.
    """
    kept: asyncio.Task[object] = asyncio.ensure_future(operation.workflow_handle())
    kept.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.sleep(0)
    kept.cancel()
