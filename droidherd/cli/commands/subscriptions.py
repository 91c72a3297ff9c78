"""Subscriptions from the command line: tasks that recur."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from droidherd.cli import output
from droidherd.cli.client import Document, rows_of
from droidherd.cli.commands import tasks
from droidherd.cli.errors import CliError
from droidherd.cli.options import (
    Account,
    Data,
    Emulator,
    Json,
    Label,
    Lane,
    Limit,
    Mutex,
    OnBusy,
    OnFailure,
    Param,
    Params,
    Policy,
    Pool,
    Reason,
    Requires,
    Url,
    Wait,
    open_api,
    signature,
    without_empty,
)

PATH = "/api/subscriptions"
TIMES_SHOWN = 3
MISSED_SHOWN = 5
CHANGES_SHOWN = 5

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Tasks that recur: by cron, or every so often.",
    epilog='Example: droidherd subscriptions add daily_reward --account a42 --cron "30 5 * * *"',
)

Name = Annotated[str, typer.Argument(help="Its id.", metavar="SUBSCRIPTION")]


@app.command("list", epilog="Examples: droidherd subscriptions list   |   droidherd subscriptions list --paused --json")
def list_(
    *,
    kind: Annotated[str, typer.Option("--type", help="Only of this task type.")] = "",
    account: Annotated[str, typer.Option(help="Only of this account.")] = "",
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Only these. Default: all.")] = None,
    limit: Limit = 50,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """List subscriptions, the newest first."""
    query = {"type": kind, "account": account, "paused": paused}
    with open_api(data, url) as api:
        found = list(api.pages(PATH, "subscriptions", limit=limit, **query))
    if as_json:
        output.emit({"subscriptions": found})
    else:
        output.out.print(table(found))


@app.command(epilog="Examples: droidherd subscriptions show NAME   |   droidherd subscriptions show NAME --json")
def show(name: Name, data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """When it is due next, what it did last, what it missed."""
    with open_api(data, url) as api:
        _show(api.get(f"{PATH}/{name}"), as_json=as_json)


@app.command(
    epilog='Examples: droidherd subscriptions add daily_reward --id daily --account a42 --cron "30 5 * * *" '
    "--time-zone Asia/Shanghai   |   droidherd subscriptions add check --every 6h --overlap buffer_one"
)
def add(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    name: Annotated[str, typer.Option("--id", help="Default: one is made.")] = "",
    cron: Annotated[str, typer.Option(help="Five fields, or @hourly, @daily, @weekly, @monthly, @yearly.")] = "",
    every: Annotated[str, typer.Option(help="Instead of a cron: 90s, 20m, 6h.", metavar="TIME")] = "",
    offset: Annotated[str, typer.Option(help="Shifts --every, which counts from 1970 on.", metavar="TIME")] = "",
    time_zone: Annotated[str, typer.Option(help="The time zone of --cron. Default: UTC.")] = "",
    jitter: Annotated[str, typer.Option(help="Start up to this much later, at random.", metavar="TIME")] = "",
    overlap: Annotated[str, typer.Option(help="skip, buffer_one, buffer_all or cancel_other.")] = "",
    catch_up: Annotated[
        str, typer.Option(help="How late a run may start after an outage. Default: 1h.", metavar="TIME")
    ] = "",
    account: Account = "",
    param: Param = None,
    params: Params = "",
    pool: Pool = "",
    lane: Lane = "",
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 is first. Default: 5.")] = None,
    on_busy: OnBusy = "",
    emulator: Emulator = "",
    requires: Requires = None,
    mutex: Mutex = None,
    policy: Policy = None,
    on_failure: OnFailure = "",
    label: Label = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Run a task again and again, by a schedule."""
    task = tasks.task_document(
        kind,
        account=account,
        param=param,
        params=params,
        pool=pool,
        lane=lane,
        priority=priority,
        on_busy=on_busy,
        emulator=emulator,
        requires=requires,
        mutex=mutex,
        policy=policy,
        on_failure=on_failure,
        label=label,
    )
    times = {"every_s": every, "offset_s": offset, "jitter_s": jitter, "catch_up_s": catch_up}
    body = {
        "id": name,
        "cron": cron,
        "time_zone": time_zone,
        "overlap": overlap,
        "paused": paused,
        **{field: _seconds(text, field) for field, text in times.items()},
        "task": task,
        **signature(reason),
    }
    with open_api(data, url) as api:
        _show(api.post(PATH, without_empty(body)), as_json=as_json)


@app.command(epilog='Example: droidherd subscriptions run NAME --reason "the reward changed" --wait 60s')
def run(
    name: Name,
    *,
    reason: Reason = "",
    wait: Wait = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Run it now, once. With --wait: exit code 0 only if its task completed."""
    with open_api(data, url) as api:
        found = api.post(f"{PATH}/{name}/run", signature(reason))
        if wait and found.get("outcome") == "started":
            found |= tasks.wait_for(api, str(found["task_id"]), seconds=output.duration_s(wait))
    if as_json:
        output.emit(found)
    else:
        output.out.print(f"{found.get('state') or found.get('outcome')}: task {found.get('task_id')}")
    if wait and found.get("state") != "completed":
        raise typer.Exit(1)


@app.command(epilog='Example: droidherd subscriptions pause NAME --reason "the game is under maintenance"')
def pause(name: Name, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Start no more runs. A task that runs goes on."""
    with open_api(data, url) as api:
        _show(api.post(f"{PATH}/{name}/pause", signature(reason)), as_json=as_json)


@app.command(epilog="Example: droidherd subscriptions resume NAME")
def resume(name: Name, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Start runs again from now on. Runs that were due meanwhile are not made up for."""
    with open_api(data, url) as api:
        _show(api.post(f"{PATH}/{name}/resume", signature(reason)), as_json=as_json)


@app.command(epilog="Example: droidherd subscriptions remove NAME --tasks cancel")
def remove(
    name: Name,
    *,
    what: Annotated[str, typer.Option("--tasks", help="finish: let the task that runs end; or cancel.")] = "finish",
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Delete it: nothing starts any more. Its tasks stay to be read."""
    with open_api(data, url) as api:
        gone = api.delete(f"{PATH}/{name}", signature(reason), tasks=what)
    if as_json:
        output.emit(gone)
    else:
        left = f"; task {gone['running']} {'is cancelled' if what == 'cancel' else 'ends by itself'}"
        output.out.print(f"{name} is removed" + (left if gone.get("running") else ""))


def table(rows: Sequence[Document]) -> RenderableType:
    columns = ("subscription", "type", "account", "due", "state", "next", "note")
    return output.table(columns, [_row(one) for one in rows])


def _row(one: Document) -> list[str]:
    state = "paused" if one.get("paused") else "active"
    following = next(iter(one.get("next_times") or []), "")
    fields = (one.get("id"), one.get("type"), one.get("account"), _due(one), state, _moment(following))
    return [*[str(value or "") for value in fields], str(one.get("note") or "")]


def _show(one: Document, *, as_json: bool) -> None:
    if as_json:
        output.emit(one)
        return
    task = one.get("task") or {}
    output.out.print(table([{**one, "type": task.get("type"), "account": task.get("account")}]))
    times = ", ".join(map(_moment, (one.get("next_times") or [])[:TIMES_SHOWN]))
    counts = f"started {one.get('started', 0)}   skipped {one.get('skipped', 0)}   missed {one.get('missed', 0)}"
    output.out.print(f"\nnext: {times or '-'}\n{counts}   waiting {one.get('waiting', 0)}", markup=False)
    for row in rows_of(one, "missed_runs")[-MISSED_SHOWN:]:
        span = f"{_moment(row.get('first'))} to {_moment(row.get('last'))}"
        output.out.print(f"missed {row.get('count')} from {span}: {row.get('why')}", markup=False)
    for line in rows_of(one, "changes")[-CHANGES_SHOWN:]:
        why = "; ".join(str(line[name]) for name in ("reason", "why") if line.get(name))
        change = f"{_moment(line.get('at'))} {line.get('what')} by {line.get('actor')}"
        output.out.print(f"{change}: {why}" if why else change, markup=False)
    if last := rows_of(one, "last_tasks"):
        whose = {name: task.get(name) for name in ("type", "account")}
        output.out.print(tasks.table([{**row, **whose} for row in last]))


def _due(one: Mapping[str, Any]) -> str:
    if one.get("every_s"):
        return f"every {output.age(float(one['every_s']))}"
    return f"{one.get('cron', '')} {one.get('time_zone', '')}"


def _moment(text: Any) -> str:
    """In UTC, as the API says it."""
    return f"{str(text).replace('T', ' ')[:19]}Z" if text else ""


def _seconds(text: str, field: str) -> int | None:
    if not text:
        return None
    seconds = output.duration_s(text)
    if seconds != int(seconds):
        raise CliError(f"--{field.removesuffix('_s').replace('_', '-')} is in whole seconds", code=2)
    return int(seconds)
