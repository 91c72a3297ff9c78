"""A dispatcher whose worker is replaced while an update waits leaves a history that can be replayed."""

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, Worker

from droidherd.contracts import names
from droidherd.contracts.delivery import Batch, BatchResult, DeliveryResult
from droidherd.contracts.engine import Closed, HoldersWork, PoolWork, Predecessor
from droidherd.contracts.queue import CommandResult, DispatcherInput, OperatorCommand, PoolSettings
from droidherd.domain import messages as m
from tests.support.serving import serving
from tests.workflows.world import until
from workflows import options
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Engine:
    """What a dispatcher asks for. Deliveries end when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    @activity.defn(name="deliver")
    async def deliver(self, batch: Batch) -> BatchResult:
        self.begun.set()
        await self.may_end.wait()
        return BatchResult(results=tuple(DeliveryResult.DELIVERED for _ in batch.envelopes))

    @activity.defn(name="read_pool")
    async def read_pool(self, work: PoolWork) -> PoolSettings:
        return PoolSettings(fence_s=0.5)

    @activity.defn(name="find_predecessor")
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        return Predecessor()

    @activity.defn(name="closed_holders")
    async def closed_holders(self, work: HoldersWork) -> Closed:
        return Closed()


def worker(client: Client, engine: Engine) -> Worker:
    return Worker(
        client,
        task_queue=names.FLEET_QUEUE,
        workflows=[DispatcherWorkflow],
        activities=[engine.deliver, engine.read_pool, engine.find_predecessor, engine.closed_holders],
        workflow_runner=GuardedRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=500),
    )


async def test_a_cold_worker_with_an_update_waiting_leaves_a_history_that_replays(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(options, "TICK_S", 0.5)
    engine = Engine()
    async with serving(worker(client, engine)):
        dispatcher = await client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool="cold"),
            id=names.dispatcher_id("cold"),
            task_queue=names.FLEET_QUEUE,
            task_timeout=timedelta(seconds=2),
        )
        up = m.Announce("e1", "h1", 1, 1, m.EmulatorStatus.UP, boot="b1")
        await dispatcher.signal("announce", up)
        await dispatcher.signal("enqueue", m.Enqueue(m.Key("t1", "r1", 1), 1, "anonymous", "check"))
        await engine.begun.wait()
        await dispatcher.signal(names.Signal.WAKE)  # a workflow task without a command while the delivery runs
        engine.may_end.set()
    waiting = OperatorCommand(lane="anonymous", actor="ann")
    update = asyncio.create_task(dispatcher.execute_update(names.Update.PAUSE_LANE, waiting, result_type=CommandResult))

    async def timer_fired() -> bool | None:
        history = await dispatcher.fetch_history()
        timers = [event for event in history.events if event.HasField("timer_fired_event_attributes")]
        return True if timers else None

    await until(timer_fired, "the timer to fire while nobody serves")
    async with serving(worker(client, engine)):
        assert (await update).done
    history = await dispatcher.fetch_history()
    replayer = Replayer(
        workflows=[DispatcherWorkflow], workflow_runner=GuardedRunner(), data_converter=pydantic_data_converter
    )
    await replayer.replay_workflow(history)
