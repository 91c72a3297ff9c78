"""What the activities of a worker are made of: settings → adapters → activities."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from temporalio.client import Client

from activities.engine import EngineActivities
from activities.fleet import FleetActivities, FrameActivities
from activities.maintenance import MaintenanceActivities
from activities.stage import StageActivities
from droidherd import telemetry
from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.artifacts.cleanup import RetentionLimits
from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.credentials import AccountReader, CredentialStore
from droidherd.domain.retention import Retention
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.journals import JournalFolder
from droidherd.emulator.probe import assure
from droidherd.emulator.probe_loop import ProbedHost, ProbeLoop, ProbeTiming
from droidherd.emulator.viewers import LiveFrames, ViewerPorts, Viewers
from droidherd.engine.accounts import CachedAccounts
from droidherd.engine.archive import TaskArchive
from droidherd.engine.connection import EngineConfig
from droidherd.engine.hosts import HostsClient
from droidherd.engine.queue import QueueClient
from droidherd.evidence.frame_buffer import FrameBuffer
from droidherd.flows.catalogue import catalogue_of
from droidherd.flows.run.context import Tempo
from droidherd.recovery.build import gatekeeper_of, recovery_of, recovery_policy_of
from droidherd.settings import RetentionSettings, Settings
from droidherd.stage.context import StageServices
from droidherd.vision.pixels import encode_jpeg
from droidherd.web.client import WebClient

SCRATCH = "scratch"
"""The folder below the data in which stages put down what lasts as long as they do."""
ANSWER_S = 5.0
"""How long a worker waits for a dispatcher: longer than a person in front of the API."""
HOST_SLOTS = 16
"""Activities of the host that run at once: each gate has a thread that probes cannot take."""


@dataclass(frozen=True, slots=True)
class SharedActivities:
    """What workflow workers and host workers of one process share."""

    engine: EngineActivities
    maintenance: MaintenanceActivities
    accounts: AccountReader
    queue: QueueClient
    hosts: HostsClient

    @classmethod
    def build(cls, settings: Settings, client: Client, store: DirectoryStore) -> Self:
        config = replace(EngineConfig.of(settings), answer_s=ANSWER_S)
        return cls(
            EngineActivities(client, config.settings),
            MaintenanceActivities(TaskArchive(client), store, retention_limits(settings.retention)),
            CachedAccounts(client, asyncio.get_running_loop()),
            QueueClient(client, config),
            HostsClient(client, config),
        )


@dataclass(frozen=True, slots=True)
class HostActivities:
    """The activities of one host, with what they hold."""

    stages: StageActivities
    fleet: FleetActivities
    frames: FrameActivities
    inventory: Inventory
    journals: JournalFolder
    worker_name: str
    threads: ThreadPoolExecutor
    """For everything but stages."""
    web: WebClient
    frame_buffer: FrameBuffer

    @classmethod
    def build(
        cls,
        settings: Settings,
        client: Client,
        server: AdbServer,
        store: DirectoryStore,
        credentials: CredentialStore,
    ) -> Self:
        """The adb server must run already: only then it knows its port."""
        timing, inventory = settings.timing, Inventory(settings.data)
        worker_name = f"{settings.host.id}@{socket.gethostname()}:{os.getpid()}"
        at_once = settings.adb.connects_at_once + HOST_SLOTS + settings.controllers.boots_at_once
        threads = ThreadPoolExecutor(thread_name_prefix="host", max_workers=at_once)
        adb = AdbClient(server.port, connects_at_once=settings.adb.connects_at_once, span=_adb_call)
        web, frame_buffer = WebClient.of(settings.web), FrameBuffer(encode_jpeg)
        cameras = Cameras.all_of(adb, settings.data)
        services = StageServices(
            adb,
            inventory,
            catalogue_of(settings),
            store,
            worker_name,
            credentials,
            web,
            settings.data / SCRATCH,
            Tempo(progress_s=timing.progress_s),
            cameras=cameras,
            frame_buffer=frame_buffer,
            writer=store.writer,
            recordings=settings.artifacts.recordings,
        )
        viewers = Viewers(ViewerPorts(cameras.glimpse, partial(assure, adb), frame_buffer, inventory.address))
        probed = ProbedHost(settings.host.id, settings.host.pool, recovery_policy_of(settings))
        rounds = ProbeTiming(timing.probe_every_s, timing.probe_timeout_s, timing.down_after_s)
        fleet = FleetActivities(
            client,
            lambda: ProbeLoop(probed, server, inventory, rounds, threads),
            gatekeeper_of(settings, adb, inventory, cameras),
            recovery_of(settings, adb, inventory),
        )
        stages = StageActivities(services, client, asyncio.get_running_loop(), timing.beat_every_s)
        frames = FrameActivities(LiveFrames(viewers, store))
        return cls(stages, fleet, frames, inventory, JournalFolder(adb), worker_name, threads, web, frame_buffer)

    def close(self) -> None:
        self.web.close()
        self.frame_buffer.close()


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


def retention_limits(settings: RetentionSettings) -> RetentionLimits:
    retention = Retention(settings.completed_days, settings.failed_days, settings.rejected_days)
    return RetentionLimits(retention, settings.orphan_days, settings.artifacts_max_bytes)


@contextlib.contextmanager
def _adb_call(operation: str, serial: str) -> Generator[None]:
    """Each call to an emulator is a span and a duration."""
    with telemetry.bound(serial=serial), telemetry.measured("adb", telemetry.metrics.adb_seconds, operation=operation):
        yield
