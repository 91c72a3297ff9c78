"""What people order while an emulator's new run still looks for what they had ordered before."""

import asyncio

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.engine import OrdersWork, PoolWork, Predecessor
from droidherd.contracts.fleet import EmulatorControl, EmulatorInput
from droidherd.contracts.queue import CommandResult, DispatcherInput, PoolSettings
from droidherd.domain.fleet.emulator import StandingOrders
from tests.support.serving import serving
from tests.workflows.world import until
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Pool:
    """It knows late that the emulator was drained."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    @activity.defn
    async def find_orders(self, work: OrdersWork) -> StandingOrders:
        self.asked.set()
        await self.may_answer.wait()
        return StandingOrders(draining=True, drained_by="ann")

    @activity.defn
    async def read_pool(self, work: PoolWork) -> PoolSettings:
        return PoolSettings()

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        return Predecessor()


async def test_an_order_holds_although_the_earlier_ones_are_not_known_yet(client: Client):
    pool = Pool()
    activities = [pool.find_orders, pool.read_pool, pool.find_predecessor, *DeliveryActivities(client).all()]
    worker = Worker(
        client,
        task_queue=names.FLEET_QUEUE,
        workflows=[EmulatorWorkflow, DispatcherWorkflow],
        activities=activities,
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
