"""A host whose disk is full pauses its pool, and lifts only what it paused itself. Only the limit is invented."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from droidherd.domain.fleet.disk_space import ACTOR, Need
from droidherd.domain.replay import FailedRun, ReplayRecord
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import LaneControl, QueueClient
from droidherd.worker.resource_monitor import DiskMonitor, MemoryMonitor, ReplayMonitor, run_monitor
from tests.workflows.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

MORE_THAN_THERE_IS = 10**15


def monitor(here: World, place: Path, wanted: int, *, host: str = "h1", client: Client | None = None) -> DiskMonitor:
    queue = QueueClient(client or here.client, EngineConfig(pool=here.pool if client is None else "another"))
    return DiskMonitor(Need(host, wanted), {"data": place}, LaneControl(queue), here.pool)


async def paused(here: World) -> dict[str, str]:
    return {lane.name: lane.paused_by for lane in (await here.queue()).lanes if lane.paused_by}


async def test_a_full_disk_pauses_every_lane_and_says_why(here: World, task: str, tmp_path: Path):
    await monitor(here, tmp_path, MORE_THAN_THERE_IS).check()
    assert {"account": ACTOR, "anonymous": ACTOR} == await paused(here)
    await here.submit(task)
    why = (await here.reached(task, TaskStatus.QUEUED)).why
    assert why.startswith("lane anonymous is paused by system:disk_full: host h1: ")
    assert f"free at {tmp_path} (data), wanted are 1000000.00 GB" in why
    await monitor(here, tmp_path, 1).check()
    assert TaskStatus.COMPLETED == (await here.ended(task)).state


async def test_disk_space_is_seen_by_a_worker_that_was_started_since(here: World, tmp_path: Path):
    await monitor(here, tmp_path, MORE_THAN_THERE_IS).check()
    await monitor(here, tmp_path, 0).check()
    assert {} == await paused(here)


async def test_a_pause_of_a_person_is_neither_taken_over_nor_lifted(here: World, tmp_path: Path):
    await here.order("pause_lane", lane="account", actor="anna", reason="audit")
    await monitor(here, tmp_path, MORE_THAN_THERE_IS).check()
    assert {"account": "anna", "anonymous": ACTOR} == await paused(here)
    await monitor(here, tmp_path, 1).check()
    assert {"account": "anna"} == await paused(here)
    await here.order("resume_lane", actor="anna")


async def test_a_host_with_disk_space_leaves_the_pause_of_a_full_one(here: World, tmp_path: Path):
    await monitor(here, tmp_path, MORE_THAN_THERE_IS, host="full").check()
    await monitor(here, tmp_path, 1, host="roomy").check()
    assert {"account": ACTOR, "anonymous": ACTOR} == await paused(here)
    await monitor(here, tmp_path, 1, host="full").check()
    assert {} == await paused(here)


async def test_a_lane_that_somebody_resumes_is_paused_again_while_the_disk_is_full(here: World, tmp_path: Path):
    full = monitor(here, tmp_path, MORE_THAN_THERE_IS)
    await full.check()
    await here.order("resume_lane", lane="account", actor="anna")
    await full.check()
    assert {"account": ACTOR, "anonymous": ACTOR} == await paused(here)
    await monitor(here, tmp_path, 1).check()


async def test_what_is_paused_is_not_ordered_again(here: World, tmp_path: Path):
    full = monitor(here, tmp_path, MORE_THAN_THERE_IS)
    await full.check()
    before = (await here.dispatcher().describe()).history_length
    for _ in range(3):
        await full.check()
    assert before == (await here.dispatcher().describe()).history_length
    await monitor(here, tmp_path, 1).check()


async def test_a_pool_that_does_not_answer_is_asked_again_later(here: World, tmp_path: Path, client: Client):
    """In a namespace where there is no such pool."""
    lonely = monitor(here, tmp_path, MORE_THAN_THERE_IS, client=client)
    await lonely.check()
    roomy = monitor(here, tmp_path, 1, client=client)
    await roomy.check()
    assert roomy._may_be_paused


async def test_a_worker_over_its_memory_limit_is_asked_to_stop_once():
    stop = asyncio.Event()
    over, under, unlimited = (MemoryMonitor(limit, stop) for limit in (1, 10**12, 0))
    for one in (unlimited, under):
        await one.check()
    assert (False, False, False) == (stop.is_set(), unlimited.exceeded, under.exceeded)
    await over.check()
    assert (True, True) == (stop.is_set(), over.exceeded)


class Attempts:
    """Temporal's count for every run."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.asked = 0

    async def failures(self, run: FailedRun) -> int | None:
        self.asked += 1
        return self._count

    async def replace(self, run: FailedRun) -> None:
        raise AssertionError(f"{run.run_id} is healthy")


async def test_a_run_that_was_late_once_is_looked_up_once():
    record, temporal = ReplayRecord(limit=5), Attempts(1)
    replays = ReplayMonitor(record, temporal)
    record.on_late("r1", "emulator/e1", "EmulatorWorkflow", "timed out")
    for _ in range(3):
        await replays.check()
    assert (1, {}) == (temporal.asked, record.failed)


async def test_a_monitor_that_breaks_ends_the_worker_and_says_why():
    stop = asyncio.Event()

    async def breaks() -> None:
        raise RuntimeError("no such disk")

    async def work() -> None:
        async with run_monitor(0.01, breaks, stop):
            await asyncio.wait_for(stop.wait(), 10)

    with pytest.raises(RuntimeError, match="no such disk"):
        await work()


async def test_a_monitor_looks_again_and_again_and_ends_with_the_worker():
    stop, seen = asyncio.Event(), asyncio.Semaphore(0)

    async def check() -> Any:
        seen.release()

    async with run_monitor(0.001, check, stop):
        for _ in range(3):
            await asyncio.wait_for(seen.acquire(), 10)
    assert stop.is_set()
