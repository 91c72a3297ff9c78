"""`droidherd emulator`: what is asked of one emulator, beside looking at it."""

from pathlib import Path
from typing import Annotated

import typer

from droidherd.cli import output
from droidherd.cli.options import Data, Json, Reason, Url, opened, signature

app = typer.Typer(no_args_is_help=True, help="Orders to one emulator. Who it was and why stands in the audit.")

EmulatorId = Annotated[str, typer.Argument(help="Its emulator_id.", metavar="EMULATOR")]


@app.command(epilog="Example: droidherd emulator restart phone-1")
def restart(emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Switch it off and on through its controller, or on if it is off. What runs there moves: drain it first."""
    _order(emulator, "restart", reason, (data, url), as_json=as_json)


@app.command(epilog="Example: droidherd emulator recover phone-1")
def recover(emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Try everything once more, from reconnecting to restarting, whatever was tried before."""
    _order(emulator, "recover", reason, (data, url), as_json=as_json)


@app.command(epilog='Example: droidherd emulator quarantine phone-1 --reason "flickers"')
def quarantine(
    emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False
) -> None:
    """Keep every task away from it until it is released. What runs there moves."""
    _order(emulator, "quarantine", reason, (data, url), as_json=as_json)


@app.command(epilog="Example: droidherd emulator release phone-1")
def release(emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Out of quarantine, through its gate if need be."""
    _order(emulator, "release", reason, (data, url), as_json=as_json)


@app.command(epilog='Example: droidherd emulator drain phone-1 --reason "new image"')
def drain(emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Nothing new begins on it; what runs ends in peace."""
    _order(emulator, "drain", reason, (data, url), as_json=as_json)


@app.command(epilog="Example: droidherd emulator undrain phone-1")
def undrain(emulator: EmulatorId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Take a drain back."""
    _order(emulator, "undrain", reason, (data, url), as_json=as_json)


def _order(emulator: str, action: str, reason: str, where: tuple[Path | None, str], *, as_json: bool) -> None:
    with opened(*where) as door:
        said = door.post(f"/api/emulators/{emulator}/{action}", signature(reason))
    if as_json:
        output.emit(said)
    else:
        output.out.print(f"{emulator}: {action} ordered", markup=False)
