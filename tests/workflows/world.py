"""A pool on a real engine: the product's workflows and questions to the engine; only the hands are stand-ins."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from activities.catchup import CatchUpActivities
from activities.delivery import DeliveryActivities
from activities.engine import EngineActivities
from activities.maintenance import MaintenanceActivities
from droidherd.artifacts.cleanup import RetentionLimits
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts import names
from droidherd.contracts.engine import PoolSettings
from droidherd.contracts.fleet import (
    EmulatorControl,
    EmulatorInput,
    EmulatorView,
    FleetTiming,
    Join,
    Joined,
)
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.contracts.plan import TaskTiming
from droidherd.contracts.queue import (
    CommandResult,
    DispatcherInput,
    EmulatorsPage,
    OperatorCommand,
    QueuePage,
    QueuePosition,
    QueueQuery,
)
from droidherd.contracts.tasks import (
    Admission,
    Control,
    OperatorRequest,
    Rerun,
    Rollback,
    TaskInput,
    TaskSpec,
    TaskView,
)
from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.messages import Health, RecoveryPolicy, Seen
from droidherd.domain.replay import ReplayRecord
from droidherd.domain.retention import Retention
from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from droidherd.engine.archive import TaskArchive
from droidherd.engine.connection import EngineConfig
from droidherd.engine.hosts import HostsClient
from droidherd.engine.queue import QueueClient
from droidherd.engine.replacement import RunReplacement
from droidherd.testing.skipping import until
from droidherd.worker.resource_monitor import HolderMonitor, ReplayMonitor, run_monitor
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.support.serving import serving
from tests.workflows.plays import BEAT_S, Gates, Planner, Play, Recoveries, Stages
from tests.workflows.presence import Presence
from tests.workflows.timing import FLEET_TIMING, TASK_TIMING
from workflows.guard import GuardedRunner, give_time

POOL = PoolSettings(capacities={"account": 10, "anonymous": 10}, rebuild_s=3.0, fence_s=0.5, repeat_min_s=60.0)
HOLDERS_CHECK_S = 0.3


@dataclass(frozen=True)
class CleanupSetup:
    """What a cleanup removes: everything that has ended, at once."""

    keep: RetentionLimits = RetentionLimits(Retention(0.0, 0.0, 0.0), orphan_days=0.0)  # noqa: RUF009 (it is frozen)
    archive: Callable[[Client], TaskArchive] = TaskArchive


CLEANUP_SETUP = CleanupSetup()


@dataclass
class World:
    """Everything a test or a recording asks for."""

    client: Client
    stack: AsyncExitStack
    stages: Stages
    gates: Gates
    presence: Presence
    planner: Planner
    maintenance: MaintenanceActivities
    store: DirectoryStore
    host: str = "h1"
    pool: str = "default"
    emulator_workers: dict[str, Worker] = field(default_factory=dict)
    host_worker: Worker | None = None
    recoveries: Recoveries = field(default_factory=Recoveries)
    fleet: FleetTiming = FLEET_TIMING
    incarnation: int = 1
    """Of the worker that joined last."""
    _boots: list[str] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    # --- processes --------------------------------------------------------------------------------------------

    async def serve_host(self, host: str = "") -> None:
        worker = Worker(
            self.client,
            task_queue=names.host_id(host or self.host),
            activities=[
                self.presence.presence,
                self.gates.pass_gate,
                self.recoveries.recover,
                *self.maintenance.of_host(),
            ],
            max_heartbeat_throttle_interval=timedelta(seconds=BEAT_S),
        )
        self.host_worker = await self.stack.enter_async_context(serving(worker))
        if (queue := names.boots(host or self.host)) in self._boots:
            return  # the client carries one worker per queue
        self._boots.append(queue)
        boots = Worker(
            self.client,
            task_queue=queue,
            activities=[self.recoveries.recover],
            max_concurrent_activities=1,
            max_heartbeat_throttle_interval=timedelta(seconds=BEAT_S),
        )
        await self.stack.enter_async_context(serving(boots))

    async def serve(self, emulator: str) -> None:
        """A single-slot worker on the emulator's queue."""
        worker = Worker(
            self.client,
            task_queue=names.emulator_id(emulator),
            activities=self.stages.all(),
            max_concurrent_activities=1,
            max_heartbeat_throttle_interval=timedelta(seconds=BEAT_S),
        )
        self.emulator_workers[emulator] = await self.stack.enter_async_context(serving(worker))

    # --- the fleet --------------------------------------------------------------------------------------------

    async def join(self, incarnation: int = 1, machine: str = "m1", host: str = "") -> Joined:
        """As a worker process does when it starts."""
        host = host or self.host
        join = Join(
            host_id=host,
            incarnation=incarnation,
            machine=machine,
            worker=f"w{incarnation}@{machine}",
            pool=self.pool,
            timing=self.fleet,
        )
        joined = await HostsClient(self.client, EngineConfig()).join(join)
        self.incarnation = max(self.incarnation, incarnation)
        return joined

    async def register(self, emulator: str) -> None:
        """Start its workflow before a host sees it, with the times of tests."""
        start = EmulatorInput(emulator_id=emulator, timing=self.fleet)
        await self.client.start_workflow(
            names.Workflow.EMULATOR, start, id=names.emulator_id(emulator), task_queue=names.FLEET_QUEUE
        )

    def owns(self, *emulators: str) -> None:
        """What the next presence reports."""
        for number, emulator in enumerate(emulators, 1):
            self.presence.last_seen[emulator] = Seen(
                emulator_id=emulator,
                host_id=self.host,
                incarnation=1,
                seq=0,
                health=Health.GOOD,
                boot=f"boot-{emulator}-1",
                address=f"127.0.0.1:{20000 + 2 * number}",
                serialno=f"serial-{emulator}",
                labels=(f"emulator_id={emulator}", "android=14"),
                pool=self.pool,
            )

    def allow_recovery(self, **recovery: Any) -> None:
        """What the host says from now on that it can do for its emulators."""
        policy = replace(RecoveryPolicy(controller="virtual", reconnect_s=0.1, backoff_s=0.1), **recovery)
        for emulator, seen in self.presence.last_seen.items():
            self.presence.last_seen[emulator] = replace(seen, recovery=policy)

    async def control_emulator(self, emulator: str, action: str, reason: str = "") -> CommandResult:
        """What a person orders for an emulator."""
        order = EmulatorControl.model_validate({"action": action, "actor": "anna", "reason": reason})
        return await self.emulator(emulator).execute_update(names.Update.CONTROL, order, result_type=CommandResult)

    async def sees(self, emulator: str, health: Health, *, boot: str = "", incarnation: int = 0) -> None:
        """A probe's news, as the running presence would tell them."""
        seen = replace(self.presence.last_seen[emulator], health=health)
        self.presence.last_seen[emulator] = replace(seen, boot=boot or seen.boot)
        await self.presence.tell(incarnation or self.incarnation, self.presence.last_seen[emulator])

    async def emulator_is(self, emulator: str, *states: str) -> EmulatorView:
        """As the pool sees it."""

        async def there() -> EmulatorView | None:
            page = await self.dispatcher().query(names.Query.EMULATORS, result_type=EmulatorsPage)
            return next((e for e in page.emulators if e.emulator_id == emulator and e.state in states), None)

        return await until(there, f"{emulator} to be {states}")

    def emulator(self, emulator: str) -> "WorkflowHandle[Any, Any]":
        return self.client.get_workflow_handle(names.emulator_id(emulator))

    async def details(self, workflow_id: str) -> str:
        """What the Web UI shows as current."""
        handle = self.client.get_workflow_handle(workflow_id)
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return metadata.current_details

    # --- the pool ---------------------------------------------------------------------------------------------

    def dispatcher(self) -> "WorkflowHandle[Any, Any]":
        return self.client.get_workflow_handle(names.dispatcher_id(self.pool))

    async def loses_its_dispatcher(self) -> None:
        """All its runs are deleted, so that nobody can ask them."""
        dispatcher = self.dispatcher()
        request = DeleteWorkflowExecutionRequest(
            namespace=self.client.namespace, workflow_execution=WorkflowExecution(workflow_id=dispatcher.id)
        )
        await self.client.workflow_service.delete_workflow_execution(request)

        async def gone() -> bool | None:
            try:
                await dispatcher.describe()
            except RPCError as error:
                return True if error.status is RPCStatusCode.NOT_FOUND else None
            return None

        await until(gone, "the dispatcher to be deleted")

    async def takes_over(self, message: m.Enqueue) -> None:
        """A dispatcher begins, and this is the first that it hears."""
        await self.client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool=self.pool),
            id=self.dispatcher().id,
            task_queue=names.FLEET_QUEUE,
            start_signal="enqueue",
            start_signal_args=[message],
        )

    async def is_prioritized(self, task_id: str) -> None:
        """By the task's own word, and by its dispatcher's."""

        async def both_say() -> bool | None:
            place = await self.dispatcher().query(names.Query.PLACE, task_id, result_type=QueuePosition)
            return (place.prioritized > 0 and (await self.view(task_id)).prioritized > 0) or None

        await until(both_say, f"{task_id} to be prioritized")

    async def is_granted(self, task_id: str, emulator: str) -> None:
        """By somebody who knows only what the task said when it came."""
        asked = await self.asked_at_first(task_id)
        now_ms = int(time.time() * 1000)
        lease = m.Lease(now_ms, emulator, self.host, now_ms + 60_000)
        await self.task(task_id).signal("grant", m.Grant(asked.key, 7, lease, now_ms + 3_600_000))

    async def is_preferred(self, task_id: str) -> None:
        """By somebody who heard only what the task said when it came, and prioritizes it by 9."""
        asked = await self.asked_at_first(task_id)
        await self.task(task_id).signal("admitted", m.Admitted(asked.key, asked.seq, -9, 1, 60.0, priority=1))

    async def asked_at_first(self, task_id: str) -> m.Enqueue:
        """What a task of one stage says first. On its way it may be overtaken."""
        run = (await self.task(task_id).describe()).run_id
        return m.Enqueue(m.Key(task_id, run or "", 1), 1, "anonymous", "check")

    async def order(self, update: str, **order: Any) -> CommandResult:
        return await self.dispatcher().execute_update(update, OperatorCommand(**order), result_type=CommandResult)

    async def queue(self, **query: Any) -> QueuePage:
        return await self.dispatcher().query(names.Query.QUEUE, QueueQuery(**query), result_type=QueuePage)

    async def idle(self) -> None:
        """Nobody waits, nobody runs, nothing is to be reset."""

        async def empty() -> bool | None:
            page = await self.queue()
            return True if not page.waiting and not page.running and page.free == page.emulators else None

        await until(empty, "the pool to be idle")

    # --- cleanups ---------------------------------------------------------------------------------------------

    async def start_cleanup(
        self, workflow_id: str = f"{names.MAINTENANCE}/by-hand", **request: Any
    ) -> "WorkflowHandle[Any, CleanupReport]":
        return await self.client.start_workflow(
            names.Workflow.MAINTENANCE,
            CleanupInput(**request),
            id=workflow_id,
            task_queue=names.FLEET_QUEUE,
            result_type=CleanupReport,
        )

    async def clean_up(self, workflow_id: str = f"{names.MAINTENANCE}/by-hand", **request: Any) -> CleanupReport:
        return await (await self.start_cleanup(workflow_id, **request)).result()

    async def known(self, task_id: str) -> bool:
        """Whether the engine knows such a task, in whatever run."""
        try:
            await self.task(task_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def listed(self, *task_ids: str) -> None:
        """Wait until lists show these as closed: they lag behind."""

        async def there() -> bool | None:
            query = "WorkflowType = 'TaskWorkflow' AND ExecutionStatus != 'Running'"
            found = {run.id async for run in self.client.list_workflows(query)}
            return True if set(task_ids) <= found else None

        await until(there, f"{task_ids} to be listed as closed")

    # --- tasks ------------------------------------------------------------------------------------------------

    async def submit(
        self, task_id: str, *plays: Play, type_: str = "sample", **spec: Any
    ) -> "WorkflowHandle[Any, Any]":
        if plays:
            self.stages.plays[task_id] = list(plays)
        return await self.client.start_workflow(
            names.Workflow.TASK,
            TaskInput(spec=TaskSpec(type=type_, pool=self.pool, **spec)),
            id=task_id,
            task_queue=names.QUEUE,
            static_summary=f"{type_} {task_id}",
        )

    async def submit_and_wait(self, task_id: str, **spec: Any) -> Admission:
        """As the API does: the question what became of it travels with the start, so that no end can outrun it."""
        start = WithStartWorkflowOperation(
            names.Workflow.TASK,
            TaskInput(spec=TaskSpec(type="sample", pool=self.pool, **spec)),
            id=task_id,
            task_queue=names.QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        return await self.client.execute_update_with_start_workflow(
            names.Update.ADMISSION, start_workflow_operation=start, result_type=Admission
        )

    def task(self, task_id: str) -> "WorkflowHandle[Any, Any]":
        return self.client.get_workflow_handle(task_id)

    async def view(self, task_id: str) -> TaskView:
        return await self.task(task_id).query(names.Query.VIEW, result_type=TaskView)

    async def admission(self, task_id: str) -> Admission:
        return await self.task(task_id).execute_update(names.Update.ADMISSION, result_type=Admission)

    async def control(self, task_id: str, action: str, actor: str = "anna", reason: str = "", **more: Any) -> TaskView:
        """`more`: `force`, `choice`, `question`."""
        control = Control.model_validate({"action": action, "actor": actor, "reason": reason, **more})
        return await self.task(task_id).execute_update(names.Update.CONTROL, control, result_type=TaskView)

    async def again(self, task_id: str, rollback: Rollback | None = None, actor: str = "anna") -> str:
        """A new run of a task that ended, as the API starts it. Its run id."""
        past = await self.view(task_id)
        if past.state not in FINAL:  # it was terminated
            past = past.model_copy(update={"state": TaskStatus.FAILED})
        history = await self.task(task_id).fetch_history()
        start_input = history.events[0].workflow_execution_started_event_attributes.input
        [start] = await self.client.data_converter.decode(list(start_input.payloads), [TaskInput])
        handle = await self.client.start_workflow(
            names.Workflow.TASK,
            TaskInput(
                spec=start.spec,
                again=Rerun(
                    past=past,
                    action="rollback" if rollback else "retry",
                    force=rollback is not None and rollback.force,
                    actor=actor,
                    reason="once more",
                ),
            ),
            id=task_id,
            task_queue=names.QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        return handle.first_execution_run_id or ""

    async def ask(self, task_id: str, signal: str, actor: str = "anna", reason: str = "") -> None:
        await self.task(task_id).signal(signal, OperatorRequest(actor=actor, reason=reason))

    async def signalled(self, task_id: str, signal: str) -> None:
        """Wait until the engine has carried this signal to the task."""

        async def there() -> bool | None:
            history = await self.task(task_id).fetch_history()
            signals = [e.workflow_execution_signaled_event_attributes.signal_name for e in history.events]
            return True if signal in signals else None

        await until(there, f"{task_id} to be sent {signal}")

    async def refuses(self, task_id: str, reason: str) -> None:
        """The dispatcher refuses a task that waits in line, which it would do only of one it has just heard of."""

        async def in_line() -> m.Enqueue | None:
            text = await self.dispatcher().query("snapshot", result_type=str)
            entry = Dispatcher(state=DispatcherState.load(text, PoolConfig())).board.entries.get(task_id)
            return entry.ask if entry else None

        ask = await until(in_line, f"{task_id} to wait in line")
        await self.dispatcher().signal("done", m.Done(ask.key, ask.seq))
        await self.task(task_id).signal("rejected", m.Rejected(ask.key, ask.seq, reason))

    async def tried(self, task_id: str, count: int) -> None:
        """Wait until so many tries of stages were put on queues, whether anybody took them or not."""

        async def there() -> bool | None:
            history = await self.task(task_id).fetch_history()
            scheduled = [e.activity_task_scheduled_event_attributes.activity_type.name for e in history.events]
            return True if scheduled.count("run_stage") >= count else None

        await until(there, f"{task_id} to try {count} times")

    async def reached(self, task_id: str, *states: TaskStatus) -> TaskView:
        async def there() -> TaskView | None:
            view = await self.view(task_id)
            return view if view.state in states else None

        return await until(there, f"task {task_id} to be {'/'.join(states)}")

    async def waits_for_key(self, task_id: str) -> TaskView:
        """Its view once it waits for the key that `plays.lacks_key` names."""

        async def waits() -> TaskView | None:
            view = await self.view(task_id)
            return view if "the key 'k1'" in view.why and not view.emulator else None

        return await until(waits, f"{task_id} to wait for a key")

    async def ended(self, task_id: str) -> TaskView:
        """Its view once it is final and its workflow closed."""
        view = await self.reached(task_id, *FINAL)

        async def closed() -> bool | None:
            description = await self.task(task_id).describe()
            return True if description.close_time is not None else None

        await until(closed, f"task {task_id} to be closed")
        return view


@asynccontextmanager
async def world(
    client: Client,
    *emulators: str,
    pool: PoolSettings = POOL,
    timing: TaskTiming = TASK_TIMING,
    fleet: FleetTiming = FLEET_TIMING,
    joined: bool = True,
    delivery: DeliveryActivities | None = None,
    cleanup: CleanupSetup = CLEANUP_SETUP,
    find_predecessor: Callable[..., object] | None = None,
    record: ReplayRecord | None = None,
) -> AsyncGenerator[World]:
    """A pool with these emulators up, and workers for all of it."""
    presence = Presence(client, {})
    async with AsyncExitStack() as stack:
        store = DirectoryStore(Path(stack.enter_context(TemporaryDirectory())) / "artifacts")
        maintenance = MaintenanceActivities(cleanup.archive(client), store, cleanup.keep)
        here = World(client, stack, Stages(), Gates(), presence, Planner(timing), maintenance, store, fleet=fleet)
        engine = EngineActivities(client, pool)
        threads = stack.enter_context(ThreadPoolExecutor(2))
        carried = (delivery or DeliveryActivities(client)).all()
        instead: dict[Callable[..., object], Callable[..., object] | None] = {
            engine.find_predecessor: find_predecessor,
        }
        asked = [instead.get(one) or one for one in engine.all()]
        served = [*CatchUpActivities().all(), *maintenance.all()]
        activities = [*asked, *carried, here.planner.plan_task, *served]
        for queue in names.WORKFLOW_QUEUES:
            workflows = Worker(
                client,
                task_queue=queue,
                workflows=WORKFLOWS,
                activities=activities,
                activity_executor=threads,
                workflow_runner=GuardedRunner(witness=record),
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
            )
            await stack.enter_async_context(serving(give_time(workflows)))
        config = EngineConfig(pool=here.pool)
        if record is not None:
            replays = ReplayMonitor(record, RunReplacement(client, config, QueueClient(client, config)))
            await stack.enter_async_context(run_monitor(HOLDERS_CHECK_S, replays.check, asyncio.Event()))
        holders = HolderMonitor(QueueClient(client, config), here.host)
        await stack.enter_async_context(run_monitor(HOLDERS_CHECK_S, holders.check, asyncio.Event()))
        here.owns(*emulators)
        if joined:
            await here.serve_host()
            await asyncio.gather(*map(here.serve, emulators), here.join())
            for emulator in emulators:
                await here.emulator_is(emulator, "up")
        try:
            yield here
        finally:
            presence.leaving.set()


async def wake(here: World) -> None:
    """As the gateway does before it relies on a dispatcher."""
    await here.client.start_workflow(
        names.Workflow.DISPATCHER,
        DispatcherInput(pool=here.pool),
        id=names.dispatcher_id(here.pool),
        task_queue=names.FLEET_QUEUE,
        start_signal=names.Signal.WAKE,
    )
