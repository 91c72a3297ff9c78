"""A task from submission to its end with a bare Temporal client: default converter, plain JSON, nothing of ours."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError

from tests.api.world import World

LIMIT_S = 120


async def bare(herd: World) -> Client:
    return await Client.connect(herd.settings.temporal.address, namespace=herd.settings.temporal.namespace)


async def start(client: Client, task_id: str, **spec: Any) -> Any:
    given = {"spec": {"type": "tap_once", **spec}}
    return await client.start_workflow("TaskWorkflow", given, id=task_id, task_queue="droidherd")


async def until(task: Any, state: str) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_S):
        while True:
            view: dict[str, Any] = await task.query("view")
            if view["state"] == state:
                return view
            await asyncio.sleep(0.05)


async def test_a_task_is_submitted_paused_resumed_read_and_cancelled(herd: World):
    client = await bare(herd)
    with herd.holding("bare-1"):
        task = await start(client, "bare-1", account="bare-1", labels={"team": "ops"})
        admission = await task.execute_update("admission")
        assert ("bare-1", "") == (admission["task_id"], admission["holder"])
        await until(task, "running")
        await task.signal("pause", {"actor": "ann", "reason": "lunch"})
        assert "paused by ann: lunch" == (await until(task, "paused"))["why"]
        resumed = await task.execute_update("control", {"action": "resume"})
        assert resumed["state"] in {"pending", "queued", "running"}
        await until(task, "running")
        await task.signal("cancel", {"actor": "ann"})
        with pytest.raises(WorkflowFailureError) as ended:
            await asyncio.wait_for(task.result(), LIMIT_S)
    assert isinstance(ended.value.cause, CancelledError)
    view = await task.query("view")
    assert ["created", "admitted", "granted", "paused", "resumed"] == [one["event"] for one in view["events"]][:5]
    assert ("cancelled", "ann") == (view["state"], view["events"][-1]["actor"])


async def test_the_result_of_a_task_is_its_view(herd: World):
    client = await bare(herd)
    task = await start(client, "bare-2")
    view = await asyncio.wait_for(task.result(), LIMIT_S)
    assert ("bare-2", "completed", 1) == (view["task_id"], view["state"], len(view["attempts"]))
    described = await task.describe()
    assert "completed" == (await described.memo_value("task"))["state"]


async def test_a_refused_task_names_the_holder_and_fails_with_the_reason(herd: World):
    client = await bare(herd)
    with herd.holding("bare-3"):
        holder = await start(client, "bare-3", account="bare-3")
        await until(holder, "running")
        refused = await start(client, "bare-3-again", account="bare-3")
        with pytest.raises(WorkflowFailureError) as ended:
            await asyncio.wait_for(refused.result(), LIMIT_S)
    cause = ended.value.cause
    assert isinstance(cause, ApplicationError)
    assert "account_running" == cause.type
    assert "bare-3" in str(cause)
    await asyncio.wait_for(holder.result(), LIMIT_S)


async def test_what_is_not_possible_is_refused_by_name(herd: World):
    client = await bare(herd)
    with herd.holding("bare-4"):
        task = await start(client, "bare-4", account="bare-4")
        await until(task, "running")
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await task.execute_update("control", {"action": "resume"})
    cause = refused.value.cause
    assert isinstance(cause, ApplicationError)
    assert "IllegalTransitionError" == cause.type
    assert "resume is not possible while running" in cause.message
    await asyncio.wait_for(task.result(), LIMIT_S)


async def test_a_pool_answers_and_obeys(herd: World):
    client = await bare(herd)
    pool = client.get_workflow_handle("dispatcher/default")
    page = await pool.query("queue", {"limit": 10})
    assert ("default", 10_000) == (page["pool"], page["limit"])
    order = {"lane": "anonymous", "actor": "ann", "request_id": "bare-5"}
    assert (await pool.execute_update("pause_lane", order))["done"]
    assert "done before" == (await pool.execute_update("pause_lane", order))["detail"]
    assert (await pool.execute_update("resume_lane", {"lane": "anonymous"}))["done"]
    emulators = await pool.query("emulators")
    assert {"e1", "e2", "e3"} == {one["emulator_id"] for one in emulators["emulators"]}
