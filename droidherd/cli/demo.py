"""`droidherd demo`: a whole house in a directory of its own, a dozen tasks, and a verdict on each of them."""

import io
import json
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.terminal_theme import MONOKAI

from droidherd.cli import demo_judge, demo_view, output, up
from droidherd.cli.demo_parts import EMULATORS, FLOWS, parts
from droidherd.cli.demo_play import Play
from droidherd.cli.door import Document, Door
from droidherd.cli.down import down
from droidherd.cli.errors import CliError, NotReadyError
from droidherd.cli.layout import Layout

LIMIT_S = 300.0
"""For the tasks; a house that does not start has a limit of its own."""
UP_S = 120.0
POLL_S = 0.4
DRAIN_S = 10.0
PICTURE_WIDTH = 112
KEPT = ("artifacts", "logs")
"""What stays of the data directory when the demo is over."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person wants."""

    data: Path | None = None
    keep: bool = False
    as_json: bool = False
    picture: Path | None = None


@dataclass(slots=True)
class Show:
    """One run of the demo."""

    choices: Choices
    data: Path
    urls: dict[str, str] = field(default_factory=dict[str, str])
    news: list[str] = field(default_factory=list[str])
    busiest: int = 0
    fullest: RenderableType = ""
    """The live view when most was going on."""

    @property
    def is_live(self) -> bool:
        return output.out.is_terminal and not self.choices.as_json

    def tell(self, text: str) -> None:
        """Into the live view; line by line where there is none."""
        self.news.append(f"{datetime.now().astimezone():%H:%M:%S}  {text}")
        if not self.is_live and not self.choices.as_json:
            output.out.print(self.news[-1], markup=False)

    def say(self, text: str) -> None:
        if not self.choices.as_json:
            output.out.print(text)


def run(choices: Choices) -> int:
    """0 only if every task ended as it should."""
    data = _empty(choices.data or Path(tempfile.mkdtemp(prefix="droidherd-demo-")))
    show = Show(choices, data)
    _only_our_settings(os.environ, data)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    kept = False
    try:
        door = _open(show)
        with door:
            play = _perform(show, door)
            complaints = demo_judge.complaints(play, door)
        passed = not any(complaints.values())
        kept = choices.keep
        _close(show, play, complaints, passed=passed)
        return 0 if passed else 1
    finally:
        if not kept:
            _take_down(show)


def _empty(data: Path) -> Path:
    """The demo begins anew, and takes everything down: not among somebody's emulators and tasks."""
    if data.exists() and any(data.iterdir()):
        raise CliError(f"{data} is not empty", remedy="name a directory that is, or leave --data out", code=2)
    return data.absolute()


def _only_our_settings(environment: MutableMapping[str, str], data: Path) -> None:
    """What the person has set for a house of their own is not for this one. Ports: any that are free."""
    for name in [name for name in environment if name.startswith("DROIDHERD_")]:
        del environment[name]
    ours = {
        "CONFIG": str(data / "none.toml"),
        "TEMPORAL__ADDRESS": "127.0.0.1:0",
        "TEMPORAL__UI_PORT": "0",
        "TEMPORAL__METRICS_PORT": "0",
        "API__PORT": "0",
        "ADB__PORT": "0",
        "FLOWS__PATHS": json.dumps([str(FLOWS)]),
        "PHYSICS__DRAIN_S": str(DRAIN_S),
    }
    environment.update({f"DROIDHERD_{name}": value for name, value in ours.items()})


def _open(show: Show) -> Door:
    """The house, as `droidherd up --detach` starts it; then its emulators."""
    show.say(f"[bold]droidherd demo[/bold]   engine, {EMULATORS} virtual emulators, worker with adb server, API")
    settings = up.settings_of(show.data, EMULATORS)
    with up.Progress(as_json=show.choices.as_json or not show.is_live).working("starting the house"):
        told = up.launch(settings)
    show.urls = {name: str(value) for name, value in told.items() if name != "pid"}
    for line in _started(Layout(show.data)):
        show.say(f"  [green]✓[/green] {line['process']:<10} {line['address']:<22} {line['seconds']:5.1f} s")
    door = Door.of(settings)
    with up.Progress(as_json=show.choices.as_json or not show.is_live).working("waiting for the emulators"):
        _wait_free(show, door)
    return door


def _wait_free(show: Show, door: Door) -> None:
    """A dispatcher that begins without memory grants nothing before every guard of before would have run out."""
    until = time.monotonic() + UP_S
    while True:
        queue = door.get("/api/queue", limit=1)
        if queue.get("free") == EMULATORS and not queue.get("rebuilding"):
            return
        if time.monotonic() > until:
            raise NotReadyError("the virtual emulators do not come up", remedy=f"see {Layout(show.data).logs}")
        time.sleep(POLL_S)


def _started(layout: Layout) -> list[Document]:
    """What the house said about its processes while it started."""
    found: list[Document] = []
    for line in (layout.logs / "up.log").read_text(encoding="utf-8").splitlines():
        try:
            said: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("event") == "started":
            found.append(said)
    return found


def _perform(show: Show, door: Door) -> Play:
    """Until every task has ended, or the time is up."""
    play = Play(door, parts(datetime.now(UTC)), secrets.token_hex(4), show.tell)
    until = time.monotonic() + LIMIT_S
    with Live(console=output.out, refresh_per_second=4, transient=True, auto_refresh=False) as screen:
        while not play.over and time.monotonic() < until:
            play.turn()
            _remember(show, play)
            if show.is_live:
                screen.update(demo_view.live(play, show.urls, show.news, screen.console.size), refresh=True)
            time.sleep(POLL_S)
    return play


def _close(show: Show, play: Play, complaints: dict[str, list[str]], *, passed: bool) -> None:
    seconds = play.running_s()
    if show.choices.as_json:
        document = {"passed": passed, "seconds": round(seconds, 1), "data": str(show.data), "kept": show.choices.keep}
        output.emit({**document, "urls": show.urls, "tasks": demo_view.rows(play, complaints)})
        return
    count = len(play.roles)
    word = f"[bold green]all {count} as expected[/bold green]" if passed else "[bold red]not as expected[/bold red]"
    # A pipe has no width of its own, and a table that was cut off helps nobody.
    screen = output.out if output.out.is_terminal else Console(width=PICTURE_WIDTH, highlight=False)
    table = demo_view.verdict(play, complaints, screen.width)
    for line in ("", table, f"\n{word} in {seconds:.0f} s\n"):
        screen.print(line, soft_wrap=False)
    if show.choices.picture is not None:
        _paint(
            show.choices.picture, show.fullest, "", demo_view.verdict(play, complaints), f"\n{word} in {seconds:.0f} s"
        )
    _say_where(show)


def _say_where(show: Show) -> None:
    layout = Layout(show.data)
    lines = {"artifacts": str(show.data / "artifacts"), "logs": str(layout.logs)}
    if show.choices.keep:
        lines = {
            "API docs": show.urls["docs"],
            "Temporal Web UI": show.urls.get("temporal_ui", ""),
            **lines,
            "look": f"{_command()} tasks --data {show.data}",
            "stop": f"{_command()} down --data {show.data}",
        }
    for name, value in lines.items():
        output.out.print(f"  {name:<16} {escape(value)}")
    if not show.choices.keep:
        output.out.print("  API docs and Temporal Web UI: [bold]KEEP=1 make demo[/bold] leaves everything running")


def _take_down(show: Show) -> None:
    """Everything that was started; and what nobody looks at afterwards."""
    try:
        with up.Progress(as_json=show.choices.as_json or not show.is_live).working("taking everything down"):
            down(Layout(show.data), drain_s=DRAIN_S)
    except KeyboardInterrupt:
        down(Layout(show.data), drain_s=None)
    if show.choices.data is None:
        for path in show.data.iterdir():
            if path.is_dir() and path.name not in KEPT:
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_file():
                path.unlink(missing_ok=True)


def _remember(show: Show, play: Play) -> None:
    """The fullest moment makes the picture."""
    busy = sum(role.state in {"running", "queued", "paused", "retry_pending"} for role in play.roles.values())
    if busy > show.busiest:
        show.busiest, show.fullest = busy, demo_view.live(play, show.urls, show.news)


def _paint(file: Path, *shown: RenderableType) -> None:
    album = Console(record=True, file=io.StringIO(), width=PICTURE_WIDTH, force_terminal=True, highlight=False)
    for one in shown:
        album.print(one)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Whoever looks at it has a monospaced font; one from somewhere else would be asked for at every look.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", album.export_svg(title="make demo", theme=MONOKAI), flags=re.DOTALL)
    file.write_text(drawn, encoding="utf-8")


def _command() -> str:
    """How this person would type the command: the search path of `make` is not theirs."""
    program = Path(sys.executable).with_name("droidherd")
    here = Path.cwd()
    return str(program.relative_to(here)) if program.is_relative_to(here) else str(program)


class Interrupted(KeyboardInterrupt):
    """Somebody wants the demo to end.

    Python remembers a bare `KeyboardInterrupt` that went through `exec`, as every import of a data class may, and
    ends the process by the signal in the end, whatever exit code we chose after taking the house down.
    """


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted
