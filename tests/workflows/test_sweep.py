"""The artifact store of a host: orphans, and what does not fit."""

import os
from datetime import timedelta

import pytest
from temporalio.client import Client

from droidherd.artifacts.cleanup import RetentionLimits
from droidherd.artifacts.store import MARK
from droidherd.domain.errors import FlowError
from droidherd.domain.retention import Retention
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Hold, fails
from tests.workflows.world import CleanupSetup, World, until, world
from workflows import options

pytestmark = pytest.mark.asyncio(loop_scope="module")


def age(here: World, task_id: str, days: float) -> None:
    """Make the artifacts of a task look as if they were left so long ago."""
    folder = here.store._root / task_id
    for path in (*folder.iterdir(), folder):
        moment = path.stat().st_mtime - timedelta(days=days).total_seconds()
        os.utime(path, (moment, moment))


async def test_artifacts_nobody_owns_go_after_a_day(prompt: Client):
    async with world(prompt, "e1", cleanup=CleanupSetup(RetentionLimits(Retention()))) as here:
        await here.submit("known")
        await here.ended("known")
        for task_id, days in (("known", 3.0), ("old", 1.1), ("young", 0.9)):
            here.store.put(task_id, "a.png", b"12345")
            age(here, task_id, days)
        for dry_run in (True, False):
            stats = (await here.clean_up(dry_run=dry_run)).stats
            assert (1, 5, {"old"}) == (stats.orphans, stats.bytes, {one.task_id for one in stats.removed})
        assert [5, 0, 5] == [here.store.size(task_id) for task_id in ("known", "old", "young")]


async def test_a_directory_that_is_not_ours_alone_is_not_swept(prompt: Client):
    async with world(prompt, "e1") as here:
        here.store.put("old", "a.png", b"12345")
        age(here, "old", 9.0)
        (here.store._root / MARK).unlink()
        stats = (await here.clean_up()).stats
        assert (5, 0, 1) == (here.store.size("old"), stats.orphans, len(stats.troubles))
        assert "may hold more than artifacts" in stats.troubles[0]


async def ended_in_turn(here: World, *task_ids: str) -> None:
    for task_id in task_ids:
        await here.submit(task_id)
        await here.ended(task_id)
        here.store.put(task_id, "a.png", b"x" * 100)
    await here.listed(*task_ids)


async def test_artifacts_beyond_the_limit_go_and_their_tasks_are_kept(prompt: Client):
    keep = RetentionLimits(Retention(), artifacts_max_bytes=350)
    async with world(prompt, "e1", cleanup=CleanupSetup(keep)) as here:
        await ended_in_turn(here, "first", "second", "third", "fourth")
        age(here, "fourth", 0.5)  # when a task ended counts, not when it last wrote
        hold = Hold()
        await here.submit("runs", hold)
        await hold.began.wait()
        here.store.put("runs", "a.png", b"x" * 100)
        dry = (await here.clean_up(dry_run=True)).stats
        real = (await here.clean_up()).stats
        assert dry == real.model_copy(update={"removed": dry.removed})
        assert (["first", "second"], 2, 200, {}) == (
            [one.task_id for one in real.removed],
            real.shed,
            real.bytes,
            real.tasks,
        )
        left = {one: here.store.size(one) for one in ("first", "second", "third", "fourth", "runs")}
        assert {"first": 0, "second": 0, "third": 100, "fourth": 100, "runs": 100} == left
        assert TaskStatus.COMPLETED == (await here.view("first")).state
        assert () == (await here.clean_up()).stats.removed
        hold.let_go.set()


async def test_what_rollbacks_need_stays_however_much_there_is_and_is_reported(prompt: Client):
    keep = RetentionLimits(Retention(), artifacts_max_bytes=250)
    async with world(prompt, "e1", cleanup=CleanupSetup(keep)) as here:
        await ended_in_turn(here, "first", "second")
        for task_id in ("first", "second"):
            here.store.put(task_id, "before-1-0-7-1-0.bin", b"x" * 130)
        for dry_run in (True, False):
            stats = (await here.clean_up(dry_run=dry_run)).stats
            assert (2, 200) == (stats.shed, stats.bytes)
            assert [True] == ["10 bytes more than" in one and "260 are what rollbacks" in one for one in stats.troubles]
        left = [[ref.name for ref in here.store.list(one)] for one in ("first", "second")]
        assert [["before-1-0-7-1-0.bin"]] * 2 == left


async def test_what_goes_by_its_age_frees_space_for_the_rest(prompt: Client):
    keep = RetentionLimits(Retention(completed_days=30.0, failed_days=0.0), artifacts_max_bytes=350)
    async with world(prompt, "e1", cleanup=CleanupSetup(keep)) as here:
        await ended_in_turn(here, "first", "second", "third")
        await here.submit("failed", fails(FlowError("no such screen")))
        await here.ended("failed")
        here.store.put("failed", "a.png", b"x" * 100)
        await here.listed("failed")
        for dry_run in (True, False):
            stats = (await here.clean_up(dry_run=dry_run)).stats
            assert ({"failed": 1}, 0, 100) == (stats.tasks, stats.shed, stats.bytes)


async def test_artifacts_that_cannot_be_removed_are_named_and_hold_nothing_up(
    prompt: Client, monkeypatch: pytest.MonkeyPatch
):
    async with world(prompt, "e1") as here:
        await ended_in_turn(here, "first", "second")
        remove = here.store.remove

        def refuses(task_id: str) -> int:
            if task_id == "first":
                raise PermissionError(13, "not yours")
            return remove(task_id)

        monkeypatch.setattr(here.store, "remove", refuses)
        stats = (await here.clean_up()).stats
        assert {"completed": 2} == stats.tasks
        assert "the artifacts of task first cannot be removed: [Errno 13] not yours" in stats.troubles
        assert (100, 0) == (here.store.size("first"), here.store.size("second"))


async def test_a_host_that_is_away_is_named_and_the_rest_is_done(prompt: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "SWEEP_START", timedelta(seconds=0.5))
    async with world(prompt, "e1", joined=False) as here:
        await here.join()
        await ended_nowhere(here)
        report = await here.clean_up()
        assert ({"failed": 1}, ("host h1 is away: its artifacts were not swept",)) == (
            report.stats.tasks,
            report.stats.troubles,
        )


async def ended_nowhere(here: World) -> None:
    await here.submit("task", params={"wrong": 1})
    await here.ended("task")
    await here.listed("task")

    async def listed() -> bool | None:
        return True if (await here.client.count_workflows("WorkflowType = 'HostWorkflow'")).count else None

    await until(listed, "the host to be listed")
