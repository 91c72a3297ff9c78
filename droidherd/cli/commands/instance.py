"""`droidherd up`, `down`, `logs`: the instance on this machine."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from droidherd import telemetry
from droidherd.cli import output, values
from droidherd.cli.client import must_exist
from droidherd.cli.errors import CliError
from droidherd.cli.local import start, stop
from droidherd.cli.local.instance import Instance
from droidherd.cli.local.layout import Layout
from droidherd.cli.options import Data, Json, settings_of, unread_flows

POLL_S = 0.2
TAIL_BYTES = 262_144

Line = tuple[str, str]
"""Which process, and one line of its log."""

app = typer.Typer()


@app.command(epilog="Examples: droidherd host up --virtual 4   |   droidherd host up --detach --json")
def up(
    data: Data = None,
    virtual: Annotated[
        int | None, typer.Option(help="How many virtual emulators to run. Default: as at the last `up`.", metavar="N")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when everything serves.")] = False,
    ui: Annotated[bool, typer.Option("--ui", help="Start Temporal's Web UI too. It asks nobody for a key.")] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt what Temporal keeps. The first time, this makes a key.")
    ] = False,
    *,
    as_json: Json = False,
) -> None:
    """Start Temporal, virtual emulators, worker and API on this machine, and keep them running."""
    settings = start.with_last_virtual(settings_of(data, virtual, temporal={"ui": True} if ui else None))
    for warning in unread_flows(settings):
        output.err.print(warning, markup=False)
    with start.leaving_nothing(settings.data.absolute()):
        if encrypt:
            start.ensure_keys(settings)
        if detach:
            start.detach(settings, as_json=as_json)
            return
        if as_json:
            telemetry.start_logs(settings.telemetry.log_level)
        else:
            log_format = "%(asctime)s %(message)s"
            logging.basicConfig(level=settings.telemetry.log_level, format=log_format, datefmt="%H:%M:%S")
        logging.getLogger("httpx").setLevel(logging.WARNING)
        start.run(Instance(settings), as_json=as_json)


@app.command(
    epilog="Examples: droidherd host down   |   droidherd host down --drain 5m   |   droidherd host down --now",
)
def down(
    data: Data = None,
    drain: Annotated[
        float,
        typer.Option(help="How long running stages may take to end.", metavar="TIME", parser=values.duration_s),
    ] = "60s",  # pyright: ignore[reportArgumentType] - Typer reads it as it reads what people write
    now: Annotated[bool, typer.Option("--now", help="Kill everything; Temporal keeps what was durable.")] = False,
    as_json: Json = False,
) -> None:
    """Stop everything of this data directory. Tasks go on at the next `up`."""
    layout = Layout(settings_of(data).data.absolute())
    must_exist(layout)
    ended = stop.down(layout, drain_s=None if now else drain)
    if as_json:
        output.emit({"ended": ended})
    else:
        output.out.print(f"ended: {', '.join(ended)}" if ended else "nothing was running")


@app.command(epilog="Examples: droidherd host logs -f worker   |   droidherd host logs --lines 200")
def logs(
    names: Annotated[list[str] | None, typer.Argument(help="worker, api, temporal, virtual, up. Default: all.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as more is written.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=10_000, help="How many of the last lines of each.")
    ] = 20,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the logs of the processes."""
    layout = Layout(settings_of(data).data.absolute())
    must_exist(layout)
    chosen = choose_logs(layout, names or ())
    for name, text in last_lines(chosen, lines):
        output.line(name, text, as_json=as_json)
    if follow:
        for name, text in follow_logs(chosen, lambda: False):
            output.line(name, text, as_json=as_json)


def log_names(layout: Layout) -> list[str]:
    return sorted(path.stem for path in layout.logs.glob("*.log"))


def choose_logs(layout: Layout, wanted: Sequence[str]) -> list[Path]:
    known = log_names(layout)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise CliError(f"no log of {', '.join(unknown)}", remedy=f"there are: {', '.join(known) or 'none yet'}", code=2)
    return [layout.logs / f"{name}.log" for name in (wanted or known)]


def last_lines(paths: Sequence[Path], count: int) -> Iterator[Line]:
    """The last lines of each."""
    for path in paths:
        for text in _tail(path, count):
            yield path.stem, text


def follow_logs(paths: Sequence[Path], stop: Callable[[], bool]) -> Iterator[Line]:
    """What is said from now on. A log that became shorter was rotated: it is read from its start."""
    places = {path: path.stat().st_size if path.exists() else 0 for path in paths}
    rests = dict.fromkeys(paths, b"")
    while not stop():
        for path in paths:
            content = _since(path, places)
            *whole, rests[path] = (rests[path] + content).split(b"\n")
            for line in whole:
                yield path.stem, line.decode(errors="replace")
        time.sleep(POLL_S)


def _since(path: Path, places: dict[Path, int]) -> bytes:
    try:
        size = path.stat().st_size
        if size < places[path]:
            places[path] = 0
        if size == places[path]:
            return b""
        with path.open("rb") as file:
            file.seek(places[path])
            content = file.read(TAIL_BYTES)
    except FileNotFoundError:
        return b""
    places[path] += len(content)
    return content


def _tail(path: Path, count: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            content = file.read()
    except FileNotFoundError:
        return []
    return content.decode(errors="replace").splitlines()[-count:] if count else []
