"""No message wedges a workflow; Temporal's cancel takes no service away; a task is not done twice."""

import asyncio
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from droidherd.contracts import names
from droidherd.domain.task.lifecycle import TaskNote, TaskStatus
from droidherd.engine.connection import CONVERTER, EngineConfig
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import TasksClient
from droidherd.engine.visibility import TaskFilters
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.workflows import garbage
from tests.workflows.forged import forges
from tests.workflows.plays import Hold, completes
from tests.workflows.world import World, until, wake, world
from workflows import options
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_message_and_no_start_wedges_a_workflow(client: Client):
    table = await garbage.play(client, large=False)
    assert [] == [ascii(one) for one in table.wedged]
    assert {str(kind.__name__) for kind in WORKFLOWS} == {workflow for workflow, _, _ in table.cells}


async def test_what_it_leaves_can_be_replayed(client: Client):
    async with world(client, "e1"):
        table = garbage.Table()
        for cls in WORKFLOWS:
            target = await garbage.Target.begin(client, cls, table)
            await target.play(large=False)
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=GuardedRunner(), data_converter=CONVERTER)
    replayed = set[str]()
    async for run in client.list_workflows():
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        await replayer.replay_workflow(history)
        replayed.add(run.workflow_type)
    assert {kind.__name__ for kind in WORKFLOWS} <= replayed


async def refused(sending: Any) -> str:
    with pytest.raises((WorkflowUpdateFailedError, WorkflowQueryFailedError)) as raised:
        await asyncio.wait_for(sending, 20)
    cause = raised.value.cause if isinstance(raised.value, WorkflowUpdateFailedError) else raised.value
    return cause.message if isinstance(cause, ApplicationError) else str(cause)


async def test_an_update_and_a_query_say_what_is_wrong(here: World, task: str):
    await wake(here)
    pool = here.dispatcher()
    wrong = await refused(pool.execute_update("set_capacity", {"lane": "account", "capasity": 3}))
    assert "set_capacity: capasity is not known here; did you mean capacity?" == wrong
    wrong = await refused(pool.execute_update("set_capacity", {"lane": "account", "capacity": -3}))
    assert "set_capacity: capacity is -3; it must be at least 0" == wrong
    assert "queue: limit is 5000; it must be at most 1000" in await refused(pool.query("queue", {"limit": 5_000}))
    assert here.pool == (await pool.query("queue"))["pool"]  # all of its argument may be left out


async def test_a_query_with_two_arguments_is_refused(here: World, task: str):
    await here.submit(task, completes)
    await here.ended(task)
    two = garbage.raw(garbage.TWO)
    for handle, query in ((here.task(task), "view"), (here.dispatcher(), "stats"), (here.dispatcher(), "queue")):
        assert "and 2 were sent" in await refused(handle.query(query, args=two))


@pytest.mark.parametrize("kind", WORKFLOWS)
async def test_a_start_with_two_arguments_fails_and_says_so(here: World, task: str, kind: type):
    name = kind.__name__
    queue = names.QUEUE if name in garbage.TASKS else names.FLEET_QUEUE
    run = await here.client.start_workflow(
        name, args=[{"pool": "default"}, {}], id=f"{garbage.ID_OF.get(name, '')}{task}", task_queue=queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(run.result(), 20)
    assert isinstance(failed.value.cause, ApplicationError)
    kind_of_error = "BadParametersError" if name == names.Workflow.TASK else "BadInputError"
    assert (kind_of_error, True) == (failed.value.cause.type, "and 2 were sent" in failed.value.cause.message)
    assert [] == garbage.failed_tasks(await run.fetch_history())


async def test_a_misspelt_field_fails_a_start_and_names_the_right_one(here: World, task: str):
    given = {"spec": {"type": "sample", "notBefore": "2100-01-01T00:00:00Z"}}
    handle = await here.client.start_workflow("TaskWorkflow", given, id=task, task_queue=names.QUEUE)
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), 20)
    assert isinstance(failed.value.cause, ApplicationError)
    assert "spec.notBefore is not known here; did you mean not_before?" == failed.value.cause.message


async def test_a_second_start_of_an_id_does_nothing(here: World, task: str):
    await here.submit(task, completes, account=task)
    first = await here.ended(task)
    handle = await here.submit(task, completes, account=task)
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), 20)
    assert isinstance(failed.value.cause, ApplicationError)
    assert "already_run" == failed.value.cause.type
    assert first.run_id in str(failed.value.cause)
    assert first == await here.view(task)
    config = EngineConfig(pool=here.pool)
    tasks = TasksClient(here.client, config, QueueClient(here.client, config))
    read = (await tasks.audit(task)).view
    assert (TaskStatus.COMPLETED, first.attempts, first.events) == (read.state, read.attempts, read.events)
    for state, expected in (("completed", 1), ("rejected", 0)):
        filters = TaskFilters(states=(state,), account=task)
        await until(lambda f=filters, e=expected: _has(tasks, f, e), f"the lists to have {expected} {state}")


async def test_a_start_under_the_id_of_a_refused_task_runs(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-first", hold, account=task)
    await hold.began.wait()
    await here.submit(task, completes, account=task)
    assert TaskStatus.REJECTED is (await here.ended(task)).state
    hold.let_go.set()
    await here.ended(f"{task}-first")
    await here.submit(task, completes, account=task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    config = EngineConfig(pool=here.pool)
    tasks = TasksClient(here.client, config, QueueClient(here.client, config))
    for state, expected in (("completed", 2), ("rejected", 0)):
        filters = TaskFilters(states=(state,), account=task)
        await until(lambda f=filters, e=expected: _has(tasks, f, e), f"the lists to have {expected} {state}")


async def _has(tasks: TasksClient, filters: TaskFilters, expected: int) -> bool:
    page = await tasks.page(filters, "", 10)
    return (expected, expected) == (len(page.tasks), await tasks.count(filters))


async def test_a_stage_with_a_result_that_somebody_forged_runs_again(here: World, task: str):
    await here.submit(task, forges(here.client, b'{"garbage": 1}'), forges(here.client, b"\xff\xfe"), completes)
    ended = await here.ended(task)
    assert TaskStatus.COMPLETED == ended.state
    [reason, _] = [one.reason for one in ended.events if one.event == TaskNote.INTERRUPTED]
    assert "the result of run_stage cannot be read, so nobody knows what it did: outcome is missing" in reason
    assert [] == garbage.failed_tasks(await here.task(task).fetch_history())


async def test_a_presence_that_somebody_completed_begins_anew(here: World, monkeypatch: pytest.MonkeyPatch):
    await wake(here)
    monkeypatch.setattr(options, "PRESENCE_BACKOFF_S", 0.05)
    host, began = here.client.get_workflow_handle(names.host_id(here.host)), here.presence.began
    pending = (await host.describe()).raw_description.pending_activities
    await here.client.get_async_activity_handle(
        workflow_id=host.id, run_id=None, activity_id=pending[0].activity_id
    ).complete({"garbage": 1})

    async def begun() -> bool | None:
        return here.presence.began > began or None

    await until(begun, "the presence to begin anew")
    await here.emulator_is("e1", "up")
    assert [] == garbage.failed_tasks(await host.fetch_history())


async def started(here: World) -> "list[WorkflowHandle[Any, Any]]":
    await wake(here)
    account = await here.client.start_workflow(
        names.Workflow.ACCOUNT, id=names.account_id("cancelled"), task_queue=names.FLEET_QUEUE
    )
    ids = [names.dispatcher_id(here.pool), names.emulator_id("e1"), names.host_id(here.host)]
    return [account, *map(here.client.get_workflow_handle, ids)]


async def test_cancel_in_temporal_takes_no_service_away(here: World, task: str):
    services = await started(here)
    for handle in services:
        await handle.cancel()
    for handle in services:
        await garbage.Target(here.client, "", None, garbage.Table(), handle).hears()
        description = await handle.describe()
        assert description.close_time is None, handle.id
    await here.submit(task, completes)
    assert TaskStatus.COMPLETED == (await here.ended(task)).state
    await services[0].terminate()
