"""What is old goes, on a real engine: tasks with their artifacts, artifacts without a task, what does not fit."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.worker import Worker

from droidherd.artifacts.cleanup import RetentionLimits
from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupReport, RemovalReason
from droidherd.domain.errors import FlowError
from droidherd.domain.retention import Cohort, Page, Retention
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine import archive as archive_module
from droidherd.engine.archive import TaskArchive
from droidherd.engine.errors import ScheduleError
from droidherd.engine.maintenance import keep_schedule
from tests.workflows.plays import Hold, fails
from tests.workflows.world import CleanupSetup, World, until, world
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = Retention(0.0, 0.0, 0.0)


async def every_end(here: World) -> None:
    """A task for each way to end, each with an artifact of 5 bytes."""
    await here.submit("completed")
    await here.ended("completed")
    await here.submit("failed", fails(FlowError("no such screen")))
    await here.ended("failed")
    await here.order("pause_lane", actor="anna")
    await here.submit("cancelled", account="a")
    await here.reached("cancelled", TaskStatus.QUEUED)
    await here.submit_and_wait("rejected", account="a")
    await here.control("cancelled", "cancel")
    await here.ended("cancelled")
    await here.ended("rejected")
    await here.submit("terminated")
    await here.reached("terminated", TaskStatus.QUEUED)
    await here.task("terminated").terminate("for a test")
    await here.order("resume_lane", actor="anna")
    for task_id in ENDS:
        here.store.put(task_id, "a.png", b"12345")
    await here.listed(*ENDS)


ENDS = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "terminated": "failed",
}


def removed(report: CleanupReport, why: RemovalReason = RemovalReason.AGE) -> dict[str, str]:
    return {one.task_id: one.state for one in report.stats.removed if one.why is why}


async def forgotten(here: World, *task_ids: str) -> None:
    """The engine carries a removal out a moment later."""
    for task_id in task_ids:

        async def gone(task_id: str = task_id) -> bool | None:
            return None if await here.known(task_id) else True

        await until(gone, f"the engine to forget {task_id}")


async def test_what_has_ended_goes_with_its_artifacts(prompt: Client):
    async with world(prompt, "e1") as here:
        await every_end(here)
        report = await here.clean_up(actor="anna", reason="spring")
        assert ENDS == removed(report)
        expected = {"completed": 1, "failed": 2, "cancelled": 1, "rejected": 1}
        assert (expected, 25, 0, 0) == (report.stats.tasks, report.stats.bytes, report.stats.orphans, report.stats.shed)
        assert ("anna", "spring", False, ()) == (report.actor, report.reason, report.dry_run, report.stats.troubles)
        await forgotten(here, *ENDS)
        assert [()] * 5 == [here.store.list(task_id) for task_id in ENDS]


async def test_a_dry_run_says_what_would_go_and_touches_nothing(prompt: Client):
    async with world(prompt, "e1") as here:
        await every_end(here)
        dry = await here.clean_up(dry_run=True)
        assert [True] * 5 == [await here.known(task_id) for task_id in ENDS]
        assert [5] * 5 == [here.store.size(task_id) for task_id in ENDS]
        real = await here.clean_up()
        assert dry.stats.tasks == real.stats.tasks
        assert (removed(dry), dry.stats.bytes) == (removed(real), real.stats.bytes)
        assert all(one.age_s >= 0 for one in real.stats.removed)


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (Retention(0.0, 30.0, 30.0), {"completed", "cancelled"}),
        (Retention(30.0, 0.0, 30.0), {"failed", "terminated"}),
        (Retention(30.0, 30.0, 0.0), {"rejected"}),
        (Retention(), set[str]()),
    ],
)
async def test_each_kind_of_end_has_days_of_its_own(prompt: Client, retention: Retention, expected: set[str]):
    async with world(prompt, "e1", cleanup=CleanupSetup(RetentionLimits(retention))) as here:
        await every_end(here)
        assert expected == set(removed(await here.clean_up()))
        await forgotten(here, *expected)
        assert [True] * (5 - len(expected)) == [await here.known(one) for one in ENDS if one not in expected]
        assert {one for one in ENDS if here.store.size(one)} == set(ENDS) - expected


async def test_an_open_task_is_never_touched(prompt: Client):
    keep = RetentionLimits(NOTHING, orphan_days=0.0, artifacts_max_bytes=1)
    async with world(prompt, "e1", cleanup=CleanupSetup(keep)) as here:
        hold = Hold()
        await here.submit("runs", hold)
        await hold.began.wait()
        await here.submit("waits")
        await here.reached("waits", TaskStatus.QUEUED)
        await here.submit("paused")
        await here.control("paused", "pause")
        await here.reached("paused", TaskStatus.PAUSED)
        for task_id in ("runs", "waits", "paused"):
            here.store.put(task_id, "a.png", b"12345")
        report = await here.clean_up()
        assert ((), ()) == (report.stats.removed, report.stats.troubles)
        assert [5, 5, 5] == [here.store.size(task_id) for task_id in ("runs", "waits", "paused")]
        hold.let_go.set()
        assert TaskStatus.COMPLETED == (await here.ended("runs")).state
        await here.control("paused", "cancel")


async def again(here: World, task_id: str, hold: Hold) -> None:
    """A new run under the id of a task that has ended, as retry by hand and rollback start one."""
    here.stages.plays[task_id] = [hold]
    await here.again(task_id)


async def runs_of(here: World, task_id: str) -> int:
    return (await here.client.count_workflows(f"WorkflowId = '{task_id}'")).count


async def test_a_task_run_again_under_its_id_is_kept_and_later_goes_with_all_runs(
    prompt: Client,
):
    async with world(prompt, "e1") as here:
        await here.submit("task", fails(FlowError("no such screen")))
        await here.ended("task")
        here.store.put("task", "a.png", b"12345")
        await here.listed("task")
        hold = Hold()
        await again(here, "task", hold)
        await hold.began.wait()
        assert () == (await here.clean_up()).stats.removed
        assert (2, 5) == (await runs_of(here, "task"), here.store.size("task"))
        hold.let_go.set()
        assert TaskStatus.COMPLETED == (await here.ended("task")).state

        async def both_closed() -> bool | None:
            query = "WorkflowId = 'task' AND ExecutionStatus != 'Running'"
            return True if (await here.client.count_workflows(query)).count == 2 else None

        await until(both_closed, "both runs to be listed as closed")
        report = await here.clean_up()
        assert ({"task": "completed"}, {"completed": 1}) == (removed(report), report.stats.tasks)

        async def none_left() -> bool | None:
            return True if await runs_of(here, "task") == 0 else None

        await until(none_left, "every run to be forgotten")


async def test_the_last_end_of_a_task_decides_how_long_it_is_kept(prompt: Client):
    """It failed, which is not kept here, and then completed, which is."""
    async with world(prompt, "e1", cleanup=CleanupSetup(RetentionLimits(Retention(30.0, 0.0, 0.0)))) as here:
        await here.submit("task", fails(FlowError("no such screen")))
        await here.ended("task")
        hold = Hold()
        await again(here, "task", hold)
        hold.let_go.set()
        await here.ended("task")
        await here.listed("task")
        assert () == (await here.clean_up()).stats.removed
        assert 2 == await runs_of(here, "task")


@workflow.defn(name=names.Workflow.TASK)
class Continues:
    """Stands in for a task with a long history."""

    @workflow.run
    async def run(self, left: int) -> None:
        if left:
            workflow.continue_as_new(left - 1)


async def test_every_run_of_a_chain_goes_and_what_continued_is_no_end(prompt: Client):
    async with world(prompt, "e1") as here:
        worker = Worker(
            prompt,
            task_queue="chains",
            workflows=[Continues],
            workflow_runner=GuardedRunner(),
        )
        async with worker:
            await prompt.execute_workflow(names.Workflow.TASK, 3, id="chain", task_queue="chains")
        await here.listed("chain")

        async def four() -> bool | None:
            query = "WorkflowId = 'chain' AND ExecutionStatus != 'Running'"
            return True if (await prompt.count_workflows(query)).count == 4 else None

        await until(four, "four runs to be listed as closed")
        report = await here.clean_up()
        assert {"completed": 1} == report.stats.tasks

        async def none_left() -> bool | None:
            return True if await runs_of(here, "chain") == 0 else None

        await until(none_left, "every run to be forgotten")


async def test_an_id_that_no_folder_can_have_is_no_obstacle(prompt: Client):
    async with world(prompt, "e1") as here:
        odd = ["..", ".hidden", "it's \\ odd", "a/b"]
        for task_id in odd:
            await here.submit(task_id)
            with contextlib.suppress(WorkflowFailureError):
                await here.task(task_id).result()
        await here.listed(*odd)
        report = await here.clean_up()
        assert (set(odd), 0) == (set(removed(report)), report.stats.bytes)
        await forgotten(here, *odd)


# --- going on -----------------------------------------------------------------------------------------------------


@dataclass
class Stumbling(TaskArchive):
    """The real archive; once it breaks in the middle."""

    client: Client
    after: int = 5
    asked: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    deleted: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__(self.client)

    async def closed(self, cohort: Cohort, cursor: str) -> Page:
        self.asked.append((cohort.states, cursor))
        return await super().closed(cohort, cursor)

    async def delete(self, task_id: str, run_id: str) -> None:
        if len(self.deleted) == self.after:
            self.deleted.append("broke")
            raise ConnectionError("the engine went away")
        self.deleted.append(task_id)
        await super().delete(task_id, run_id)


async def failed_tasks(here: World, count: int) -> list[str]:
    task_ids = [f"t{number}" for number in range(count)]
    for task_id in task_ids:
        await here.submit(task_id, params={"wrong": 1})
        here.store.put(task_id, "a.png", b"12345")
    for task_id in task_ids:
        await here.ended(task_id)
    await here.listed(*task_ids)
    return task_ids


async def test_a_cleanup_that_broke_off_goes_on_where_it_stopped(prompt: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_module, "PAGE", 2)
    made: list[Stumbling] = []

    def stumbling(client: Client) -> Stumbling:
        made.append(Stumbling(client))
        return made[-1]

    async with world(prompt, "e1", cleanup=CleanupSetup(archive=stumbling)) as here:
        task_ids = await failed_tasks(here, 9)
        report = await here.clean_up()
        assert (sorted(task_ids), {"failed": 9}) == (sorted(removed(report)), report.stats.tasks)
        assert (45, 10) == (report.stats.bytes, len(made[0].deleted))
        begun = [cursor for states, cursor in made[0].asked if "completed" in states and "rejected" not in states]
        assert [""] == begun, "the cohorts before are not looked at again"
        repeated = [asked for asked in set(made[0].asked) if made[0].asked.count(asked) > 1]
        assert 1 == len(repeated), "only the page it broke off in is looked at again"
        assert "" != repeated[0][1]
        await forgotten(here, *task_ids)


async def test_a_report_names_a_bounded_number_and_counts_the_rest(prompt: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.contracts.maintenance.LISTED", 3)
    async with world(prompt, "e1") as here:
        await failed_tasks(here, 5)
        stats = (await here.clean_up()).stats
        assert (3, 2, {"failed": 5}, 25) == (len(stats.removed), stats.more, stats.tasks, stats.bytes)


# --- who sees it --------------------------------------------------------------------------------------------------


async def test_a_cleanup_says_what_it_did_by_query_memo_and_web_ui(prompt: Client):
    async with world(prompt, "e1") as here:
        await failed_tasks(here, 2)
        report = await here.clean_up("maintenance/cleanup/x", actor="anna", reason="spring")
        handle = prompt.get_workflow_handle("maintenance/cleanup/x")
        assert report == await handle.query(names.Query.VIEW, result_type=CleanupReport)
        kept = await (await handle.describe()).memo_value(names.MEMO_REPORT, type_hint=CleanupReport)
        assert (report.stats.tasks, (), "anna") == (kept.stats.tasks, kept.stats.removed, kept.actor)
        details = await here.details("maintenance/cleanup/x")
        assert "**done**, asked by anna: spring" in details
        assert "went: 2 failed" in details


async def test_schedule_is_made_once_changed_at_start_and_paused_by_people_alone(prompt: Client):
    await keep_schedule(prompt, "02:00", "UTC")
    await keep_schedule(prompt, "02:00", "UTC")
    handle = prompt.get_schedule_handle(names.MAINTENANCE)
    known = await handle.describe()
    assert (2, 0) == (known.info.next_action_times[0].hour, known.info.next_action_times[0].minute)
    await handle.pause(note="the auditors come")
    await keep_schedule(prompt, "13:30", "UTC")
    changed = await handle.describe()
    assert (True, "the auditors come") == (changed.schedule.state.paused, changed.schedule.state.note)
    await handle.unpause()

    async def later() -> tuple[int, int] | None:
        times = (await handle.describe()).info.next_action_times
        return (times[0].hour, times[0].minute) if times else None

    assert (13, 30) == await until(later, "a next time")


async def test_a_schedule_the_engine_does_not_understand_is_refused(prompt: Client):
    with pytest.raises(ScheduleError, match="02:00 Middle/Earth"):
        await keep_schedule(prompt, "02:00", "Middle/Earth")


async def test_the_schedule_removes_what_is_old(prompt: Client):
    async with world(prompt, "e1") as here:
        task_ids = await failed_tasks(here, 2)
        await keep_schedule(prompt, "02:00", "UTC")
        await prompt.get_schedule_handle(names.MAINTENANCE).trigger()
        await forgotten(here, *task_ids)

        async def done() -> Any:
            query = f"WorkflowType = '{names.Workflow.MAINTENANCE}'"
            runs = [run async for run in prompt.list_workflows(query)]
            return runs[0] if runs and runs[0].status is WorkflowExecutionStatus.COMPLETED else None

        one = await until(done, "the cleanup of the schedule to be done")
        assert one.id.startswith(f"{names.MAINTENANCE}-")
        report = await one.memo_value(names.MEMO_REPORT, type_hint=CleanupReport)
        assert ("system:schedule", "every day at 02:00 UTC") == (report.actor, report.reason)
