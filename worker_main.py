"""The composition root of a worker process: settings → adapters → activities → workers.

python worker_main.py run       serve this host's emulators, and workflows
python worker_main.py verify    replay every recorded history against the workflows of this tree
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from signal import signal as on
from types import FrameType
from typing import Self

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.accounts import AccountBook
from activities.archive import EngineArchive
from activities.engine import EngineActivities
from activities.fleet import FleetActivities
from activities.frames import FrameActivities
from activities.maintenance import MaintenanceActivities, ScheduleError, keep_schedule
from activities.planning import PlanningActivities
from activities.post import PostActivities
from activities.reckoning import ReckoningActivities
from activities.stage import SLOTS, StageActivities
from droidherd import telemetry
from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.cleanup import Keep
from droidherd.connection import NoEngineError, connect
from droidherd.contracts import names
from droidherd.contracts.engine import PoolSettings
from droidherd.contracts.fleet import FleetPhysics, Join
from droidherd.contracts.plan import TaskPhysics
from droidherd.credentials import Book, Keeper
from droidherd.domain.errors import BadParametersError
from droidherd.domain.references import Places
from droidherd.domain.room import Need
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.onlooker import Onlookers, Onlooking
from droidherd.emulator.patrol import Patrol, Post, Round
from droidherd.emulator.probe import assure
from droidherd.emulator.reel import Reel
from droidherd.flows.run import Tempo
from droidherd.live import LiveFrames
from droidherd.offer import catalogue_of
from droidherd.sentry import DiskSentry, MemorySentry, watched
from droidherd.settings import Settings, load
from droidherd.stay import Outfit
from droidherd.tending import care_of, caretaker_of, gatekeeper_of
from droidherd.vision.pixels import encode_jpeg
from droidherd.web.client import Web
from workflows.account import AccountWorkflow
from workflows.dispatcher import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.host import HostWorkflow
from workflows.maintenance import MaintenanceWorkflow
from workflows.occasion import OccasionWorkflow
from workflows.sandbox import PASSED_THROUGH, LeanSandbox
from workflows.task import TaskWorkflow

WORKFLOWS = [
    TaskWorkflow, DispatcherWorkflow, EmulatorWorkflow, HostWorkflow,
    OccasionWorkflow, MaintenanceWorkflow, AccountWorkflow,
]  # fmt: skip
CACHED = {names.QUEUE: 320, names.FLEET_QUEUE: 1000}
"""Workflows a worker keeps in memory. A task that waits is some 0.4 MB there, and a short history to read again."""
DISPATCHER_NEED_S = 5
HOST_ACTIVITIES = 16
"""Gates that may be passed at once, each on a thread that probes cannot have meanwhile."""
TELL_S = 0.3
"""Between the word that a worker leaves and the moment it takes nothing more: time for the word to travel."""
SLACK_S = 10.0
REFUSED = 3
"""Exit code: another machine serves this host id, or the engine refuses our settings."""
AGAIN = 75
"""Exit code: drained, and to be started again."""
MEMORY_CHECK_S = 1.0

log = logging.getLogger("droidherd.worker")


class RefusedError(Exception):
    """Another machine serves this host id, or the engine refuses our settings."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What people and supervisors ask for: to stop, and, when asked twice, not to wait for stages."""

    asked: asyncio.Event
    twice: asyncio.Event

    @classmethod
    def by_signal(cls) -> Self:
        """SIGTERM or SIGINT."""
        stop, loop = cls(asyncio.Event(), asyncio.Event()), asyncio.get_running_loop()

        def told(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe((stop.twice if stop.asked.is_set() else stop.asked).set)

        for name in (SIGTERM, SIGINT):
            on(name, told)  # the loop's own handlers do not exist on Windows
        return stop

    async def ended(self, work: "list[asyncio.Task[None]]") -> None:
        """All of it, or somebody asked twice."""
        if not work:
            return
        hurry = asyncio.create_task(self.twice.wait())
        everything = asyncio.gather(*work, return_exceptions=True)
        await asyncio.wait([hurry, everything], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()


@dataclass(frozen=True, slots=True)
class Running:
    """A worker and the task it runs in."""

    worker: Worker
    task: asyncio.Task[None]

    @classmethod
    def start(cls, worker: Worker) -> Self:
        return cls(worker, asyncio.create_task(worker.run()))

    def check(self) -> None:
        """A worker that ended by itself ends the process: its supervisor starts a whole one."""
        if self.task.done():
            raise RuntimeError(f"the worker of {self.worker.task_queue} ended") from self.task.exception()

    def leave(self) -> None:
        """Its emulator is not ours any more."""
        for task in (self.task, asyncio.create_task(self.worker.shutdown())):
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


@dataclass(frozen=True, slots=True)
class Shared:
    """What all workers of this process work with."""

    engine: EngineActivities
    upkeep: MaintenanceActivities
    book: Book


class HostCrew:
    """The workers of one host: one on its own queue, one per emulator."""

    def __init__(
        self, settings: Settings, client: Client, server: AdbServer, store: DirectoryStore, shared: Shared
    ) -> None:
        """Nothing runs yet."""
        self._upkeep, self._engine = shared.upkeep, shared.engine
        self._settings = settings
        self._client = client
        self._inventory = Inventory(settings.data)
        self._name = f"{settings.host.id}@{socket.gethostname()}:{os.getpid()}"
        self._incarnation = int(time.time() * 1000)
        self._stage_threads = ThreadPoolExecutor(thread_name_prefix="stage", max_workers=1024)
        at_once = settings.adb.connects_at_once + HOST_ACTIVITIES + settings.controllers.boots_at_once
        self._host_threads = ThreadPoolExecutor(thread_name_prefix="host", max_workers=at_once)
        physics = settings.physics
        adb = AdbClient(server.port, connects_at_once=settings.adb.connects_at_once, span=_adb_call)
        catalogue = catalogue_of(settings)
        scratch = settings.data / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)  # of a worker that died
        self._web, tempo = Web.of(settings.web), Tempo(progress_s=physics.progress_s)
        places = settings.credentials
        keeper = Keeper(shared.book, os.environ, Places(places.env_prefix, places.directory))
        cameras, self._reel = Cameras.all_of(adb), Reel(encode_jpeg)
        outfit = Outfit(
            adb, self._inventory, catalogue, store, self._name, keeper, self._web, scratch, tempo,
            cameras=cameras, reel=self._reel, writer=store.writer, recordings=settings.artifacts.recordings,
        )  # fmt: skip
        looking = Onlooking(cameras.glimpse, partial(assure, adb), self._reel, self._inventory.address)
        self._frames = FrameActivities(LiveFrames(Onlookers(looking), store))
        rounds = Round(physics.probe_every_s, physics.probe_timeout_s, physics.down_after_s)
        post = Post(settings.host.id, settings.host.pool, care_of(settings))
        self._stages = StageActivities(outfit, client, asyncio.get_running_loop(), physics.beat_every_s)
        self._fleet = FleetActivities(
            client,
            lambda: Patrol(post, server, self._inventory, rounds, self._host_threads),
            gatekeeper_of(settings, adb, self._inventory, cameras),
            caretaker_of(settings, adb, self._inventory),
        )
        self._running: dict[str, Running] = {}

    async def serve(self, stop: Stop) -> None:
        """Join, then follow the inventory until told to stop."""
        await self._join()
        host, boots = Running.start(self._host_worker()), Running.start(self._boot_worker())
        absent_s, beat = 0.0, 0
        while not stop.asked.is_set():
            self._muster()
            for running in (host, boots, *self._running.values()):
                running.check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.asked.wait(), 1.0)
            beat += 1
            absent_s = 0.0 if self._fleet.present.is_set() else absent_s + 1.0
            try:
                if absent_s > self._settings.physics.presence_grace_s:
                    log.warning("the engine runs no presence of this host: joining again")
                    await self._join()
                    absent_s = 0.0
                if beat % DISPATCHER_NEED_S == 0:
                    await self._engine.keep_dispatcher(self._settings.host.pool)
            except (RPCError, NoEngineError) as error:
                log.warning("the engine does not answer: %s", error)
        boots.leave()
        await self._leave(host, stop)
        self._web.close()
        self._reel.close()

    async def _leave(self, host: Running, stop: Stop) -> None:
        """Nothing new is granted; stages end in peace, then at their next boundary; then the host is gone."""
        physics = self._settings.physics
        self._stages.leaving.set()
        self._fleet.leave()
        await asyncio.sleep(TELL_S)
        leaving = [asyncio.create_task(one.worker.shutdown()) for one in (host, *self._running.values())]
        stages = leaving[1:]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(physics.drain_s):
                await stop.ended(stages)
        self._stages.hurry.set()
        _, hung = await asyncio.wait(stages, timeout=physics.cleanup_s + SLACK_S) if stages else (set(), set())
        for _ in hung:
            log.warning("a stage does not end: it is left behind, and runs again elsewhere")
        self._fleet.gone()
        await asyncio.wait(leaving[:1], timeout=SLACK_S)

    def _host_worker(self) -> Worker:
        return Worker(
            self._client,
            task_queue=names.host_id(self._settings.host.id),
            activities=[*self._fleet.all(), *self._frames.all(), *self._upkeep.of_host()],
            activity_executor=self._host_threads,
            max_concurrent_activities=HOST_ACTIVITIES,
            graceful_shutdown_timeout=self._longest(),
        )

    def _boot_worker(self) -> Worker:
        """So many at once boot as it has slots; the others wait on its queue, first come, first served."""
        at_once = self._settings.controllers.boots_at_once
        return Worker(
            self._client,
            task_queue=names.boots(self._settings.host.id),
            activities=self._fleet.boots(),
            activity_executor=self._host_threads,
            max_concurrent_activities=at_once,
            max_concurrent_activity_task_polls=1,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )

    def _longest(self) -> timedelta:
        """When the SDK cancels what has not ended: after we have given it up ourselves."""
        physics = self._settings.physics
        return timedelta(seconds=physics.drain_s + physics.cleanup_s + 2 * SLACK_S)

    def _muster(self) -> None:
        """One worker per emulator of the inventory."""
        wanted = {entry.emulator_id for entry in self._inventory.known()}
        for emulator_id in sorted(wanted - self._running.keys()):
            self._running[emulator_id] = Running.start(
                Worker(
                    self._client,
                    task_queue=names.emulator_id(emulator_id),
                    activities=self._stages.all(),
                    activity_executor=self._stage_threads,
                    max_concurrent_activities=SLOTS,
                    max_concurrent_activity_task_polls=1,
                    graceful_shutdown_timeout=self._longest(),
                )
            )
        for emulator_id in sorted(self._running.keys() - wanted):
            self._running.pop(emulator_id).leave()

    async def _join(self) -> None:
        """Take the host's place in the engine."""
        settings, physics = self._settings, self._settings.physics
        join = Join(
            host_id=settings.host.id,
            incarnation=self._incarnation,
            machine=f"{socket.gethostname()}:{settings.data.absolute()}",
            worker=self._name,
            pool=settings.host.pool,
            physics=FleetPhysics(
                presence_timeout_s=physics.presence_timeout_s, presence_grace_s=physics.presence_grace_s
            ),
        )
        joined = await self._engine.join(join, timedelta(seconds=physics.workflow_task_s))
        if not joined.accepted:
            raise RefusedError(joined.reason)
        log.info("joined as %s, incarnation %d", self._name, self._incarnation)


def workflow_workers(settings: Settings, client: Client, shared: Shared, threads: ThreadPoolExecutor) -> list[Worker]:
    """What runs workflows, and the activities that answer them.

    Tasks and the fleet each have a worker of their own: a task may wait for its dispatcher's answer, and no number of
    tasks that do may keep the dispatcher from giving it.
    """
    physics = settings.physics
    task_physics = TaskPhysics(
        heartbeat_timeout_s=physics.heartbeat_timeout_s,
        lease_ttl_s=physics.lease_ttl_s,
        cleanup_s=physics.cleanup_s,
        lease_margin_s=physics.lease_margin_s,
        start_grace_s=physics.presence_grace_s,
        startup_lead_s=settings.queue.lead_s,
    )
    planning = PlanningActivities(catalogue_of(settings), task_physics, shared.book)
    carried = [*planning.all(), *PostActivities(client).all(), *ReckoningActivities().all()]
    activities = [*shared.engine.all(), *carried, *shared.upkeep.all()]
    return [
        Worker(
            client,
            task_queue=queue,
            workflows=WORKFLOWS,
            activities=activities,
            activity_executor=threads,
            workflow_runner=LeanSandbox.passing(*PASSED_THROUGH),
            max_cached_workflows=CACHED[queue],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=physics.sticky_s),
            graceful_shutdown_timeout=timedelta(seconds=5),
            # Whoever goes on with a cleanup begins where its last heartbeat said.
            max_heartbeat_throttle_interval=timedelta(seconds=1),
        )
        for queue in names.WORKFLOW_QUEUES
    ]


@contextlib.contextmanager
def _adb_call(operation: str, serial: str) -> Generator[None]:
    """Each call to an emulator is a span and a duration."""
    with telemetry.bound(serial=serial), telemetry.measured("adb", telemetry.metrics.adb_seconds, operation=operation):
        yield


def pool_settings(settings: Settings) -> PoolSettings:
    return PoolSettings(
        **settings.queue.told().model_dump(),
        continue_after=settings.queue.continue_after,
        repeat_min_s=settings.physics.repeat_min_s,
        rebuild_s=settings.physics.rebuild_s,
        fence_s=settings.physics.heartbeat_timeout_s,
    )


def artifact_store(settings: Settings) -> DirectoryStore:
    """The one store of this process, with its one writer."""
    limits = settings.limits
    store = DirectoryStore(
        settings.artifact_directory,
        writer=Writer(limits.writes_at_once, limits.write_wait_s, limits.disk_reserve_bytes),
    )
    if not settings.artifacts.directory:
        store.mark()  # a directory of our own; of another one only who made it knows what it holds
    return store


async def run(settings: Settings, roles: set[str]) -> int:
    """Serve until SIGTERM or SIGINT, or until the memory limit is reached; then drain."""
    try:
        catalogue_of(settings).check_policies()
    except BadParametersError as error:
        raise RefusedError(str(error)) from error
    stop = Stop.by_signal()
    client = await connect(settings.temporal)
    engine = EngineActivities(client, pool_settings(settings))
    if "host" in roles:
        await _wake(settings, engine)  # first of all: what is told to a dead worker's cache waits there
    await engine.configure(settings.host.pool)
    home = settings.data / "adb"
    home.mkdir(parents=True, exist_ok=True)
    threads = ThreadPoolExecutor(thread_name_prefix="plan", max_workers=8)
    server = AdbServer(settings.adb.port, home, settings.adb.program, environment=os.environ)
    store = artifact_store(settings)
    upkeep = MaintenanceActivities(EngineArchive(client), store, Keep.of(settings.retention))
    shared = Shared(engine, upkeep, AccountBook(client, asyncio.get_running_loop()))
    memory = MemorySentry(settings.limits.worker_rss_bytes, stop.asked)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(watched(MEMORY_CHECK_S, memory.check, stop.asked))
        starting: list[Awaitable[object]] = []
        if "workflow" in roles:
            starting.append(_keep_schedule(settings, client))
            for worker in workflow_workers(settings, client, shared, threads):
                await stack.enter_async_context(worker)
        if "host" in roles:
            stack.callback(server.stop)
            starting.append(asyncio.to_thread(server.start))
        await asyncio.gather(*starting)
        gc.freeze()  # what stands now stays: no collection has to look at it, and each of them stops every emulator
        if "host" in roles:
            limits = settings.limits
            need = Need(settings.host.id, limits.disk_free_bytes, limits.disk_margin)
            disks = DiskSentry(need, settings.places, engine, settings.host.pool)
            await stack.enter_async_context(watched(limits.disk_check_s, disks.check, stop.asked))
            # Only now the server knows its port.
            await HostCrew(settings, client, server, store, shared).serve(stop)
        await stop.asked.wait()
    return AGAIN if memory.exceeded else 0


async def _keep_schedule(settings: Settings, client: Client) -> None:
    try:
        await keep_schedule(client, settings.retention.at, settings.retention.time_zone, settings.host.pool)
    except ScheduleError as error:
        raise RefusedError(f"{error}: see `retention.at` and `retention.time_zone`") from error


def _roles(text: str) -> set[str]:
    roles = set(text.split(","))
    if not roles <= {"workflow", "host"}:
        raise argparse.ArgumentTypeError(f"{text!r}: workflow, host, or both with a comma between")
    return roles


async def _wake(settings: Settings, engine: EngineActivities) -> None:
    """Nobody waits for the cache of a worker that was killed."""
    emulators = [entry.emulator_id for entry in Inventory(settings.data).known()]
    infrastructure = [names.host_id(settings.host.id), names.dispatcher_id(settings.host.pool)]
    tasks = await engine.open_tasks_on(emulators)
    await engine.forget_dead_workers([*infrastructure, *map(names.emulator_id, emulators), *tasks])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="worker_main.py", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serve = modes.add_parser("run", help="serve until SIGTERM")
    serve.add_argument("--roles", type=_roles, default="workflow,host", help="workflow, host, or both (default)")
    verify = modes.add_parser("verify", help="replay recorded histories")
    verify.add_argument("paths", nargs="*", type=Path, default=[Path("tests/replay/histories")])
    verify.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(argv)
    if options.mode == "verify":
        from droidherd.testing import replay

        return asyncio.run(replay.verify(options.paths, WORKFLOWS, PASSED_THROUGH, as_json=options.json))
    settings = load()
    telemetry.start_logs(settings.telemetry.log_level)
    telemetry.metrics.vitals.watch("worker", settings.host.id, settings.data)
    traces = telemetry.start_traces(settings.telemetry, service="worker")
    if settings.telemetry.worker_metrics_port:
        telemetry.serve_metrics(settings.telemetry.worker_metrics_port, host=settings.telemetry.worker_metrics_host)
    try:
        return asyncio.run(run(settings, options.roles))
    except RefusedError as error:
        log.error("refused: %s", error)  # noqa: TRY400 - a refusal needs no stack
        return REFUSED
    except NoEngineError as error:
        log.error("%s", error)  # noqa: TRY400
        return 1
    except RPCError as error:
        log.error("the engine at %s does not answer: %s", settings.temporal.address, error)  # noqa: TRY400
        return 1
    finally:
        telemetry.stop_traces(traces)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # an orderly shutdown is behind us; the interpreter's own exit may abort
