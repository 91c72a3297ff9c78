"""What many commands take alike, and what they make of it: which house, whom the answer is for, who asks and why."""

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from droidherd.cli.door import Document, Door
from droidherd.cli.up import settings_of

Data = Annotated[Path | None, typer.Option("--data", help="Data directory. Default: .droidherd", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Url = Annotated[str, typer.Option("--url", help="The API. Default: the house in the data directory.", metavar="URL")]
Reason = Annotated[str, typer.Option(help="Why; it is written down.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]
TaskId = Annotated[str, typer.Argument(help="Its id.", metavar="TASK")]

Account = Annotated[str, typer.Option(help="Whom it acts for.")]
Param = Annotated[list[str] | None, typer.Option(help="name=value; JSON values are taken as JSON.")]
Params = Annotated[str, typer.Option(help="All parameters as one JSON object.", metavar="JSON")]
Pool = Annotated[str, typer.Option(help="Default: default.")]
Lane = Annotated[str, typer.Option(help="Default: by whether there is an account.")]
OnBusy = Annotated[str, typer.Option(help="reject or queue, when the account is busy.")]
Label = Annotated[list[str] | None, typer.Option(help="name=value, to find it by.")]
Emulator = Annotated[str, typer.Option(help="Only this emulator will do.")]
Requires = Annotated[list[str] | None, typer.Option(help="Label the emulator must carry: name=value.")]
Mutex = Annotated[list[str] | None, typer.Option(help="Key no other task may hold meanwhile.")]
OnFailure = Annotated[str, typer.Option(help="keep or rollback: what becomes of what it changed.")]
Policy = Annotated[
    list[str] | None,
    typer.Option(
        help="Otherwise than the type says: time_limit_s=60, retries=0, backoff=fixed, backoff_s=5; or a JSON object.",
        metavar="NAME=VALUE",
    ),
]
Wait = Annotated[str, typer.Option(help="Wait this long for the end; the exit code tells it.", metavar="TIME")]

OfState = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")]
OfKind = Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")]
OfAccount = Annotated[str, typer.Option("--account", help="Only of this account.")]
WithLabel = Annotated[list[str] | None, typer.Option("--label", help="Only with name=value; may be repeated.")]
OfLane = Annotated[str, typer.Option("--lane", help="Only of this lane.")]
OfPool = Annotated[str, typer.Option("--pool", help="Only of this pool.")]
OfEmulator = Annotated[str, typer.Option("--emulator", help="Only on this emulator.")]
OfSubscription = Annotated[str, typer.Option("--subscription", help="Only of this subscription.")]

HOUSE = "The house"
TASKS = "Tasks"
FLOWS = "Flows"
QUEUE = "Queue, accounts, subscriptions"
"""Under which commands stand together in `--help`."""


def opened(data: Path | None, url: str) -> Door:
    """The door of the house that is meant."""
    return Door.of(settings_of(data), url)


def signature(reason: str) -> Document:
    """Who asks, and why."""
    return {"reason": reason, "actor": getpass.getuser()}


def given(values: Mapping[str, Any]) -> Document:
    """Only what was said: the rest is the API's to decide."""
    return {name: value for name, value in values.items() if value not in (None, "", [], (), {}, False)}
