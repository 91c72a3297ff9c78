"""`droidherd discover`: which emulators are there, and what they would be called."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.cli import output
from droidherd.cli.errors import CliError
from droidherd.cli.options import HOUSE, Data, Json
from droidherd.cli.up import settings_of
from droidherd.controllers.ldplayer import LDPlayerController
from droidherd.controllers.model import NONE, ControllerError
from droidherd.controllers.mumu import MuMuController
from droidherd.controllers.registry import LDPLAYER, MUMU
from droidherd.controllers.run import findable
from droidherd.emulator import addresses, discovery
from droidherd.emulator.discovery import Found, Lists, Look
from droidherd.emulator.inventory import Inventory
from droidherd.settings import Settings

app = typer.Typer()

USUAL_PORT = 5037
"""Where the adb server of a person listens."""
LOOPBACK = "127.0.0.1"
PORTS_LIMIT = 100


@app.command(
    rich_help_panel=HOUSE,
    epilog="Examples: droidherd discover   |   droidherd discover --connect   |   droidherd discover --host 10.0.0.7",
)
def discover(
    *,
    host: Annotated[str, typer.Option(help="Whose ports are looked at.", metavar="HOST")] = LOOPBACK,
    port: Annotated[list[int] | None, typer.Option(help="Beside the known ones; may be repeated.", min=1)] = None,
    connect: Annotated[bool, typer.Option("--connect", help="Let all that are new join this host.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Find emulators: on the ports that vendors use, in the usual adb server, in MuMu's and LDPlayer's lists."""
    settings = settings_of(data)
    inventory = Inventory(settings.data.absolute())
    if len(port or ()) > PORTS_LIMIT:
        raise CliError(f"{len(port or ())} ports are too many", remedy=f"at most {PORTS_LIMIT}", code=2)
    seen = search(settings, inventory, host, tuple(port or ()))
    added = discovery.entries(seen.found, lambda name: _is_ours(settings, name)) if connect else ()
    if added:
        inventory.add(*added)
    if as_json:
        output.emit({
            "emulators": [_document(one) for one in seen.found],
            "troubles": list(seen.troubles),
            "added": [one.emulator_id for one in added],
        })  # fmt: skip
        return
    rows = [[one.emulator_id, one.address, one.state, one.vendor, _who(one), _place(one)] for one in seen.found]
    output.out.print(output.table(["emulator", "address", "state", "vendor", "what", "here"], rows))
    for trouble in seen.troubles:
        output.out.print(trouble, markup=False)
    if added:
        output.out.print(f"added: {', '.join(one.emulator_id for one in added)}", markup=False)


def search(settings: Settings, inventory: Inventory, host: str, ports: tuple[int, ...] = ()) -> Look:
    """With an adb server of its own: a look disturbs nobody who works."""
    known = inventory.load()
    knocked = discovery.knock(host, dict.fromkeys((*ports, *addresses.known_ports())))
    local = host == LOOPBACK
    others = discovery.listed(AdbClient(USUAL_PORT)) if local else ()
    serials = dict.fromkeys((*(entry.address for entry in known), *knocked, *others))
    with (
        tempfile.TemporaryDirectory() as home,
        AdbServer(0, Path(home), settings.adb.program, environment=os.environ) as server,
    ):
        return discovery.look(server.client(), serials, tools_of(settings) if local else {}, known)


def tools_of(settings: Settings) -> dict[str, Lists]:
    """The vendors' tools that are installed here."""
    programs = settings.controllers
    found: dict[str, Lists] = {}
    if findable(programs.mumu_program):
        found[MUMU] = MuMuController(programs.mumu_program)
    if findable(programs.ldplayer_program):
        found[LDPLAYER] = LDPlayerController(programs.ldplayer_program)
    return found


def _is_ours(settings: Settings, name: str) -> bool:
    try:
        from droidherd.tending import controllers_of

        return controllers_of(settings).find(name) is not None
    except ControllerError:
        return False


def _document(one: Found) -> dict[str, object]:
    names = ("emulator_id", "address", "state", "known", "vendor", "title", "controller", "instance", "serialno",
             "model", "android")  # fmt: skip
    return {**{name: getattr(one, name) for name in names}, "also": list(one.also)}


def _who(one: Found) -> str:
    words = [one.title or one.model, f"Android {one.android}" if one.android else ""]
    return ", ".join(word for word in words if word)


def _place(one: Found) -> str:
    where = "in the list" if one.known else "new"
    return where if one.controller == NONE else f"{where}, {one.controller} {one.instance}"
