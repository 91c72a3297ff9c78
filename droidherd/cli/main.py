"""The `droidherd` command: which commands there are, and how each ends."""

import sys

import typer

from droidherd.cli import output
from droidherd.cli.commands import (
    accounts,
    bulk,
    control,
    doctor,
    emulators,
    flows,
    instance,
    queue,
    status,
    submit,
    subscriptions,
)
from droidherd.cli.demo import command as demo
from droidherd.cli.errors import CliError, from_core_error
from droidherd.cli.options import FLOWS, INSTANCE, QUEUE
from droidherd.domain.errors import DroidherdError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Durable task execution for fleets of Android emulators.",
    epilog="Begin with: droidherd doctor && droidherd up --virtual 4",
)

for commands in (
    instance.app,
    status.app,
    doctor.app,
    demo.app,
    emulators.joining,
    submit.app,
    control.app,
    bulk.app,
    queue.app,
    accounts.listing,
):
    app.add_typer(commands)
app.add_typer(flows.app, name="flow", rich_help_panel=FLOWS)
app.add_typer(accounts.app, name="account", rich_help_panel=QUEUE)
app.add_typer(emulators.app, name="emulator", rich_help_panel=INSTANCE)
app.add_typer(subscriptions.app, name="subscriptions", rich_help_panel=QUEUE)


def main() -> None:
    """Entry point: what is wrong is said in a sentence, not as a traceback."""
    as_json = "--json" in sys.argv
    try:
        # What Typer says by itself of wrong usage is for people.
        sys.exit(app(prog_name="droidherd", standalone_mode=not as_json))
    except (CliError, DroidherdError, typer.TyperException) as error:
        shown = error if isinstance(error, CliError) else from_core_error(error)
        output.complain(shown, as_json=as_json)
        sys.exit(shown.code)
    except OSError as error:
        if error.filename is None:
            raise
        # The folder or the file that somebody named cannot be used.
        output.complain(CliError(f"{error.filename}: {error.strerror}"), as_json=as_json)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
