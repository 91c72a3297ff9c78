"""What is old goes, on a real engine: tasks with their artifacts, artifacts without a task, what does not fit."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from activities import archive as archive_module
from activities.archive import EngineArchive
from activities.maintenance import ScheduleError, keep_schedule
from droidherd.artifacts.store import MARK
from droidherd.cleanup import Keep
from droidherd.cli import ports
from droidherd.cli.embedded import EmbeddedTemporal, Profile
from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupReport, Why
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain.errors import FlowError
from droidherd.domain.lifecycle import TaskState
from droidherd.domain.retention import Page, Policy, Span
from tests.workflows.plays import Hold, fails
from tests.workflows.world import Upkeep, World, until, world
from workflows import options
from workflows.sandbox import PASSED_THROUGH, LeanSandbox

_numbers = itertools.count(1)
pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = Policy(0.0, 0.0, 0.0)
AT_ONCE = {
    "history.transferProcessorUpdateAckInterval": "100ms",
    "history.visibilityProcessorUpdateAckInterval": "100ms",
}
"""The engine forgets a run only when its queues are past the run's end, which it writes down every half minute."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """As in production, but that it forgets what ended just now."""
    profile = Profile(port=ports.free(), database=None, dynamic_config=AT_ONCE)
    with EmbeddedTemporal.start(tmp_path_factory.mktemp("temporal"), in_memory=True, profile=profile) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def client(engine: EmbeddedTemporal) -> Client:
    """In a namespace of its own."""
    name = f"keep-{next(_numbers)}"
    engine.add_namespace(name)
    return await Client.connect(engine.address, namespace=name, data_converter=pydantic_data_converter)


async def every_end(here: World) -> None:
    """A task for each way to end, each with an artifact of 5 bytes."""
    await here.submit("completed")
    await here.ended("completed")
    await here.submit("failed", fails(FlowError("no such screen")))
    await here.ended("failed")
    await here.order("pause_lane", actor="anna")
    await here.submit("cancelled", account="a")
    await here.reached("cancelled", TaskState.QUEUED)
    await here.submit_for_a_verdict("rejected", account="a")
    await here.control("cancelled", "cancel")
    await here.ended("cancelled")
    await here.ended("rejected")
    await here.submit("terminated")
    await here.reached("terminated", TaskState.QUEUED)
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


def removed(report: CleanupReport, why: Why = Why.AGE) -> dict[str, str]:
    return {one.task_id: one.state for one in report.tally.removed if one.why is why}


async def forgotten(here: World, *task_ids: str) -> None:
    """The engine carries a removal out a moment later."""
    for task_id in task_ids:

        async def gone(task_id: str = task_id) -> bool | None:
            return None if await here.known(task_id) else True

        await until(gone, f"the engine to forget {task_id}")


async def test_what_has_ended_goes_with_its_artifacts(client: Client):
    async with world(client, "e1") as here:
        await every_end(here)
        report = await here.clean_up(actor="anna", reason="spring")
        assert ENDS == removed(report)
        expected = {"completed": 1, "failed": 2, "cancelled": 1, "rejected": 1}
        assert (expected, 25, 0, 0) == (report.tally.tasks, report.tally.bytes, report.tally.orphans, report.tally.shed)
        assert ("anna", "spring", False, ()) == (report.actor, report.reason, report.dry_run, report.tally.troubles)
        await forgotten(here, *ENDS)
        assert [()] * 5 == [here.store.list(task_id) for task_id in ENDS]


async def test_a_dry_run_says_what_would_go_and_touches_nothing(client: Client):
    async with world(client, "e1") as here:
        await every_end(here)
        dry = await here.clean_up(dry_run=True)
        assert [True] * 5 == [await here.known(task_id) for task_id in ENDS]
        assert [5] * 5 == [here.store.size(task_id) for task_id in ENDS]
        real = await here.clean_up()
        assert dry.tally.tasks == real.tally.tasks
        assert (removed(dry), dry.tally.bytes) == (removed(real), real.tally.bytes)
        assert all(one.age_s >= 0 for one in real.tally.removed)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(0.0, 30.0, 30.0), {"completed", "cancelled"}),
        (Policy(30.0, 0.0, 30.0), {"failed", "terminated"}),
        (Policy(30.0, 30.0, 0.0), {"rejected"}),
        (Policy(), set[str]()),
    ],
)
async def test_each_kind_of_end_has_days_of_its_own(client: Client, policy: Policy, expected: set[str]):
    async with world(client, "e1", upkeep=Upkeep(Keep(policy))) as here:
        await every_end(here)
        assert expected == set(removed(await here.clean_up()))
        await forgotten(here, *expected)
        assert [True] * (5 - len(expected)) == [await here.known(one) for one in ENDS if one not in expected]
        assert {one for one in ENDS if here.store.size(one)} == set(ENDS) - expected


async def test_an_open_task_is_never_touched(client: Client):
    keep = Keep(NOTHING, orphan_days=0.0, artifacts_max_bytes=1)
    async with world(client, "e1", upkeep=Upkeep(keep)) as here:
        hold = Hold()
        await here.submit("runs", hold)
        await hold.began.wait()
        await here.submit("waits")
        await here.reached("waits", TaskState.QUEUED)
        await here.submit("paused")
        await here.control("paused", "pause")
        await here.reached("paused", TaskState.PAUSED)
        for task_id in ("runs", "waits", "paused"):
            here.store.put(task_id, "a.png", b"12345")
        report = await here.clean_up()
        assert ((), ()) == (report.tally.removed, report.tally.troubles)
        assert [5, 5, 5] == [here.store.size(task_id) for task_id in ("runs", "waits", "paused")]
        hold.let_go.set()
        assert TaskState.COMPLETED == (await here.ended("runs")).state
        await here.control("paused", "cancel")


async def again(here: World, task_id: str, hold: Hold) -> None:
    """A new run under the id of a task that has ended, as retry by hand and rollback start one."""
    here.stages.plays[task_id] = [hold]
    await here.client.start_workflow(
        names.Workflow.TASK,
        TaskInput(spec=TaskSpec(type="sample", pool=here.pool)),
        id=task_id,
        task_queue=names.QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )


async def runs_of(here: World, task_id: str) -> int:
    return (await here.client.count_workflows(f"WorkflowId = '{task_id}'")).count


async def test_a_task_that_runs_again_under_its_id_is_not_touched_and_later_goes_with_all_its_runs(client: Client):
    async with world(client, "e1") as here:
        await here.submit("task", fails(FlowError("no such screen")))
        await here.ended("task")
        here.store.put("task", "a.png", b"12345")
        await here.listed("task")
        hold = Hold()
        await again(here, "task", hold)
        await hold.began.wait()
        assert () == (await here.clean_up()).tally.removed
        assert (2, 5) == (await runs_of(here, "task"), here.store.size("task"))
        hold.let_go.set()
        assert TaskState.COMPLETED == (await here.ended("task")).state

        async def both_closed() -> bool | None:
            query = "WorkflowId = 'task' AND ExecutionStatus != 'Running'"
            return True if (await here.client.count_workflows(query)).count == 2 else None

        await until(both_closed, "both runs to be listed as closed")
        report = await here.clean_up()
        assert ({"task": "completed"}, {"completed": 1}) == (removed(report), report.tally.tasks)

        async def none_left() -> bool | None:
            return True if await runs_of(here, "task") == 0 else None

        await until(none_left, "every run to be forgotten")


async def test_the_last_end_of_a_task_decides_how_long_it_is_kept(client: Client):
    """It failed, which is not kept here, and then completed, which is."""
    async with world(client, "e1", upkeep=Upkeep(Keep(Policy(30.0, 0.0, 0.0)))) as here:
        await here.submit("task", fails(FlowError("no such screen")))
        await here.ended("task")
        hold = Hold()
        await again(here, "task", hold)
        hold.let_go.set()
        await here.ended("task")
        await here.listed("task")
        assert () == (await here.clean_up()).tally.removed
        assert 2 == await runs_of(here, "task")


@workflow.defn(name=names.Workflow.TASK)
class Continues:
    """Stands in for a task with a long history."""

    @workflow.run
    async def run(self, left: int) -> None:
        if left:
            workflow.continue_as_new(left - 1)


async def test_every_run_of_a_chain_goes_and_what_continued_is_no_end(client: Client):
    async with world(client, "e1") as here:
        worker = Worker(
            client,
            task_queue="chains",
            workflows=[Continues],
            workflow_runner=LeanSandbox.passing(*PASSED_THROUGH, "tests"),
        )
        async with worker:
            await client.execute_workflow(names.Workflow.TASK, 3, id="chain", task_queue="chains")
        await here.listed("chain")

        async def four() -> bool | None:
            query = "WorkflowId = 'chain' AND ExecutionStatus != 'Running'"
            return True if (await client.count_workflows(query)).count == 4 else None

        await until(four, "four runs to be listed as closed")
        report = await here.clean_up()
        assert {"completed": 1} == report.tally.tasks

        async def none_left() -> bool | None:
            return True if await runs_of(here, "chain") == 0 else None

        await until(none_left, "every run to be forgotten")


async def test_an_id_that_no_folder_can_have_is_no_obstacle(client: Client):
    async with world(client, "e1") as here:
        odd = ["..", ".hidden", "it's \\ odd", "a/b"]
        for task_id in odd:
            await here.submit(task_id)
            with contextlib.suppress(WorkflowFailureError):
                await here.task(task_id).result()
        await here.listed(*odd)
        report = await here.clean_up()
        assert (set(odd), 0) == (set(removed(report)), report.tally.bytes)
        await forgotten(here, *odd)


# --- going on -----------------------------------------------------------------------------------------------------


@dataclass
class Stumbling(EngineArchive):
    """The real archive; once it breaks in the middle."""

    client: Client
    after: int = 5
    asked: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    deleted: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__(self.client)

    async def closed(self, span: Span, cursor: str) -> Page:
        self.asked.append((span.states, cursor))
        return await super().closed(span, cursor)

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


async def test_a_cleanup_that_broke_off_goes_on_where_it_stopped(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_module, "PAGE", 2)
    made: list[Stumbling] = []

    def stumbling(client: Client) -> Stumbling:
        made.append(Stumbling(client))
        return made[-1]

    async with world(client, "e1", upkeep=Upkeep(archive=stumbling)) as here:
        task_ids = await failed_tasks(here, 9)
        report = await here.clean_up()
        assert (sorted(task_ids), {"failed": 9}) == (sorted(removed(report)), report.tally.tasks)
        assert (45, 10) == (report.tally.bytes, len(made[0].deleted))
        begun = [cursor for states, cursor in made[0].asked if "completed" in states and "rejected" not in states]
        assert [""] == begun, "the spans before are not looked at again"
        repeated = [asked for asked in set(made[0].asked) if made[0].asked.count(asked) > 1]
        assert 1 == len(repeated), "only the page it broke off in is looked at again"
        assert "" != repeated[0][1]
        await forgotten(here, *task_ids)


async def test_a_report_names_a_bounded_number_and_counts_the_rest(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.contracts.maintenance.LISTED", 3)
    async with world(client, "e1") as here:
        await failed_tasks(here, 5)
        tally = (await here.clean_up()).tally
        assert (3, 2, {"failed": 5}, 25) == (len(tally.removed), tally.more, tally.tasks, tally.bytes)


# --- artifacts ----------------------------------------------------------------------------------------------------


def age(here: World, task_id: str, days: float) -> None:
    """Make the artifacts of a task look as if they were left so long ago."""
    folder = here.store._root / task_id
    for path in (*folder.iterdir(), folder):
        moment = path.stat().st_mtime - timedelta(days=days).total_seconds()
        os.utime(path, (moment, moment))


async def test_artifacts_nobody_owns_go_after_a_day(client: Client):
    async with world(client, "e1", upkeep=Upkeep(Keep(Policy()))) as here:
        await here.submit("known")
        await here.ended("known")
        for task_id, days in (("known", 3.0), ("old", 1.1), ("young", 0.9)):
            here.store.put(task_id, "a.png", b"12345")
            age(here, task_id, days)
        for dry_run in (True, False):
            tally = (await here.clean_up(dry_run=dry_run)).tally
            assert (1, 5, {"old"}) == (tally.orphans, tally.bytes, {one.task_id for one in tally.removed})
        assert [5, 0, 5] == [here.store.size(task_id) for task_id in ("known", "old", "young")]


async def test_a_directory_that_is_not_ours_alone_is_not_swept(client: Client):
    async with world(client, "e1") as here:
        here.store.put("old", "a.png", b"12345")
        age(here, "old", 9.0)
        (here.store._root / MARK).unlink()
        tally = (await here.clean_up()).tally
        assert (5, 0, 1) == (here.store.size("old"), tally.orphans, len(tally.troubles))
        assert "may hold more than artifacts" in tally.troubles[0]


async def ended_in_turn(here: World, *task_ids: str) -> None:
    for task_id in task_ids:
        await here.submit(task_id)
        await here.ended(task_id)
        here.store.put(task_id, "a.png", b"x" * 100)
    await here.listed(*task_ids)


async def test_artifacts_beyond_the_limit_go_and_their_tasks_stay(client: Client):
    keep = Keep(Policy(), artifacts_max_bytes=350)
    async with world(client, "e1", upkeep=Upkeep(keep)) as here:
        await ended_in_turn(here, "first", "second", "third", "fourth")
        age(here, "fourth", 0.5)  # when a task ended counts, not when it last wrote
        hold = Hold()
        await here.submit("runs", hold)
        await hold.began.wait()
        here.store.put("runs", "a.png", b"x" * 100)
        dry = (await here.clean_up(dry_run=True)).tally
        real = (await here.clean_up()).tally
        assert dry == real.model_copy(update={"removed": dry.removed})
        assert (["first", "second"], 2, 200, {}) == (
            [one.task_id for one in real.removed],
            real.shed,
            real.bytes,
            real.tasks,
        )
        left = {one: here.store.size(one) for one in ("first", "second", "third", "fourth", "runs")}
        assert {"first": 0, "second": 0, "third": 100, "fourth": 100, "runs": 100} == left
        assert TaskState.COMPLETED == (await here.view("first")).state
        assert () == (await here.clean_up()).tally.removed
        hold.let_go.set()


async def test_what_goes_by_its_age_makes_room_for_the_rest(client: Client):
    keep = Keep(Policy(completed_days=30.0, failed_days=0.0), artifacts_max_bytes=350)
    async with world(client, "e1", upkeep=Upkeep(keep)) as here:
        await ended_in_turn(here, "first", "second", "third")
        await here.submit("failed", fails(FlowError("no such screen")))
        await here.ended("failed")
        here.store.put("failed", "a.png", b"x" * 100)
        await here.listed("failed")
        for dry_run in (True, False):
            tally = (await here.clean_up(dry_run=dry_run)).tally
            assert ({"failed": 1}, 0, 100) == (tally.tasks, tally.shed, tally.bytes)


async def test_artifacts_that_cannot_be_removed_are_said_and_hold_nothing_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    async with world(client, "e1") as here:
        await ended_in_turn(here, "first", "second")
        remove = here.store.remove

        def refuses(task_id: str) -> int:
            if task_id == "first":
                raise PermissionError(13, "not yours")
            return remove(task_id)

        monkeypatch.setattr(here.store, "remove", refuses)
        tally = (await here.clean_up()).tally
        assert {"completed": 2} == tally.tasks
        assert "the artifacts of task first cannot be removed: [Errno 13] not yours" in tally.troubles
        assert (100, 0) == (here.store.size("first"), here.store.size("second"))


async def test_a_host_that_is_away_is_said_and_the_rest_is_done(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "SWEEP_START", timedelta(seconds=0.5))
    async with world(client, "e1", joined=False) as here:
        await here.join()
        await ended_nowhere(here)
        report = await here.clean_up()
        assert ({"failed": 1}, ("host h1 is away: its artifacts were not swept",)) == (
            report.tally.tasks,
            report.tally.troubles,
        )


async def ended_nowhere(here: World) -> None:
    await here.submit("task", params={"wrong": 1})
    await here.ended("task")
    await here.listed("task")

    async def listed() -> bool | None:
        return True if (await here.client.count_workflows("WorkflowType = 'HostWorkflow'")).count else None

    await until(listed, "the host to be listed")


# --- who sees it --------------------------------------------------------------------------------------------------


async def test_a_cleanup_says_what_it_did_to_who_asks_in_its_memo_and_in_the_web_ui(client: Client):
    async with world(client, "e1") as here:
        await failed_tasks(here, 2)
        report = await here.clean_up("maintenance/cleanup/x", actor="anna", reason="spring")
        handle = client.get_workflow_handle("maintenance/cleanup/x")
        assert report == await handle.query(names.Query.VIEW, result_type=CleanupReport)
        kept = await (await handle.describe()).memo_value(names.MEMO_REPORT, type_hint=CleanupReport)
        assert (report.tally.tasks, (), "anna") == (kept.tally.tasks, kept.tally.removed, kept.actor)
        details = await here.details("maintenance/cleanup/x")
        assert "**done**, asked by anna: spring" in details
        assert "went: 2 failed" in details


async def test_the_schedule_is_made_once_changed_by_whoever_starts_and_paused_by_people_alone(client: Client):
    await keep_schedule(client, "02:00", "UTC")
    await keep_schedule(client, "02:00", "UTC")
    handle = client.get_schedule_handle(names.MAINTENANCE)
    known = await handle.describe()
    assert (2, 0) == (known.info.next_action_times[0].hour, known.info.next_action_times[0].minute)
    await handle.pause(note="the auditors come")
    await keep_schedule(client, "13:30", "UTC")
    changed = await handle.describe()
    assert (True, "the auditors come") == (changed.schedule.state.paused, changed.schedule.state.note)
    await handle.unpause()

    async def later() -> tuple[int, int] | None:
        times = (await handle.describe()).info.next_action_times
        return (times[0].hour, times[0].minute) if times else None

    assert (13, 30) == await until(later, "a next time")


async def test_a_schedule_the_engine_does_not_understand_is_refused(client: Client):
    with pytest.raises(ScheduleError, match="02:00 Middle/Earth"):
        await keep_schedule(client, "02:00", "Middle/Earth")


async def test_the_schedule_removes_what_is_old(client: Client):
    async with world(client, "e1") as here:
        task_ids = await failed_tasks(here, 2)
        await keep_schedule(client, "02:00", "UTC")
        await client.get_schedule_handle(names.MAINTENANCE).trigger()
        await forgotten(here, *task_ids)

        async def done() -> Any:
            query = f"WorkflowType = '{names.Workflow.MAINTENANCE}'"
            runs = [run async for run in client.list_workflows(query)]
            return runs[0] if runs and runs[0].status is WorkflowExecutionStatus.COMPLETED else None

        one = await until(done, "the cleanup of the schedule to be done")
        assert one.id.startswith(f"{names.MAINTENANCE}-")
        report = await one.memo_value(names.MEMO_REPORT, type_hint=CleanupReport)
        assert ("system:schedule", "every day at 02:00 UTC") == (report.actor, report.reason)
