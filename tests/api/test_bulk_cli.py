"""`droidherd task bulk`, against the real API."""

import getpass
from pathlib import Path

import httpx
import pytest

from droidherd.cli import output
from droidherd.cli.commands import bulk
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World
from tests.support.terminal import Terminal


@pytest.fixture
def droidherd(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(capsys, monkeypatch, before=("task", "bulk"), after=("--url", world.url))


def waiting(http: httpx.Client, name: str, count: int) -> list[str]:
    """Tasks of one account, one behind the other, none of which can begin."""
    assert http.post("/api/queue/pause", json={"lane": name}).is_success
    ids = [submit(http, name, lane=name, on_busy="queue", labels={"of": name}).json()["id"] for _ in range(count)]
    eventually(lambda: count == len(http.get("/api/tasks", params={"label": f"of={name}"}).json()["tasks"]))
    return sorted(ids)


def test_a_dry_run_names_them_and_touches_none(droidherd: Terminal, http: httpx.Client, name: str):
    ids = waiting(http, name, 2)
    code, output = droidherd("cancel", "--label", f"of={name}", "--type", "tap_once", "--dry-run")
    assert (0, sorted([*ids, "cancel would be asked of 2 tasks"])) == (code, sorted(output.splitlines()))
    assert {"queued"} == {http.get(f"/api/tasks/{one}").json()["state"] for one in ids}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--state", "bogus"), "Invalid value for '--state': 'bogus' is not one of 'pending', 'queued',"),
        (("--label", "x"), "Invalid value for '--label': 'x' is not name=value"),
    ],
)
def test_a_filter_that_is_none_is_named_as_it_was_written(droidherd: Terminal, words: tuple[str, str], expected: str):
    code, printed = droidherd("cancel", *words)
    assert (2, True) == (code, expected in printed), printed


def test_all_that_fit_are_done_in_portions(
    droidherd: Terminal, http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "PORTION", 2)
    monkeypatch.setattr(bulk, "LISTED", 2)
    ids = waiting(http, name, 5)
    paused = droidherd.json("pause", "--account", name, "--reason", "night")
    assert (ids, []) == (sorted(paused["tasks"]), paused["refused"])
    listed = {"account": name, "state": "paused"}
    eventually(lambda: len(ids) == len(http.get("/api/tasks", params=listed).json()["tasks"]))
    code, output = droidherd("cancel", "--account", name, "--state", "paused")
    assert (0, "cancel: 5 tasks") == (code, output.strip())
    for one in ids:
        until(http, one, "cancelled")
        events = http.get(f"/api/tasks/{one}/events").json()["events"]
        assert (getpass.getuser(), "night") == next((e["actor"], e["reason"]) for e in events if e["event"] == "paused")


def test_a_person_at_a_terminal_sees_how_far_it_is(
    droidherd: Terminal, http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "PORTION", 1)
    monkeypatch.setattr(output.err, "_force_terminal", True)
    waiting(http, name, 3)
    assert "3/3" in droidherd("cancel", "--account", name)[1]


def test_who_could_not_is_named_and_the_exit_code_says_so(droidherd: Terminal, http: httpx.Client, name: str):
    (task_id,) = waiting(http, name, 1)
    code, output = droidherd("resume", "--account", name)
    assert (1, True) == (code, f"{task_id}  resume is not possible while queued" in output), output
    assert "resume: no task; 1 could not" in output


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("cancel",), 2, "no filter: this would be about every task there is"),
        (("delete", "--state", "failed"), 2, "is not one of"),
        (("cancel", "--state", "lost"), 2, "--state"),
        (("cancel", "--label", "team"), 2, "--label"),
    ],
)
def test_what_makes_no_sense_is_refused(droidherd: Terminal, words: tuple[str, ...], code: int, expected: str):
    found, output = droidherd(*words)
    assert (code, True) == (found, expected in output), output


def test_where_nobody_fits_nothing_is_done(droidherd: Terminal, name: str):
    assert (0, "cancel: no task\n") == droidherd("cancel", "--account", name)
