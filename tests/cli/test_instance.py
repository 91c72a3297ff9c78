"""The real instance: Temporal, virtual emulators, worker, API, adb server."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from droidherd.processes import pidfile
from tests.cli.stand import Stand, eventually

PROGRAM = [sys.executable, "-m", "droidherd.cli"]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    one = Stand(tmp_path / "data", PROGRAM)
    yield one
    one.run("down", "--now")


def test_a_task_survives_the_death_of_everything(stand: Stand):
    api = stand.up("--virtual", "2")["api"]
    status = stand.status()
    emulators = {one["emulator_id"]: one["address"] for one in status["emulators"]}
    assert {"virtual-1", "virtual-2"} == set(emulators)
    expected = ["temporal", "virtual", "worker", "api", "up", "adb"]
    assert [(name, "healthy") for name in expected] == [(one["name"], one["health"]) for one in status["processes"]]
    submitted = stand.run("submit", "long_walk", "--param", "rounds=2", "--json")
    assert 0 == submitted.returncode, submitted.stdout + submitted.stderr
    task = json.loads(submitted.stdout)["id"]
    # Asked over HTTP: a command takes longer to start than a busy machine leaves between two states.
    assert eventually(lambda: httpx.get(f"{api}/api/tasks/{task}", timeout=60).json().get("state") == "running")

    before = stand.processes()
    for name in ("up", "worker", "api", "temporal", "virtual"):
        os.kill(before[name].pid, signal.SIGKILL)
    assert pidfile.wait_gone(list(before.values()), 10)

    stand.up("--virtual", "2")
    assert 0 == stand.run("task", "watch", task, "--json").returncode
    seen = json.loads(stand.run("task", "show", task, "--json").stdout)
    assert ("completed", 1) == (seen["state"], seen["attempt"])
    assert emulators == {one["emulator_id"]: one["address"] for one in stand.status()["emulators"]}

    family = stand.family()
    ended = stand.run("down", "--drain", "10s")
    assert 0 == ended.returncode
    assert [] == [one for one in family if one.lives()]
