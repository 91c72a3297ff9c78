"""Whoever gives up on a sleep, and whatever fails, time goes on skipping as before."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
import pytest_asyncio
from temporalio.api.testservice.v1 import LockTimeSkippingRequest, UnlockTimeSkippingRequest
from temporalio.testing import WorkflowEnvironment

from droidherd.testing.skipping import SkippingClock, program, until

DAY = timedelta(days=1)


@pytest_asyncio.fixture
async def environment() -> AsyncGenerator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=program()) as here:
        yield here


@pytest_asyncio.fixture
async def clock(environment: WorkflowEnvironment) -> AsyncGenerator[SkippingClock]:
    one = SkippingClock(environment.client)
    yield one
    await one.close()


async def lock(environment: WorkflowEnvironment) -> None:
    """As an activity under way does."""
    await environment.client.test_service.lock_time_skipping(LockTimeSkippingRequest())


async def unlock(environment: WorkflowEnvironment) -> None:
    await environment.client.test_service.unlock_time_skipping(UnlockTimeSkippingRequest())


async def abandoned(clock: SkippingClock, delay: timedelta) -> None:
    """A sleep that is cancelled while it lasts."""
    sleeping = asyncio.create_task(clock.sleep(delay))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sleeping, 0.2)


async def test_time_skips_while_nothing_is_under_way(clock: SkippingClock):
    before = await clock.now()
    await clock.sleep(DAY)
    assert DAY <= await clock.now() - before < 2 * DAY


async def test_an_abandoned_sleep_leaves_the_clock_locked(environment: WorkflowEnvironment, clock: SkippingClock):
    await lock(environment)
    await abandoned(clock, DAY)
    await unlock(environment)
    before = await clock.now()
    await asyncio.sleep(0.05)
    assert await clock.now() - before < DAY / 2


async def test_after_abandoned_sleeps_time_skips_as_before(environment: WorkflowEnvironment, clock: SkippingClock):
    before = await clock.now()
    await lock(environment)
    for _ in range(3):
        await abandoned(clock, DAY)
    await unlock(environment)
    await clock.sleep(30 * DAY)
    assert 30 * DAY <= await clock.now() - before < 31 * DAY

    async def balanced() -> bool | None:
        return clock.idle or None

    await until(balanced, "the abandoned sleeps to end")
    for _ in range(3):
        await asyncio.wait_for(clock.sleep(DAY), 60)
