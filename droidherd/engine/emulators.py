"""Emulators in Temporal: their views, commands to them, and frames for viewers."""

from contextlib import suppress
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DeleteActivityExecutionRequest
from temporalio.client import ActivityFailureError, Client
from temporalio.common import ActivityIDConflictPolicy, RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorControl, EmulatorView, FrameTaken, FrameWork
from droidherd.contracts.names import Query, Update
from droidherd.contracts.queue import CommandResult
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import EngineError, NoFrameError, NoWorkerError, limit_call
from droidherd.engine.queue import QueueClient
from droidherd.engine.workflow_calls import WorkflowCalls

WAIT_S = 3.0
"""For a worker to begin. It polls all the time: one that does not begin is not there, or is full."""
WORK_S = 12.0
RECORDS_KEPT = 1_000


class EmulatorsClient:
    """Asks emulators' workflows, and the workers that have the emulators."""

    def __init__(self, client: Client, config: EngineConfig, queue: QueueClient) -> None:
        """`queue` knows which task holds an emulator."""
        self._client = client
        self._config = config
        self._queue = queue
        self._calls = WorkflowCalls(client, config)
        self._records: dict[str, str] = {}

    async def view(self, emulator_id: str) -> EmulatorView:
        """What its workflow knows, and which task holds it by its dispatcher."""
        view = await self._calls.query(names.emulator_id(emulator_id), Query.VIEW, None, EmulatorView)
        known = await self._queue.emulators(view.pool or self._config.pool)
        row = next((one for one in known.emulators if one.emulator_id == emulator_id), None)
        held = row.model_dump(include={"task", "on_deck", "idle_since"}) if row else {}
        return view.model_copy(update={"emulator_id": emulator_id, **held})

    async def command(self, emulator_id: str, control: EmulatorControl) -> CommandResult:
        """`done` is false when the emulator's workflow refuses."""
        return await self._calls.update(
            names.emulator_id(emulator_id), Update.CONTROL, control, control.request_id, CommandResult
        )

    async def exists(self, emulator_id: str) -> bool:
        return await self._calls.exists(names.emulator_id(emulator_id))

    async def take_frame(self, emulator_id: str, host: str) -> FrameTaken:
        """Let the host's worker take a frame and put it into the artifact store.

        This is a standalone activity: no workflow's history grows, however long somebody watches. Its id is the
        emulator's, so that two processes that ask at once share one; the record of the frame before is deleted.
        """
        try:
            async with limit_call(WAIT_S + WORK_S, worker=True):
                handle = await self._client.start_activity(
                    "take_frame",
                    FrameWork(emulator_id=emulator_id),
                    id=names.frame_id(emulator_id),
                    task_queue=names.host_id(host),
                    result_type=FrameTaken,
                    schedule_to_start_timeout=timedelta(seconds=WAIT_S),
                    start_to_close_timeout=timedelta(seconds=WORK_S),
                    id_conflict_policy=ActivityIDConflictPolicy.USE_EXISTING,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                    summary=f"a frame of {emulator_id} for viewers",
                )
                try:
                    return await handle.result()
                finally:
                    await self._delete_record_before(emulator_id, handle.run_id or "")
        except ActivityFailureError as error:
            raise _refusal(error.cause, host) from error

    async def _delete_record_before(self, emulator_id: str, run_id: str) -> None:
        before = self._records.pop(emulator_id, "")
        self._records[emulator_id] = run_id or before
        if len(self._records) > RECORDS_KEPT:
            del self._records[next(iter(self._records))]
        if before and run_id not in ("", before):
            with suppress(RPCError):
                await self._client.workflow_service.delete_activity_execution(
                    DeleteActivityExecutionRequest(
                        namespace=self._client.namespace, activity_id=names.frame_id(emulator_id), run_id=before
                    )
                )


def _refusal(cause: BaseException, host: str) -> EngineError:
    if isinstance(cause, ActivityTimeout) and cause.type in {
        TimeoutType.SCHEDULE_TO_START, TimeoutType.SCHEDULE_TO_CLOSE,
    }:  # fmt: skip
        return NoWorkerError(f"no worker of host {host} took the request")
    if isinstance(cause, ApplicationError):
        return NoFrameError(cause.message)
    return NoFrameError(str(cause) or type(cause).__name__)
