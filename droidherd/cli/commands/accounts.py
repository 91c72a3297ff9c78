"""Accounts from the command line: listed, bound, disabled."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from droidherd.cli import output
from droidherd.cli.client import Document
from droidherd.cli.commands.tasks import pairs
from droidherd.cli.options import QUEUE, Data, Json, Limit, Reason, Url, open_api, signature

COLUMNS = ("account", "state", "bound to", "ran on", "credentials", "next run", "why")
KEPT = ("emulator", "credentials", "note")

listing = typer.Typer()
app = typer.Typer(no_args_is_help=True, help="Set, remove, disable or enable one account.")

Account = Annotated[str, typer.Argument(help="Its name.", metavar="ACCOUNT")]


@listing.command(rich_help_panel=QUEUE, epilog="Examples: droidherd accounts   |   droidherd accounts ann --json")
def accounts(
    account: Annotated[str, typer.Argument(help="One account, whole.", metavar="[ACCOUNT]")] = "",
    *,
    disabled: Annotated[bool | None, typer.Option("--disabled/--enabled", help="Only those, or only the rest.")] = None,
    limit: Limit = 50,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """List accounts with a record, newest first, or show one: state, emulator, last and next run."""
    with open_api(data, url) as api:
        if account:
            found = [api.get(f"/api/accounts/{account}")]
        else:
            query = {} if disabled is None else {"disabled": str(disabled).lower()}
            found = list(api.pages("/api/accounts", "accounts", limit=limit, **query))
    if as_json:
        output.emit(found[0] if account else {"accounts": found})
    else:
        output.out.print(table(found))


@app.command("set", epilog="Example: droidherd account set ann --emulator e1 --credential password=env:ANN_PASSWORD")
def set_(
    account: Account,
    *,
    emulator: Annotated[str | None, typer.Option(help="Its tasks run there only; empty: on any.")] = None,
    credential: Annotated[
        list[str] | None, typer.Option(help="NAME=env:VARIABLE or NAME=file:/path; NAME= forgets it.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="For people.")] = None,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Bind an account to an emulator, say where its credentials are. What is not named stays as it is."""
    with open_api(data, url) as api:
        now = api.get(f"/api/accounts/{account}").get("record") or {}
        record = {name: now[name] for name in KEPT if name in now}
        record["credentials"] = _credentials(now.get("credentials", {}), credential or ())
        changes = {"emulator": emulator, "note": note}
        record |= {name: value for name, value in changes.items() if value is not None}
        found = api.put(f"/api/accounts/{account}", {**record, **signature(reason)})
    _show(found, as_json=as_json)


@app.command(epilog="Example: droidherd account remove ann")
def remove(account: Account, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Forget an account's record. Its tasks go on; one that is disabled stays so."""
    with open_api(data, url) as api:
        api.delete(f"/api/accounts/{account}", signature(reason))
        found = api.get(f"/api/accounts/{account}")
    _show(found, as_json=as_json)


@app.command(epilog="Example: droidherd account disable ann --reason banned --cancel")
def disable(  # noqa: PLR0917 (options of a command)
    account: Account,
    reason: Reason = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End its tasks, too: those that run, those that wait.")
    ] = False,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Grant an account nothing any more. What runs goes on, what waits stays in line."""
    with open_api(data, url) as api:
        body = {**signature(reason), **({"tasks": "cancel"} if cancel else {})}
        done = api.post(f"/api/accounts/{account}/disable", body)
        found = api.get(f"/api/accounts/{account}")
    _show({**found, "cancelled": done.get("tasks", []), "refused": done.get("refused", [])}, as_json=as_json)


@app.command(epilog="Example: droidherd account enable ann")
def enable(account: Account, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Let an account go on: what waited keeps its place in line."""
    with open_api(data, url) as api:
        api.post(f"/api/accounts/{account}/enable", signature(reason))
        found = api.get(f"/api/accounts/{account}")
    _show(found, as_json=as_json)


def table(found: Sequence[Document]) -> RenderableType:
    return output.table(COLUMNS, [_row(one) for one in found])


def _row(one: Document) -> list[str]:
    off, record = one.get("disabled") or {}, one.get("record") or {}
    why = f"disabled by {off.get('by')}: {off.get('reason') or 'no reason given'}" if off else record.get("note")
    names = ", ".join(sorted(record.get("credentials", {})))
    where = (record.get("emulator"), one.get("emulator") or one.get("last_emulator"))
    cells = (one.get("account"), one.get("state"), *where, names, _next(one), why)
    return [str(cell or "") for cell in cells]


def _next(one: Document) -> str:
    following: dict[str, Any] = one.get("next_run") or {}
    if not following:
        return ""
    return f"{following.get('task') or following.get('subscription')} {output.clock(following.get('at')) or 'next'}"


def _credentials(now: dict[str, str], given: Iterable[str]) -> dict[str, str]:
    changed = {**now, **pairs(given, "--credential")}
    return {name: reference for name, reference in changed.items() if reference}


def _show(found: Document, *, as_json: bool) -> None:
    if as_json:
        output.emit(found)
    else:
        output.out.print(table([found]))
