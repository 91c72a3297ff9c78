"""What a worker watches over while it works: the room on its disks, and its own memory."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from droidherd import resources
from droidherd.contracts.queue import LaneView
from droidherd.domain.room import ACTOR, Need, Room, said
from droidherd.telemetry import metrics

log = logging.getLogger("droidherd.worker")


class Lanes(Protocol):
    """The lanes of this host's pool; the one without a name stands for those to come. None, False: nobody answered."""

    async def lanes(self, pool: str) -> Sequence[LaneView] | None: ...
    async def pause(self, pool: str, actor: str, reason: str) -> bool: ...
    async def resume(self, pool: str, lane: str, actor: str) -> bool: ...


class DiskSentry:
    """Pauses all lanes of the pool while a disk is too full, and resumes those it paused itself."""

    def __init__(self, need: Need, places: Mapping[str, Path], lanes: Lanes, pool: str) -> None:
        """A worker before this one may have paused them, so the first look with room asks."""
        self._need = need
        self._places = places
        self._lanes = lanes
        self._pool = pool
        self._may_be_paused = True

    async def check(self) -> None:
        """One look. Says the same again as long as it is true: a lane that is new, or resumed, is paused as well."""
        rooms = await asyncio.to_thread(resources.rooms, self._places)
        for room in rooms:
            metrics.disk_free.labels(place=room.place).set(room.free_bytes)
        short = self._need.short(rooms)
        if short is not None:
            await self._pause(short)
        elif self._may_be_paused and self._need.ample(rooms):
            await self._resume()

    async def _pause(self, room: Room) -> None:
        self._may_be_paused = True
        lanes = await self._lanes.lanes(self._pool)
        if lanes is not None and all(lane.paused_by for lane in lanes):
            return
        log.warning("pausing all lanes of pool %s: %s", self._pool, said(room, self._need.wanted_bytes))
        await self._lanes.pause(self._pool, ACTOR, self._need.reason(room))

    async def _resume(self) -> None:
        lanes = await self._lanes.lanes(self._pool)
        if lanes is None:
            return
        mine = [lane.name for lane in lanes if self._need.mine(lane.paused_by, lane.paused_why)]
        if mine:
            log.warning("there is room again: resuming %s of pool %s", ", ".join(mine), self._pool)
        done = [await self._lanes.resume(self._pool, name, ACTOR) for name in mine]
        self._may_be_paused = not all(done)


class MemorySentry:
    """Ends a worker in order before the system does it otherwise."""

    def __init__(self, limit_bytes: int, stop: asyncio.Event) -> None:
        """0: no limit."""
        self._limit_bytes = limit_bytes
        self._stop = stop
        self.exceeded = False

    async def check(self) -> None:
        held = resources.rss_bytes()
        if self.exceeded or not 0 < self._limit_bytes < held:
            return
        log.warning("%.0f MB in use, %.0f allowed: this worker drains and ends", held / 1e6, self._limit_bytes / 1e6)
        self.exceeded = True
        self._stop.set()


@contextlib.asynccontextmanager
async def watched(every_s: float, check: Callable[[], Awaitable[None]], stop: asyncio.Event) -> AsyncGenerator[None]:
    """Looks again and again, until told to stop. A sentry that breaks ends what it watches over, and says why."""

    async def look() -> None:
        while not stop.is_set():
            await check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), every_s)

    sentry = asyncio.create_task(look())
    sentry.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        stop.set()
        await sentry
