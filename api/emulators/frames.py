"""Frames of emulators for viewers, shared by all requests that arrive at the same time."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.contracts.fleet import FrameTaken
from droidherd.domain import ids
from droidherd.engine.emulators import EmulatorsClient
from droidherd.engine.errors import EngineError, NoFrameError, NoWorkerError

KEPT_S = 0.5
"""A frame serves every request that arrives within so long."""
HOST_KEPT_S = 10.0
EMULATORS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class FrameImage:
    """What an emulator showed a moment ago."""

    content: bytes
    """JPEG."""
    taken: FrameTaken


@dataclass(slots=True)
class _Request:
    """A frame that is being taken, or was taken a moment ago."""

    answer: "asyncio.Task[FrameImage]"
    until_s: float


class LatestFrames:
    """The latest frame of each emulator that is watched."""

    def __init__(self, emulators: EmulatorsClient, store: DirectoryStore) -> None:
        """The store is the one that the worker writes to."""
        self._emulators = emulators
        self._store = store
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        self._hosts: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def of(self, emulator_id: str) -> FrameImage:
        """Raises an EngineError when there is none."""
        now_s = asyncio.get_running_loop().time()
        known = self._requests.get(emulator_id)
        if known is None or (known.answer.done() and now_s > known.until_s):
            known = _Request(asyncio.ensure_future(self._take(emulator_id)), now_s + KEPT_S)
            known.answer.add_done_callback(lambda done: self._answered(emulator_id, done))
            self._requests[emulator_id] = known
            self._forget_oldest()
        # Shielded: a client that gives up must not cancel the frame for the others who wait for it.
        return await asyncio.shield(known.answer)

    def _answered(self, emulator_id: str, answer: "asyncio.Task[FrameImage]") -> None:
        """A refusal is not kept: the next request asks again."""
        known = self._requests.get(emulator_id)
        if known is None or known.answer is not answer:
            return
        if answer.cancelled() or answer.exception() is not None:
            del self._requests[emulator_id]
        else:
            known.until_s = asyncio.get_running_loop().time() + KEPT_S

    def _forget_oldest(self) -> None:
        for known in (self._requests, self._hosts):
            while len(known) > EMULATORS_MAX:
                known.popitem(last=False)

    async def _take(self, emulator_id: str) -> FrameImage:
        host = await self._host(emulator_id)
        try:
            taken = await self._emulators.take_frame(emulator_id, host)
            content = await run_in_threadpool(self._store.get, ids.LIVE_FRAMES, taken.name)
        except EngineError:
            self._hosts.pop(emulator_id, None)
            raise
        except MissingArtifactError as error:
            raise NoFrameError(f"host {host} keeps its artifacts elsewhere: the frame cannot be read here") from error
        return FrameImage(content, taken)

    async def _host(self, emulator_id: str) -> str:
        now_s = asyncio.get_running_loop().time()
        host, until_s = self._hosts.get(emulator_id, ("", 0.0))
        if now_s > until_s:
            host = (await self._emulators.view(emulator_id)).host
            self._hosts[emulator_id] = (host, now_s + HOST_KEPT_S)
        if not host:
            raise NoWorkerError(f"no host has emulator {emulator_id}")
        return host
