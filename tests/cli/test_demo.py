"""The demo: it passes for the right reasons only, is taken down in order, and leaves nothing running."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console, ConsoleDimensions
from typing_extensions import override

from droidherd.cli.client import ApiClient, ApiRefusedError, Document
from droidherd.cli.demo import judge, script, view
from droidherd.cli.demo.script import DemoRun, DemoTaskRun, demo_tasks
from droidherd.flows.catalogue import Catalogue
from droidherd.processes import pidfile
from tests.cli.stand import ROOT

LIMIT_S = 600
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PROGRAM = [sys.executable, "-m", "droidherd.cli"]
LEAVE = "import os, sys; sys.stdout.flush(); os._exit(0)"
"""After the program: Python's own exit crashes now and then in the threads of the SDK (docs/contract.md)."""


class Instance(ApiClient):
    """Answers like the API of an instance in which everything went as planned, unless told otherwise."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.answers: dict[str, Any] = {"/api/queue": {"queue_info": []}, "/api/emulators": {"emulators": []}}
        self.content = judge.PNG
        self.posted: list[tuple[str, str]] = []
        self.refuse: list[int] = []
        self.pending: list[bool] = []

    @override
    def get(self, path: str, **query: Any) -> Document:
        return self.answers.get(path, {"state": "queued", "task_id": path.rpartition("/")[2]})

    @override
    def post(self, path: str, body: Any, *, headers: Any = None, **query: Any) -> Document:
        self.posted.append((path, (headers or {}).get("Idempotency-Key", "")))
        if self.refuse:
            raise ApiRefusedError(
                "no", remedy="", status=self.refuse.pop(0), problem={"holder": "dave-k", "detail": "no"}
            )
        return {
            "id": body.get("id", ""),
            "state": "pending",
            "admission": "pending" if self.pending and self.pending.pop(0) else "accepted",
        }

    @override
    def file(self, path: str) -> bytes:
        return self.content


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as one:
        yield one


@pytest.fixture
def demo(instance: Instance) -> DemoRun:
    """A run that is over, and went as it should."""
    one = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    for token, run in enumerate(one.runs.values(), start=1):
        _ended(run, token)
        pictures = [{"name": f"{n}.png"} for n in range(run.task.pictures)]
        instance.answers[f"/api/tasks/{run.task_id}/artifacts"] = {"artifacts": pictures}
    _attempts(one, script.SECOND_LOOK)[:] = [attempt(1, "failed"), attempt(2, "completed")]
    _attempts(one, script.DAVE)[:] = [attempt(1, "paused"), attempt(1, "completed")]
    one.runs[script.GOLDEN].view["error"] = {"kind": "ScreenNotReachedError"}
    twin = one.runs[script.DAVE_AGAIN]
    twin.status, twin.refusal = 409, {"holder": one.runs[script.DAVE].task_id}
    asked = [{"event": event, "actor": "demo"} for event in ("created", "paused", "resumed")]
    asked.append({"event": "completed"})
    _audit(instance, script.DAVE, asked)
    _audit(instance, script.ERIN, [{"event": "granted"}, {"event": "cancelled", "actor": "demo"}])
    return one


def attempt(n: int, outcome: str, at: datetime = NOW + timedelta(minutes=1)) -> Document:
    ended = at + timedelta(seconds=3)
    return {"n": n, "outcome": outcome, "token": 1, "started": at.isoformat(), "ended": ended.isoformat()}


def _ended(run: DemoTaskRun, token: int) -> None:
    run.task_id, run.status = f"{run.task.name.replace(' ', '-')}-k", 201
    start = NOW + timedelta(minutes=token)
    attempts = [{**attempt(1, run.task.expected, start), "token": token}]
    run.view = {"state": run.task.expected, "attempt": run.task.attempts, "attempts": attempts}


def _attempts(demo: DemoRun, name: str) -> list[Document]:
    return demo.runs[name].view["attempts"]


def _audit(instance: Instance, name: str, events: list[Document]) -> None:
    instance.answers[f"/api/tasks/{name}-k/events"] = {"events": events}


def test_a_run_that_went_as_it_should_has_no_complaints(demo: DemoRun, instance: Instance):
    assert {name: [] for name in demo.runs} == judge.complaints(demo, instance)


def _state(name: str, state: str) -> Callable[[DemoRun, Instance], None]:
    return lambda demo, instance: demo.runs[name].view.update(state=state)


def _first_attempt(name: str, **changes: Any) -> Callable[[DemoRun, Instance], None]:
    return lambda demo, instance: _attempts(demo, name)[0].update(changes)


WRONG: list[tuple[str, Callable[[DemoRun, Instance], object], str]] = [
    ("alice", _state("alice", "failed"), "ended as failed, not completed"),
    ("alice", lambda demo, instance: setattr(instance, "content", b"GIF"), "0.png is not a PNG"),
    (
        "frank",
        lambda demo, instance: instance.answers["/api/tasks/frank-k/artifacts"]["artifacts"].pop(),
        "left 5 pictures",
    ),
    ("golden", _state("golden", "completed"), "ended as completed, not failed"),
    (
        "golden",
        lambda demo, instance: demo.runs["golden"].view["error"].update(kind="FlowError"),
        "failed with FlowError",
    ),
    ("second look", lambda demo, instance: demo.runs["second look"].view.update(attempt=3), "took 3 attempts, not 2"),
    ("second look", _first_attempt("second look", outcome="lost"), "its attempts ended as {1: 'lost'"),
    ("dave again", lambda demo, instance: demo.runs["dave again"].refusal.update(holder="bob-k"), "naming bob-k"),
    ("dave", lambda demo, instance: _audit(instance, "dave", []), "its audit says [] was asked"),
    ("dave", _first_attempt("dave", outcome="completed"), "its attempts ended as ["),
    ("erin", lambda demo, instance: _audit(instance, "erin", [{"event": "cancelled", "actor": "eve"}]), "by eve"),
    ("erin", lambda demo, instance: _attempts(demo, "erin").clear(), "never ran"),
    ("later", _first_attempt("later", started=NOW.isoformat()), "before its time"),
    ("carol again", _first_attempt("carol again", started=NOW.isoformat()), "while another task of its account"),
    ("second tap", _first_attempt("second tap", token=1), "overtook"),
]


@pytest.mark.parametrize(("name", "spoil", "expected"), WRONG)
def test_what_went_wrong_is_named(
    demo: DemoRun, instance: Instance, name: str, spoil: Callable[[DemoRun, Instance], object], expected: str
):
    spoil(demo, instance)
    found = judge.complaints(demo, instance)[name]
    assert [True] == [expected in one for one in found], found


def test_what_the_api_cannot_take_now_is_sent_again_under_the_same_key(instance: Instance):
    demo = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    instance.refuse = [503]
    demo.turn()
    demo.turn()
    first = [key for path, key in instance.posted if path == "/api/tasks"][:3]
    assert ["second-look-k", "second-look-k", "carol-k"] == first


def test_a_task_that_is_not_let_in_yet_is_submitted_again(instance: Instance):
    demo = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    instance.pending = [True]
    demo.turn()
    demo.turn()
    demo.turn()
    assert 2 == [key for _, key in instance.posted].count("second-look-k")


def test_a_refusal_for_good_ends_the_task(instance: Instance):
    demo = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    instance.refuse = [422]
    demo.turn()
    run = demo.runs[script.SECOND_LOOK]
    assert (True, 422) == (run.over, run.status)
    assert "" == run.state


def test_every_task_can_be_planned():
    catalogue = Catalogue([script.FLOWS])
    planned = [
        catalogue.plan(task.kind, task.body.get("params", {}), account=task.body.get("account", "")).task_type
        for task in demo_tasks(NOW)
    ]
    assert [task.kind for task in demo_tasks(NOW)] == planned


def test_the_live_view_says_who_runs_where_and_why_others_wait(instance: Instance):
    demo = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    runs, waits = demo.runs["alice"], demo.runs["first tap"]
    stages = [{"name": "open", "state": "completed"}, {"name": "collect", "state": "running"}]
    runs.status = waits.status = 201
    runs.view = {"state": "running", "emulator": "virtual-2", "stages": stages}
    runs.task_id, waits.view, waits.waits = "alice-k", {"state": "queued"}, "lane anonymous is paused"
    demo.emulators = [{"emulator_id": "virtual-2", "state": "up", "task": "alice-k"}]
    lines = _drawn(view.live(demo, {"docs": "http://d"}, ["12:00:00  news"]))
    assert re.search(r"alice +daily_reward +running +virtual-2 +collect 2/2", lines)
    assert re.search(r"first tap +tap_once +queued +lane anonymous is paused", lines)
    assert re.search(r"virtual-2 +up +alice", lines)
    assert "0/13 ended" in lines


@pytest.mark.parametrize("height", [20, 25, 26, 30, 31, 60])
def test_the_live_view_fits_the_terminal(instance: Instance, height: int):
    demo = DemoRun(instance, demo_tasks(NOW), "k", lambda _: None)
    demo.emulators = [{"emulator_id": f"virtual-{n}", "state": "up"} for n in range(1, 5)]
    drawn = _drawn(
        view.live(demo, {"docs": "http://d"}, [f"news {n}" for n in range(9)], ConsoleDimensions(80, height))
    )
    # Below this the tasks alone are too many, and the terminal cuts them off.
    assert max(height, 20) > drawn.count("\n")


@pytest.mark.parametrize("width", [80, 112])
def test_the_results_fits_the_terminal(demo: DemoRun, width: int):
    lines = _drawn(view.results(demo, {name: [] for name in demo.runs}, width)).splitlines()
    row = next(line for line in lines if "second look" in line)
    assert width >= max(len(line.rstrip()) for line in lines)
    assert ["✓", "second look", "second_look"] == re.split(r"  +", row)[:3]
    assert ["completed", "completed", "2"] == re.split(r"  +", row.strip())[-3:]


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path):
    """`demo --data .droidherd` must not take down the instance that runs there."""
    (tmp_path / "something").touch()
    done = _run(["host", "demo", "--data", str(tmp_path), "--json"])
    assert 2 == done.returncode
    assert "is not empty" in json.loads(done.stdout)["error"]
    assert ["something"] == [path.name for path in tmp_path.iterdir()]


def test_the_results_shows_every_complaint(demo: DemoRun):
    found: dict[str, list[str]] = {name: [] for name in demo.runs}
    found["bob"] = ["left 0 pictures, not 1"]
    lines = _drawn(view.results(demo, found))
    assert re.search(r"✗ +bob", lines)
    assert "bob: left 0 pictures, not 1" in lines
    assert 12 == lines.count("✓")


def _drawn(what: Any) -> str:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(what)
    return console.export_text()


def test_everything_ends_as_it_should_and_the_instance_can_be_kept(tmp_path: Path):
    """The whole demo, as `KEEP=1 make demo` starts it."""
    data = tmp_path / "data"
    with contextlib.ExitStack() as instance:
        instance.callback(_run, ["down", "--data", str(data), "--now"])
        _play_and_keep(data)
        lived = pidfile.read_all(data / "run")
        assert 0 == _run(["down", "--data", str(data), "--drain", "5s"]).returncode
        assert [] == [one.name for one in lived if one.lives()]


def _play_and_keep(data: Path) -> None:
    done = _run(["host", "demo", "--data", str(data), "--json"], KEEP="1", DROIDHERD_API__PORT="1")
    document = json.loads(done.stdout)
    assert [] == [one for one in document["tasks"] if one["problems"]], done.stderr
    assert (0, True, True) == (done.returncode, document["passed"], document["kept"])

    status = json.loads(_run(["status", "--data", str(data), "--json"]).stdout)
    assert (True, 4) == (status["healthy"], len(status["emulators"]))
    _try_the_readme(document["urls"])


def _try_the_readme(urls: dict[str, str]) -> None:
    """Its examples, as they are written, but for the ports."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("http://localhost:8800", urls["api"]).replace("127.0.0.1:7243", urls["temporal"])
    answers: list[Any] = []
    with httpx.Client(timeout=40, trust_env=False) as client:
        for line in re.findall(r"^curl .*$", text.replace("\\\n", " "), re.MULTILINE):
            words = shlex.split(line, comments=True)
            url = next(word for word in words if word.startswith("localhost:8800"))
            body = words[words.index("-d") + 1] if "-d" in words else None
            url = url.replace("localhost:8800", urls["api"])
            headers = {"content-type": "application/json"}
            answers.append(client.request("POST" if body else "GET", url, content=body, headers=headers))
    assert [201, *[200] * (len(answers) - 1)] == [one.status_code for one in answers]
    assert "completed" == answers[0].json()["task"]["state"]
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program + LEAVE], capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT
    )
    assert ("completed\n", 0) == (done.stdout, done.returncode), done.stderr


def test_a_ctrl_c_amid_an_import_still_ends_with_our_exit_code(tmp_path: Path):
    """Data classes are made by `exec`."""
    (tmp_path / "amid.py").write_text(
        "import sys\nfrom droidherd.cli.demo.command import Interrupted\n"
        "try:\n    exec('raise Interrupted')\nexcept KeyboardInterrupt:\n    sys.exit(130)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "amid"], env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}, check=False
    )
    assert 130 == done.returncode


def test_ctrl_c_takes_everything_down(tmp_path: Path):
    data = tmp_path / "data"
    with subprocess.Popen(
        [*PROGRAM, "host", "demo", "--data", str(data)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = next((line for line in process.stdout if "api" in line and "✓" in line), "")
        lived = pidfile.read_all(data / "run")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert 130 == process.wait(timeout=LIMIT_S), printed + rest
    assert ["api", "temporal", "up", "virtual", "worker"] == sorted(one.name for one in lived)
    assert [] == [one.name for one in lived if one.lives()]


def _run(words: list[str], **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
