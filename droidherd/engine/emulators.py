"""Emulators in Temporal: their views, commands to them, and frames for viewers."""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from temporalio.api.workflowservice.v1 import DeleteActivityExecutionRequest, DescribeWorkflowExecutionResponse
from temporalio.client import ActivityFailureError, Client
from temporalio.common import ActivityIDConflictPolicy, RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorControl, EmulatorView, FrameTaken, FrameWork, PresenceBeat
from droidherd.contracts.names import Query, Update
from droidherd.contracts.queue import CommandResult, EmulatorsPage
from droidherd.engine import memos
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import RPC_S, EngineError, NoFrameError, NoWorkerError, limit_call
from droidherd.engine.queue import QueueClient
from droidherd.engine.workflow_calls import WorkflowCalls

WAIT_S = 3.0
"""For a worker to begin. It polls all the time: one that does not begin is not there, or is full."""
WORK_S = 12.0
RECORDS_KEPT = 1_000
BEATS_KEPT_S = 1.0
AT_ONCE = 16
NO_BEAT = PresenceBeat()
LATEST_MS = 4_102_444_800_000
"""The year 2100: what a foreign client wrote may be no time at all."""


class EmulatorsClient:
    """Asks emulators' workflows, and the workers that have the emulators."""

    def __init__(self, client: Client, config: EngineConfig, queue: QueueClient) -> None:
        """`queue` knows which task holds an emulator."""
        self._client = client
        self._config = config
        self._queue = queue
        self._calls = WorkflowCalls(client, config)
        self._records: dict[str, str] = {}
        self._beats: dict[str, tuple[float, PresenceBeat]] = {}
        """Host → when it was read, and what it says."""
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def page(self, pool: str) -> EmulatorsPage:
        """What a dispatcher knows of its emulators, with what their hosts found last."""
        page = await self._queue.emulators(pool)
        hosts = sorted({one.host for one in page.emulators if one.host})
        beats = dict(zip(hosts, await asyncio.gather(*map(self._last_beat, hosts)), strict=True))
        rows = tuple(_with_probe(one, beats.get(one.host, NO_BEAT)) for one in page.emulators)
        return page.model_copy(update={"emulators": rows})

    async def _last_beat(self, host: str) -> PresenceBeat:
        """What the last heartbeat of a host's worker carries. Empty: none is there, or the host does not say."""
        known, now_s = self._beats.get(host), time.monotonic()
        if known is not None and now_s - known[0] < BEATS_KEPT_S:
            return known[1]
        try:
            async with self._gate, limit_call(RPC_S):
                found = await self._calls.handle(names.host_id(host)).describe()
            beat = await self._beat_in(found.raw_description)
        except EngineError:
            beat = NO_BEAT
        if len(self._beats) >= RECORDS_KEPT:
            self._beats.clear()
        self._beats[host] = now_s, beat
        return beat

    async def _beat_in(self, found: DescribeWorkflowExecutionResponse) -> PresenceBeat:
        """Whoever has Temporal's address may have written anything there."""
        for one in found.pending_activities:
            if one.activity_type.name == "presence" and one.heartbeat_details.payloads:
                try:
                    details = list(one.heartbeat_details.payloads)[:1]
                    [beat] = await self._client.data_converter.decode(details, [PresenceBeat])
                except memos.UNREADABLE:
                    return NO_BEAT
                return beat if isinstance(beat, PresenceBeat) else NO_BEAT
        return NO_BEAT

    async def view(self, emulator_id: str) -> EmulatorView:
        """What its workflow knows, what its host found last, and which task holds it by its dispatcher."""
        view = await self._calls.query(names.emulator_id(emulator_id), Query.VIEW, None, EmulatorView)
        known = await self._queue.emulators(view.pool or self._config.pool)
        row = next((one for one in known.emulators if one.emulator_id == emulator_id), None)
        held = row.model_dump(include={"task", "on_deck", "idle_since"}) if row else {}
        named = view.model_copy(update={"emulator_id": emulator_id, **held})
        return _with_probe(named, await self._last_beat(view.host) if view.host else NO_BEAT)

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


def _with_probe(view: EmulatorView, beat: PresenceBeat) -> EmulatorView:
    """With what its host found last, if that is newer."""
    probed = beat.emulators.get(view.emulator_id)
    if probed is None:
        return view
    news: dict[str, object] = {"address": probed.address or view.address}
    if 0 < probed.good_at_ms < LATEST_MS:
        good_at = datetime.fromtimestamp(probed.good_at_ms / 1000, UTC)
        news["last_good_probe"] = max(good_at, view.last_good_probe or good_at)
    return view.model_copy(update=news)


def _refusal(cause: BaseException, host: str) -> EngineError:
    if isinstance(cause, ActivityTimeout) and cause.type in {
        TimeoutType.SCHEDULE_TO_START, TimeoutType.SCHEDULE_TO_CLOSE,
    }:  # fmt: skip
        return NoWorkerError(f"no worker of host {host} took the request")
    if isinstance(cause, ApplicationError):
        return NoFrameError(cause.message)
    return NoFrameError(str(cause) or type(cause).__name__)
