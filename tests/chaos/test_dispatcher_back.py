"""A dispatcher that was terminated grants again soon, with every emulator and every task answering."""

import asyncio
import time
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.queue import QueuePosition
from droidherd.domain.task.lifecycle import TaskStatus
from tests.chaos.test_crash import FLOWS
from tests.support.farm import Farm, farm, until

EMULATORS, WAITING = 4, 12
GRANTS_WITHIN_S = 30.0


@pytest.mark.parametrize("history", ["kept", "gone"])
async def test_a_terminated_dispatcher_grants_again_within_thirty_seconds(tmp_path: Path, history: str) -> None:
    with farm(tmp_path, EMULATORS, flows=FLOWS) as place:
        async with asyncio.timeout(400):
            client = await place.client()
            await place.wake(client)
            await place.all_up(client)
            running = [f"runs-{number}" for number in range(EMULATORS)]
            waiting = [f"waits-{number}" for number in range(WAITING)]
            for number, task in enumerate(running):
                await place.submit(client, task, "pace", account=task, params={"x": 2.0 + 3.0 * number})
            for task in running:
                await place.reached(client, task, TaskStatus.RUNNING)
            for task in waiting:
                await place.submit(client, task, "tap_once")
            await all_asked(place, client, EMULATORS + WAITING)
            await lose(client, history)
            began = time.monotonic()
            reason = await until(lambda: why(client, waiting[-1]), "a waiting task to say why it waits")
            if history == "gone":
                assert "rebuilding" in reason or "looks for what the one before it knew" in reason
            await until(lambda: grants(place, client), "an emulator to be granted", GRANTS_WITHIN_S)
            granted_s = time.monotonic() - began
            views = [await place.ended(client, task, 200.0) for task in (*running, *waiting)]
            assert [TaskStatus.COMPLETED] * len(views) == [one.state for one in views]
            assert [1] * len(views) == [len(one.attempts) for one in views]
            assert granted_s < GRANTS_WITHIN_S
            await place.all_up(client)


async def all_asked(place: Farm, client: Client, count: int) -> None:
    async def asked() -> bool | None:
        page = await place.queue(client)
        return True if page.waiting + page.running == count else None

    await until(asked, "all tasks to be known to the dispatcher")


async def lose(client: Client, history: str) -> None:
    """Terminate it; or delete it, so that its successor knows nothing."""
    handle = client.get_workflow_handle(names.dispatcher_id("default"))
    if history == "kept":
        await handle.terminate("struck down by a test")
        return
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=WorkflowExecution(workflow_id=handle.id)
    )
    await client.workflow_service.delete_workflow_execution(request)


async def why(client: Client, task: str) -> str | None:
    """What its dispatcher says of a task that waits, once there is one again."""
    handle = client.get_workflow_handle(names.dispatcher_id("default"))
    place = await handle.query(names.Query.PLACE, task, result_type=QueuePosition)
    return place.why or None


async def grants(place: Farm, client: Client) -> bool | None:
    """Whether somebody who waited then holds an emulator."""
    page = await place.queue(client)
    return True if any(row.task_id.startswith("waits-") for row in page.runs) else None
