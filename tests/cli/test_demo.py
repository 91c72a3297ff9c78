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

from droidherd.cli import demo_judge, demo_parts, demo_view, processes
from droidherd.cli.demo_play import Play, Role
from droidherd.cli.door import Document, Door, RefusedError
from droidherd.flows.catalogue import Catalogue
from tests.cli.stand import ROOT

LIMIT_S = 600
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PROGRAM = [sys.executable, "-m", "droidherd.cli"]
LEAVE = "import os, sys; sys.stdout.flush(); os._exit(0)"
"""After the program: Python's own exit crashes now and then in the threads of the SDK (docs/contract.md)."""


class House(Door):
    """Answers like the API of a house in which everything went as planned, unless told otherwise."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.answers: dict[str, Any] = {"/api/queue": {"queue_info": []}, "/api/emulators": {"emulators": []}}
        self.content = demo_judge.PNG
        self.posted: list[tuple[str, str]] = []
        self.refuse: list[int] = []
        self.verdicts: list[bool] = []

    @override
    def get(self, path: str, **query: Any) -> Document:
        return self.answers.get(path, {"state": "queued", "task_id": path.rpartition("/")[2]})

    @override
    def post(self, path: str, body: Any, *, headers: Any = None, **query: Any) -> Document:
        self.posted.append((path, (headers or {}).get("Idempotency-Key", "")))
        if self.refuse:
            raise RefusedError("no", remedy="", status=self.refuse.pop(0), problem={"holder": "dave-k", "detail": "no"})
        return {"id": body.get("id", ""), "verdict": self.verdicts.pop(0) if self.verdicts else True}

    @override
    def file(self, path: str) -> bytes:
        return self.content


@pytest.fixture
def house() -> Iterator[House]:
    with House() as one:
        yield one


@pytest.fixture
def play(house: House) -> Play:
    """A play that is over, and went as it should."""
    one = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    for token, role in enumerate(one.roles.values(), start=1):
        _ended(role, token)
        pictures = [{"name": f"{n}.png"} for n in range(role.part.pictures)]
        house.answers[f"/api/tasks/{role.task_id}/artifacts"] = {"artifacts": pictures}
    _attempts(one, demo_parts.AGAIN)[:] = [attempt(1, "failed"), attempt(2, "completed")]
    _attempts(one, demo_parts.HELD)[:] = [attempt(1, "paused"), attempt(1, "completed")]
    one.roles[demo_parts.LOST].task["error"] = {"kind": "ScreenNotReachedError"}
    twin = one.roles[demo_parts.TWIN]
    twin.status, twin.refusal = 409, {"holder": one.roles[demo_parts.HELD].task_id}
    asked = [{"event": "paused", "actor": "demo"}, {"event": "resumed", "actor": "demo"}, {"event": "completed"}]
    _audit(house, demo_parts.HELD, asked)
    _audit(house, demo_parts.STOPPED, [{"event": "granted"}, {"event": "cancelled", "actor": "demo"}])
    return one


def attempt(n: int, outcome: str, at: datetime = NOW + timedelta(minutes=1)) -> Document:
    ended = at + timedelta(seconds=3)
    return {"n": n, "outcome": outcome, "token": 1, "started": at.isoformat(), "ended": ended.isoformat()}


def _ended(role: Role, token: int) -> None:
    role.task_id, role.status = f"{role.part.name.replace(' ', '-')}-k", 201
    start = NOW + timedelta(minutes=token)
    attempts = [{**attempt(1, role.part.expected, start), "token": token}]
    role.task = {"state": role.part.expected, "attempt": role.part.attempts, "attempts": attempts}


def _attempts(play: Play, name: str) -> list[Document]:
    return play.roles[name].task["attempts"]


def _audit(house: House, name: str, events: list[Document]) -> None:
    house.answers[f"/api/tasks/{name}-k/events"] = {"events": events}


def test_a_play_that_went_as_it_should_has_no_complaints(play: Play, house: House):
    assert {name: [] for name in play.roles} == demo_judge.complaints(play, house)


def _state(name: str, state: str) -> Callable[[Play, House], None]:
    return lambda play, house: play.roles[name].task.update(state=state)


def _first_attempt(name: str, **changes: Any) -> Callable[[Play, House], None]:
    return lambda play, house: _attempts(play, name)[0].update(changes)


WRONG: list[tuple[str, Callable[[Play, House], object], str]] = [
    ("alice", _state("alice", "failed"), "ended as failed, not completed"),
    ("alice", lambda play, house: setattr(house, "content", b"GIF"), "0.png is not a PNG"),
    ("frank", lambda play, house: house.answers["/api/tasks/frank-k/artifacts"]["artifacts"].pop(), "left 5 pictures"),
    ("golden", _state("golden", "completed"), "ended as completed, not failed"),
    (
        "golden",
        lambda play, house: play.roles["golden"].task["error"].update(kind="FlowError"),
        "failed with FlowError",
    ),
    ("second look", lambda play, house: play.roles["second look"].task.update(attempt=3), "took 3 attempts, not 2"),
    ("second look", _first_attempt("second look", outcome="lost"), "its attempts ended as {1: 'lost'"),
    ("dave again", lambda play, house: play.roles["dave again"].refusal.update(holder="bob-k"), "naming bob-k"),
    ("dave", lambda play, house: _audit(house, "dave", []), "its audit says [] was asked"),
    ("dave", _first_attempt("dave", outcome="completed"), "its stays on emulators ended as"),
    ("erin", lambda play, house: _audit(house, "erin", [{"event": "cancelled", "actor": "eve"}]), "by eve"),
    ("erin", lambda play, house: _attempts(play, "erin").clear(), "never ran"),
    ("later", _first_attempt("later", started=NOW.isoformat()), "before its time"),
    ("carol again", _first_attempt("carol again", started=NOW.isoformat()), "while another task of its account"),
    ("second tap", _first_attempt("second tap", token=1), "overtook"),
]


@pytest.mark.parametrize(("name", "spoil", "expected"), WRONG)
def test_what_went_wrong_is_named(
    play: Play, house: House, name: str, spoil: Callable[[Play, House], object], expected: str
):
    spoil(play, house)
    found = demo_judge.complaints(play, house)[name]
    assert [True] == [expected in one for one in found], found


def test_what_the_house_cannot_take_now_is_submitted_again_under_the_same_key(house: House):
    play = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    house.refuse = [503]
    play.turn()
    play.turn()
    first = [key for path, key in house.posted if path == "/api/tasks"][:3]
    assert ["second-look-k", "second-look-k", "carol-k"] == first


def test_a_verdict_that_is_late_is_asked_for_again(house: House):
    play = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    house.verdicts = [False]
    play.turn()
    play.turn()
    play.turn()
    assert 2 == [key for _, key in house.posted].count("second-look-k")


def test_a_refusal_for_good_ends_the_part(house: House):
    play = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    house.refuse = [422]
    play.turn()
    role = play.roles[demo_parts.AGAIN]
    assert (True, 422) == (role.over, role.status)
    assert "" == role.state


def test_every_part_can_be_planned():
    catalogue = Catalogue([demo_parts.FLOWS])
    planned = [catalogue.plan(part.kind, part.body.get("params", {})).task_type for part in demo_parts.parts(NOW)]
    assert [part.kind for part in demo_parts.parts(NOW)] == planned


def test_the_live_view_says_who_runs_where_and_why_others_wait(house: House):
    play = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    runs, waits = play.roles["alice"], play.roles["first tap"]
    stages = [{"name": "open", "state": "completed"}, {"name": "collect", "state": "running"}]
    runs.status = waits.status = 201
    runs.task = {"state": "running", "emulator": "virtual-2", "stages": stages}
    runs.task_id, waits.task, waits.waits = "alice-k", {"state": "queued"}, "lane anonymous is paused"
    play.emulators = [{"emulator_id": "virtual-2", "state": "up", "task": "alice-k"}]
    lines = _drawn(demo_view.live(play, {"docs": "http://d"}, ["12:00:00  news"]))
    assert re.search(r"alice +daily_reward +running +virtual-2 +collect 2/2", lines)
    assert re.search(r"first tap +tap_once +queued +lane anonymous is paused", lines)
    assert re.search(r"virtual-2 +up +alice", lines)
    assert "0/13 ended" in lines


@pytest.mark.parametrize("height", [20, 25, 26, 30, 31, 60])
def test_the_live_view_fits_the_terminal(house: House, height: int):
    play = Play(house, demo_parts.parts(NOW), "k", lambda _: None)
    play.emulators = [{"emulator_id": f"virtual-{n}", "state": "up"} for n in range(1, 5)]
    drawn = _drawn(
        demo_view.live(play, {"docs": "http://d"}, [f"news {n}" for n in range(9)], ConsoleDimensions(80, height))
    )
    # Below this the tasks alone are too many, and the terminal cuts them off.
    assert max(height, 20) > drawn.count("\n")


@pytest.mark.parametrize("width", [80, 112])
def test_the_verdict_fits_the_terminal(play: Play, width: int):
    lines = _drawn(demo_view.verdict(play, {name: [] for name in play.roles}, width)).splitlines()
    row = next(line for line in lines if "second look" in line)
    assert width >= max(len(line.rstrip()) for line in lines)
    assert ["✓", "second look", "second_look"] == re.split(r"  +", row)[:3]
    assert ["completed", "completed", "2"] == re.split(r"  +", row.strip())[-3:]


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path):
    """`demo --data .droidherd` must not take down the house that runs there."""
    (tmp_path / "something").touch()
    done = _run(["demo", "--data", str(tmp_path), "--json"])
    assert 2 == done.returncode
    assert "is not empty" in json.loads(done.stdout)["error"]
    assert ["something"] == [path.name for path in tmp_path.iterdir()]


def test_the_verdict_shows_every_complaint(play: Play):
    found: dict[str, list[str]] = {name: [] for name in play.roles}
    found["bob"] = ["left 0 pictures, not 1"]
    lines = _drawn(demo_view.verdict(play, found))
    assert re.search(r"✗ +bob", lines)
    assert "bob: left 0 pictures, not 1" in lines
    assert 12 == lines.count("✓")


def _drawn(what: Any) -> str:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(what)
    return console.export_text()


def test_everything_ends_as_it_should_and_the_house_can_be_kept(tmp_path: Path):
    """The whole demo, as `KEEP=1 make demo` starts it."""
    data = tmp_path / "data"
    with contextlib.ExitStack() as house:
        house.callback(_run, ["down", "--data", str(data), "--now"])
        _play_and_keep(data)
        lived = processes.read_all(data / "run")
        assert 0 == _run(["down", "--data", str(data), "--drain", "5s"]).returncode
        assert [] == [one.name for one in lived if processes.lives(one)]


def _play_and_keep(data: Path) -> None:
    done = _run(["demo", "--data", str(data), "--json"], KEEP="1", DROIDHERD_API__PORT="1")
    told = json.loads(done.stdout)
    assert [] == [one for one in told["tasks"] if one["problems"]], done.stderr
    assert (0, True, True) == (done.returncode, told["passed"], told["kept"])

    status = json.loads(_run(["status", "--data", str(data), "--json"]).stdout)
    assert (True, 4) == (status["healthy"], len(status["emulators"]))
    _try_the_readme(told["urls"])


def _try_the_readme(urls: dict[str, str]) -> None:
    """Its examples, as they are written, but for the ports."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("http://localhost:8800", urls["api"]).replace("127.0.0.1:7243", urls["engine"])
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
        "import sys\nfrom droidherd.cli.demo import Interrupted\n"
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
        [*PROGRAM, "demo", "--data", str(data)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = next((line for line in process.stdout if "api" in line and "✓" in line), "")
        lived = processes.read_all(data / "run")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert 130 == process.wait(timeout=LIMIT_S), said + rest
    assert ["api", "temporal", "up", "virtual", "worker"] == sorted(one.name for one in lived)
    assert [] == [one.name for one in lived if processes.lives(one)]


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
