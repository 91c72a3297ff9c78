"""`droidherd submit`, `tasks`, `watch`: tasks are submitted and looked at."""

import getpass
from typing import Annotated

import typer

from droidherd.cli import output
from droidherd.cli.commands import tasks as tasking
from droidherd.cli.options import (
    TASKS,
    Account,
    Data,
    Emulator,
    Json,
    Label,
    Lane,
    Limit,
    Mutex,
    OfAccount,
    OfKind,
    OfState,
    OnBusy,
    OnFailure,
    Param,
    Params,
    Policy,
    Pool,
    Requires,
    Url,
    Wait,
    WithLabel,
    open_api,
    without_empty,
)

app = typer.Typer()


@app.command(
    rich_help_panel=TASKS,
    epilog="Examples: droidherd submit check --account a42 --wait 60s   |   droidherd submit scan --then check   |   "
    "droidherd submit scan --id night-1 --policy retries=0 --policy time_limit_s=60",
)
def submit(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    task_id: Annotated[str, typer.Option("--id", help="Your own id. Default: a new one.")] = "",
    account: Account = "",
    param: Param = None,
    params: Params = "",
    pool: Pool = "",
    lane: Lane = "",
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 to 10; 1 goes first.")] = None,
    on_busy: OnBusy = "",
    emulator: Emulator = "",
    requires: Requires = None,
    mutex: Mutex = None,
    policy: Policy = None,
    label: Label = None,
    origin: Annotated[
        str, typer.Option(help="person, schedule or maintenance. Sets the priority if none is given.")
    ] = "",
    not_before: Annotated[str, typer.Option(help="ISO time before which it does not start.")] = "",
    expires_at: Annotated[str, typer.Option(help="ISO time after which it does not start.")] = "",
    then: Annotated[list[str] | None, typer.Option(help="A task that follows it: a type, or a JSON object.")] = None,
    critical: Annotated[bool, typer.Option("--critical", help="When it fails, nothing follows.")] = False,
    on_failure: OnFailure = "",
    idempotency_key: Annotated[str, typer.Option(help="A second submission with this key submits nothing.")] = "",
    wait: Wait = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Submit one task. With --wait: exit code 0 only if it completed."""
    body = tasking.task_document(
        kind,
        id=task_id,
        account=account,
        param=param,
        params=params,
        pool=pool,
        lane=lane,
        priority=priority,
        origin=origin,
        on_busy=on_busy,
        emulator=emulator,
        requires=requires,
        mutex=mutex,
        policy=policy,
        label=label,
        not_before=not_before,
        expires_at=expires_at,
        then=tasking.links(then or ()),
        critical=critical,
        on_failure=on_failure,
        actor=getpass.getuser(),
    )
    with open_api(data, url) as api:
        task = tasking.submit(api, body, key=idempotency_key)
        if wait:
            task = tasking.wait_for(api, str(task["id"]), seconds=output.duration_s(wait))
    if as_json:
        output.emit(task)
    else:
        output.out.print(tasking.table([{"task_id": task.get("id"), "type": kind, "account": account, **task}]))
    if wait and task.get("state") != "completed":
        raise typer.Exit(1)


@app.command(
    rich_help_panel=TASKS,
    epilog="Examples: droidherd tasks --state failed   |   droidherd tasks --account a42 --label team=ops --json",
)
def tasks(
    task_id: Annotated[str, typer.Argument(help="One task, whole.", metavar="[TASK]")] = "",
    *,
    state: OfState = None,
    kind: OfKind = None,
    account: OfAccount = "",
    label: WithLabel = None,
    limit: Limit = 50,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """List tasks, newest first, or show one."""
    with open_api(data, url) as api:
        if task_id:
            found = [api.get(f"/api/tasks/{task_id}")]
        else:
            query = without_empty({"state": state, "type": kind, "account": account, "label": label})
            found = list(api.pages("/api/tasks", "tasks", limit=limit, **query))
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
    with open_api(data, url) as api:
        found = tasking.watch(api, task_ids or (), as_json=as_json)
    if any(one.get("state") != "completed" for one in found):
        raise typer.Exit(1)
