"""Live frames at the door: asked of the worker that has the emulator, shared by all who look at the same time.

Asked as an activity that stands by itself: no workflow's history grows, however long somebody looks. Its id is the
emulator's, so that two doors that ask at once share one, and each door removes the record of the one before.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from starlette.concurrency import run_in_threadpool
from temporalio.api.workflowservice.v1 import DeleteActivityExecutionRequest
from temporalio.client import ActivityFailureError, Client
from temporalio.common import ActivityIDConflictPolicy, RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError

from api import engine as e
from api.asking import asking
from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.contracts import names
from droidherd.contracts.fleet import FrameTaken, FrameWork

KEPT_S = 0.5
"""An answer serves everybody who asks within so long."""
HOST_KEPT_S = 10.0
EMULATORS_MAX = 1_000
WAIT_S = 3.0
"""For a worker to begin. It polls all the time: one that does not begin is not there, or is full."""
WORK_S = 12.0

log = logging.getLogger("droidherd.api")


@dataclass(slots=True)
class _Watched:
    """One emulator that people look at."""

    answer: "asyncio.Task[e.LiveFrame]"
    until_s: float


class Live:
    """Implements `api.engine.Onlooker`."""

    def __init__(self, client: Client, engine: e.Engine, store: DirectoryStore) -> None:
        """The store is the one the worker writes to."""
        self._client = client
        self._engine = engine
        self._store = store
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        self._hosts: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._records: dict[str, str] = {}

    async def frame(self, emulator_id: str) -> e.LiveFrame:
        now_s = asyncio.get_running_loop().time()
        known = self._watched.get(emulator_id)
        if known is None or (known.answer.done() and now_s > known.until_s):
            known = _Watched(asyncio.ensure_future(self._taken(emulator_id)), now_s + KEPT_S)
            known.answer.add_done_callback(lambda done: self._answered(emulator_id, done))
            self._watched[emulator_id] = known
            self._forget_oldest()
        # Shielded: who gives up must not take the picture from the others who wait for it.
        return await asyncio.shield(known.answer)

    def _answered(self, emulator_id: str, answer: "asyncio.Task[e.LiveFrame]") -> None:
        """A refusal is not kept: the next one asks anew."""
        known = self._watched.get(emulator_id)
        if known is None or known.answer is not answer:
            return
        if answer.cancelled() or answer.exception() is not None:
            del self._watched[emulator_id]
        else:
            known.until_s = asyncio.get_running_loop().time() + KEPT_S

    def _forget_oldest(self) -> None:
        while len(self._watched) > EMULATORS_MAX:
            oldest, _ = self._watched.popitem(last=False)
            self._records.pop(oldest, None)
        while len(self._hosts) > EMULATORS_MAX:
            self._hosts.popitem(last=False)

    async def _taken(self, emulator_id: str) -> e.LiveFrame:
        host = await self._host(emulator_id)
        taken = await self._ask(emulator_id, host)
        try:
            content = await run_in_threadpool(self._store.get, names.LIVE_FRAMES, taken.name)
        except MissingArtifactError as error:
            raise e.NoFrameError(f"host {host} keeps its artifacts elsewhere: the frame cannot be read here") from error
        return e.LiveFrame(content, taken)

    async def _host(self, emulator_id: str) -> str:
        now_s = asyncio.get_running_loop().time()
        host, until_s = self._hosts.get(emulator_id, ("", 0.0))
        if now_s > until_s:
            host = (await self._engine.emulator(emulator_id)).host
            self._hosts[emulator_id] = (host, now_s + HOST_KEPT_S)
        if not host:
            raise e.SilentError(f"no host has emulator {emulator_id}")
        return host

    async def _ask(self, emulator_id: str, host: str) -> FrameTaken:
        try:
            async with asking(WAIT_S + WORK_S, worker=True):
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
                    summary=f"a frame of {emulator_id} for people",
                )
                try:
                    return await handle.result()
                finally:
                    await self._tidy(emulator_id, handle.run_id or "")
        except ActivityFailureError as error:
            self._hosts.pop(emulator_id, None)
            raise _refusal(error.cause, host) from error

    async def _tidy(self, emulator_id: str, run_id: str) -> None:
        """Remove the record of the one before, which nobody waits for any more."""
        before = self._records.get(emulator_id, "")
        if run_id and run_id != before:
            self._records[emulator_id] = run_id
            if before:
                with suppress(RPCError):
                    await self._client.workflow_service.delete_activity_execution(
                        DeleteActivityExecutionRequest(
                            namespace=self._client.namespace, activity_id=names.frame_id(emulator_id), run_id=before
                        )
                    )


def _refusal(cause: BaseException, host: str) -> e.EngineError:
    if isinstance(cause, ActivityTimeout) and cause.type in {
        TimeoutType.SCHEDULE_TO_START, TimeoutType.SCHEDULE_TO_CLOSE,
    }:  # fmt: skip
        return e.SilentError(f"no worker of host {host} took the question")
    if isinstance(cause, ApplicationError):
        return e.NoFrameError(cause.message)
    return e.NoFrameError(str(cause) or type(cause).__name__)
