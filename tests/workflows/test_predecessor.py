"""What a dispatcher that begins finds out about the one before it."""

from collections.abc import Sequence
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.engine import EngineActivities
from droidherd.contracts import names
from droidherd.contracts.engine import PoolWork, Predecessor
from droidherd.contracts.queue import (
    AuditPage,
    AuditQuery,
    CommandResult,
    DisabledPage,
    DisabledQuery,
    DispatcherInput,
)
from droidherd.domain.dispatch.audit import AuditEntry
from tests.workflows.world import POOL, World, until, wake, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def found_in(here: World) -> Predecessor:
    """As the present run of its dispatcher would be listed."""
    run = (await here.dispatcher().describe()).run_id
    return await EngineActivities(here.client, POOL).find_predecessor(PoolWork(pool=here.pool, run_id=run))


@workflow.defn(name=names.Workflow.DISPATCHER)
class Another:
    """Did something that no dispatcher does: nobody can ask it any more."""

    @workflow.run
    async def run(self, start: DispatcherInput) -> None:
        await workflow.sleep(3600 if start.pool else 0)

    @workflow.update(dynamic=True)
    def any_order(self, name: str, arguments: Sequence[RawValue]) -> CommandResult:
        return CommandResult(done=True)

    @workflow.signal
    def stumble(self) -> None:
        raise RuntimeError("loses every decision from now on")


@pytest.mark.parametrize("stuck", [False, True])
async def test_what_was_known_before_a_silent_predecessor_is_out_of_date(client: Client, *, stuck: bool):
    async with world(client) as here:  # without an emulator: nobody brings a dispatcher back
        await wake(here)
        dispatcher = here.dispatcher()
        await until(lambda: knows_all(here), "the first one to know all")
    await dispatcher.terminate("knew everything")
    queue, start = names.FLEET_QUEUE, DispatcherInput(pool=here.pool)
    async with Worker(client, task_queue=queue, workflows=[Another], workflow_runner=UnsandboxedWorkflowRunner()):
        another = await client.start_workflow(names.Workflow.DISPATCHER, start, id=dispatcher.id, task_queue=queue)
        await until(lambda: has_decided(another), "the other one to decide")
        if stuck:
            await another.signal(Another.stumble)
            await until(lambda: is_stuck(another), "the engine to let nobody ask it any more")
    await another.terminate("knew more")
    unborn = await client.start_workflow(names.Workflow.DISPATCHER, start, id=dispatcher.id, task_queue=queue)
    await unborn.terminate("knew nothing yet")
    async with world(client) as here:
        await wake(here)
        found = await found_in(here)
        assert (True, "") == (found.existed, found.snapshot)


async def knows_all(here: World) -> bool | None:
    return not (await here.queue()).rebuilding or None


async def has_decided(another: WorkflowHandle[Any, Any]) -> bool | None:
    events = (await another.fetch_history()).events
    return any(event.HasField("timer_started_event_attributes") for event in events) or None


async def is_stuck(another: WorkflowHandle[Any, Any]) -> bool | None:
    pending = (await another.describe()).raw_description.pending_workflow_task
    return pending.attempt > 3 or None


async def test_dispatcher_with_deleted_predecessors_learns_from_its_tasks_of_them(client: Client):
    async with world(client, "e1") as here:
        assert not (await found_in(here)).existed
        await here.submit("task")
        await here.ended("task")

        async def known() -> bool | None:
            return (await found_in(here)).existed or None

        await until(known, "the engine's lists to show the task")


async def test_what_people_set_is_known_after_a_run_that_nobody_can_replay(client: Client):
    """Read from the histories of both runs before: of one that took over from another, and of that other one."""
    async with world(client) as here:
        await wake(here)
        dispatcher = here.dispatcher()
        await until(lambda: knows_all(here), "the first one to know all")
        await here.order("set_capacity", lane="account", capacity=3, actor="anna", reason="slow hosts")
        await here.order("set_order", lane="anonymous", order="priority", ageing=2, actor="anna")
        await here.order("pause_lane", lane="account", actor="anna")
        await here.order("disable_account", account="player-1", actor="ben", reason="banned")
    await dispatcher.terminate("knew everything")
    queue, start = names.FLEET_QUEUE, DispatcherInput(pool=here.pool)
    async with Worker(client, task_queue=queue, workflows=[Another], workflow_runner=UnsandboxedWorkflowRunner()):
        another = await client.start_workflow(names.Workflow.DISPATCHER, start, id=dispatcher.id, task_queue=queue)
        await here.order("resume_lane", lane="account", actor="ben")
        await here.order("pause_lane", lane="video", actor="ben", reason="codec", request_id="r-1")
        await here.order("pause_lane", lane="video", actor="ben", reason="codec", request_id="r-1")
        entry = AuditEntry("task_cancelled", "carla", "by mistake", once="x")
        for _ in range(2):
            await another.signal(names.Signal.AUDIT_ENTRY, entry)
        await until(lambda: has_decided(another), "the other one to decide")
    await another.terminate("cannot be replayed")
    async with world(client) as here:
        await wake(here)
        await until(lambda: knows_all(here), "the successor to know all")
        lanes = {one.name: one for one in (await here.queue()).lanes}
        assert (3, "anna", "") == (lanes["account"].capacity, lanes["account"].capacity_by, lanes["account"].paused_by)
        assert ("priority", 2) == (lanes["anonymous"].order, lanes["anonymous"].ageing)
        assert ("ben", "codec") == (lanes["video"].paused_by, lanes["video"].paused_why)
        disabled = await here.dispatcher().query(names.Query.DISABLED, DisabledQuery(), result_type=DisabledPage)
        assert ["player-1"] == [one.account for one in disabled.accounts]
        page = await here.dispatcher().query(names.Query.AUDIT, AuditQuery(), result_type=AuditPage)
        listed = [(event.kind, event.actor) for event in reversed(page.events) if not event.actor.startswith("system:")]
        expected = [
            ("lane_capacity", "anna"), ("lane_ordering", "anna"), ("lane_paused", "anna"), ("account_disabled", "ben"),
            ("lane_resumed", "ben"), ("lane_paused", "ben"), ("task_cancelled", "carla"),
        ]  # fmt: skip
        assert expected == listed
        assert ("rebuilt", "system:rebuild") in [(event.kind, event.actor) for event in page.events]
