"""A worker without the run in its cache, an update, and before it a workflow task without commands.

The SDK's core then merges in one activation what every replay splits (docs/adr/0042-one-loop-issues-commands.md). With
two coroutines that issue commands, every such history is lost.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.plan import Plan, Stage
from droidherd.contracts.stage import Planned, PlanRequest
from droidherd.contracts.tasks import Answer, Control, OperatorRequest, TaskInput, TaskSpec, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.world import until
from workflows.task.workflow import TaskWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOW_MANY = 6
START_S = 8


@activity.defn
async def plan_task(request: PlanRequest) -> Planned:
    return Planned(plan=Plan(task_type=request.spec.type, flow="f", flow_hash="h", stages=(Stage(name="s", steps=()),)))


@asynccontextmanager
async def worker(client: Client) -> AsyncGenerator[None]:
    async with Worker(
        client,
        task_queue=names.QUEUE,
        workflows=[TaskWorkflow],
        activities=[plan_task, *DeliveryActivities(client).all()],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        yield


async def count(task: WorkflowHandle[Any, Any], kind: "EventType.ValueType") -> int:
    return sum(1 for event in (await task.fetch_history()).events if event.event_type == kind)


async def reaches(task: WorkflowHandle[Any, Any], kind: "EventType.ValueType", least: int) -> None:
    async def there() -> bool | None:
        return True if await count(task, kind) >= least else None

    await until(there, f"{least} events {kind}")


async def submitted(client: Client, task_id: str, now: datetime) -> WorkflowHandle[Any, Any]:
    spec = TaskSpec(type="sample", not_before=now + timedelta(seconds=START_S))
    return await client.start_workflow(
        TaskWorkflow.run, TaskInput(spec=spec), id=task_id, task_queue=names.QUEUE, task_timeout=timedelta(seconds=2)
    )


async def has_a_workflow_task_without_commands(task: WorkflowHandle[Any, Any]) -> None:
    await reaches(task, EventType.EVENT_TYPE_TIMER_STARTED, 1)
    await task.signal(TaskWorkflow.answer, Answer(choice="nobody asked"))
    await reaches(task, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, 2)


def is_merged(history: WorkflowHistory) -> bool:
    """Whether the core takes the workflow task without commands and the one after it for one."""
    kinds = [event.event_type for event in history.events]
    at = [n for n, kind in enumerate(kinds) if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED][1]
    return kinds[at + 1] == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED


async def test_what_a_cold_worker_writes_after_an_update_can_be_replayed(client: Client):
    now = datetime.now(UTC)
    async with worker(client):
        tasks = [await submitted(client, f"cold-{n}", now) for n in range(HOW_MANY)]
        await asyncio.gather(*map(has_a_workflow_task_without_commands, tasks))
    control = Control(action="pause", ask=OperatorRequest(actor="ann"))
    updates = [asyncio.create_task(task.execute_update(TaskWorkflow.control, control)) for task in tasks]
    for task in tasks:
        await reaches(task, EventType.EVENT_TYPE_TIMER_FIRED, 1)
    async with worker(client):
        await asyncio.gather(*updates)

        async def paused() -> bool | None:
            views: list[TaskView] = [await task.query(TaskWorkflow.view) for task in tasks]
            return True if {TaskStatus.PAUSED} == {view.state for view in views} else None

        await until(paused, "all are paused")
    replayer = Replayer(
        workflows=[TaskWorkflow], data_converter=client.data_converter, workflow_runner=UnsandboxedWorkflowRunner()
    )
    histories = [await task.fetch_history() for task in tasks]
    assert any(map(is_merged, histories))
    for history in histories:
        await replayer.replay_workflow(history)
