"""What a worker monitors: disks, its memory, holders of leases, accounts, journals, runs that it cannot play."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from droidherd.contracts.queue import LaneView
from droidherd.domain.errors import DroidherdError
from droidherd.domain.fleet.disk_space import ACTOR, DiskSpace, Need, describe
from droidherd.domain.replay import FailedRun, ReplayRecord
from droidherd.domain.retention import TaskRuns
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.journals import JournalFolder
from droidherd.engine.errors import EngineError
from droidherd.processes import resources
from droidherd.telemetry import metrics

VISIBLE_WITHIN = timedelta(minutes=1)
"""How late Temporal's list may be."""

log = logging.getLogger("droidherd.worker")


class PoolLanes(Protocol):
    """The lanes of this host's pool; the one without a name stands for those to come. None, False: no answer."""

    async def lanes(self, pool: str) -> Sequence[LaneView] | None: ...
    async def pause(self, pool: str, actor: str, reason: str) -> bool: ...
    async def resume(self, pool: str, lane: str, actor: str) -> bool: ...


class PoolHolders(Protocol):
    """Those that this host's pool waits for (task → run), and whether they are closed."""

    async def report_closed_holders(self, host: str, seen: Mapping[str, str]) -> dict[str, str]: ...


class HolderMonitor:
    """Looks whether those that the pool waits for are closed, so that its dispatcher needs no timer for that."""

    def __init__(self, holders: PoolHolders, host: str) -> None:
        """`host`: whose leases this worker looks after, beside those that nobody looks after."""
        self._holders = holders
        self._host = host
        self._seen: dict[str, str] = {}

    async def check(self) -> None:
        try:
            self._seen = await self._holders.report_closed_holders(self._host, self._seen)
        except EngineError as error:
            log.warning("whether holders of leases are closed is not known, looking again: %s", error)


class EndedAccounts(Protocol):
    """Accounts whose workflow somebody ended."""

    async def restore_ended(self, since: datetime | None) -> tuple[str, ...]: ...


class AccountMonitor:
    """Starts the workflows of accounts again that somebody ended: what was set for them still holds."""

    def __init__(self, accounts: EndedAccounts) -> None:
        """The first look is for all that were ever ended: nobody may have looked since."""
        self._accounts = accounts
        self._since: datetime | None = None

    async def check(self) -> None:
        began = datetime.now(UTC)
        try:
            restored = await self._accounts.restore_ended(self._since)
        except EngineError as error:
            log.warning("whether workflows of accounts were ended is not known, looking again: %s", error)
            return
        if restored:
            log.warning("somebody ended the workflows of accounts, they are started again: %s", ", ".join(restored))
        self._since = began - VISIBLE_WITHIN


class TaskEnds(Protocol):
    """Tasks that were terminated, and could not write down how they ended."""

    async def write_down_ends(self, given_up: Collection[str]) -> list[str]: ...


class EndMonitor:
    """Has it written down that tasks were terminated: by themselves they are `running` for ever."""

    def __init__(self, ends: TaskEnds) -> None:
        """Nothing is looked at yet."""
        self._ends = ends
        self._given_up: dict[str, None] = {}

    async def check(self) -> None:
        try:
            failed = await self._ends.write_down_ends(self._given_up)
        except EngineError as error:
            log.warning("which tasks were terminated is not known, looking again: %s", error)
        else:
            self._given_up |= dict.fromkeys(failed)


class Replacement(Protocol):
    """What Temporal knows of a run, and its end."""

    async def failures(self, run: FailedRun) -> int | None: ...
    async def replace(self, run: FailedRun) -> None: ...


class ReplayMonitor:
    """Replaces a run that failed too often in a row, here and by Temporal's count; never a whole kind of workflow."""

    def __init__(self, record: ReplayRecord, replacement: Replacement) -> None:
        """`record` hears of each failure from the worker's workflow runner."""
        self._record = record
        self._replacement = replacement
        self._refused: dict[str, None] = {}
        """Runs that were not replaced: said once."""

    async def check(self) -> None:
        stuck = self._record.stuck()
        metrics.unplayable.labels(state="failing").set(len(self._record.failed))
        metrics.unplayable.labels(state="stuck").set(len(stuck))
        self._refused = {run.run_id: None for run in stuck if run.run_id in self._refused}
        for run in stuck:
            try:
                await self._look_after(run)
            except EngineError as error:
                log.warning("%s cannot be looked after, trying again: %s", run.workflow_id, error)

    async def _look_after(self, run: FailedRun) -> None:
        failures = await self._replacement.failures(run)
        if failures is None:
            self._record.forget(run.run_id)
            return
        if not self._record.is_enough(run, failures):
            return  # another worker can play it, or nothing is asked of it
        now_s = time.monotonic()
        why_not = self._record.why_not(run, now_s)
        if why_not:
            if run.run_id not in self._refused:
                self._refused[run.run_id] = None
                log.error("%s %s cannot go on (%s), and stays: %s", run.kind, run.workflow_id, run.error, why_not)
            return
        await self._replacement.replace(run)
        self._record.on_replaced(run, now_s)
        metrics.replaced.labels(workflow=run.kind).inc()


class Foreigners(Protocol):
    """Workflows of others under the ids of ours."""

    async def end(self) -> int: ...


class ForeignMonitor:
    """Has ended what somebody started under the id of a dispatcher, an emulator, a host or an account."""

    def __init__(self, runs: Foreigners) -> None:
        self._runs = runs

    async def check(self) -> None:
        try:
            await self._runs.end()
        except EngineError as error:
            log.warning("whether all services are ours is not known, looking again: %s", error)


class TaskRecords(Protocol):
    """What Temporal has of tasks."""

    async def runs(self, task_ids: Sequence[str]) -> dict[str, TaskRuns]: ...


class JournalMonitor:
    """Removes the journals that nobody needs any more from the emulators of this host."""

    ASKED = 100
    """Tasks that Temporal is asked about in one look at an emulator; the next look goes on with others."""

    def __init__(self, folder: JournalFolder, inventory: Inventory, tasks: TaskRecords) -> None:
        self._folder = folder
        self._inventory = inventory
        self._tasks = tasks
        self._asked: dict[str, dict[str, float]] = {}
        """Emulator → the tasks with old journals there → when Temporal was asked about them; 0: never."""

    async def check(self) -> None:
        """An emulator that does not answer is looked at the next time."""
        listed = {entry.emulator_id for entry in self._inventory.entries()}
        self._asked = {emulator: asked for emulator, asked in self._asked.items() if emulator in listed}
        for emulator_id in sorted(listed):
            try:
                await self._look_at(emulator_id)
            except DroidherdError as error:
                log.info("journals of %s were not looked at: %s", emulator_id, error)
            except EngineError as error:
                log.warning("which journals are still needed is not known, looking again: %s", error)
                return

    async def _look_at(self, emulator_id: str) -> None:
        serial = self._inventory.address(emulator_id)
        journals = await asyncio.to_thread(self._folder.list, serial, emulator_id)
        before = self._asked.get(emulator_id, {})
        asked = {task: before.get(task, 0.0) for task in journals.tasks()}
        now = sorted(asked, key=asked.__getitem__)[: self.ASKED]
        runs = await self._tasks.runs(now)
        self._asked[emulator_id] = {**asked, **dict.fromkeys(now, time.monotonic())}
        removable = journals.removable(runs)
        if removable:
            await asyncio.to_thread(self._folder.remove, serial, emulator_id, removable)
            log.info("removed %d journals from %s", len(removable), emulator_id)


class DiskMonitor:
    """Pauses all lanes of the pool while a disk is too full, and resumes those it paused itself."""

    def __init__(self, need: Need, places: Mapping[str, Path], lanes: PoolLanes, pool: str) -> None:
        """A worker before this one may have paused them, so the first look that finds enough space asks."""
        self._need = need
        self._places = places
        self._lanes = lanes
        self._pool = pool
        self._may_be_paused = True

    async def check(self) -> None:
        """Look once. While a disk is too full, pause again: a lane may be new, or resumed by somebody."""
        spaces = await asyncio.to_thread(resources.disk_spaces, self._places)
        for space in spaces:
            metrics.disk_free.labels(place=space.place).set(space.free_bytes)
        short = self._need.short(spaces)
        if short is not None:
            await self._pause(short)
        elif self._may_be_paused and self._need.ample(spaces):
            await self._resume()

    async def _pause(self, space: DiskSpace) -> None:
        self._may_be_paused = True
        lanes = await self._lanes.lanes(self._pool)
        if lanes is not None and all(lane.paused_by for lane in lanes):
            return
        log.warning("pausing all lanes of pool %s: %s", self._pool, describe(space, self._need.wanted_bytes))
        await self._lanes.pause(self._pool, ACTOR, self._need.reason(space))

    async def _resume(self) -> None:
        lanes = await self._lanes.lanes(self._pool)
        if lanes is None:
            return
        mine = [lane.name for lane in lanes if self._need.mine(lane.paused_by, lane.paused_why)]
        if mine:
            log.warning("there is enough disk space again: resuming %s of pool %s", ", ".join(mine), self._pool)
        done = [await self._lanes.resume(self._pool, name, ACTOR) for name in mine]
        self._may_be_paused = not all(done)


class MemoryMonitor:
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
async def run_monitor(
    every_s: float, check: Callable[[], Awaitable[None]], stop: asyncio.Event, *, at_once: bool = True
) -> AsyncGenerator[None]:
    """Run `check` every so often until `stop` is set. A check that raises sets `stop`, and raises here."""

    async def look() -> None:
        wanted = at_once
        while not stop.is_set():
            if wanted:
                await check()
            wanted = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), every_s)

    monitor = asyncio.create_task(look())
    monitor.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        stop.set()
        await monitor
