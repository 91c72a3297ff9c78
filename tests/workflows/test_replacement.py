"""A workflow that no worker can play is ended, and what it was responsible for goes on."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.contracts import names
from droidherd.contracts.queue import AuditPage, AuditQuery, DispatcherInput
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain import messages as m
from droidherd.domain.replay import ReplayRecord
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.world import World, until, world
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


@workflow.defn(name=names.Workflow.DISPATCHER)
class AnotherDispatcher:
    """Its history fits no code of ours."""

    @workflow.run
    async def run(self, start: DispatcherInput) -> None:
        await workflow.sleep(3600)


@workflow.defn(name=names.Workflow.TASK)
class AnotherTask:
    """The same of a task."""

    @workflow.run
    async def run(self, start: TaskInput) -> None:
        await workflow.sleep(3600)


async def left_by_another(
    client: Client, kind: type, start: object, workflow_id: str, queue: str
) -> WorkflowHandle[Any, Any]:
    """A run whose history was written by other code."""
    async with Worker(client, task_queue=queue, workflows=[kind], workflow_runner=UnsandboxedWorkflowRunner()):
        name = workflow._Definition.must_from_class(kind).name or ""
        handle = await client.start_workflow(
            name, start, id=workflow_id, task_queue=queue, task_timeout=timedelta(seconds=1)
        )

        async def decided() -> bool | None:
            events = (await handle.fetch_history()).events
            return any(event.HasField("timer_started_event_attributes") for event in events) or None

        await until(decided, "the other code to decide")
    return client.get_workflow_handle(workflow_id, run_id=handle.first_execution_run_id)


async def terminated(run: WorkflowHandle[Any, Any]) -> bool | None:
    return (await run.describe()).status is WorkflowExecutionStatus.TERMINATED or None


async def replaced(here: World) -> str | None:
    query = AuditQuery(action="replaced")
    page = await here.dispatcher().query(names.Query.AUDIT, query, result_type=AuditPage)
    return page.events[0].detail if page.events else None


async def test_a_dispatcher_that_cannot_be_replayed_is_replaced_and_grants(client: Client):
    start = DispatcherInput(pool="default")
    run = await left_by_another(client, AnotherDispatcher, start, names.dispatcher_id("default"), names.FLEET_QUEUE)
    async with world(client, "e1", joined=False, record=ReplayRecord(limit=2)) as here:
        await run.signal(names.Signal.WAKE)
        await until(lambda: terminated(run), "the run to be terminated")
        await here.serve_host()
        await here.serve("e1")
        await here.join()
        await here.submit("t1")
        await here.ended("t1")
        assert here.dispatcher().id == await until(lambda: replaced(here), "the audit to say so")


async def test_a_task_that_cannot_be_replayed_is_terminated_and_audited(client: Client):
    start = TaskInput(spec=TaskSpec(type="sample"))
    run = await left_by_another(client, AnotherTask, start, "stuck", names.QUEUE)
    async with world(client, "e1", record=ReplayRecord(limit=2)) as here:
        await run.signal("nobody_knows_this")
        await until(lambda: terminated(run), "the run to be terminated")
        assert "stuck" == await until(lambda: replaced(here), "the audit to say so")
        await here.submit("t1")
        await here.ended("t1")


@pytest.mark.more
async def test_a_dispatcher_that_fails_at_every_signal_is_replaced(client: Client, monkeypatch: pytest.MonkeyPatch):
    failed, stuck, has_work = asyncio.Event(), set[str](), DispatcherWorkflow._has_work
    loop = asyncio.get_running_loop()

    def fails_when_stuck(self: DispatcherWorkflow) -> bool:
        if workflow.info().run_id in stuck:
            loop.call_soon_threadsafe(failed.set)
            raise RuntimeError("cannot go on")
        return has_work(self)

    async def signal_at_every_failure(run: WorkflowHandle[Any, Any]) -> None:
        while True:  # Temporal counts from 1 again
            failed.clear()
            await run.signal(names.Signal.WAKE)
            await failed.wait()

    monkeypatch.setattr(DispatcherWorkflow, "_has_work", fails_when_stuck)
    async with world(client, "e1", record=ReplayRecord(limit=5)) as here:
        await here.submit("t1")
        await here.ended("t1")
        now = await here.dispatcher().describe()
        run = client.get_workflow_handle(now.id, run_id=now.run_id)
        stuck.add(str(now.run_id))
        signals = asyncio.create_task(signal_at_every_failure(run))
        await until(lambda: terminated(run), "the run to be terminated")
        signals.cancel()
        await asyncio.gather(signals, return_exceptions=True)
        await here.submit("t2")
        assert TaskStatus.COMPLETED is (await here.ended("t2")).state


@pytest.mark.more
async def test_ten_emulators_that_get_stuck_at_once_are_replaced(client: Client, monkeypatch: pytest.MonkeyPatch):
    stuck, turn = set[str](), EmulatorWorkflow._turn

    async def fails_when_stuck(self: EmulatorWorkflow) -> None:
        if workflow.info().run_id in stuck:
            raise RuntimeError("cannot go on")
        await turn(self)

    monkeypatch.setattr(EmulatorWorkflow, "_turn", fails_when_stuck)
    names_of_all = [f"e{number}" for number in range(10)]
    async with world(client, joined=False, record=ReplayRecord(limit=2)) as here:
        here.owns(*names_of_all)
        await here.serve_host()
        await here.join()
        await asyncio.gather(*(here.emulator_is(name, "up") for name in names_of_all))
        runs = [(await here.emulator(name).describe()).run_id for name in names_of_all]
        stuck.update(runs)
        await asyncio.gather(*(here.emulator(name).signal("recall", m.Recall(1)) for name in names_of_all))
        ids = map(names.emulator_id, names_of_all)
        closed = [client.get_workflow_handle(one, run_id=run) for one, run in zip(ids, runs, strict=True)]
        await asyncio.gather(*(until(lambda one=one: terminated(one), "the run to be terminated") for one in closed))
        again = [await here.emulator(name).describe() for name in names_of_all]
        assert [WorkflowExecutionStatus.RUNNING] * 10 == [one.status for one in again]
