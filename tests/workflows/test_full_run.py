"""A run that somebody floods: it goes on in a new one where it can. Where not, it says so and can be cancelled."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from droidherd.contracts import names
from droidherd.contracts.names import Workflow
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.tasks import Control, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import CONVERTER, EngineConfig
from droidherd.engine.errors import FullRunError
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import TasksClient
from tests.support.temporal import NEW_NAMESPACES
from tests.workflows.plays import Hold, asks, completes
from tests.workflows.world import World, until, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).resolve().parents[2]
SIGNALS, UPDATES, SUGGESTED_AT = 100, 20, 70
FEW = {
    "history.maximumSignalsPerExecution": SIGNALS,
    "history.maxTotalUpdates": UPDATES,
    "limit.historyCount.suggestContinueAsNew": SUGGESTED_AT,
}
"""10,000, 2,000 and 4,096 on a server as it comes."""


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    profile = Profile(port=ports.free(), database=None, dynamic_config={**NEW_NAMESPACES, **FEW})
    with EmbeddedTemporal.start(tmp_path_factory.mktemp("temporal"), in_memory=True, profile=profile) as server:
        server.add_namespace("narrow")
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded(narrow: EmbeddedTemporal) -> AsyncGenerator[World]:
    client = await Client.connect(narrow.address, namespace="narrow", data_converter=CONVERTER)
    async with world(client, "e1") as here:
        yield here


async def test_a_running_task_goes_on_in_a_new_run_between_two_stages(crowded: World):
    here, hold = crowded, Hold()
    await here.submit("long", hold, params={"stages": [{"name": "first"}, {"name": "second"}]})
    await here.reached("long", TaskStatus.RUNNING)
    run = (await here.view("long")).run_id
    for _ in range(SUGGESTED_AT):
        await here.task("long").signal("nobody_knows_this")
    hold.let_go.set()
    ended = await here.ended("long")
    assert (TaskStatus.COMPLETED, 1) == (ended.state, ended.attempt)
    assert run != ended.run_id
    assert ["first", "second"] == [work.stage.name for work in here.stages.of("long") if work.stage is not None]


async def test_who_waits_for_a_key_waits_on_in_a_new_run_and_says_so(crowded: World):
    here = crowded
    await here.submit("locked", params={"locked": True})
    run = (await here.waits_for_key("locked")).run_id
    for _ in range(SUGGESTED_AT):
        await here.task("locked").signal("nobody_knows_this")

    async def continued() -> TaskView | None:
        view = await here.view("locked")
        assert "the key 'k1'" in view.why
        return view if view.run_id != run else None

    assert TaskStatus.PENDING is (await until(continued, "it to continue as new")).state
    await here.control("locked", "cancel")
    assert TaskStatus.CANCELLED is (await here.ended("locked")).state


async def test_who_asks_about_a_screen_goes_on_with_it_before_a_new_run(crowded: World):
    here = crowded
    await here.submit("asks", asks(), completes, params={"stages": [{"name": "first"}, {"name": "second"}]})
    run = (await here.reached("asks", TaskStatus.WAITING)).run_id
    for _ in range(SUGGESTED_AT):
        await here.task("asks").signal("nobody_knows_this")
    await here.control("asks", "answer", choice="yes")
    ended = await here.ended("asks")
    assert (TaskStatus.COMPLETED, 1, True) == (ended.state, ended.attempt, run != ended.run_id)
    tries = here.stages.of("asks")
    ran = [work.stage.name if work.stage is not None else "cleans up" for work in tries]
    assert ["first", "first", "cleans up", "second"] == ran
    assert tries[0].lease == tries[1].lease, "on the screen that a person looked at"


async def test_a_run_that_takes_no_more_messages_says_so_and_is_cancelled(crowded: World):
    here, config, hold = crowded, EngineConfig(answer_s=0.3), Hold()
    tasks = TasksClient(here.client, config, QueueClient(here.client, config))
    await here.submit("full", hold)
    await here.reached("full", TaskStatus.RUNNING)
    for _ in range(UPDATES):
        await here.admission("full")
    for _ in range(SIGNALS - 1):  # one was the grant
        await here.task("full").signal("nobody_knows_this")
    with pytest.raises(FullRunError, match="takes no more messages"):
        await tasks.control("full", Control(action="pause"), "r1")
    assert None is await tasks.control("full", Control(action="cancel"), "r-last")
    assert TaskStatus.CANCELLED is (await here.ended("full")).state


def a_worker(settings: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        line = [sys.executable, "worker_main.py", "run"]
        return subprocess.Popen(line, cwd=ROOT, env={**os.environ, **settings}, stdout=file, stderr=file)


async def test_a_worker_starts_with_a_full_dispatcher_and_a_foreign_host(narrow: EmbeddedTemporal, tmp_path: Path):
    narrow.add_namespace("flooded")
    client = await Client.connect(narrow.address, namespace="flooded", data_converter=CONVERTER)
    start, where = DispatcherInput(pool="default"), names.FLEET_QUEUE
    dispatcher = await client.start_workflow(
        Workflow.DISPATCHER, start, id=names.dispatcher_id("default"), task_queue=where
    )
    for _ in range(SIGNALS):
        await dispatcher.signal(names.Signal.WAKE)
    await client.start_workflow("Foo", id=names.host_id("local"), task_queue=where)
    settings = {
        "DROIDHERD_DATA": str(tmp_path),
        "DROIDHERD_TEMPORAL__ADDRESS": narrow.address,
        "DROIDHERD_TEMPORAL__NAMESPACE": "flooded",
        "DROIDHERD_ADB__PORT": str(ports.free()),
    }
    worker = a_worker(settings, tmp_path / "worker.log")
    try:

        async def serves() -> bool | None:
            assert None is worker.poll(), (tmp_path / "worker.log").read_text()[-2000:]
            host = await client.get_workflow_handle(names.host_id("local")).query("state")
            again = await client.get_workflow_handle(dispatcher.id).describe()
            return (host["worker"] and again.run_id != dispatcher.first_execution_run_id) or None

        await until(serves, "the worker to serve its host, and the dispatcher to go on", 60)
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait, 60)
