"""The workers of one host: one on the host's own queue, one for boots, one per emulator."""

import asyncio
import contextlib
import logging
import shutil
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from temporalio.client import Client
from temporalio.worker import Worker

from activities.stage import SLOTS
from droidherd.contracts import names
from droidherd.contracts.fleet import FleetTiming, Join
from droidherd.domain.messages import EmulatorStatus, Health
from droidherd.emulator.inventory import Inventory
from droidherd.engine.errors import EngineError
from droidherd.engine.hosts import HostsClient
from droidherd.settings import Settings
from droidherd.worker.activities import HOST_SLOTS, SCRATCH, HostActivities, SharedActivities
from droidherd.worker.shutdown import ShutdownRequest

SYNC_S = 1.0
"""Between two looks at the inventory."""
DISPATCHER_NEED_S = 5
EMULATORS_NEED_S = 5
STRAYS_S = 60
JOIN_AGAIN_S = 2.0
PLAUSIBLE = frozenset({
    EmulatorStatus.RECOVERING, EmulatorStatus.QUARANTINED, EmulatorStatus.DRAINING, EmulatorStatus.STOPPED,
})  # fmt: skip
"""What an emulator may well be that answers every probe."""
TELL_S = 0.3
"""Between the word that a worker leaves and the moment it takes nothing more: time for the word to travel."""
SLACK_S = 10.0

log = logging.getLogger("droidherd.worker")


class WorkerRefusedError(Exception):
    """This worker may not serve: another machine has its host id, or Temporal refuses its settings."""


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker and the task it runs in."""

    worker: Worker
    task: asyncio.Task[None]

    @classmethod
    def start(cls, worker: Worker) -> Self:
        return cls(worker, asyncio.create_task(worker.run()))

    def check(self) -> None:
        """A worker that ended by itself ends the process: its supervisor starts a new one."""
        if self.task.done():
            raise RuntimeError(f"the worker of {self.worker.task_queue} ended") from self.task.exception()

    def abandon(self) -> None:
        """Shut it down without waiting: nothing depends on how it ends."""
        for task in (self.task, asyncio.create_task(self.worker.shutdown())):
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def clear_predecessor(settings: Settings, hosts: HostsClient) -> None:
    """Take away what a worker that was killed left: its caches at Temporal, and its scratch folder."""
    shutil.rmtree(settings.data / SCRATCH, ignore_errors=True)
    emulators = [entry.emulator_id for entry in Inventory(settings.data).entries()]
    await hosts.forget_dead_workers(settings.host.id, emulators)


class HostWorkers:
    """Keeps the host joined, and one worker running for each emulator of its inventory."""

    def __init__(
        self, settings: Settings, client: Client, activities: HostActivities, shared: SharedActivities
    ) -> None:
        """Nothing runs yet."""
        self._settings = settings
        self._client = client
        self._activities = activities
        self._shared = shared
        self._incarnation = int(time.time() * 1000)
        self._stage_threads = ThreadPoolExecutor(thread_name_prefix="stage", max_workers=1024)
        self._emulators: dict[str, RunningWorker] = {}
        self._absent_s = 0.0
        self._runs: dict[str, str] = {}
        """Emulator → the run of its workflow that was there at the last look."""
        self._doubted: dict[str, str] = {}
        """Emulator → what its pool believed at the last look, if that was not `up`."""

    async def serve(self, stop: ShutdownRequest) -> None:
        """Join, then follow the inventory until asked to stop."""
        if not await self._joined_at_last(stop):
            return
        forgetting = asyncio.create_task(self._forget_caches_of_waiting())
        host, boots = RunningWorker.start(self._host_worker()), RunningWorker.start(self._boot_worker())
        seconds = 0
        while not stop.asked.is_set():
            self._sync_workers()
            for running in (host, boots, *self._emulators.values()):
                running.check()
            await stop.wait(SYNC_S)
            seconds += 1
            await self._keep_entities(dispatcher=seconds % DISPATCHER_NEED_S == 0)
            if seconds % EMULATORS_NEED_S == 0:
                await self._keep_emulators(strays=seconds % STRAYS_S == 0)
        forgetting.cancel()
        boots.abandon()
        await self._leave(host, stop)
        self._activities.close()

    def _sync_workers(self) -> None:
        """One worker per emulator of the inventory."""
        wanted = self._listed()
        for emulator_id in sorted(wanted - self._emulators.keys()):
            self._emulators[emulator_id] = RunningWorker.start(self._emulator_worker(emulator_id))
        for emulator_id in sorted(self._emulators.keys() - wanted):
            self._emulators.pop(emulator_id).abandon()

    async def _keep_entities(self, *, dispatcher: bool) -> None:
        """Join again when no presence of this host runs, and start the dispatcher when there is none."""
        self._absent_s = 0.0 if self._activities.fleet.present.is_set() else self._absent_s + SYNC_S
        try:
            if self._absent_s > self._settings.timing.presence_grace_s:
                log.warning("no presence of this host runs: joining again")
                await self._join()
                self._absent_s = 0.0
            if dispatcher:
                await self._shared.queue.keep_running()
        except EngineError as error:
            log.warning("Temporal does not answer: %s", error)

    def _listed(self) -> set[str]:
        return {entry.emulator_id for entry in self._activities.inventory.entries()}

    async def _keep_emulators(self, *, strays: bool) -> None:
        """Tell anew of emulators whose workflow is gone, or another one than before: nobody else would.

        `strays`: also say which emulators have left of which the pool believes that they are here. A host's workflow
        that was terminated knew of them, and the one that followed it does not.
        """
        host, listed = self._settings.host, self._listed()
        try:
            runs = await self._shared.hosts.emulator_runs(sorted(listed))
            page = await self._shared.queue.emulators(host.pool) if strays else None
        except EngineError as error:
            log.warning("Temporal does not answer: %s", error)
            return
        changed = [one for one in sorted(listed) if not runs.get(one) or runs[one] != self._runs.get(one)]
        self._runs = runs
        if changed:
            self._activities.fleet.tell_again(changed)
        if page is not None and not page.rebuilding:
            self._doubt(listed, {row.emulator_id: row.state for row in page.emulators})
        rows = [row for row in page.emulators if row.host == host.id] if page else []
        there = {row.emulator_id for row in rows if row.state != EmulatorStatus.RETIRED}
        self._activities.fleet.disown(sorted(there - listed))

    def _doubt(self, listed: set[str], believed: Mapping[str, str]) -> None:
        """Tell anew of emulators that their pool does not grant: it may have heard from others that they are so.

        Once; and always of those that answer, unless what it believes of them is not against that.
        """
        doubted = {one: believed.get(one, "") for one in sorted(listed) if believed.get(one) != EmulatorStatus.UP}
        known, self._doubted = self._doubted, doubted
        new = [one for one, state in doubted.items() if known.get(one) != state]
        self._activities.fleet.tell_again(new)
        wrong = [one for one, state in doubted.items() if one not in new and state not in PLAUSIBLE]
        self._activities.fleet.tell_again(wrong, only=Health.GOOD)

    async def _forget_caches_of_waiting(self) -> None:
        """Beside the work that goes on at once: only the grants to come depend on it."""
        try:
            await self._shared.hosts.forget_dead_workers_of_waiting()
        except EngineError as error:
            log.warning("caches of waiting tasks were not forgotten: %s", error)

    async def _joined_at_last(self, stop: ShutdownRequest) -> bool:
        """Join, however often it takes: what stands in the way at Temporal is replaced by workers that go on."""
        while not stop.asked.is_set():
            try:
                self._runs = await self._shared.hosts.emulator_runs(self._listed())
                await self._join(first=True)
            except EngineError as error:
                log.warning("host %s cannot join yet, trying again: %s", self._settings.host.id, error)
                await stop.wait(JOIN_AGAIN_S)
            else:
                return True
        return False

    async def _join(self, *, first: bool = False) -> None:
        """Let the host's workflow know this worker. Raises WorkerRefusedError when it serves another one.

        `first`: it is the newest by being started now, whatever the clock says. One that joins again may not be.
        """
        settings, timing = self._settings, self._settings.timing
        join = Join(
            host_id=settings.host.id,
            incarnation=self._incarnation,
            machine=f"{socket.gethostname()}:{settings.data.absolute()}",
            worker=self._activities.worker_name,
            pool=settings.host.pool,
            timing=FleetTiming(presence_timeout_s=timing.presence_timeout_s, presence_grace_s=timing.presence_grace_s),
        )
        joined = await self._shared.hosts.join(join)
        if not joined.accepted and joined.newest and first:
            log.warning("%s; this worker joins beyond that", joined.reason)
            self._incarnation = joined.newest + 1
            joined = await self._shared.hosts.join(join.model_copy(update={"incarnation": self._incarnation}))
        if not joined.accepted:
            raise WorkerRefusedError(joined.reason)
        log.info("joined as %s, incarnation %d", self._activities.worker_name, self._incarnation)

    async def _leave(self, host: RunningWorker, stop: ShutdownRequest) -> None:
        """Take no new stage; let stages end, then stop them at their next boundary; then end the presence."""
        timing, activities = self._settings.timing, self._activities
        activities.stages.leaving.set()
        activities.fleet.leave()
        await asyncio.sleep(TELL_S)
        leaving = [asyncio.create_task(one.worker.shutdown()) for one in (host, *self._emulators.values())]
        stages = leaving[1:]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timing.drain_s):
                await stop.wait_for(stages)
        activities.stages.hurry.set()
        _, hung = await asyncio.wait(stages, timeout=timing.cleanup_s + SLACK_S) if stages else (set(), set())
        for _ in hung:
            log.warning("a stage does not end: it is left behind, and runs again elsewhere")
        activities.fleet.end_presence()
        await asyncio.wait(leaving[:1], timeout=SLACK_S)

    # --- the workers ------------------------------------------------------------------------------------------

    def _host_worker(self) -> Worker:
        activities = self._activities
        return Worker(
            self._client,
            task_queue=names.host_id(self._settings.host.id),
            activities=[*activities.fleet.all(), *activities.frames.all(), *self._shared.maintenance.of_host()],
            activity_executor=activities.threads,
            max_concurrent_activities=HOST_SLOTS,
            graceful_shutdown_timeout=self._longest(),
        )

    def _boot_worker(self) -> Worker:
        """As many emulators boot at once as it has slots; the others wait on its queue, first come, first served."""
        return Worker(
            self._client,
            task_queue=names.boots(self._settings.host.id),
            activities=self._activities.fleet.boots(),
            activity_executor=self._activities.threads,
            max_concurrent_activities=self._settings.controllers.boots_at_once,
            max_concurrent_activity_task_polls=1,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )

    def _emulator_worker(self, emulator_id: str) -> Worker:
        return Worker(
            self._client,
            task_queue=names.emulator_id(emulator_id),
            activities=self._activities.stages.all(),
            activity_executor=self._stage_threads,
            max_concurrent_activities=SLOTS,
            max_concurrent_activity_task_polls=1,
            graceful_shutdown_timeout=self._longest(),
        )

    def _longest(self) -> timedelta:
        """When the SDK cancels what has not ended: after we have given it up ourselves."""
        timing = self._settings.timing
        return timedelta(seconds=timing.drain_s + timing.cleanup_s + 2 * SLACK_S)
