"""How much a pool writes into its histories while nothing happens."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput, SetAccount
from droidherd.contracts.engine import Holders, OrdersWork, PoolWork, Predecessor
from droidherd.contracts.fleet import (
    EmulatorInput,
    EmulatorView,
    FleetTiming,
    GateResult,
    GateWork,
    HostInput,
    Join,
    PresenceEnd,
    PresenceWork,
    Reports,
)
from droidherd.contracts.queue import DispatcherInput, PoolSettings
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.engine.connection import CONVERTER
from droidherd.testing.skipping import program, until
from droidherd.worker.workflow_workers import WORKFLOWS
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.guard import GuardedRunner

EVENTS_PER_HOUR = 20


@workflow.defn
class Holder:
    """A task that holds its emulator and says nothing."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def grant(self, grant: m.Grant) -> None: ...


@activity.defn
async def read_pool(work: PoolWork) -> PoolSettings:
    return PoolSettings()


@activity.defn
async def find_predecessor(work: PoolWork) -> Predecessor:
    return Predecessor()


@activity.defn
async def find_orders(work: OrdersWork) -> StandingOrders:
    return StandingOrders()


async def length(handle: "WorkflowHandle[Any, Any]") -> int:
    return (await handle.describe()).history_length


async def test_a_dispatcher_with_a_held_lease_writes_few_events_in_an_hour():
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=program(), data_converter=CONVERTER
    )
    async with environment:
        client = environment.client
        async with Worker(
            client,
            task_queue=names.FLEET_QUEUE,
            workflows=[DispatcherWorkflow, Holder],
            activities=[read_pool, find_predecessor, *DeliveryActivities(client).all()],
            workflow_runner=GuardedRunner(),
        ):
            with environment.auto_time_skipping_disabled():
                holder = await client.start_workflow(Holder.run, id="t1", task_queue=names.FLEET_QUEUE)
                dispatcher = await client.start_workflow(
                    DispatcherWorkflow.run,
                    DispatcherInput(pool="quiet"),
                    id=names.dispatcher_id("quiet"),
                    task_queue=names.FLEET_QUEUE,
                )
                up = m.Announce("e1", "h1", 1, 1, m.EmulatorStatus.UP, boot="b1")
                await dispatcher.signal(DispatcherWorkflow.announce, up)
                run = holder.first_execution_run_id or ""
                ask = m.Enqueue(m.Key("t1", run, 1), 1, "anonymous", "check", hold_s=24 * 3600.0)
                await dispatcher.signal(DispatcherWorkflow.enqueue, ask)

                async def holders() -> dict[str, str]:
                    return (await dispatcher.query(names.Query.HOLDERS, "h1", result_type=Holders)).holders

                async def held() -> bool | None:
                    return await holders() == {"t1": run} or None

                await until(held, "the lease to be granted")
                before = await length(dispatcher)
                for _ in range(4):
                    await environment.sleep(timedelta(minutes=15))
                    await holders()
                assert EVENTS_PER_HOUR >= await length(dispatcher) - before


class Host:
    """A worker of a host that sees one emulator, and nothing new."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.leaving = asyncio.Event()

    @activity.defn(name="presence")
    async def presence(self, work: PresenceWork) -> PresenceEnd:
        seen = m.Seen("e1", "h1", work.incarnation, 0, m.Health.GOOD, "b1", "127.0.0.1:1", pool="quiet")
        reports = Reports(incarnation=work.incarnation, seen=(seen,), listed=("e1",))
        await self._client.get_workflow_handle(names.host_id("h1")).signal(names.Signal.REPORTS, reports)
        await self.leaving.wait()
        return PresenceEnd(incarnation=work.incarnation)

    @activity.defn(name="pass_gate")
    async def pass_gate(self, work: GateWork) -> GateResult:
        return GateResult(passed=True, boot=work.boot)


async def test_a_fleet_without_worker_writes_few_events_in_an_hour():
    """The server does not skip time while a presence activity runs."""
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=program(), data_converter=CONVERTER
    )
    async with environment:
        client = environment.client
        host = Host(client)
        served = [read_pool, find_predecessor, find_orders, *DeliveryActivities(client).all()]
        fleet = Worker(
            client,
            task_queue=names.FLEET_QUEUE,
            workflows=WORKFLOWS,
            activities=served,
            workflow_runner=GuardedRunner(),
        )
        hands = Worker(client, task_queue=names.host_id("h1"), activities=[host.presence, host.pass_gate])
        async with fleet, hands:
            with environment.auto_time_skipping_disabled():
                handles = await start_fleet(client)

                async def up() -> bool | None:
                    view = await handles["emulator"].query(names.Query.VIEW, result_type=EmulatorView)
                    return view.state == "up" or None

                await until(up, "the emulator to be up")
                host.leaving.set()

                async def left() -> bool | None:
                    state = await handles["host"].query(names.Query.STATE)
                    return not state["alive"] or None

                await until(left, "the worker to have left")
                before = {name: await length(one) for name, one in handles.items()}
                for _ in range(4):
                    await environment.sleep(timedelta(minutes=15))
                    for one in handles.values():
                        await one.query(
                            names.Query.STATE if one is not handles["dispatcher"] else names.Query.EMULATORS
                        )
                written = {name: await length(one) - before[name] for name, one in handles.items()}
        assert {} == {name: count for name, count in written.items() if count > EVENTS_PER_HOUR}


async def start_fleet(client: Client) -> dict[str, "WorkflowHandle[Any, Any]"]:
    """A host that a worker has joined, its emulator, an account and the pool's dispatcher."""
    timing = FleetTiming(presence_timeout_s=3_600.0)

    async def start(kind: names.Workflow, given: object, name: str) -> "WorkflowHandle[Any, Any]":
        return await client.start_workflow(kind, given, id=name, task_queue=names.FLEET_QUEUE)

    handles = {
        "dispatcher": await start(
            names.Workflow.DISPATCHER, DispatcherInput(pool="quiet"), names.dispatcher_id("quiet")
        ),
        "emulator": await start(
            names.Workflow.EMULATOR, EmulatorInput(emulator_id="e1", timing=timing), names.emulator_id("e1")
        ),
        "host": await start(names.Workflow.HOST, HostInput(host_id="h1"), names.host_id("h1")),
        "account": await start(names.Workflow.ACCOUNT, AccountInput(), names.account_id("ann")),
    }
    change = SetAccount(note="one", pool="quiet")
    await handles["account"].execute_update(names.Update.SET, change)
    join = Join(host_id="h1", incarnation=1, machine="m1", worker="w1", pool="quiet", timing=timing)
    await handles["host"].execute_update(names.Update.JOIN, join)
    return handles
