"""What people order while a new run of an emulator or a dispatcher still looks for what was before."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateStage
from temporalio.worker import Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.engine import OrdersWork, PoolWork, Predecessor
from droidherd.contracts.fleet import EmulatorControl, EmulatorInput
from droidherd.contracts.queue import CommandResult, DispatcherInput, OperatorCommand, PoolSettings
from droidherd.domain.dispatch.commands import COMMANDS
from droidherd.domain.fleet.emulator import StandingOrders
from tests.support.serving import serving
from tests.workflows.world import until
from workflows.dispatcher import workflow as dispatcher_workflow
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")
LIMIT_S = 30.0


class Pool:
    """It knows late that the emulator was drained."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def _answers(self) -> None:
        self.asked.set()
        await self.may_answer.wait()

    def all(self, client: Client) -> list[Callable[..., object]]:
        return [self.find_orders, self.read_pool, self.find_predecessor, *DeliveryActivities(client).all()]

    @activity.defn
    async def find_orders(self, work: OrdersWork) -> StandingOrders:
        await self._answers()
        return StandingOrders(draining=True, drained_by="ann")

    @activity.defn
    async def read_pool(self, work: PoolWork) -> PoolSettings:
        return PoolSettings()

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        return Predecessor()


async def test_an_order_holds_although_the_earlier_ones_are_not_known_yet(client: Client):
    pool = Pool()
    worker = Worker(
        client,
        task_queue=names.FLEET_QUEUE,
        workflows=[EmulatorWorkflow, DispatcherWorkflow],
        activities=pool.all(client),
        workflow_runner=GuardedRunner(),
    )
    async with serving(worker):
        await client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool="default"),
            id=names.dispatcher_id("default"),
            task_queue=names.FLEET_QUEUE,
        )
        emulator = await client.start_workflow(
            names.Workflow.EMULATOR,
            EmulatorInput(emulator_id="early"),
            id=names.emulator_id("early"),
            task_queue=names.FLEET_QUEUE,
        )
        await pool.asked.wait()
        undrain = EmulatorControl(action="undrain", actor="bob")
        done = await emulator.execute_update(names.Update.CONTROL, undrain, result_type=CommandResult)
        assert (True, "") == (done.done, done.detail)
        pool.may_answer.set()

        async def answered() -> bool | None:
            history = await emulator.fetch_history()
            return any(one.HasField("activity_task_completed_event_attributes") for one in history.events) or None

        await until(answered, "the earlier orders to be known")
        state = await emulator.query(names.Query.STATE)
        assert (False, "") == (state["draining"], state["drained_by"])


class LatePool(Pool):
    """It finds late what the dispatcher before knew."""

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        await self._answers()
        return Predecessor()


def stumbles(*_: object) -> None:
    raise RuntimeError("a fault of ours")


async def test_an_early_order_that_meets_a_fault_is_answered_and_wedges_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    faulty = {**COMMANDS, "pause_lane": replace(COMMANDS["pause_lane"], apply=stumbles)}
    monkeypatch.setattr(dispatcher_workflow, "COMMANDS", faulty)
    pool = LatePool()
    worker = Worker(
        client,
        task_queue=names.FLEET_QUEUE,
        workflows=[DispatcherWorkflow],
        activities=pool.all(client),
        workflow_runner=GuardedRunner(),
    )
    async with serving(worker):
        dispatcher = await client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool="faulty"),
            id=names.dispatcher_id("faulty"),
            task_queue=names.FLEET_QUEUE,
        )
        await pool.asked.wait()
        order = OperatorCommand(actor="ann", lane="account", capacity=3)
        accepted = WorkflowUpdateStage.ACCEPTED
        pause = await dispatcher.start_update(names.Update.PAUSE_LANE, order, wait_for_stage=accepted)
        behind = await dispatcher.start_update(
            names.Update.SET_CAPACITY, order, wait_for_stage=accepted, result_type=CommandResult
        )
        pool.may_answer.set()
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await asyncio.wait_for(pause.result(), LIMIT_S)
        assert "a fault of the dispatcher" in str(refused.value.cause)
        assert (await asyncio.wait_for(behind.result(), LIMIT_S)).done
