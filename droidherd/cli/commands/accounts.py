"""Accounts from the command line: listed, bound, disabled."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from droidherd.cli import output, values
from droidherd.cli.client import Document
from droidherd.cli.options import ApiOptions, Limit, Reason, signature, with_options

COLUMNS = ("account", "state", "bound to", "ran on", "credentials", "next run", "note", "why")
KEPT = ("emulator", "credentials", "note")

app = typer.Typer()

Account = Annotated[str, typer.Argument(help="Its name.", metavar="ACCOUNT")]


@app.command("list", epilog="Examples: droidherd account list   |   droidherd account list --disabled --json")
@with_options
def list_(
    *,
    disabled: Annotated[bool | None, typer.Option("--disabled/--enabled", help="Only those, or only the rest.")] = None,
    limit: Limit = 50,
    api_options: ApiOptions,
) -> None:
    """List accounts with a record, newest first."""
    query = {} if disabled is None else {"disabled": str(disabled).lower()}
    with api_options.open() as api:
        found = list(api.pages("/api/accounts", "accounts", limit=limit, **query))
    api_options.show({"accounts": found}, table(found))


@app.command(epilog="Examples: droidherd account show ann   |   droidherd account show ann --json")
@with_options
def show(account: Account, api_options: ApiOptions) -> None:
    """Show one account: state, emulator, what it queues, last and next run."""
    with api_options.open() as api:
        found = api.get(f"/api/accounts/{account}")
    api_options.show(found, table([found]))


@app.command("set", epilog="Example: droidherd account set ann --emulator e1 --credential password=env:ANN_PASSWORD")
@with_options
def set_(
    account: Account,
    *,
    emulator: Annotated[str | None, typer.Option(help="Its tasks run there only; empty: on any.")] = None,
    credential: Annotated[
        list[Any] | None,
        typer.Option(
            help="NAME=env:VARIABLE or NAME=file:/path; NAME= forgets it.", metavar="NAME=PLACE", parser=values.pair
        ),
    ] = None,
    note: Annotated[str | None, typer.Option(help="For people.")] = None,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Bind an account to an emulator, say where its credentials are. What is not named stays as it is."""
    with api_options.open() as api:
        now = api.get(f"/api/accounts/{account}").get("record") or {}
        record = {name: now[name] for name in KEPT if name in now}
        record["credentials"] = {
            name: place for name, place in {**now.get("credentials", {}), **dict(credential or ())}.items() if place
        }
        changes = {"emulator": emulator, "note": note}
        record |= {name: value for name, value in changes.items() if value is not None}
        found = api.put(f"/api/accounts/{account}", {**record, **signature(reason)})
    api_options.show(found, table([found]))


@app.command(epilog="Example: droidherd account remove ann")
@with_options
def remove(account: Account, reason: Reason = "", *, api_options: ApiOptions) -> None:
    """Forget an account's record. Its tasks go on; one that is disabled stays so."""
    with api_options.open() as api:
        api.delete(f"/api/accounts/{account}", signature(reason))
        found = api.get(f"/api/accounts/{account}")
    api_options.show(found, table([found]))


@app.command(epilog="Example: droidherd account disable ann --reason banned --cancel")
@with_options
def disable(
    account: Account,
    *,
    reason: Reason = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End its tasks, too: those that run, those that wait.")
    ] = False,
    api_options: ApiOptions,
) -> None:
    """Grant an account nothing any more. What runs goes on, what waits stays in line."""
    with api_options.open() as api:
        body = {**signature(reason), **({"tasks": "cancel"} if cancel else {})}
        done = api.post(f"/api/accounts/{account}/disable", body)
        found = api.get(f"/api/accounts/{account}")
    api_options.show({**found, "cancelled": done.get("tasks", []), "refused": done.get("refused", [])}, table([found]))


@app.command(epilog="Example: droidherd account enable ann")
@with_options
def enable(account: Account, reason: Reason = "", *, api_options: ApiOptions) -> None:
    """Let an account go on: what waited keeps its place in line."""
    with api_options.open() as api:
        api.post(f"/api/accounts/{account}/enable", signature(reason))
        found = api.get(f"/api/accounts/{account}")
    api_options.show(found, table([found]))


def table(found: Sequence[Document]) -> RenderableType:
    return output.table(COLUMNS, [_row(one) for one in found])


def _row(one: Document) -> list[str]:
    off, record = one.get("disabled") or {}, one.get("record") or {}
    why = f"disabled by {off.get('by')}: {off.get('reason') or 'no reason given'}" if off else ""
    names = ", ".join(sorted(record.get("credentials", {})))
    where = (record.get("emulator"), one.get("emulator") or one.get("last_emulator"))
    cells = (one.get("account"), one.get("state"), *where, names, _next(one), record.get("note"), why)
    return [str(cell or "") for cell in cells]


def _next(one: Document) -> str:
    following: dict[str, Any] = one.get("next_run") or {}
    if not following:
        return ""
    return f"{following.get('task') or following.get('subscription')} {output.clock(following.get('at')) or 'next'}"
