"""Temporal's reset (a button in its Web UI): nothing goes on from an earlier point, and nothing is stuck."""

from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from droidherd.contracts import names
from droidherd.contracts.accounts import SetAccount
from droidherd.contracts.tasks import TaskInput, TaskSpec, TaskView
from droidherd.domain.errors import FlowError
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.connection import EngineConfig
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.workflows.plays import Hold, completes, fails
from tests.workflows.world import World, until, wake, world
from workflows.guard import RESET, GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")

Handle = WorkflowHandle[Any, Any]
FIRST, LAST = 0, -1


async def reset(client: Client, workflow_id: str, point: int) -> Handle:
    """As the button does: to the first workflow task, or to the last one."""
    events = (await client.get_workflow_handle(workflow_id).fetch_history()).events
    ends = [one.event_id for one in events if one.HasField("workflow_task_completed_event_attributes")]
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            reason="somebody pressed the button",
            workflow_task_finish_event_id=ends[point],
            request_id=f"{workflow_id}-{ends[point]}-{len(events)}",
        )
    )
    return client.get_workflow_handle(workflow_id, run_id=answer.run_id)


async def closed(run: Handle) -> WorkflowExecutionStatus:
    """How it closed. What it wrote can be replayed."""

    async def over() -> WorkflowExecutionStatus | None:
        status = (await run.describe()).status
        return None if status is WorkflowExecutionStatus.RUNNING else status

    status = await until(over, f"{run.id} to close")
    history = await run.fetch_history()
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=GuardedRunner(), data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)
    return status


async def submitted(here: World, task_id: str, *plays: Any, **spec: Any) -> None:
    """Through our own client, which has Temporal refuse an id that was used."""
    here.stages.plays[task_id] = list(plays)
    await here.client.start_workflow(
        names.Workflow.TASK,
        TaskInput(spec=TaskSpec(type="sample", pool=here.pool, **spec)),
        id=task_id,
        task_queue=names.QUEUE,
        memo={names.MEMO_REQUEST: "ours"},
    )


async def view_of(run: Handle) -> TaskView:
    return await run.query(names.Query.VIEW, result_type=TaskView)


@pytest.mark.parametrize("point", [FIRST, LAST])
async def test_a_completed_task_that_is_reset_stays_completed(here: World, task: str, point: int):
    await submitted(here, task, completes)
    await here.ended(task)
    run = await reset(here.client, task, point)
    assert WorkflowExecutionStatus.COMPLETED is await closed(run)
    view = await view_of(run)
    assert (TaskStatus.COMPLETED, "completed", "reset", "temporal") == (
        view.state, view.attempts[-1].outcome, view.events[-1].event, view.events[-1].actor,
    )  # fmt: skip
    assert 1 == len(here.stages.of(task))


@pytest.mark.parametrize("point", [FIRST, LAST])
async def test_a_running_task_that_is_reset_fails_and_can_be_retried(here: World, task: str, point: int):
    hold = Hold()
    await submitted(here, task, hold, completes, account=task)
    await hold.began.wait()
    await here.ask(task, "pause")
    run = await reset(here.client, task, point)
    hold.let_go.set()
    assert WorkflowExecutionStatus.FAILED is await closed(run)
    view = await view_of(run)
    assert (TaskStatus.FAILED, "terminated") == (view.state, view.error and view.error.kind)
    await here.again(task)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 2) == (view.state, len(view.attempts))
    # What stood on the emulator's queue is given out once more, with the same token: the emulator refuses that.
    assert 2 == len({(one.lease, one.stage_index, one.tries) for one in here.stages.of(task)})


async def test_a_task_that_is_reset_again_and_again_stays_as_it_ended(here: World, task: str):
    await submitted(here, task, fails(FlowError("no such screen")))
    await here.ended(task)
    for point in (FIRST, LAST, FIRST):
        run = await reset(here.client, task, point)
        assert WorkflowExecutionStatus.FAILED is await closed(run)
        view = await view_of(run)
        assert (TaskStatus.FAILED, "FlowError") == (view.state, view.error and view.error.kind)
    assert 1 == len(here.stages.of(task))


async def test_a_cancelled_task_that_is_reset_stays_cancelled(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await submitted(here, task, completes)
    await here.reached(task, TaskStatus.QUEUED)
    await here.control(task, "cancel")
    await here.ended(task)
    for point in (FIRST, LAST):
        run = await reset(here.client, task, point)
        assert WorkflowExecutionStatus.CANCELED is await closed(run)
        assert TaskStatus.CANCELLED is (await view_of(run)).state
    await here.order("resume_lane", actor="anna")
    assert [] == here.stages.of(task)


@pytest.mark.parametrize("point", [FIRST, LAST])
@pytest.mark.parametrize("workflow_id", ["dispatcher/default", "emulator/e1", "host/h1"])
async def test_a_part_that_is_reset_ends_and_begins_anew(client: Client, workflow_id: str, point: int):
    async with world(client, "e1") as here:
        hold = Hold()
        await submitted(here, "runs", hold)
        await hold.began.wait()
        await here.order("pause_lane", lane="account", actor="anna", reason="release")
        await submitted(here, "waits", completes)
        await here.reached("waits", TaskStatus.QUEUED)
        run = await reset(client, workflow_id, point)
        assert WorkflowExecutionStatus.FAILED is await closed(run)
        with pytest.raises(WorkflowFailureError) as raised:
            await run.result()
        assert isinstance(raised.value.cause, ApplicationError)
        assert RESET == raised.value.cause.type
        await begin_anew(here)
        hold.let_go.set()
        assert [TaskStatus.COMPLETED] * 2 == [(await here.ended(name)).state for name in ("runs", "waits")]
        assert [1, 1] == [len(here.stages.of(name)) for name in ("runs", "waits")]
        paused = {lane.name: lane.paused_why for lane in (await here.queue()).lanes}
        assert "release" == paused["account"]


async def begin_anew(here: World) -> None:
    """What a worker does every few seconds: it starts what is missing."""
    if (await here.dispatcher().describe()).status is not WorkflowExecutionStatus.RUNNING:
        await wake(here)
    await here.join(here.incarnation)


@pytest.mark.parametrize("point", [FIRST, LAST])
async def test_the_record_of_an_account_that_is_reset_is_kept(here: World, task: str, point: int):
    accounts = AccountsClient(here.client, EngineConfig(pool=here.pool))
    for note in ("one", "two"):
        await accounts.set(task, SetAccount(note=note), f"{task}-{note}")
    run = await reset(here.client, names.account_id(task), point)
    assert WorkflowExecutionStatus.FAILED is await closed(run)
    known = await accounts.record(task)
    assert "two" == (known and known.note)

    async def restored() -> bool | None:
        return task in await accounts.restore_ended(None) or None

    await until(restored, "its workflow to be started again")
    known = await accounts.record(task)
    assert "two" == (known and known.note)
