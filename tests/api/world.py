"""An API to try: the real engine, the real workflows and the real server; only the hands on the emulators are ours."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import uvicorn
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.catchup import CatchUpActivities
from activities.delivery import DeliveryActivities
from activities.engine import EngineActivities
from activities.maintenance import MaintenanceActivities
from activities.planning import PlanningActivities
from api.app import create_app
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorInput, FrameTaken, FrameWork, GateResult, GateWork
from droidherd.contracts.plan import TaskTiming
from droidherd.contracts.stage import StageFailure, StageOutcome, StageReport, StageWork
from droidherd.domain.errors import Verdict
from droidherd.domain.ids import LIVE_FRAMES
from droidherd.domain.messages import Health, Seen
from droidherd.engine.accounts import CachedAccounts
from droidherd.engine.archive import TaskArchive
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import QueueClient
from droidherd.engine.tracing import TracingInterceptor
from droidherd.flows.catalogue import Catalogue
from droidherd.settings import Api, ArtifactSettings, CredentialSettings, Host, PolicySettings, Settings, Temporal
from droidherd.worker.activities import retention_limits
from droidherd.worker.resource_monitor import HolderMonitor, run_monitor
from tests.support.serving import serving
from tests.support.spans import remember_spans
from workflows.account import AccountWorkflow
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner
from workflows.maintenance import MaintenanceWorkflow
from workflows.subscription_run import SubscriptionRunWorkflow
from workflows.task.workflow import TaskWorkflow

T = TypeVar("T")
EMULATORS = ("e1", "e2", "e3")
POOL = "default"
HOST = "h1"
GOOD_AT_MS = 1_763_610_000_000
PATIENCE_S = 20.0
"""How long the API waits for workers that are there: on a busy machine they answer late, and not never."""
IN_TESTS: Mapping[str, Any] = MappingProxyType({"credentials": CredentialSettings(directory="/run/secrets")})
EVERYTHING_ELSE: Mapping[str, Any] = MappingProxyType({})
"""As it is by default."""


@dataclass
class Hands:
    """Stands in for what touches an emulator. An account in `held` keeps its stage busy; one in `broken` fails it."""

    store: DirectoryStore
    held: set[str] = field(default_factory=set[str])
    broken: set[str] = field(default_factory=set[str])
    stumbling: set[str] = field(default_factory=set[str])
    """Of these, a stage fails in a way that is worth another attempt."""
    deaf: set[str] = field(default_factory=set[str])
    """Of these, a stage that is to stop goes on for a while."""

    @activity.defn(name="run_stage")
    async def run_stage(self, work: StageWork) -> StageReport:
        if work.account in self.stumbling:
            failure = StageFailure(verdict=Verdict.RETRYABLE, message="not now")
            raise ApplicationError("not now", failure, type="NoAnswerError", non_retryable=True)
        if work.account in self.broken:
            raise ApplicationError("the app said no", type="FlowError", non_retryable=True)
        try:
            while work.account in self.held:
                activity.heartbeat()
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            while work.account in self.deaf:  # noqa: ASYNC110 (the test's thread changes it)
                await asyncio.sleep(0.05)
            return StageReport(outcome=StageOutcome.STOPPED, worker="hands", released=True)
        self.store.put(work.task_id, f"log-{work.key.attempt}-{work.stage_index}.jsonl", b'{"event": "tapped"}\n')
        return StageReport(outcome=StageOutcome.COMPLETED, worker="hands", released=True)

    @activity.defn(name="take_frame")
    async def take_frame(self, work: FrameWork) -> FrameTaken:
        name = f"{work.emulator_id}.jpg"
        self.store.put(LIVE_FRAMES, name, b"\xff\xd8\xff\xd9", synced=False)
        return FrameTaken(name=name, taken_at=datetime.now(UTC), width=1, height=1, size=4, by="viewers")


@activity.defn(name="pass_gate")
async def pass_gate(work: GateWork) -> GateResult:
    return GateResult(passed=True, boot=work.boot)


class World:
    """Everything in one thread with a loop of its own, so that tests are plain functions."""

    def __init__(
        self, address: str, namespace: str, data: Path, groups: Mapping[str, Any] = EVERYTHING_ELSE, **api: Any
    ) -> None:
        """`groups` are other groups of settings, `api` fields of that group."""
        self.settings = Settings(
            **{**IN_TESTS, **groups},
            data=data,
            temporal=Temporal(address=address, namespace=namespace, embedded=False),
            api=Api(port=0, **api),
            host=Host(pool=POOL),
            artifacts=ArtifactSettings(directory=str(data / "artifacts")),
            policies={"long_walk": PolicySettings(retries=7)},
        )
        self.store = DirectoryStore(self.settings.artifact_directory)
        self.hands = Hands(self.store)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self._workers = AsyncExitStack()
        self.url = ""
        self._seen = 0
        self._hasty_s = self.settings.api.admission_s, self.settings.api.answer_s
        self._configs: list[object] = []
        self.alone = False
        """No engine is there: only the API runs."""

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stack.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    async def _start(self) -> None:
        remember_spans()
        self.client = await Client.connect(
            self.settings.temporal.address,
            namespace=self.settings.temporal.namespace,
            data_converter=pydantic_data_converter,
            interceptors=[TracingInterceptor()],
            lazy=self.alone,
        )
        self._stack.push_async_callback(self._workers.aclose)
        self.url = await self._serve()

    async def _serve(self) -> str:
        # The protocol is named: asyncio turns Nagle's delay off only for sockets that say they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        app = self.app = create_app(self.settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        self._configs = [app.state.droidherd.queue._config, self.settings.api]

        async def stop() -> None:
            server.should_exit = True
            await asyncio.wait_for(serving, 20)
            listener.close()

        self._stack.push_async_callback(stop)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    @contextmanager
    def holding(self, account: str) -> Generator[None]:
        """Within, a stage for this account does not end."""
        self.hands.held.add(account)
        try:
            yield
        finally:
            self.hands.held.discard(account)

    @contextmanager
    def having(self, accounts: set[str], account: str) -> Generator[None]:
        """Within, one of the sets of `hands` has this account."""
        accounts.add(account)
        try:
            yield
        finally:
            accounts.discard(account)

    @contextmanager
    def waits_at_most(self, most: int) -> Generator[None]:
        """Within, only so many streams and waits may be open."""
        waits = self.app.state.droidherd.waits
        before, waits._most = waits._most, most
        try:
            yield
        finally:
            waits._most = before

    @contextmanager
    def breaking(self, account: str) -> Generator[None]:
        """Within, a stage for this account fails."""
        self.hands.broken.add(account)
        try:
            yield
        finally:
            self.hands.broken.discard(account)

    # --- workers --------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Start the workers, and announce the emulators. From now on the API waits for them, however late they are."""
        self._waits(PATIENCE_S, PATIENCE_S)
        self.run(self._work())

    def rest(self) -> None:
        """Stop the workers: the engine stays."""
        self.run(self._workers.aclose())
        self._waits(*self._hasty_s)
        self._workers = AsyncExitStack()
        self._stack.push_async_callback(self._workers.aclose)

    @contextmanager
    def hasty(self) -> Generator[None]:
        """Within, it does not wait long for one who never answers."""
        self._waits(*self._hasty_s)
        try:
            yield
        finally:
            self._waits(PATIENCE_S, PATIENCE_S)

    def _waits(self, admission_s: float, answer_s: float) -> None:
        """From now on the API waits so long for a worker, before it calls it silent."""
        for config in self._configs:
            object.__setattr__(config, "admission_s", admission_s)
            object.__setattr__(config, "answer_s", answer_s)

    async def _work(self) -> None:

        async def enter(worker: Worker) -> None:
            await self._workers.enter_async_context(serving(worker))

        threads = self._workers.enter_context(ThreadPoolExecutor(4))
        accounts = CachedAccounts(self.client, self.loop, cached_s=0.0)  # no test waits until a record is forgotten
        planning = PlanningActivities(Catalogue(), TaskTiming(heartbeat_timeout_s=60, start_grace_s=1), accounts)
        engine = EngineActivities(self.client, self.settings.pool_settings.model_copy(update={"fence_s": 0.2}))
        carried = [*DeliveryActivities(self.client).all()]
        maintenance = MaintenanceActivities(
            TaskArchive(self.client), self.store, retention_limits(self.settings.retention)
        )
        activities = [*engine.all(), *carried, *planning.all(), *CatchUpActivities().all(), *maintenance.all()]
        await enter(Worker(self.client, task_queue=names.host_id(HOST), activities=[pass_gate, self.hands.take_frame]))
        for emulator_id in EMULATORS:
            await enter(
                Worker(
                    self.client,
                    task_queue=names.emulator_id(emulator_id),
                    activities=[self.hands.run_stage],
                    max_concurrent_activities=1,
                    max_heartbeat_throttle_interval=timedelta(milliseconds=100),
                    default_heartbeat_throttle_interval=timedelta(milliseconds=100),
                )
            )
            await self._announce(emulator_id)
        # Those that start last stop first: what becomes of a stage when its worker stops, no workflow sees.
        for queue in names.WORKFLOW_QUEUES:
            await enter(
                Worker(
                    self.client,
                    task_queue=queue,
                    workflows=[
                        TaskWorkflow,
                        DispatcherWorkflow,
                        EmulatorWorkflow,
                        SubscriptionRunWorkflow,
                        MaintenanceWorkflow,
                        AccountWorkflow,
                    ],
                    activities=activities,
                    activity_executor=threads,
                    workflow_runner=GuardedRunner(),
                    sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
                )
            )
        holders = HolderMonitor(QueueClient(self.client, EngineConfig(pool=POOL)), HOST)
        await self._workers.enter_async_context(run_monitor(1.0, holders.check, asyncio.Event()))

    async def _announce(self, emulator_id: str) -> None:
        """As a host would: what its probe saw."""
        self._seen += 1
        labels = (f"emulator_id={emulator_id}",)
        seen = Seen(
            emulator_id,
            HOST,
            1,
            self._seen,
            Health.GOOD,
            "boot-1",
            "127.0.0.1:16384",
            "s-1",
            labels,
            POOL,
            good_at_ms=GOOD_AT_MS,
        )
        await self.client.start_workflow(
            names.Workflow.EMULATOR.value,
            EmulatorInput(emulator_id=emulator_id),
            id=names.emulator_id(emulator_id),
            task_queue=names.FLEET_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="seen",
            start_signal_args=[seen],
        )
