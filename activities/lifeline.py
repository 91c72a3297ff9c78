"""The tie between a running stage and the engine: beats whose arrival is known, from a plain thread."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from datetime import timedelta

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts.stage import WROTE
from droidherd.domain.errors import AbandonedError

RPC_S = 2.0
SDK_SHARE = 0.25
"""The part of the heartbeat time-out after which the SDK is told that the activity lives."""
GONE = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT})


class EngineLifeline:
    """A guard's deadline hangs on the last beat the engine confirmed, so beats are awaited, not posted."""

    def __init__(
        self,
        client: Client,
        loop: asyncio.AbstractEventLoop,
        every_s: float,
        patience_s: float,
        ending: tuple[threading.Event, threading.Event],
    ) -> None:
        """For the activity of this thread. `patience_s`: how long the engine may be away before the try is given up.

        `ending`: set when the worker is asked to stop, and when it cannot wait for its stages any longer.
        """
        self._leaving, self._hurry = ending
        self._handle: AsyncActivityHandle = client.get_async_activity_handle(task_token=activity.info().task_token)
        self._loop = loop
        self._every_s = every_s
        self._patience_s = patience_s
        self._confirmed_s = time.monotonic() - 10 * patience_s
        self._sdk_beat_s = time.monotonic()
        self._sdk_beats = False
        self._details: tuple[str, ...] = ()
        self._cancelled = False

    def confirmed_s(self) -> float:
        return self._confirmed_s

    def stopping(self) -> str:
        """A worker that shuts down lets its stages end in peace; when its patience is over it asks them to stop."""
        if self._hurry.is_set():
            return "the worker is shut down"
        return "asked to stop" if self._cancelled or activity.is_cancelled() else ""

    def leaving(self) -> bool:
        return self._leaving.is_set() or activity.is_worker_shutdown()

    def send(self, progress: str = "") -> Callable[[], None]:
        """Post a beat and go on; what is returned waits for its confirmation, or beats again until there is one."""
        sent_s = time.monotonic()
        flying = asyncio.run_coroutine_threadsafe(self._beat(progress), self._loop)

        def confirmed() -> None:
            if self._has_arrived(flying):
                self._note(sent_s, progress)
            else:
                self.beat(progress)

        return confirmed

    def beat(self, progress: str = "") -> None:
        """At most every `every_s`. Blocks while Temporal is away: without it nothing may be done."""
        if time.monotonic() - self._confirmed_s >= self._every_s:
            self._beat_until_confirmed(progress)

    def begin_writing(self) -> None:
        """Let Temporal know, before it is so, that the journal of the stage is written. Every later beat says so too.

        If this worker dies, the task knows by its last beat.
        """
        self._details = (WROTE,)
        if self._sdk_beats:
            activity.heartbeat("writes", *self._details)  # what the SDK still has to send may arrive after our beat
        self._beat_until_confirmed("writes")

    def _beat_until_confirmed(self, progress: str) -> None:
        until_s = time.monotonic() + self._patience_s
        while True:
            sent_s = time.monotonic()
            if self._confirm(progress):
                self._note(sent_s, progress)
                return
            if time.monotonic() > until_s:
                raise AbandonedError("Temporal is away", remedy="the stage runs again when it is back")
            time.sleep(0.1)

    def _note(self, sent_s: float, progress: str) -> None:
        """Confirmed. The SDK knows nothing of our beats and gives up an activity that tells it nothing.

        It sends the first one it is told beside ours, so a short stage tells it none: one write less in the engine.
        """
        self._confirmed_s = sent_s
        if sent_s - self._sdk_beat_s >= self._patience_s * SDK_SHARE:
            self._sdk_beat_s, self._sdk_beats = sent_s, True
            activity.heartbeat(progress, *self._details)

    def _confirm(self, progress: str) -> bool:
        return self._has_arrived(asyncio.run_coroutine_threadsafe(self._beat(progress), self._loop))

    async def _beat(self, progress: str) -> None:
        await self._handle.heartbeat(progress, *self._details, rpc_timeout=timedelta(seconds=RPC_S))

    def _has_arrived(self, flying: "Future[None]") -> bool:
        """Whether the engine has it. Raises when the engine gave the try up."""
        try:
            flying.result(RPC_S + 1.0)
        except AsyncActivityCancelledError:
            self._cancelled = True
        except RPCError as error:
            if error.status in GONE:
                raise AbandonedError("Temporal gave this try up") from error
            return False
        except (NoAnswerError, TimeoutError):
            flying.cancel()
            return False
        return True
