"""The real instance: Temporal, virtual emulators, worker, API, adb server."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from droidherd.adb.server import pid_path
from droidherd.cli.local import stop
from droidherd.cli.local.layout import Layout
from droidherd.processes import pidfile
from droidherd.virtual import journal
from droidherd.virtual.control import VirtualControl
from tests.cli import foreign_page
from tests.cli.stand import Stand, eventually

PROGRAM = [sys.executable, "-P", "-m", "droidherd.cli"]
KEY, PASSWORD = "key-of-the-api", "password-of-a-player"
HEADERS = {"Authorization": f"Bearer {KEY}"}
FLOWS = Path(__file__).with_name("flows")
HEIGHT = 720


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """With secrets in its environment, no umask, and a folder and a PYTHONPATH full of modules called like ours."""
    one = Stand(tmp_path / "data", PROGRAM)
    one.umask = 0
    one.environment |= {"PYTHONPATH": str(tmp_path), "DROIDHERD_API__KEY": KEY, "PLAYER_PASSWORD": PASSWORD}
    for name in ("api", "activities", "workflows"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('code of somebody else')")
    (tmp_path / "worker_main.py").write_text("raise SystemExit('code of somebody else')")
    yield one
    one.run("down", "--now")


def test_a_task_survives_the_death_of_everything(stand: Stand):
    served = stand.up("--virtual", "2", "--ui")
    api = served["api"]
    status = stand.status()
    emulators = {one["emulator_id"]: one["address"] for one in status["emulators"]}
    assert {"virtual-1", "virtual-2"} == set(emulators)
    _is_closed_to_others(stand)
    _knows_only_its_secrets(stand)
    _answers_no_foreign_page(stand)
    assert b"<html" in httpx.get(served["temporal_ui"], timeout=60).raise_for_status().content.lower()
    expected = ["temporal", "virtual", "worker", "api", "web-ui", "up", "adb"]
    assert [(name, "healthy") for name in expected] == [(one["name"], one["health"]) for one in status["processes"]]
    asked = {"type": "long_walk", "account": "walker", "params": {"rounds": 2}}
    task = httpx.post(f"{api}/api/tasks", json=asked, headers=HEADERS, timeout=60).raise_for_status().json()["id"]
    # Asked over HTTP: a command takes longer to start than a busy machine leaves between two states.
    assert eventually(
        lambda: httpx.get(f"{api}/api/tasks/{task}", headers=HEADERS, timeout=60).json().get("state") == "running"
    )

    before = stand.processes()
    for name in ("up", "worker", "api", "web-ui", "temporal", "virtual"):
        os.kill(before[name].pid, signal.SIGKILL)
    assert pidfile.wait_gone(list(before.values()), 10)

    stand.up()
    assert 0 == stand.run("task", "watch", task, "--json").returncode
    seen = json.loads(stand.run("task", "show", task, "--json").stdout)
    assert ("completed", 1) == (seen["state"], seen["attempt"])
    assert emulators == {one["emulator_id"]: one["address"] for one in stand.status()["emulators"]}

    family = stand.family()
    ended = stand.run("down", "--drain", "10s")
    assert 0 == ended.returncode
    assert [] == [one for one in family if one.lives()]


def test_down_and_up_between_two_stages_repeat_none_that_completed(stand: Stand):
    """The emulator of its stages is drained meanwhile, and the other one is free: the task waits, and says for what."""
    stand.environment["DROIDHERD_FLOWS__PATHS"] = json.dumps([str(FLOWS)])
    with httpx.Client(base_url=stand.up("--virtual", "2")["api"], headers=HEADERS, timeout=60) as http:
        asked = {"type": "stations", "id": "goes-back", "account": "walker", "params": {"x": 50}}
        http.post("/api/tasks", json=asked).raise_for_status()
        assert eventually(lambda: 70 in _taps(stand)), "the second of three stages acts"
        home = http.get("/api/tasks/goes-back").json()["emulator"]
        http.post(f"/api/emulators/{home}/drain", json={"actor": "ann", "reason": "new disk"}).raise_for_status()
    stop.down(Layout(stand.data), drain_s=30.0)  # as the command does, which begins too late
    assert [60, 70] == _taps(stand)

    with httpx.Client(base_url=stand.up()["api"], headers=HEADERS, timeout=90) as http:
        drained = f"waits for the emulator on which its stages completed: {home} is draining (by api for ann: new disk)"
        seen: list[dict[str, Any]] = []

        def waits_or_ended() -> bool:
            seen.append(http.get("/api/tasks/goes-back").json())
            return seen[-1]["why"] == drained or seen[-1]["state"] == "completed"

        assert eventually(waits_or_ended)
        assert ("queued", drained) == (seen[-1]["state"], seen[-1]["why"])
        http.post(f"/api/emulators/{home}/undrain").raise_for_status()
        ended = http.get("/api/tasks/goes-back", params={"wait": "60s"}).json()
        assert ("completed", 1) == (ended["state"], ended["attempt"])
        assert {home} == {stage["emulator"] for stage in ended["stages"]}
        events = http.get("/api/tasks/goes-back/events").json()["events"]
    assert [] == [one["reason"] for one in events if one["event"] == "stages_repeated"]
    assert [60, 70, 80] == _taps(stand)


def _taps(stand: Stand) -> list[int]:
    """Where, in percent down the screen, on whatever emulator, in the order of the percents."""
    folder = stand.data / "virtual"
    done = [command.argv for one in ("virtual-1", "virtual-2") for command in journal.read(folder, one)]
    return sorted(round(int(argv[3]) * 100 / (HEIGHT - 1)) for argv in done if argv[:2] == ("input", "tap"))


def _is_closed_to_others(stand: Stand) -> None:
    open_ones = [path for path in (stand.data, *stand.data.rglob("*")) if path.lstat().st_mode & 0o077]
    assert [] == [path for path in open_ones if not path.is_symlink()]


def _knows_only_its_secrets(stand: Stand) -> None:
    known = {name: Path(f"/proc/{one.pid}/environ").read_text() for name, one in stand.processes().items()}
    adb = pidfile.read(pid_path(stand.data / "adb"))
    assert adb is not None
    known["adb"] = Path(f"/proc/{adb.pid}/environ").read_text()
    assert {"up", "api"} == {name for name, text in known.items() if KEY in text}
    assert {"up", "worker"} == {name for name, text in known.items() if PASSWORD in text}


def _answers_no_foreign_page(stand: Stand) -> None:
    """Only what names nothing of this instance: two pages of the API, and the metrics of Temporal.

    Every port that its processes listen on is visited. One is at an address that no page can guess.
    """
    family = stand.family()
    hidden = {address for address, _ in foreign_page.ports_of(family) if address not in foreign_page.FINDABLE}
    assert 1 == len(hidden), hidden
    chosen = json.loads((stand.data / "ports.json").read_text())
    public = {chosen["temporal.metrics_port"]: {"/metrics"}, chosen["api.port"]: {"/", "/docs"}}
    for address, port in foreign_page.ports_of(family):
        if address in hidden:
            continue
        found = {path: foreign_page.visit(address, port, path) for path in foreign_page.PATHS}
        answered = {path for path, (status, _) in found.items() if 200 <= status < 400}
        assert answered <= public.get(port, set[str]()), (port, answered)
        names = [b"virtual-1", b"virtual_1", b'"host', str(stand.data.parent).encode(), b"pytest"]
        found_names = {path: [name for name in names if name in content] for path, (_, content) in found.items()}
        assert [] == [(path, which) for path, which in found_names.items() if which], port
        foreign_page.post_order(address, port)
    assert {True} == {one.lives() for one in family}
    with VirtualControl(stand.processes()["virtual"].address) as control:
        assert {True} == {bool(one["listening"]) for one in control.list()}
