"""A worker without the run in its cache, an update, and before it a workflow task without commands: each workflow.

The SDK's core then merges in one activation what every replay splits (docs/adr/0042-one-loop-issues-commands.md). With
two coroutines that issue commands, every such history is lost; docs/upstream has it with plain workflows.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowHistory, WorkflowUpdateFailedError
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput, SetAccount
from droidherd.contracts.delivery import Batch, BatchResult, DeliveryResult
from droidherd.contracts.engine import OrdersWork, PoolWork, Predecessor
from droidherd.contracts.fleet import (
    EmulatorControl,
    EmulatorInput,
    FleetTiming,
    GateResult,
    GateWork,
    HostInput,
    Join,
    PresenceEnd,
    PresenceWork,
    RecoveryResult,
    RecoveryWork,
)
from droidherd.contracts.maintenance import CleanupInput, CleanupStats, CleanupWork, Hosts
from droidherd.contracts.plan import Plan, Stage
from droidherd.contracts.queue import DispatcherInput, OperatorCommand, PoolSettings
from droidherd.contracts.stage import Planned, PlanRequest
from droidherd.contracts.subscriptions import CatchUpWork
from droidherd.contracts.tasks import Control, TaskInput, TaskSpec
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.settings import Timing
from droidherd.worker.workflow_workers import WORKFLOWS, workers_of_queues
from tests.support.serving import serving
from tests.workflows.subscription_runs import subscription
from tests.workflows.world import until
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")

Handle = WorkflowHandle[Any, Any]
FEW, MANY, AT_ONCE = 3, 200, 50
"""Runs. A worker has 100 slots for activities, and a play may hold one of each run."""
TRIES = 4
WAITS_S = 600.0
HOST = "h1"
UNKNOWN = "nobody_knows_this"
SEEKS = "seeks"
"""Pools whose dispatcher takes its time to find its predecessor."""


@workflow.defn(name=names.Workflow.DISPATCHER)
class Listener:
    """A dispatcher that takes whatever it is told."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal(dynamic=True)
    def anything(self, name: str, arguments: Sequence[RawValue]) -> None: ...


class Stubs:
    """Activities. Those that a play is about begin, and end when the test says so."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self.begun, self.may_end = asyncio.Semaphore(0), asyncio.Event()

    async def _hold(self) -> None:
        self.begun.release()
        await self.may_end.wait()

    async def all_begun(self) -> None:
        for _ in range(self._runs):
            await self.begun.acquire()

    @activity.defn(name="deliver")
    async def deliver(self, batch: Batch) -> BatchResult:
        await self._hold()
        return BatchResult(results=tuple(DeliveryResult.DELIVERED for _ in batch.envelopes))

    @activity.defn(name="read_pool")
    async def read_pool(self, work: PoolWork) -> PoolSettings:
        return PoolSettings(fence_s=0.5)

    @activity.defn(name="find_predecessor")
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        if work.pool.startswith(SEEKS):
            await self._hold()
        return Predecessor()

    @activity.defn(name="find_orders")
    async def find_orders(self, work: OrdersWork) -> StandingOrders:
        return StandingOrders()

    @activity.defn(name="presence")
    async def presence(self, work: PresenceWork) -> PresenceEnd:
        await self._hold()
        return PresenceEnd(incarnation=work.incarnation)

    @activity.defn(name="pass_gate")
    async def pass_gate(self, work: GateWork) -> GateResult:
        return GateResult(passed=True, boot=work.boot)

    @activity.defn(name="recover")
    async def recover(self, work: RecoveryWork) -> RecoveryResult:
        await self._hold()
        return RecoveryResult(evidence="see /data/quarantine")

    @activity.defn(name="remove_tasks")
    async def remove_tasks(self, work: CleanupWork) -> CleanupStats:
        return CleanupStats()

    @activity.defn(name="list_hosts")
    async def list_hosts(self) -> Hosts:
        return Hosts(hosts=("away",))

    @activity.defn(name="settle_missed_runs")
    async def settle_missed_runs(self, work: CatchUpWork) -> CatchUp:
        return CatchUp(work.scheduled_at)

    @activity.defn(name="plan_task")
    async def plan_task(self, request: PlanRequest) -> Planned:
        stage = Stage(name="s", steps=())
        return Planned(plan=Plan(task_type=request.spec.type, flow="f", flow_hash="h", stages=(stage,)))

    def of_workflows(self) -> list[Callable[..., object]]:
        return [
            self.read_pool, self.find_predecessor, self.find_orders, self.deliver, self.remove_tasks, self.list_hosts,
            self.settle_missed_runs, self.plan_task,
        ]  # fmt: skip

    def of_host(self) -> list[Callable[..., object]]:
        return [self.presence, self.pass_gate, self.recover]


@dataclass
class Run:
    """A workflow that waits, and what is asked of it while nobody serves."""

    handle: Handle
    ask: Callable[[], Awaitable[Any]]


async def unknown_update(handle: Handle) -> None:
    """A workflow without updates refuses it, or has ended."""
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await handle.execute_update(UNKNOWN)


async def begin_dispatcher(client: Client, pool: str) -> Handle:
    return await client.start_workflow(
        names.Workflow.DISPATCHER,
        DispatcherInput(pool=pool),
        id=names.dispatcher_id(pool),
        task_queue=names.FLEET_QUEUE,
        task_timeout=timedelta(seconds=2),
    )


async def dispatcher(client: Client, number: int, due: datetime) -> Run:
    """The delivery of a grant ends; the lease runs out while nobody serves; somebody pauses a lane."""
    pool = f"cold-{number}"
    handle = await begin_dispatcher(client, pool)
    await handle.signal("announce", m.Announce("e1", "h1", 1, 1, m.EmulatorStatus.UP, boot="b1"))
    hold_s = (due - datetime.now(UTC)).total_seconds()
    await handle.signal("enqueue", m.Enqueue(m.Key("t1", "r1", 1), 1, "anonymous", "check", hold_s=hold_s))
    command = OperatorCommand(lane="anonymous", actor="ann")
    return Run(handle, lambda: handle.execute_update(names.Update.PAUSE_LANE, command))


async def beginner(client: Client, number: int, due: datetime) -> Run:
    """It has found out that it has no predecessor, from which nothing follows; then somebody pauses a lane."""
    pool = f"{SEEKS}-{number}"
    handle = await begin_dispatcher(client, pool)
    command = OperatorCommand(lane="anonymous", actor="ann")
    return Run(handle, lambda: handle.execute_update(names.Update.PAUSE_LANE, command))


async def host(client: Client, number: int, due: datetime) -> Run:
    """No worker begins its presence, and nothing follows from that; then a worker joins anew."""
    grace_s = (due - datetime.now(UTC)).total_seconds()
    name, timing = f"cold-{number}", FleetTiming(presence_timeout_s=WAITS_S, presence_grace_s=grace_s)
    handle = await client.start_workflow(
        names.Workflow.HOST, HostInput(host_id=name), id=names.host_id(name), task_queue=names.FLEET_QUEUE
    )
    join = Join(host_id=name, incarnation=1, machine="m1", worker="w1", timing=timing)
    await handle.execute_update(names.Update.JOIN, join)
    again = join.model_copy(update={"incarnation": 2})
    return Run(handle, lambda: handle.execute_update(names.Update.JOIN, again))


async def emulator(client: Client, number: int, due: datetime) -> Run:
    """The evidence of its quarantine is gathered, which changes nothing; then a person releases it."""
    name, timing = f"cold-{number}", FleetTiming(presence_timeout_s=WAITS_S, gate_timeout_s=WAITS_S)
    handle = await client.start_workflow(
        names.Workflow.EMULATOR,
        EmulatorInput(emulator_id=name, timing=timing),
        id=names.emulator_id(name),
        task_queue=names.FLEET_QUEUE,
    )
    recovery = m.RecoveryPolicy(controller="virtual")
    await handle.signal("seen", m.Seen(name, HOST, 1, 1, m.Health.GOOD, "b1", recovery=recovery))
    await handle.execute_update(names.Update.CONTROL, EmulatorControl(action="quarantine", actor="ann"))
    release = EmulatorControl(action="release", actor="ann")
    return Run(handle, lambda: handle.execute_update(names.Update.CONTROL, release))


async def account(client: Client, number: int, due: datetime) -> Run:
    """Its audit entry is delivered; then its record is set anew."""
    handle = await client.start_workflow(
        names.Workflow.ACCOUNT, AccountInput(), id=names.account_id(f"cold-{number}"), task_queue=names.FLEET_QUEUE
    )
    await handle.execute_update(names.Update.SET, SetAccount(note="one"))
    return Run(handle, lambda: handle.execute_update(names.Update.SET, SetAccount(note="two")))


async def task(client: Client, number: int, due: datetime) -> Run:
    """Its time comes while nobody serves; somebody pauses it."""
    handle = await client.start_workflow(
        names.Workflow.TASK,
        TaskInput(spec=TaskSpec(type="sample", not_before=due)),
        id=f"cold-{number}",
        task_queue=names.QUEUE,
        memo={names.MEMO_REQUEST: "as our own client"},
        task_timeout=timedelta(seconds=2),
    )
    control = Control(action="pause", actor="ann")
    return Run(handle, lambda: handle.execute_update(names.Update.CONTROL, control))


async def subscription_run(client: Client, number: int, due: datetime) -> Run:
    """It waits for its task, and has no updates."""
    one = subscription(f"cold-{number}")
    handle = await client.start_workflow(
        names.Workflow.SUBSCRIPTION_RUN,
        one,
        id=f"{names.subscription_run_id(one.id)}-{due:%Y-%m-%dT%H:%M:%SZ}",
        task_queue=names.QUEUE,
    )
    return Run(handle, lambda: unknown_update(handle))


async def maintenance(client: Client, number: int, due: datetime) -> Run:
    """It waits for a host that is away, and has no updates."""
    handle = await client.start_workflow(
        names.Workflow.MAINTENANCE, CleanupInput(), id=f"{names.MAINTENANCE}/{number}", task_queue=names.FLEET_QUEUE
    )
    return Run(handle, lambda: unknown_update(handle))


@dataclass(frozen=True)
class Play:
    """How a workflow gets into the situation."""

    start: Callable[[Client, int, datetime], Awaitable[Run]]
    held: bool = False
    """An activity of it is held until all runs have begun theirs."""
    ends: "EventType.ValueType | None" = None
    """This happens to all of them before their worker goes."""
    timer: bool = False
    """A timer of it fires while nobody serves."""
    merges: bool = True
    """It takes updates, so the core merges."""


PLAYS = [
    Play(dispatcher, held=True, timer=True),
    Play(beginner, held=True),
    Play(host, ends=EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT),
    Play(emulator, held=True),
    Play(account),
    Play(task, timer=True),
    Play(subscription_run, merges=False),
    Play(maintenance, merges=False),
]


@pytest.mark.parametrize("play", PLAYS, ids=lambda one: one.start.__name__)
async def test_a_cold_worker_with_an_update_leaves_replayable_histories(client: Client, play: Play):
    """Whether the core merges depends on moments, so one play may not be enough."""
    for first in range(0, TRIES * FEW, FEW):
        if await rehearse(client, play, FEW, first) or not play.merges:
            return
    raise AssertionError(f"the core merged nothing in {TRIES} plays")


@pytest.mark.long
@pytest.mark.parametrize("play", PLAYS, ids=lambda one: one.start.__name__)
async def test_many_cold_workers_with_updates_leave_replayable_histories(client: Client, play: Play):
    merged = [await rehearse(client, play, AT_ONCE, first) for first in range(0, MANY, AT_ONCE)]
    assert any(merged) or not play.merges


async def rehearse(client: Client, play: Play, runs: int, first: int) -> bool:
    """Bring as many runs into the situation, side by side; whatever they wrote can be replayed.

    True: the core merged two workflow tasks of one of them.
    """
    stubs = Stubs(runs)
    due = datetime.now(UTC) + timedelta(seconds=3 + runs / 4)
    async with stand_ins(client, stubs, listens=play.start not in (dispatcher, beginner)):
        async with workers(client, stubs):
            started = [await play.start(client, first + number, due) for number in range(runs)]
            if play.held:
                await stubs.all_begun()
            await all_quiet(started)
            await asyncio.gather(*(run.handle.signal(UNKNOWN) for run in started))  # changes nothing
            await all_quiet(started)
            stubs.may_end.set()
            if play.ends:
                await asyncio.gather(*(happened(run.handle, play.ends) for run in started))
            await all_quiet(started)
        asked = [asyncio.ensure_future(run.ask()) for run in started]
        if play.timer:
            await asyncio.gather(*(happened(run.handle, EventType.EVENT_TYPE_TIMER_FIRED) for run in started))
        async with workers(client, stubs):
            await asyncio.gather(*asked)
            await all_quiet(started)
    histories = [await run.handle.fetch_history() for run in started]
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=GuardedRunner(), data_converter=pydantic_data_converter)
    for history in histories:
        await replayer.replay_workflow(history)
    return any(map(is_merged, histories))


@asynccontextmanager
async def stand_ins(client: Client, stubs: Stubs, *, listens: bool) -> AsyncGenerator[None]:
    """Who is not judged here: hosts, and a dispatcher for whoever reports to one."""
    async with AsyncExitStack() as stack:
        for queue in (names.host_id(HOST), names.boots(HOST)):
            await stack.enter_async_context(serving(Worker(client, task_queue=queue, activities=stubs.of_host())))
        if listens:
            queue = "listener"
            listener = Worker(client, task_queue=queue, workflows=[Listener], workflow_runner=GuardedRunner())
            await stack.enter_async_context(serving(listener))
            await client.start_workflow(
                Listener.run,
                id=names.dispatcher_id("default"),
                task_queue=queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        yield


@asynccontextmanager
async def workers(client: Client, stubs: Stubs) -> AsyncGenerator[None]:
    """Those of workflows, as in production."""
    timing = Timing(sticky_s=1.0)
    async with AsyncExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(2))
        asks = DeliveryActivities(client).ask_dispatcher
        activities = [*stubs.of_workflows(), asks]
        for worker in workers_of_queues(client, activities, threads, timing, GuardedRunner()):
            await stack.enter_async_context(serving(worker))
        yield


def is_merged(history: WorkflowHistory) -> bool:
    """Whether somewhere the core takes a workflow task without commands and the one after it for one."""
    kinds = [event.event_type for event in history.events]
    completed, scheduled = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
    return (completed, scheduled) in pairwise(kinds)


async def happened(handle: Handle, kind: "EventType.ValueType") -> None:
    async def there() -> bool | None:
        events = (await handle.fetch_history()).events
        return True if any(event.event_type == kind for event in events) else None

    await until(there, f"{EventType.Name(kind)} in {handle.id}", WAITS_S)


async def all_quiet(started: Sequence[Run]) -> None:
    """Wait until no workflow task is under way anywhere."""

    async def quiet(handle: Handle) -> bool | None:
        described = (await handle.describe()).raw_description
        return None if described.HasField("pending_workflow_task") else True

    for run in started:
        await until(lambda handle=run.handle: quiet(handle), f"{run.handle.id} to have nothing to do", WAITS_S)
