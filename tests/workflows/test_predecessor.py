"""What a dispatcher that begins finds out about the one before it."""

import pytest
from temporalio.client import Client

from activities.engine import EngineActivities
from droidherd.contracts.engine import PoolWork
from tests.workflows.world import POOL, World, until, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def had_one_before(here: World) -> bool:
    """As its dispatcher would be told, of which this is the only run."""
    run = (await here.dispatcher().describe()).run_id
    found = await EngineActivities(here.client, POOL).find_predecessor(PoolWork(pool=here.pool, run_id=run))
    return found.existed


async def test_a_dispatcher_whose_predecessors_are_all_deleted_learns_from_its_tasks_that_there_was_one(client: Client):
    async with world(client, "e1") as here:
        assert not await had_one_before(here)
        await here.submit("task")
        await here.ended("task")

        async def known() -> bool | None:
            return await had_one_before(here) or None

        await until(known, "the engine's lists to show the task")
