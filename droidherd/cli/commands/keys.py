"""The keys that encrypt what Temporal keeps: made, chosen and removed without an editor (docs/security.md)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.errors import CliError
from droidherd.cli.local import key_file
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import is_held
from droidherd.cli.options import Data, Json, settings_of
from droidherd.settings import Settings

RESTART = "`droidherd down`, then `droidherd up --detach`"
READERS = "every worker and API reads its keys when it starts, and only then"
OFF = "`encryption.write` is off: nothing is encrypted"

app = typer.Typer()

Id = Annotated[str, typer.Argument(help="Its id, as `droidherd key list` shows it.", metavar="KEY")]


@app.command("list", epilog="Examples: droidherd key list   |   droidherd key list --json")
def list_(*, data: Data = None, as_json: Json = False) -> None:
    """List the keys of this instance by their ids, never by what they are."""
    _show(settings_of(data), as_json=as_json)


@app.command(epilog="Examples: droidherd key add   |   droidherd key add k7 --last")
def add(
    key: Annotated[str, typer.Argument(help="The id of the new key. Default: the next number.", metavar="[KEY]")] = "",
    *,
    last: Annotated[
        bool, typer.Option("--last", help="It only decrypts, until `droidherd key use`: for several machines.")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a key. It encrypts from the next `up` on; all others still decrypt."""
    settings = settings_of(data)
    file = _file(settings)
    made = key_file.add_key(file, key, last=last)
    does = "decrypts" if last else _effect(settings)
    _show(settings, f"{made} {does} from the next start on", as_json=as_json)


@app.command(epilog="Example: droidherd key use k2")
def use(key: Id, *, data: Data = None, as_json: Json = False) -> None:
    """Have this key encrypt from the next `up` on; all others still decrypt."""
    settings = settings_of(data)
    file = _file(settings)
    key_file.use_key(file, key)
    _show(settings, f"{key} {_effect(settings)} from the next start on", as_json=as_json)


@app.command(epilog="Example: droidherd key remove k1 --yes")
def remove(
    key: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Whatever still needs it may wait for it, or is lost.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove a key that nothing needs any more. Never the one that encrypts."""
    settings = settings_of(data)
    file = _file(settings)
    if not yes:
        raise CliError(
            f"{key} stays: what was encrypted with it cannot be read without it, and waits for it",
            remedy=f"docs/security.md says when nothing needs it any more; copy {file} elsewhere, then add --yes",
            code=2,
        )
    key_file.remove_key(file, key)
    effect = f"{key} is removed; what still needs it waits for it, and says so in `droidherd status`"
    _show(settings, effect, as_json=as_json)


def _file(settings: Settings) -> Path:
    if settings.encryption.keys:
        raise CliError(
            "the keys of this instance stand in a variable, not in a file",
            remedy="change DROIDHERD_ENCRYPTION__KEYS where it is set: the first key encrypts, all keys decrypt",
            code=2,
        )
    file = settings.encryption_file
    if file is None:
        raise CliError(
            f"the instance {settings.data.absolute()} has no keys: nothing of it is encrypted",
            remedy="`droidherd up --encrypt` makes the first one; name another instance with --data",
            code=2,
        )
    return file.absolute()


def _next(settings: Settings) -> str:
    """What is to be done for it to take effect here."""
    return RESTART if is_held(Layout(settings.data.absolute()).lock) else "`droidherd up`"


def _effect(settings: Settings) -> str:
    """Of the key that stands first."""
    if settings.encryption.write:
        return "encrypts, and all others decrypt,"
    return "would encrypt, but `encryption.write` is off: all keys only decrypt,"


def _show(settings: Settings, effect: str = "", *, as_json: bool) -> None:
    file, writes, following = _file(settings), settings.encryption.write, _next(settings)
    names = key_file.list_keys(file)
    if as_json:
        keys = [{"id": name, "encrypts": writes and at == 0} for at, name in enumerate(names)]
        output.emit({"file": str(file), "keys": keys, **({"done": effect, "next": following} if effect else {})})
        return
    rows = [[one, "encrypts, decrypts" if writes and at == 0 else "decrypts"] for at, one in enumerate(names)]
    output.out.print(output.table(["key", "does"], rows))
    if effect:
        output.out.print(f"{effect}: {following}; {READERS}", markup=False)
    if not writes:
        output.err.print(OFF, markup=False)
    output.err.print(f"[dim]{escape(str(file))}: keep a copy elsewhere[/dim]")
