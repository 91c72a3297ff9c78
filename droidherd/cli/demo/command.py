"""`droidherd host demo`: starts an instance of its own, follows the script with a live view, and judges every task."""

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
from typing import Annotated, Any, NoReturn

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.terminal_theme import MONOKAI

from droidherd.cli import output, values
from droidherd.cli.client import ApiClient, Document
from droidherd.cli.demo import judge, view
from droidherd.cli.demo.script import EMULATORS, FLOWS, DemoRun, demo_tasks
from droidherd.cli.errors import CliError, NotReadyError
from droidherd.cli.local import start
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.stop import down
from droidherd.cli.options import Json, settings_of

app = typer.Typer()

LIMIT_S = 300.0
"""For the tasks; an instance that does not start has a limit of its own."""
UP_S = 120.0
POLL_S = 0.4
DRAIN_S = 10.0
PICTURE_WIDTH = 112
KEPT = ("artifacts", "logs")
"""What stays of the data directory when the demo is over."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command."""

    data: Path | None = None
    keep: bool = False
    as_json: bool = False
    picture: Path | None = None


@dataclass(slots=True)
class Show:
    """One run of the demo."""

    choices: DemoOptions
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


@app.command(
    epilog="Examples: droidherd host demo   |   droidherd host demo --keep   |   "
    "droidherd host demo --json | jq .passed",
)
def demo(
    data: Annotated[
        Path | None, typer.Option("--data", help="Default: a temporary one.", metavar="DIR", parser=values.folder)
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", envvar="KEEP", help="Leave everything running.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Paint what was shown as SVG.", metavar="FILE", parser=values.new_file)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the main job with four virtual emulators. Exit code 0 only if every task ended as it should."""
    raise typer.Exit(run(DemoOptions(data, keep, as_json, picture)))


def run(choices: DemoOptions) -> int:
    """0 only if every task ended as it should."""
    data = _empty(choices.data or Path(tempfile.mkdtemp(prefix="droidherd-demo-")))
    show = Show(choices, data)
    _only_our_settings(os.environ, data)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    kept = False
    try:
        api = _open(show)
        with api:
            demo = _perform(show, api)
            complaints = judge.complaints(demo, api)
        passed = not any(complaints.values())
        kept = choices.keep
        _close(show, demo, complaints, passed=passed)
        return 0 if passed else 1
    finally:
        if not kept:
            _take_down(show)


def _empty(data: Path) -> Path:
    """The demo takes everything down in the end, so it does not begin among somebody's emulators and tasks."""
    if data.exists() and any(data.iterdir()):
        raise CliError(f"{data} is not empty", remedy="name a directory that is, or leave --data out", code=2)
    return data.absolute()


def _only_our_settings(environment: MutableMapping[str, str], data: Path) -> None:
    """Ignore the settings of the person's own instance. Ports: any that are free."""
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
        "TIMING__DRAIN_S": str(DRAIN_S),
    }
    environment.update({f"DROIDHERD_{name}": value for name, value in ours.items()})


def _open(show: Show) -> ApiClient:
    """The instance, as `droidherd up --detach` starts it; then its emulators."""
    show.say(f"[bold]droidherd demo[/bold]   Temporal, {EMULATORS} virtual emulators, worker with adb server, API")
    settings = settings_of(show.data, EMULATORS)
    with start.StartProgress(as_json=show.choices.as_json or not show.is_live).working("starting the instance"):
        urls = start.launch(settings)
    show.urls = {name: str(value) for name, value in urls.items() if name != "pid"}
    for line in _startup_lines(Layout(show.data)):
        show.say(f"  [green]✓[/green] {line['process']:<10} {line['address']:<22} {line['seconds']:5.1f} s")
    api = ApiClient.of(settings)
    with start.StartProgress(as_json=show.choices.as_json or not show.is_live).working("waiting for the emulators"):
        _wait_free(show, api)
    return api


def _wait_free(show: Show, api: ApiClient) -> None:
    """A new dispatcher grants nothing until every guard of an earlier one would have expired."""
    until = time.monotonic() + UP_S
    while True:
        queue = api.get("/api/queue", limit=1)
        if queue.get("free") == EMULATORS and not queue.get("rebuilding"):
            return
        if time.monotonic() > until:
            raise NotReadyError("the virtual emulators do not come up", remedy=f"see {Layout(show.data).logs}")
        time.sleep(POLL_S)


def _startup_lines(layout: Layout) -> list[Document]:
    """What the instance said about its processes while it started."""
    found: list[Document] = []
    for line in (layout.logs / "up.log").read_text(encoding="utf-8").splitlines():
        try:
            event: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") == "started":
            found.append(event)
    return found


def _perform(show: Show, api: ApiClient) -> DemoRun:
    """Until every task has ended, or the time is up."""
    demo = DemoRun(api, demo_tasks(datetime.now(UTC)), secrets.token_hex(4), show.tell)
    until = time.monotonic() + LIMIT_S
    with Live(console=output.out, refresh_per_second=4, transient=True, auto_refresh=False) as screen:
        while not demo.over and time.monotonic() < until:
            demo.turn()
            _remember(show, demo)
            if show.is_live:
                screen.update(view.live(demo, show.urls, show.news, screen.console.size), refresh=True)
            time.sleep(POLL_S)
    return demo


def _close(show: Show, demo: DemoRun, complaints: dict[str, list[str]], *, passed: bool) -> None:
    seconds = demo.running_s()
    if show.choices.as_json:
        document = {"passed": passed, "seconds": round(seconds, 1), "data": str(show.data), "kept": show.choices.keep}
        output.emit({**document, "urls": show.urls, "tasks": view.rows(demo, complaints)})
        return
    count = len(demo.runs)
    word = f"[bold green]all {count} as expected[/bold green]" if passed else "[bold red]not as expected[/bold red]"
    # A pipe has no width of its own, and a table that was cut off helps nobody.
    screen = output.out if output.out.is_terminal else output.SafeConsole(width=PICTURE_WIDTH, highlight=False)
    table = view.results(demo, complaints, screen.width)
    for line in ("", table, f"\n{word} in {seconds:.0f} s\n"):
        screen.print(line, soft_wrap=False)
    if show.choices.picture is not None:
        _paint(show.choices.picture, show.fullest, "", view.results(demo, complaints), f"\n{word} in {seconds:.0f} s")
    _say_where(show)


def _say_where(show: Show) -> None:
    layout = Layout(show.data)
    lines = {"artifacts": str(show.data / "artifacts"), "logs": str(layout.logs)}
    if show.choices.keep:
        lines = {
            "API docs": show.urls["docs"],
            **lines,
            "look": f"{_command()} task list --data {show.data}",
            "stop": f"{_command()} down --data {show.data}",
        }
    for name, value in lines.items():
        output.out.print(f"  {name:<16} {escape(value)}")
    if not show.choices.keep:
        output.out.print("  API docs: [bold]KEEP=1 make demo[/bold] leaves everything running")


def _take_down(show: Show) -> None:
    """End everything that was started, and remove what nobody looks at afterwards."""
    try:
        with start.StartProgress(as_json=show.choices.as_json or not show.is_live).working("taking everything down"):
            down(Layout(show.data), drain_s=DRAIN_S)
    except KeyboardInterrupt:
        down(Layout(show.data), drain_s=None)
    if show.choices.data is None:
        for path in show.data.iterdir():
            if path.is_dir() and path.name not in KEPT:
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_file():
                path.unlink(missing_ok=True)


def _remember(show: Show, demo: DemoRun) -> None:
    """The fullest moment makes the picture."""
    busy = sum(run.state in {"running", "queued", "paused", "retry_pending"} for run in demo.runs.values())
    if busy > show.busiest:
        show.busiest, show.fullest = busy, view.live(demo, show.urls, show.news)


def _paint(file: Path, *shown: RenderableType) -> None:
    album = output.SafeConsole(
        record=True, file=io.StringIO(), width=PICTURE_WIDTH, force_terminal=True, highlight=False
    )
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
    ends the process by the signal in the end, whatever exit code we chose after taking the instance down.
    """


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted
