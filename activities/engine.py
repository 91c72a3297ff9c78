"""Questions of workflows to Temporal itself."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client

from droidherd.contracts.engine import (
    AwaitTask,
    CancelWork,
    EarlierRun,
    EarlierRunWork,
    OrdersWork,
    PoolSettings,
    PoolWork,
    Predecessor,
)
from droidherd.contracts.names import Query
from droidherd.contracts.subscriptions import TaskLook, WaitingTask
from droidherd.contracts.tasks import TaskView
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.engine import rebuild
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import find_earlier_run, find_end_before_reset, outcome_of

AWAIT_EVERY_S = 5.0

LOOK_TIMEOUT = timedelta(seconds=10)


class EngineActivities:
    """What dispatchers and emulators ask when they start, a task when it is cancelled, a subscription of its task."""

    def __init__(self, client: Client, pool: PoolSettings) -> None:
        """`pool` is what the operator set for pools."""
        self._client = client
        self._pool = pool
        self._queue = QueueClient(client, EngineConfig(settings=pool))

    @activity.defn
    async def read_pool(self, work: PoolWork) -> PoolSettings:  # noqa: ARG002 - one setting for all pools so far
        return self._pool

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        return await rebuild.find_predecessor(self._client, work.pool, work.run_id)

    @activity.defn
    async def find_orders(self, work: OrdersWork) -> StandingOrders:
        return await rebuild.find_orders(self._client, work.emulator_id, work.run_id)

    @activity.defn
    async def request_cancel(self, work: CancelWork) -> None:
        await self._client.get_workflow_handle(work.task_id, run_id=work.run_id).cancel()

    @activity.defn
    async def find_earlier_run(self, work: EarlierRunWork) -> EarlierRun:
        find = find_end_before_reset if work.reset else find_earlier_run
        return await find(self._client, work.task_id, work.run_id)

    @activity.defn
    async def look_at_task(self, work: TaskLook) -> WaitingTask:
        handle = self._client.get_workflow_handle(work.task_id)
        view = await handle.query(Query.VIEW.value, result_type=TaskView, rpc_timeout=LOOK_TIMEOUT)
        # The task knows why it waits as of its last request; its dispatcher knows why it waits now.
        return WaitingTask.of(await self._queue.with_position(view))

    @activity.defn
    async def await_task(self, work: AwaitTask) -> str:
        while not (outcome := await outcome_of(self._client, work.task_id)):
            activity.heartbeat()
            await asyncio.sleep(AWAIT_EVERY_S)
        return outcome

    def all(self) -> list[Callable[..., object]]:
        return [
            self.read_pool,
            self.find_predecessor,
            self.find_orders,
            self.request_cancel,
            self.find_earlier_run,
            self.look_at_task,
            self.await_task,
        ]
