"""Emulators, hosts and accounts whose worker is replaced while an update waits leave histories that can be replayed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, Worker

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput, SetAccount
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
    Reports,
)
from droidherd.domain import messages as m
from tests.support.serving import serving
from tests.workflows.world import until
from workflows.account import AccountWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner
from workflows.host import HostWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

Handle = WorkflowHandle[Any, Any]
ENTITIES: list[type] = [AccountWorkflow, EmulatorWorkflow, HostWorkflow]
SEEN = m.Seen("e1", "h1", 1, 1, m.Health.GOOD, "b1", recovery=m.RecoveryPolicy(controller="virtual"))


@workflow.defn(name=names.Workflow.DISPATCHER)
class Listener:
    """A dispatcher that takes whatever it is told."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal(dynamic=True)
    def anything(self, name: str, arguments: Sequence[RawValue]) -> None: ...


class Hosts:
    """Its activities end when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def _hold(self) -> None:
        self.begun.set()
        await self.may_end.wait()

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
        return RecoveryResult(evidence="see /data/quarantine/e1")


async def host(client: Client, hosts: Hosts) -> tuple[Handle, Callable[[], Awaitable[Any]]]:
    """Its presence ends without a word while nothing else happens; then a worker joins anew."""
    timing = FleetTiming(presence_timeout_s=60.0, presence_grace_s=60.0)
    handle = await client.start_workflow(
        names.Workflow.HOST, HostInput(host_id="h1"), id=names.host_id("h1"), task_queue=names.FLEET_QUEUE
    )
    join = Join(host_id="h1", incarnation=1, machine="m1", worker="w1", timing=timing)
    await handle.execute_update(names.Update.JOIN, join)
    await hosts.begun.wait()
    await handle.signal(names.Signal.REPORTS, Reports(incarnation=7))
    again = join.model_copy(update={"incarnation": 2})
    return handle, lambda: handle.execute_update(names.Update.JOIN, again)


async def emulator(client: Client, hosts: Hosts) -> tuple[Handle, Callable[[], Awaitable[Any]]]:
    """The evidence of its quarantine is gathered, which changes nothing; then a person releases it."""
    timing = FleetTiming(presence_timeout_s=60.0, gate_timeout_s=60.0)
    handle = await client.start_workflow(
        names.Workflow.EMULATOR,
        EmulatorInput(emulator_id="e1", timing=timing),
        id=names.emulator_id("e1"),
        task_queue=names.FLEET_QUEUE,
    )
    await handle.signal("seen", SEEN)
    await handle.execute_update(names.Update.CONTROL, EmulatorControl(action="quarantine", actor="ann"))
    await hosts.begun.wait()
    await handle.signal("reset", m.Reset(0))
    release = EmulatorControl(action="release", actor="ann")
    return handle, lambda: handle.execute_update(names.Update.CONTROL, release)


async def account(client: Client, hosts: Hosts) -> tuple[Handle, Callable[[], Awaitable[Any]]]:
    """Its audit entry is delivered; then its record is set anew."""
    hosts.begun.set()
    handle = await client.start_workflow(
        names.Workflow.ACCOUNT, AccountInput(), id=names.account_id("ann"), task_queue=names.FLEET_QUEUE
    )
    await handle.execute_update(names.Update.SET, SetAccount(note="one"))
    return handle, lambda: handle.execute_update(names.Update.SET, SetAccount(note="two"))


@pytest.mark.parametrize("entity", [host, emulator, account], ids=lambda one: one.__name__)
async def test_a_cold_worker_with_an_update_waiting_leaves_a_replayable_history(
    client: Client, entity: Callable[[Client, Hosts], Awaitable[tuple[Handle, Callable[[], Awaitable[Any]]]]]
):
    hosts = Hosts()

    def workflows() -> Worker:
        return Worker(
            client,
            task_queue=names.FLEET_QUEUE,
            workflows=[*ENTITIES, Listener],
            workflow_runner=GuardedRunner(),
            sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=500),
        )

    queues = (names.host_id("h1"), names.boots("h1"))
    served = [hosts.presence, hosts.pass_gate, hosts.recover]
    async with serving(Worker(client, task_queue=queues[0], activities=served)):
        async with serving(workflows()):
            await client.start_workflow(
                names.Workflow.DISPATCHER, id=names.dispatcher_id("default"), task_queue=names.FLEET_QUEUE
            )
            handle, update = await entity(client, hosts)
            await _quiet(handle)
            hosts.may_end.set()
            await _quiet(handle)
        waiting = asyncio.ensure_future(update())
        async with serving(workflows()):
            await waiting
            await _quiet(handle)
    history = await handle.fetch_history()
    replayer = Replayer(workflows=ENTITIES, workflow_runner=GuardedRunner(), data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


async def _quiet(handle: Handle) -> None:
    """Wait until nothing is under way: the last workflow task is completed, and none is scheduled."""

    async def quiet() -> bool | None:
        described = (await handle.describe()).raw_description
        return None if described.HasField("pending_workflow_task") else True

    await until(quiet, "the workflow to have nothing to do")
