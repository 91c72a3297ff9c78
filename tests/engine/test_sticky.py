"""Which sticky queues a worker resets when it starts."""

import asyncio

from temporalio.client import Client

from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.hosts import HostsClient
from tests.workflows.plays import Hold
from tests.workflows.world import until, world


class Recording(HostsClient):
    """Notes which workflows it forgets."""

    forgotten: tuple[str, ...] = ()

    async def _forget(self, workflows: list[str]) -> None:
        self.forgotten = tuple(sorted(workflows))
        await super()._forget(workflows)


async def test_a_worker_that_starts_resets_the_queues_of_waiting_tasks(temporal_client: Client):
    async with world(temporal_client, "e1") as here:
        hold = Hold()
        await here.submit("runs", hold)
        await hold.began.wait()
        await asyncio.gather(*(here.submit(name) for name in ("waits-1", "waits-2")))
        await asyncio.gather(*(here.reached(name, TaskStatus.QUEUED) for name in ("waits-1", "waits-2")))
        engine = Recording(temporal_client, EngineConfig(pool="default"))

        async def listed() -> bool | None:
            await engine.forget_dead_workers_of_waiting()
            return True if len(engine.forgotten) > 1 else None

        await until(listed, "both to be listed")
        assert ("waits-1", "waits-2") == engine.forgotten
        hold.let_go.set()
        assert "completed" == (await here.ended("waits-2")).state
