"""Options that many commands share, and how they are read: which instance, which output, who asks and why."""

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from droidherd.cli.client import ApiClient, Document
from droidherd.cli.errors import CliError
from droidherd.settings import Settings, load

Data = Annotated[Path | None, typer.Option("--data", help="Data directory. Default: .droidherd", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Url = Annotated[str, typer.Option("--url", help="The API. Default: the instance in the data directory.", metavar="URL")]
Reason = Annotated[str, typer.Option(help="Why. The audit keeps it.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]
TaskId = Annotated[str, typer.Argument(help="Its id.", metavar="TASK")]

Account = Annotated[str, typer.Option(help="The account it acts for.")]
Param = Annotated[list[str] | None, typer.Option(help="A parameter: name=value. The value may be JSON.")]
Params = Annotated[str, typer.Option(help="All parameters as one JSON object.", metavar="JSON")]
Pool = Annotated[str, typer.Option(help="The pool it runs in. Default: default.")]
Lane = Annotated[str, typer.Option(help="The lane it waits in. Default: account or anonymous.")]
OnBusy = Annotated[str, typer.Option(help="When the account is busy: reject or queue.")]
Label = Annotated[list[str] | None, typer.Option(help="A label to find it by: name=value.")]
Emulator = Annotated[str, typer.Option(help="Run on this emulator only.")]
Requires = Annotated[list[str] | None, typer.Option(help="A label the emulator must have: name=value.")]
Mutex = Annotated[list[str] | None, typer.Option(help="Run while no other task holds this key.")]
OnFailure = Annotated[str, typer.Option(help="What happens to its changes: keep or rollback.")]
Policy = Annotated[
    list[str] | None,
    typer.Option(
        help="Overrides the policy of its type: time_limit_s=60, retries=0, backoff=fixed, backoff_s=5, or JSON.",
        metavar="NAME=VALUE",
    ),
]
Wait = Annotated[
    str, typer.Option(help="Wait so long for it to end. Exit code 0 only if it completed.", metavar="TIME")
]

OfState = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")]
OfKind = Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")]
OfAccount = Annotated[str, typer.Option("--account", help="Only of this account.")]
WithLabel = Annotated[list[str] | None, typer.Option("--label", help="Only with name=value; may be repeated.")]
OfLane = Annotated[str, typer.Option("--lane", help="Only of this lane.")]
OfPool = Annotated[str, typer.Option("--pool", help="Only of this pool.")]
OfEmulator = Annotated[str, typer.Option("--emulator", help="Only on this emulator.")]
OfSubscription = Annotated[str, typer.Option("--subscription", help="Only of this subscription.")]

INSTANCE = "The instance"
TASKS = "Tasks"
FLOWS = "Flows"
QUEUE = "Queue, accounts, subscriptions"
"""Under which commands stand together in `--help`."""


def settings_of(data: Path | None, virtual: int | None = None) -> Settings:
    """The settings of this command, its flags included."""
    try:
        return load(data=data, virtual=virtual)
    except ValueError as error:
        raise CliError(f"the settings do not make sense: {error}", remedy="see docs/operations.md", code=2) from error


def open_api(data: Path | None, url: str) -> ApiClient:
    """The API of the instance that is meant."""
    return ApiClient.of(settings_of(data), url)


def signature(reason: str) -> Document:
    """Who asks, and why."""
    return {"reason": reason, "actor": getpass.getuser()}


def without_empty(values: Mapping[str, Any]) -> Document:
    """Without the empty values: the API decides about the rest."""
    return {name: value for name, value in values.items() if value not in (None, "", [], (), {}, False)}
