"""Subscriptions from the command line: tasks that recur."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType

from droidherd.cli import output, values
from droidherd.cli.client import Document, rows_of
from droidherd.cli.commands import tasks
from droidherd.cli.options import (
    ApiOptions,
    Limit,
    Reason,
    TaskOptions,
    Wait,
    signature,
    with_options,
    without_empty,
)
from droidherd.domain.schedule.catchup import OnStuck, Overlap

PATH = "/api/subscriptions"
TIMES_SHOWN = 3
MISSED_SHOWN = 5
CHANGES_SHOWN = 5

app = typer.Typer()

Name = Annotated[str, typer.Argument(help="Its id.", metavar="SUBSCRIPTION")]


@app.command("list", epilog="Examples: droidherd subscription list   |   droidherd subscription list --paused --json")
@with_options
def list_(
    *,
    kind: Annotated[str, typer.Option("--type", help="Only of this task type.")] = "",
    account: Annotated[str, typer.Option(help="Only of this account.")] = "",
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Only these. Default: all.")] = None,
    limit: Limit = 50,
    api_options: ApiOptions,
) -> None:
    """List subscriptions, the newest first."""
    query = {"type": kind, "account": account, "paused": paused}
    with api_options.open() as api:
        found = list(api.pages(PATH, "subscriptions", limit=limit, **query))
    if api_options.as_json:
        output.emit({"subscriptions": found})
    else:
        output.out.print(table(found))


@app.command(epilog="Examples: droidherd subscription show NAME   |   droidherd subscription show NAME --json")
@with_options
def show(name: Name, api_options: ApiOptions) -> None:
    """When it is due next, what it did last, what it missed."""
    with api_options.open() as api:
        _show(api.get(f"{PATH}/{name}"), as_json=api_options.as_json)


@app.command(
    epilog='Examples: droidherd subscription add daily_reward --id daily --account a42 --cron "30 5 * * *" '
    "--time-zone Asia/Shanghai   |   droidherd subscription add check --every 6h --overlap buffer_one"
)
@with_options
def add(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    name: Annotated[str, typer.Option("--id", help="Default: one is made.")] = "",
    cron: Annotated[
        str | None,
        typer.Option(help="Five fields, or @hourly, @daily, @weekly, @monthly, @yearly.", parser=values.cron),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(help="Instead of a cron: 90s, 20m, 6h.", metavar="TIME", parser=values.whole_seconds),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(help="Shifts --every, which counts from 1970 on.", metavar="TIME", parser=values.whole_seconds),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="The time zone of --cron. Default: UTC.", parser=values.time_zone)
    ] = None,
    jitter: Annotated[
        int | None,
        typer.Option(help="Start up to this much later, at random.", metavar="TIME", parser=values.whole_seconds),
    ] = None,
    overlap: Annotated[Overlap | None, typer.Option(help="When the run before has not ended. Default: skip.")] = None,
    catch_up: Annotated[
        int | None,
        typer.Option(
            help="How late a run may start after an outage. Default: 1h.", metavar="TIME", parser=values.whole_seconds
        ),
    ] = None,
    stuck_after: Annotated[
        int | None,
        typer.Option(
            help="How long its task may be paused or wait. Default: 2h; 0: for ever.",
            metavar="TIME",
            parser=values.whole_seconds,
        ),
    ] = None,
    on_stuck: Annotated[
        OnStuck | None, typer.Option(help="Then: report it, or cancel the task, too. Default: report.")
    ] = None,
    task: TaskOptions,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Run a task again and again, by a schedule."""
    body = {
        "id": name,
        "cron": cron,
        "time_zone": time_zone,
        "overlap": overlap,
        "on_stuck": on_stuck,
        "paused": paused,
        "every_s": every,
        "offset_s": offset,
        "jitter_s": jitter,
        "catch_up_s": catch_up,
        "task": tasks.task_document(kind, **asdict(task)),
        **signature(reason),
    }
    patience = {} if stuck_after is None else {"stuck_after_s": stuck_after}
    with api_options.open() as api:
        _show(api.post(PATH, {**without_empty(body), **patience}), as_json=api_options.as_json)


@app.command(epilog='Example: droidherd subscription run NAME --reason "the reward changed" --wait 60s')
@with_options
def run(
    name: Name,
    *,
    reason: Reason = "",
    wait: Wait = None,
    api_options: ApiOptions,
) -> None:
    """Run it now, once. With --wait: exit code 0 only if its task completed."""
    with api_options.open() as api:
        found = api.post(f"{PATH}/{name}/run", signature(reason))
        if wait is not None and found.get("outcome") == "started":
            found |= tasks.wait_for(api, str(found["task_id"]), seconds=wait)
    if api_options.as_json:
        output.emit(found)
    else:
        output.out.print(f"{found.get('state') or found.get('outcome')}: task {found.get('task_id')}")
    if wait is not None and found.get("state") != "completed":
        raise typer.Exit(1)


@app.command(epilog='Example: droidherd subscription pause NAME --reason "the game is under maintenance"')
@with_options
def pause(name: Name, reason: Reason = "", *, api_options: ApiOptions) -> None:
    """Start no more runs. A task that runs goes on."""
    with api_options.open() as api:
        _show(api.post(f"{PATH}/{name}/pause", signature(reason)), as_json=api_options.as_json)


@app.command(epilog="Example: droidherd subscription resume NAME")
@with_options
def resume(name: Name, reason: Reason = "", *, api_options: ApiOptions) -> None:
    """Start runs again from now on. Runs that were due meanwhile are not made up for."""
    with api_options.open() as api:
        _show(api.post(f"{PATH}/{name}/resume", signature(reason)), as_json=api_options.as_json)


@app.command(epilog="Example: droidherd subscription remove NAME --tasks cancel")
@with_options
def remove(
    name: Name,
    *,
    what: Annotated[
        Literal["finish", "cancel"], typer.Option("--tasks", help="Let the task that runs end, or cancel it.")
    ] = "finish",
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Delete it: nothing starts any more. Its tasks stay to be read."""
    with api_options.open() as api:
        gone = api.delete(f"{PATH}/{name}", signature(reason), tasks=what)
    if api_options.as_json:
        output.emit(gone)
    else:
        left = f"; task {gone['running']} {'is cancelled' if what == 'cancel' else 'ends by itself'}"
        output.out.print(f"{name} is removed" + (left if gone.get("running") else ""))


def table(rows: Sequence[Document]) -> RenderableType:
    columns = ("subscription", "type", "account", "due", "state", "next", "note")
    return output.table(columns, [_row(one) for one in rows])


def _row(one: Document) -> list[str]:
    state = "paused" if one.get("paused") else "stuck" if one.get("stuck") else "active"
    following = next(iter(one.get("next_times") or []), "")
    fields = (one.get("id"), one.get("type"), one.get("account"), _due(one), state, output.moment(following))
    return [*[str(value or "") for value in fields], str(one.get("note") or "")]


def _show(one: Document, *, as_json: bool) -> None:
    if as_json:
        output.emit(one)
        return
    task = one.get("task") or {}
    output.out.print(table([{**one, "type": task.get("type"), "account": task.get("account")}]))
    times = ", ".join(map(output.moment, (one.get("next_times") or [])[:TIMES_SHOWN]))
    counts = f"started {one.get('started', 0)}   skipped {one.get('skipped', 0)}   missed {one.get('missed', 0)}"
    counts = f"{counts}   waiting {one.get('waiting', 0)}   got stuck {one.get('stuck_tasks', 0)}"
    output.out.print(f"\nnext: {times or '-'}\n{counts}", markup=False)
    if stuck := one.get("stuck"):
        since = f"{stuck.get('state')} since {output.moment(stuck.get('since'))}"
        why = f": {stuck['why']}" if stuck.get("why") else ""
        output.out.print(f"stuck: task {stuck.get('task_id')} is {since}{why}", markup=False)
    for row in rows_of(one, "missed_runs")[-MISSED_SHOWN:]:
        span = f"{output.moment(row.get('first'))} to {output.moment(row.get('last'))}"
        output.out.print(f"missed {row.get('count')} from {span}: {row.get('why')}", markup=False)
    for line in rows_of(one, "changes")[-CHANGES_SHOWN:]:
        why = "; ".join(str(line[name]) for name in ("reason", "why") if line.get(name))
        change = f"{output.moment(line.get('at'))} {line.get('what')} by {line.get('actor')}"
        output.out.print(f"{change}: {why}" if why else change, markup=False)
    if last := rows_of(one, "last_tasks"):
        whose = {name: task.get(name) for name in ("type", "account")}
        output.out.print(tasks.table([{**row, **whose} for row in last]))


def _due(one: Mapping[str, Any]) -> str:
    if one.get("every_s"):
        return f"every {output.age(float(one['every_s']))}"
    return f"{one.get('cron', '')} {one.get('time_zone', '')}"
