"""A worker at its limits: memory, and room on its disk. Real processes."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.cli.local.supervise import ProcessFolders, ProcessSpec, Supervisor
from droidherd.contracts import names
from droidherd.contracts.queue import QueuePage
from droidherd.domain.fleet.disk_space import ACTOR
from droidherd.domain.task.lifecycle import TaskStatus
from tests.support.farm import ROOT, Farm, farm, until
from worker_main import AGAIN, REFUSED

MORE_THAN_THERE_IS = 10**15
GROWS_BYTES = 3_000_000
"""What a flow with pictures needs for sure beyond an idle worker."""


async def test_a_worker_beyond_its_memory_limit_drains_and_its_task_goes_on(tmp_path: Path):
    with farm(tmp_path, 1) as place:
        client = await place.client()
        await place.all_up(client)
        idle = psutil.Process(place.worker.pid).memory_info().rss
        place.worker.stop()
        place.worker.environment["DROIDHERD_LIMITS__WORKER_RSS_BYTES"] = str(idle + GROWS_BYTES)
        place.worker.start()
        await place.submit(client, "walk", "long_walk", account="walker")
        assert AGAIN == await _ended(place)
        assert "this worker drains and ends" in place.worker.log.read_text()
        assert TaskStatus.COMPLETED != (await _state(place))
        place.worker.environment["DROIDHERD_LIMITS__WORKER_RSS_BYTES"] = "0"
        place.worker.start()
        view = await place.ended(client, "walk")
        assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)


async def _state(place: Farm) -> TaskStatus:
    client = await place.client()
    known = await client.get_workflow_handle("walk").describe()
    return TaskStatus(str(known.search_attributes[names.Attribute.TASK_STATE.value][0]))


async def _ended(place: Farm) -> int:
    async def code() -> int | None:
        return place.worker.process.poll() if place.worker.process else None

    return await until(code, "the worker to end by itself", 60)


def _environment(data: Path, engine: EmbeddedTemporal, namespace: str) -> dict[str, str]:
    return {
        "DROIDHERD_DATA": str(data / "data"),
        "DROIDHERD_TEMPORAL__ADDRESS": engine.address,
        "DROIDHERD_TEMPORAL__NAMESPACE": namespace,
        "DROIDHERD_ADB__PORT": "0",
        "DROIDHERD_CONFIG": str(data / "none.toml"),
    }


def test_its_supervisor_starts_it_again(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path):
    limit = {"DROIDHERD_LIMITS__WORKER_RSS_BYTES": "1000000"}
    environment = {**_environment(tmp_path, temporal_server, temporal_namespace), **limit}
    supervisor = Supervisor(ProcessFolders(tmp_path / "run", tmp_path / "logs"))
    spec = ProcessSpec("worker", [sys.executable, str(ROOT / "worker_main.py"), "run"], lambda _: "", environment)
    try:
        child = supervisor.start(spec)
        deadline = time.monotonic() + 60
        supervisor.watch(lambda: child.restarts > 0 or time.monotonic() > deadline)
        assert (1, False) == (child.restarts, child.gave_up)
        log = child.log.read_text()
        assert "allowed: this worker drains and ends" in log
        assert "Traceback" not in log
    finally:
        supervisor.stop(grace_s=20)


async def test_a_full_disk_pauses_the_pool_until_there_is_space(tmp_path: Path):
    with farm(tmp_path, 1) as place:
        client = await place.client()
        await place.all_up(client)
        await asyncio.to_thread(_restart, place, MORE_THAN_THERE_IS)

        async def paused() -> QueuePage | None:
            page = await place.queue(client)
            return page if page.lanes and all(lane.paused_by == ACTOR for lane in page.lanes) else None

        await until(paused, "every lane to be paused")
        await place.submit(client, "waits", "tap_once")
        view = await place.reached(client, "waits", TaskStatus.QUEUED)
        assert "host local: " in view.why
        await asyncio.to_thread(_restart, place, 1000)
        assert TaskStatus.COMPLETED == (await place.ended(client, "waits")).state


def _restart(place: Farm, wanted: int) -> None:
    place.worker.stop()
    place.worker.environment["DROIDHERD_LIMITS__DISK_FREE_BYTES"] = str(wanted)
    place.worker.environment["DROIDHERD_LIMITS__DISK_RESERVE_BYTES"] = "0"
    place.worker.environment["DROIDHERD_LIMITS__DISK_CHECK_S"] = "0.2"
    place.worker.start()


def test_a_time_zone_nobody_knows_stops_the_worker_and_names_the_setting(
    temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path
):
    zone = {"DROIDHERD_RETENTION__TIME_ZONE": "Middle/Earth"}
    environment = {**os.environ, **_environment(tmp_path, temporal_server, temporal_namespace), **zone}
    done = subprocess.run(
        [sys.executable, str(ROOT / "worker_main.py"), "run"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert REFUSED == done.returncode
    assert "see `retention.at` and `retention.time_zone`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_serves_with_a_list_that_makes_no_sense_and_says_so(
    temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path
):
    """A typo, made while it was down. It ends by its memory limit here: it went all the way."""
    environment = {**os.environ, **_environment(tmp_path, temporal_server, temporal_namespace)}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "emulators.json").write_text('{"emulators": [')
    done = subprocess.run(
        [sys.executable, str(ROOT / "worker_main.py"), "run"],
        env={**environment, "DROIDHERD_LIMITS__WORKER_RSS_BYTES": "1000000"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert AGAIN == done.returncode
    assert "the inventory is not followed: " in done.stderr
    assert "Traceback" not in done.stderr
