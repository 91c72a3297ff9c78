"""The three activities on a real engine: what they take, what they say, and in which turn they come."""

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.stage import SLOTS, StageActivities
from droidherd.contracts.changes import Undo
from droidherd.contracts.stage import Captured, StageFailure, StageOutcome, StageReport, StageWork, UndoReport, UndoWork
from droidherd.emulator.token import Token
from tests.changes.world import World
from tests.emulator.farm import eventually

QUEUE = "emulator/e1"
ONCE = RetryPolicy(maximum_attempts=1)
LONG = timedelta(seconds=60)
BEAT = timedelta(seconds=15)


@workflow.defn(name="OneActivity")
class OneActivity:
    """Runs one activity and says what it said."""

    @workflow.run
    async def run(self, name: str, work: UndoWork) -> dict[str, object]:
        kinds = {"capture_before": Captured, "run_stage": StageReport, "undo_stage": UndoReport}
        sent = work if name == "undo_stage" else StageWork.model_validate(work.model_dump())
        result = await workflow.execute_activity(
            name,
            sent,
            result_type=kinds[name],
            task_queue=QUEUE,
            start_to_close_timeout=LONG,
            heartbeat_timeout=BEAT,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=ONCE,
        )
        return result.model_dump(mode="json")


@asynccontextmanager
async def working(client: Client, world: World) -> AsyncGenerator[None]:
    stages = StageActivities(world.services(), client, asyncio.get_running_loop(), 0.5)
    with ThreadPoolExecutor(4) as threads:
        async with Worker(
            client,
            task_queue=QUEUE,
            workflows=[OneActivity],
            activities=stages.all(),
            activity_executor=threads,
            max_concurrent_activities=SLOTS,
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            yield


async def started(
    client: Client, world: World, name: str, undo: Undo | None = None, *, force: bool = False
) -> WorkflowHandle[OneActivity, dict[str, object]]:
    work = world.work(last=name != "capture_before")
    nothing = Undo(stage_index=0, stage="main", emulator="e1")
    sent = UndoWork(**dict(work), undo=undo or nothing, force=force)
    return await client.start_workflow(OneActivity.run, args=[name, sent], id=f"{name}-{work.tries}", task_queue=QUEUE)


async def result_of(
    client: Client, world: World, name: str, undo: Undo | None = None, *, force: bool = False
) -> object:
    return await (await started(client, world, name, undo, force=force)).result()


async def test_captured_changed_and_taken_back_over_the_engine(temporal_client: Client, world: World):
    before = world.dump()
    async with working(temporal_client, world):
        captured = Captured.model_validate(await result_of(temporal_client, world, "capture_before"))
        report = StageReport.model_validate(await result_of(temporal_client, world, "run_stage"))
        assert before != world.dump()
        undo = Undo(stage_index=0, stage="main", emulator="e1", before=captured.before, after=report.after)
        world.shell("wm density 200")
        torn = UndoReport.model_validate(await result_of(temporal_client, world, "undo_stage", undo))
        assert [("density", "200")] == [(each.name, each.found) for each in torn.conflicts if each.thing == "wm"]
        undone = UndoReport.model_validate(await result_of(temporal_client, world, "undo_stage", undo, force=True))
    assert ((), True, "worker") == (undone.conflicts, undone.released, undone.worker)
    assert before == world.dump()


async def test_the_worker_logs_the_grant_and_how_long_its_stage_took(
    temporal_client: Client, world: World, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level("INFO", logger="droidherd.stage"):
        async with working(temporal_client, world):
            await result_of(temporal_client, world, "run_stage")
    granted, begins, ends = (vars(record) for record in caplog.records if record.name == "droidherd.stage")
    assert ("granted", 0) == (granted["msg"], granted["waiting"])
    assert ["main", "main"] == [begins["stage"], ends["stage"]]
    assert ("completed", True) == (ends["outcome"], ends["seconds"] > 0)


async def test_the_trouble_of_a_stage_that_failed_tells_what_it_left_changed(temporal_client: Client, world: World):
    world.replan([{"set": {"setting": "global/x", "to": "1"}}, {"put": {"file": "/sdcard/none/x", "text": "x"}}])
    async with working(temporal_client, world):
        await result_of(temporal_client, world, "capture_before")
        with pytest.raises(WorkflowFailureError) as caught:
            await result_of(temporal_client, world, "run_stage")
    error = caught.value.cause
    assert isinstance(error, ActivityError)
    assert isinstance(error.cause, ApplicationError)
    trouble = StageFailure.model_validate(error.cause.details[0])
    assert ("final", True) == (trouble.verdict, trouble.clean)
    assert {"global/x": (True, "1"), "/sdcard/none/x": (False, "")} == {
        value.name: (value.there, value.value) for value in trouble.after
    }


async def test_an_undo_waits_for_its_turn_behind_a_stage_and_fences_it_afterwards(
    temporal_client: Client, world: World
):
    world.replan([{"sleep": {"for": "1s"}}, {"set": {"setting": "global/x", "to": "1"}}])
    before = world.dump()
    async with working(temporal_client, world):
        captured = Captured.model_validate(await result_of(temporal_client, world, "capture_before"))
        stage = await started(temporal_client, world, "run_stage")
        mine = str(Token(world.one.lease, 0, world.tries))
        await asyncio.to_thread(eventually, lambda: world.shell("getprop debug.droidherd.token").strip() == mine)
        undo = Undo(stage_index=0, stage="main", emulator="e1", before=captured.before)
        undone = UndoReport.model_validate(await result_of(temporal_client, world, "undo_stage", undo))
        await stage.result()
    assert (("setting global/x",), before) == (undone.restored, world.dump())


@pytest.mark.parametrize(("name", "report"), [("capture_before", Captured), ("undo_stage", UndoReport)])
async def test_what_is_not_wanted_any_more_before_its_turn_touches_nothing(
    temporal_client: Client, world: World, name: str, report: type[StageReport]
):
    world.replan([{"sleep": {"for": "30s"}}, {"set": {"setting": "global/x", "to": "1"}}])
    async with working(temporal_client, world):
        stage = await started(temporal_client, world, "run_stage")
        mine = str(Token(world.one.lease, 0, world.tries))
        await asyncio.to_thread(eventually, lambda: world.shell("getprop debug.droidherd.token").strip() == mine)
        behind = await started(temporal_client, world, name)
        await in_hand(behind)
        await behind.cancel()
        result = report.model_validate(await behind.result())
        assert (StageOutcome.NOT_BEGUN, False) == (result.outcome, result.released)
        assert mine == world.shell("getprop debug.droidherd.token").strip()
        await stage.cancel()
        assert StageOutcome.STOPPED == StageReport.model_validate(await stage.result()).outcome


async def in_hand(handle: WorkflowHandle[OneActivity, dict[str, object]]) -> None:
    """Until a worker has taken its activity."""
    until_s = time.monotonic() + LONG.total_seconds()
    while time.monotonic() < until_s:
        pending = (await handle.describe()).raw_description.pending_activities
        if any(each.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED for each in pending):
            return
        await asyncio.sleep(0.02)
    raise TimeoutError(f"nobody took the activity of {handle.id}")
