"""The guard that workflows run behind: commands in an order that no replay repeats are refused."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, TypeAlias

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker, WorkflowRunner

from tests.workflows.world import until
from workflows.guard import AHEAD, LATE, GuardedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUEUE = "guard"
Played: TypeAlias = Callable[[str, float], Awaitable[list[str]]]
"""A play of a name, in which something has a head start: why its workflow tasks failed."""


@workflow.defn
class Waits:
    """Which of its two callers is heard first decides the order of its commands."""

    def __init__(self) -> None:
        self.heard = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.heard, timeout=timedelta(minutes=5))
        await workflow.sleep(0.1)

    @workflow.signal
    def hear(self) -> None:
        self.heard = True

    @workflow.update
    async def greet(self) -> str:
        return "hello"

    @workflow.query
    def has_heard(self) -> bool:
        return self.heard


ASKED, ANSWERED = Event(), Event()
"""A query is being answered; what the next workflow task brings is under way."""


@activity.defn
async def look() -> None:
    """Finds something just while a query is answered."""
    await asyncio.to_thread(ASKED.wait, 60)


@workflow.defn
class Looks(Waits):
    """What it found and who greets it give commands, in the order in which they come."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_local_activity(look, start_to_close_timeout=timedelta(minutes=2))
        await workflow.sleep(0.1)

    @workflow.query
    def is_busy(self) -> bool:
        ASKED.set()
        return ANSWERED.wait(1.8)


@workflow.defn
class Tells(Looks):
    """Who asked hears what it found."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_local_activity(look, start_to_close_timeout=timedelta(minutes=2))
        self.found = True
        await workflow.wait_condition(lambda: self.heard)

    @workflow.update
    async def tell(self) -> str:
        await workflow.wait_condition(lambda: self.found)
        return "found"


async def test_a_query_that_waited_for_a_worker_does_not_change_the_order(client: Client, task: str):
    """Else its history could not be replayed: the update would come first in the one order, the signal in the other."""
    assert await _at_last(AHEAD, partial(_refused, client), task, (0.5, 2.0, 8.0)), (
        "none was first, or it was not refused"
    )


async def _at_last(why: str, played: Played, task: str, head_starts_s: tuple[float, ...]) -> bool:
    """Whether one play was refused for just this. Whether what nobody has taken yet was in time is only seen then."""
    for head_start_s in head_starts_s:
        if [why] == await played(f"{task}-{head_start_s}", head_start_s):
            return True
    return False


async def test_without_the_guard_one_loop_alone_does_not_keep_the_order(client: Client, task: str):
    """The loop of `Waits` gives all commands but one: the SDK accepts an update. Passes no more: the guard may go."""
    for head_start_s in (0.5, 2.0, 8.0):
        handle = await _queried(client, f"{task}-{head_start_s}", head_start_s, UnsandboxedWorkflowRunner())
        replayer = Replayer(workflows=[Waits], workflow_runner=UnsandboxedWorkflowRunner())
        replayed = await replayer.replay_workflow(await handle.fetch_history(), raise_on_replay_failure=False)
        if replayed.replay_failure is not None:
            return
    pytest.fail("the order was kept")


async def _refused(client: Client, task: str, head_start_s: float) -> list[str]:
    """Why workflow tasks failed when a query, a signal and an update waited. However it came, its history replays."""
    runner = GuardedRunner()
    return await _refusals(await _queried(client, task, head_start_s, runner), Waits, runner)


async def _queried(
    client: Client, task: str, head_start_s: float, runner: WorkflowRunner
) -> WorkflowHandle[Waits, None]:
    """A run that heard a query, a signal and an update while no worker served."""

    def worker() -> Worker:
        return Worker(client, task_queue=QUEUE, workflows=[Waits], workflow_runner=runner, max_cached_workflows=5)

    async with worker():
        handle = await client.start_workflow(Waits.run, id=task, task_queue=QUEUE)
        await until(lambda: _waits(handle), "it to wait")
    asked = asyncio.create_task(handle.query(Waits.has_heard))
    await asyncio.sleep(head_start_s)
    await handle.signal(Waits.hear)
    greeted = asyncio.create_task(handle.execute_update(Waits.greet))
    async with worker():
        assert await asked
        assert "hello" == await greeted
        await handle.result()
    return handle


async def test_a_late_local_answer_is_heard_where_a_replay_hears_it(client: Client, task: str):
    """Else its history could not be replayed: the update would come before it in the one order, behind in the other."""
    assert await _at_last(LATE, partial(_heard_late, client), task, (0.4, 0.8, 1.5)), (
        "none was late, or it was not refused"
    )


async def _heard_late(client: Client, task: str, head_start_s: float) -> list[str]:
    """Why workflow tasks failed when something was found just then. However it came, its history replays."""
    ASKED.clear()
    ANSWERED.clear()
    runner = GuardedRunner()
    handle = await client.start_workflow(Looks.run, id=task, task_queue=QUEUE)
    asked = asyncio.create_task(handle.query(Looks.is_busy))
    await asyncio.sleep(head_start_s)
    async with Worker(client, task_queue=QUEUE, workflows=[Looks], activities=[look], workflow_runner=runner):
        await asyncio.to_thread(ASKED.wait, 60)
        greeted = asyncio.create_task(handle.execute_update(Looks.greet))
        await asyncio.sleep(head_start_s)
        ANSWERED.set()
        await asked
        assert "hello" == await greeted
        await handle.result()
    return await _refusals(handle, Looks, runner)


async def test_who_waits_for_what_was_found_while_a_query_was_answered_hears_it(client: Client, task: str):
    """Played anew, the word that an update has ended would be lost, and its workflow task with it, at every try."""
    ASKED.clear()
    ANSWERED.clear()
    runner = GuardedRunner()
    handle = await client.start_workflow(Tells.run, id=task, task_queue=QUEUE)
    update = asyncio.create_task(handle.execute_update(Tells.tell))
    asked = asyncio.create_task(handle.query(Tells.is_busy))
    await asyncio.sleep(0.8)
    async with Worker(client, task_queue=QUEUE, workflows=[Tells], activities=[look], workflow_runner=runner):
        await asyncio.to_thread(ASKED.wait, 60)
        await handle.signal(Tells.hear)
        ANSWERED.set()
        await asked
        async with asyncio.timeout(60):
            assert "found" == await update
            await handle.result()
    assert LATE not in await _refusals(handle, Tells, runner)


async def _refusals(handle: WorkflowHandle[Any, Any], kind: type, runner: GuardedRunner) -> list[str]:
    history = await handle.fetch_history()
    replayer = Replayer(workflows=[kind], workflow_runner=runner)
    assert (await replayer.replay_workflow(history)).replay_failure is None
    failed = [e for e in history.events if e.HasField("workflow_task_failed_event_attributes")]
    return [event.workflow_task_failed_event_attributes.failure.message for event in failed]


async def _waits(handle: WorkflowHandle[Waits, None]) -> bool | None:
    types = [event.event_type for event in (await handle.fetch_history()).events]
    return True if EventType.EVENT_TYPE_TIMER_STARTED in types else None
