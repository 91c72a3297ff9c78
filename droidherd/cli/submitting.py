"""`droidherd submit`, `tasks`, `watch`: tasks are submitted and looked at."""

import getpass
from typing import Annotated

import typer

from droidherd.cli import output
from droidherd.cli import tasks as tasking
from droidherd.cli.options import (
    TASKS,
    Account,
    Data,
    Json,
    Label,
    Lane,
    Limit,
    OnBusy,
    Param,
    Params,
    Pool,
    Url,
    Wait,
    given,
    opened,
)

app = typer.Typer()


@app.command(
    rich_help_panel=TASKS,
    epilog="Examples: droidherd submit check --account a42 --wait 60s   |   droidherd submit scan --then check",
)
def submit(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    account: Account = "",
    param: Param = None,
    params: Params = "",
    pool: Pool = "",
    lane: Lane = "",
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 is first.")] = None,
    on_busy: OnBusy = "",
    emulator: Annotated[str, typer.Option(help="Only this emulator will do.")] = "",
    requires: Annotated[list[str] | None, typer.Option(help="Label the emulator must carry: name=value.")] = None,
    mutex: Annotated[list[str] | None, typer.Option(help="Key no other task may hold meanwhile.")] = None,
    label: Label = None,
    origin: Annotated[str, typer.Option(help="person, schedule or maintenance: the priority if none is said.")] = "",
    not_before: Annotated[str, typer.Option(help="ISO time before which it does not start.")] = "",
    expires_at: Annotated[str, typer.Option(help="ISO time after which it does not start.")] = "",
    then: Annotated[list[str] | None, typer.Option(help="What follows: a task type, or a JSON object.")] = None,
    critical: Annotated[bool, typer.Option("--critical", help="When it fails, nothing follows.")] = False,
    on_failure: Annotated[str, typer.Option(help="keep or rollback: what becomes of what it changed.")] = "",
    idempotency_key: Annotated[str, typer.Option(help="Repeating the same key submits nothing twice.")] = "",
    wait: Wait = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Submit one task. With --wait: exit code 0 only if it completed."""
    body = {
        "type": kind,
        "account": account,
        "params": tasking.parameters(param or (), params),
        "pool": pool,
        "lane": lane,
        "priority": priority,
        "origin": origin,
        "on_busy": on_busy,
        "emulator": emulator,
        "requires": requires,
        "mutex": mutex,
        "labels": tasking.pairs(label or (), "--label"),
        "not_before": not_before,
        "expires_at": expires_at,
        "then": tasking.links(then or ()),
        "critical": critical,
        "on_failure": on_failure,
        "actor": getpass.getuser(),
    }
    with opened(data, url) as door:
        task = tasking.submit(door, given(body), key=idempotency_key)
        if wait:
            task = tasking.wait_for(door, str(task["id"]), seconds=output.duration_s(wait))
    if as_json:
        output.emit(task)
    else:
        output.out.print(tasking.table([{"task_id": task.get("id"), "type": kind, "account": account, **task}]))
    if wait and task.get("state") != "completed":
        raise typer.Exit(1)


@app.command(
    rich_help_panel=TASKS,
    epilog="Examples: droidherd tasks --state failed   |   droidherd tasks --account a42 --json",
)
def tasks(
    task_id: Annotated[str, typer.Argument(help="One task, whole.", metavar="[TASK]")] = "",
    *,
    state: Annotated[list[str] | None, typer.Option(help="Only tasks in this state; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    account: Annotated[str, typer.Option(help="Only tasks of this account.")] = "",
    limit: Limit = 50,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """List tasks, newest first, or show one."""
    with opened(data, url) as door:
        if task_id:
            found = [door.get(f"/api/tasks/{task_id}")]
        else:
            query = {"state": state or (), "type": kind or (), "account": account}
            found = list(door.pages("/api/tasks", "tasks", limit=limit, **query))
    if as_json:
        output.emit(found[0] if task_id else {"tasks": found})
    else:
        output.out.print(tasking.table(found))


@app.command(rich_help_panel=TASKS, epilog="Examples: droidherd watch   |   droidherd watch TASK --json")
def watch(
    task_ids: Annotated[list[str] | None, typer.Argument(help="Default: everything.", metavar="[TASK]...")] = None,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Watch tasks live, until those that are named have ended. Exit code 0 only if they all completed."""
    with opened(data, url) as door:
        found = tasking.watch(door, task_ids or (), as_json=as_json)
    if any(one.get("state") != "completed" for one in found):
        raise typer.Exit(1)
