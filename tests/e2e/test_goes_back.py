"""A completed stage is not run again when the whole instance went down and came up in between."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from droidherd.virtual import journal
from tests.cli.stand import Stand, eventually

FLOWS = Path(__file__).parent / "flows"


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    one = Stand(tmp_path / "data", [sys.executable, "-P", "-m", "droidherd.cli"])
    one.environment |= {"DROIDHERD_FLOWS__PATHS": json.dumps([str(FLOWS)])}
    yield one
    one.run("down", "--now")


def view(api: str, task: str) -> dict[str, Any]:
    return httpx.get(f"{api}/api/tasks/{task}", timeout=60).raise_for_status().json()


def in_second_stage(api: str, task: str) -> bool:
    return ["completed", "running"] == [one["state"] for one in view(api, task)["stages"]]


def taps(stand: Stand) -> dict[str, int]:
    """Emulator → how often something was tapped on it."""
    commands = {name: journal.read(stand.data / "virtual", name) for name in ("virtual-1", "virtual-2")}
    return {name: sum(one.line.startswith("input tap") for one in found) for name, found in commands.items()}


def test_a_task_goes_back_to_the_emulator_of_its_stage_after_down_and_up(stand: Stand):
    api = stand.up("--virtual", "2")["api"]
    body = {"id": "there", "type": "one_then_long"}
    httpx.post(f"{api}/api/tasks", json=body, timeout=60).raise_for_status()
    assert eventually(lambda: in_second_stage(api, "there"))
    (home,) = [name for name, count in taps(stand).items() if count]
    assert 0 == stand.run("down", "--drain", "3s").returncode
    api = stand.up("--virtual", "2")["api"]
    assert 0 == stand.run("task", "watch", "there", "--json").returncode
    ended = view(api, "there")
    assert ("completed", {home}) == (ended["state"], {one["emulator"] for one in ended["attempts"]})
    assert {home: 2} == {name: count for name, count in taps(stand).items() if count}
