"""The `droidherd` command: which words there are, and what each says in `--help`."""

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from droidherd import telemetry
from droidherd.cli import (
    accounts,
    bulk,
    discovering,
    emulators,
    flows,
    lanes,
    orders,
    output,
    queueing,
    submitting,
    subscriptions,
    tasks,
)
from droidherd.cli import connect as connecting
from droidherd.cli import demo as demonstrating
from droidherd.cli import doctor as doctoring
from droidherd.cli import down as going_down
from droidherd.cli import logs as logging_out
from droidherd.cli import status as looking
from droidherd.cli import up as going_up
from droidherd.cli.door import NOT_UP, Document, Door
from droidherd.cli.errors import CliError, told
from droidherd.cli.house import House
from droidherd.cli.layout import Layout
from droidherd.cli.options import FLOWS, HOUSE, QUEUE, Data, Json, Url
from droidherd.domain.errors import DroidherdError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Durable task execution for fleets of Android emulators.",
    epilog="Begin with: droidherd doctor && droidherd up --virtual 4",
)

for commands in (discovering.app, submitting.app, orders.app, bulk.app, lanes.app, queueing.app, accounts.listing):
    app.add_typer(commands)
app.add_typer(flows.app, name="flow", rich_help_panel=FLOWS)
app.add_typer(accounts.app, name="account", rich_help_panel=QUEUE)
app.add_typer(emulators.app, name="emulator", rich_help_panel=HOUSE)
app.add_typer(subscriptions.app, name="subscriptions", rich_help_panel=QUEUE)


def main() -> None:
    """Entry point: what is wrong is said in a sentence, not as a traceback."""
    as_json = "--json" in sys.argv
    try:
        # What Typer says by itself of wrong usage is for people.
        sys.exit(app(prog_name="droidherd", standalone_mode=not as_json))
    except (CliError, DroidherdError, typer.TyperException) as error:
        known = error if isinstance(error, CliError) else told(error)
        output.complain(known, as_json=as_json)
        sys.exit(known.code)
    except OSError as error:
        if error.filename is None:
            raise
        # The folder or the file that somebody named cannot be used.
        output.complain(CliError(f"{error.filename}: {error.strerror}"), as_json=as_json)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


@app.command(rich_help_panel=HOUSE, epilog="Examples: droidherd up --virtual 4   |   droidherd up --detach --json")
def up(
    data: Data = None,
    virtual: Annotated[int | None, typer.Option(help="How many virtual emulators to run.", metavar="N")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when everything serves.")] = False,
    as_json: Json = False,
) -> None:
    """Start engine, virtual emulators, worker and API on this machine, and keep them running."""
    settings = going_up.settings_of(data, virtual)
    if detach:
        going_up.detach(settings, as_json=as_json)
        return
    if as_json:
        telemetry.start_logs(settings.telemetry.log_level)
    else:
        logging.basicConfig(level=settings.telemetry.log_level, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    going_up.run(House(settings), as_json=as_json)


@app.command(
    rich_help_panel=HOUSE,
    epilog="Examples: droidherd demo   |   droidherd demo --keep   |   droidherd demo --json | jq .passed",
)
def demo(
    data: Annotated[Path | None, typer.Option("--data", help="Default: a temporary one.", metavar="DIR")] = None,
    keep: Annotated[bool, typer.Option("--keep", envvar="KEEP", help="Leave everything running.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Paint what was shown as SVG.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Show the main job with four virtual emulators. Exit code 0 only if every task ended as it should."""
    raise typer.Exit(demonstrating.run(demonstrating.Choices(data, keep, as_json, picture)))


@app.command(
    rich_help_panel=HOUSE, epilog="Examples: droidherd down   |   droidherd down --drain 5m   |   droidherd down --now"
)
def down(
    data: Data = None,
    drain: Annotated[str, typer.Option(help="How long running stages may take to end.", metavar="TIME")] = "60s",
    now: Annotated[bool, typer.Option("--now", help="Kill everything; the engine keeps what was durable.")] = False,
    as_json: Json = False,
) -> None:
    """Stop everything of this data directory. Tasks go on at the next `up`."""
    layout = Layout(going_up.settings_of(data).data.absolute())
    ended = going_down.down(layout, drain_s=None if now else output.duration_s(drain))
    if as_json:
        output.emit({"ended": ended})
    else:
        output.out.print(f"ended: {', '.join(ended)}" if ended else "nothing was running")


@app.command(rich_help_panel=HOUSE, epilog="Examples: droidherd status   |   droidherd status --json | jq .healthy")
def status(data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Every process with pid, address and health; every emulator with its state. Exit code 3: not running."""
    settings = going_up.settings_of(data)
    with Door.of(settings, url) as door:
        found = looking.collect(Layout(settings.data.absolute()), door)
    if as_json:
        output.emit(found.document())
    else:
        looking.show(found)
    if not found.healthy:
        raise typer.Exit(1 if found.up else NOT_UP)


@app.command(
    rich_help_panel=HOUSE,
    epilog="Examples: droidherd connect emulator-5554   |   droidherd connect 10.0.0.7:16384 --label app=x   |   "
    "droidherd connect 127.0.0.1:16416 --controller mumu --instance 1",
)
def connect(
    address: Annotated[str, typer.Argument(help="Where adb reaches the emulator.", metavar="HOST:PORT")],
    *,
    name: Annotated[str, typer.Option(help="Its emulator_id. Default: made from the address.")] = "",
    label: Annotated[
        list[str] | None, typer.Option(help="name=value; `name=` takes one away; may be repeated.")
    ] = None,
    controller: Annotated[
        str, typer.Option(help="Who starts and stops it: virtual, avd, mumu, ldplayer, none, or one of yours.")
    ] = "",
    instance: Annotated[str, typer.Option(help="What its vendor calls it: a number, or the name of an AVD.")] = "",
    wait: Annotated[str, typer.Option(help="How long to wait until it is up; 0s: not at all.")] = "60s",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Let one emulator join this host, and wait until tasks can run on it."""
    settings = going_up.settings_of(data)
    wish = connecting.Wish(tasks.pairs(label or (), "--label"), name, controller, instance)
    from droidherd.tending import controllers_of

    entry = connecting.enlist(Layout(settings.data.absolute()), address, wish, controllers_of(settings))
    seconds = output.duration_s(wait)
    found: Document = entry.model_dump()
    if seconds > 0:
        with Door.of(settings, url) as door:
            found = connecting.wait_up(door, entry.emulator_id, seconds=seconds)
    if as_json:
        output.emit(found)
    else:
        output.out.print(f"{entry.emulator_id} at {entry.address}: {found.get('state', 'in the list')}")


@app.command(rich_help_panel=HOUSE, epilog="Examples: droidherd logs -f worker   |   droidherd logs --lines 200")
def logs(
    names: Annotated[list[str] | None, typer.Argument(help="worker, api, temporal, virtual, up. Default: all.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as more is said.")] = False,
    lines: Annotated[int, typer.Option(min=0, max=10_000, help="How many of the last lines of each.")] = 20,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """What the processes said."""
    layout = Layout(going_up.settings_of(data).data.absolute())
    chosen = logging_out.choose(layout, names or ())
    for name, text in logging_out.last(chosen, lines):
        output.line(name, text, as_json=as_json)
    if follow:
        for name, text in logging_out.follow(chosen, lambda: False):
            output.line(name, text, as_json=as_json)


@app.command(rich_help_panel=HOUSE, epilog="Example: droidherd doctor --json")
def doctor(data: Data = None, as_json: Json = False) -> None:
    """Find what is missing on this machine and say how to fix it. Exit code 1 if something must be fixed."""
    found = doctoring.examine(going_up.settings_of(data), os.environ)
    if as_json:
        output.emit({"findings": [one.document() for one in found]})
    else:
        output.out.print(
            output.table(["grade", "what", "detail"], [[one.grade, one.what, one.detail] for one in found])
        )
        for one in found:
            if one.fix:
                output.out.print(f"→ {one.what}: {one.fix}", markup=False)
    if any(one.grade is doctoring.Grade.FAIL for one in found):
        raise typer.Exit(1)
