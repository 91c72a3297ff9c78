"""The `droidherd` command: a noun, then a verb; short forms for what is typed most; and how each ends."""

import copy
import sys
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer
from typer.models import CommandInfo
from typer.rich_utils import rich_format_error

from droidherd.cli import output
from droidherd.cli.commands import (
    accounts,
    bulk,
    control,
    doctor,
    emulators,
    flows,
    instance,
    keys,
    queue,
    status,
    subscriptions,
    task,
)
from droidherd.cli.demo import command as demo
from droidherd.cli.errors import CliError, from_core_error, in_plain_words
from droidherd.cli.options import SHORT
from droidherd.domain.errors import DroidherdError

NO_SPACE = frozenset({EDQUOT, EFBIG, EIO, ENOSPC})
"""What a write says of the place it goes to; it names no file."""
GROUPS = (
    ("task", "Tasks: submitted, looked at, changed.", (task.app, control.app, bulk.app, queue.cleaning)),
    ("emulator", "Emulators: found, connected, looked at, acted upon.", (emulators.app,)),
    ("queue", "The queue of a pool: what waits and why, lanes, statistics, audit.", (queue.app,)),
    ("account", "Accounts: bound to an emulator, disabled, enabled.", (accounts.app,)),
    ("subscription", "Tasks that recur: by cron, or every so often.", (subscriptions.app,)),
    ("flow", "Flows: made, checked, tried, recorded, replayed, drawn.", (flows.app,)),
    ("key", "Encryption keys in the file of this instance: made, used, removed.", (keys.app,)),
    (
        "host",
        "This machine: the instance on it is started, watched and stopped.",
        (instance.app, status.app, doctor.app, emulators.hosts, demo.app),
    ),
)
"""The nouns, what each is about, and where its verbs come from."""

SHORT_FORMS = {
    "submit": "task submit",
    "ps": "task list",
    "pause": "task pause",
    "resume": "task resume",
    "cancel": "task cancel",
    "retry": "task retry",
    "up": "host up",
    "down": "host down",
    "status": "host status",
    "logs": "host logs",
}


def build() -> typer.Typer:
    """The whole command."""
    whole = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Durable task execution for fleets of Android emulators.",
        epilog="Begin with: droidherd host doctor && droidherd up --virtual 4",
    )
    whole.callback()(_options)
    commands: dict[str, CommandInfo] = {}
    for noun, about, parts in GROUPS:
        group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=about)
        for part in parts:
            group.registered_commands += part.registered_commands
        commands |= {f"{noun} {_verb(one)}": one for one in group.registered_commands}
        whole.add_typer(group, name=noun)
    whole.registered_commands += [_short(name, long, commands[long]) for name, long in SHORT_FORMS.items()]
    return whole


def _verb(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__ if command.callback else "")


def _short(name: str, long: str, command: CommandInfo) -> CommandInfo:
    """The same command under a name of its own."""
    made = copy.copy(command)
    about = command.help or (command.callback.__doc__ if command.callback else "") or ""
    made.name, made.rich_help_panel = name, SHORT
    made.help = f"{about.strip()}\n\nShort for `droidherd {long}`."
    made.epilog = (command.epilog or "").replace(f"droidherd {long}", f"droidherd {name}")
    return made


def _version(wanted: bool) -> None:
    if wanted:
        found = version("droidherd")
        if "--json" in sys.argv:
            output.emit({"version": found})
        else:
            output.plain(f"droidherd {found}")
        raise typer.Exit


def _options(
    version: Annotated[  # noqa: ARG001 (its callback does it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version, and nothing else.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """What stands before the noun."""
    if as_json:
        raise typer.BadParameter("write it after the command", param_hint="--json")


app = build()


def main() -> None:
    """Entry point: what is wrong is said in a sentence, not as a traceback."""
    as_json = "--json" in sys.argv
    try:
        sys.exit(app(prog_name="droidherd", standalone_mode=False))
    except typer.TyperException as error:
        in_plain_words(error)
        if as_json:
            output.complain(from_core_error(error), as_json=True)
        else:
            rich_format_error(cast("Any", error))  # all that are raised are of its own class
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(1)
    except (CliError, DroidherdError) as error:
        shown = error if isinstance(error, CliError) else from_core_error(error)
        output.complain(shown, as_json=as_json)
        sys.exit(shown.code)
    except OSError as error:
        if error.filename is None and error.errno not in NO_SPACE:
            raise
        # The folder or the file that somebody named cannot be used.
        where = error.filename or "what the command writes"
        output.complain(CliError(f"{where}: {error.strerror}"), as_json=as_json)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
