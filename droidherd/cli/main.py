"""The `droidherd` command: which words there are, and what each says in `--help`."""

import getpass
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from droidherd import telemetry
from droidherd.cli import (
    accounts as accounting,
)
from droidherd.cli import (
    cleanup as cleaning,
)
from droidherd.cli import (
    connect as connecting,
)
from droidherd.cli import (
    demo as demonstrating,
)
from droidherd.cli import (
    doctor as doctoring,
)
from droidherd.cli import (
    down as going_down,
)
from droidherd.cli import (
    figures as figuring,
)
from droidherd.cli import (
    lanes as laning,
)
from droidherd.cli import (
    logs as logging_out,
)
from droidherd.cli import (
    output,
)
from droidherd.cli import (
    status as looking,
)
from droidherd.cli import (
    subscriptions as recurring,
)
from droidherd.cli import (
    tasks as tasking,
)
from droidherd.cli import (
    up as going_up,
)
from droidherd.cli.door import NOT_UP, Document, Door
from droidherd.cli.errors import CliError
from droidherd.cli.house import House
from droidherd.cli.layout import Layout
from droidherd.domain.errors import DroidherdError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Durable task execution for fleets of Android emulators.",
    epilog="Begin with: droidherd doctor && droidherd up --virtual 4",
)

app.add_typer(recurring.app, name="subscriptions")

Data = Annotated[Path | None, typer.Option("--data", help="Data directory. Default: .droidherd", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Url = Annotated[str, typer.Option("--url", help="The API. Default: the house in the data directory.", metavar="URL")]


def main() -> None:
    """Entry point: what is wrong is said in a sentence, not as a traceback."""
    try:
        app()
    except (CliError, DroidherdError) as error:
        known = error if isinstance(error, CliError) else CliError(error.what, remedy=error.remedy)
        output.complain(known, as_json="--json" in sys.argv)
        sys.exit(known.code)
    except KeyboardInterrupt:
        sys.exit(130)


@app.command(epilog="Examples: droidherd up --virtual 4   |   droidherd up --detach --json")
def up(
    data: Data = None,
    virtual: Annotated[int | None, typer.Option(help="How many virtual emulators to run.", metavar="N")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when everything serves.")] = False,
    as_json: Json = False,
) -> None:
    """Start engine, virtual emulators, worker and API on this machine, and keep them running."""
    settings = going_up.settings_of(data, virtual)
    if detach:
        going_up.detach(settings, as_json=as_json)
        return
    if as_json:
        telemetry.start_logs(settings.telemetry.log_level)
    else:
        logging.basicConfig(level=settings.telemetry.log_level, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    going_up.run(House(settings), as_json=as_json)


@app.command(epilog="Examples: droidherd demo   |   droidherd demo --keep   |   droidherd demo --json | jq .passed")
def demo(
    data: Annotated[Path | None, typer.Option("--data", help="Default: a temporary one.", metavar="DIR")] = None,
    keep: Annotated[bool, typer.Option("--keep", envvar="KEEP", help="Leave everything running.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Paint what was shown as SVG.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Show the main job with four virtual emulators. Exit code 0 only if every task ended as it should."""
    raise typer.Exit(demonstrating.run(demonstrating.Choices(data, keep, as_json, picture)))


@app.command(epilog="Examples: droidherd down   |   droidherd down --drain 5m   |   droidherd down --now")
def down(
    data: Data = None,
    drain: Annotated[str, typer.Option(help="How long running stages may take to end.", metavar="TIME")] = "60s",
    now: Annotated[bool, typer.Option("--now", help="Kill everything; the engine keeps what was durable.")] = False,
    as_json: Json = False,
) -> None:
    """Stop everything of this data directory. Tasks go on at the next `up`."""
    layout = Layout(going_up.settings_of(data).data.absolute())
    ended = going_down.down(layout, drain_s=None if now else output.duration_s(drain))
    if as_json:
        output.emit({"ended": ended})
    else:
        output.out.print(f"ended: {', '.join(ended)}" if ended else "nothing was running")


@app.command(epilog="Examples: droidherd status   |   droidherd status --json | jq .healthy")
def status(data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Every process with pid, address and health; every emulator with its state. Exit code 3: not running."""
    settings = going_up.settings_of(data)
    with Door.of(settings, url) as door:
        found = looking.collect(Layout(settings.data.absolute()), door)
    if as_json:
        output.emit(found.document())
    else:
        looking.show(found)
    if not found.healthy:
        raise typer.Exit(1 if found.up else NOT_UP)


@app.command(epilog="Examples: droidherd connect 127.0.0.1:5555   |   droidherd connect 10.0.0.7:16384 --label app=x")
def connect(
    address: Annotated[str, typer.Argument(help="Where adb reaches the emulator.", metavar="HOST:PORT")],
    *,
    name: Annotated[str, typer.Option(help="Its emulator_id. Default: made from the address.")] = "",
    label: Annotated[list[str] | None, typer.Option(help="name=value; may be repeated.")] = None,
    wait: Annotated[str, typer.Option(help="How long to wait until it is up; 0s: not at all.")] = "60s",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Let one emulator join this host, and wait until tasks can run on it."""
    settings = going_up.settings_of(data)
    labels = tasking.pairs(label or (), "--label")
    entry = connecting.enlist(Layout(settings.data.absolute()), address, name=name, labels=labels)
    seconds = output.duration_s(wait)
    found: Document = entry.model_dump()
    if seconds > 0:
        with Door.of(settings, url) as door:
            found = connecting.wait_up(door, entry.emulator_id, seconds=seconds)
    if as_json:
        output.emit(found)
    else:
        output.out.print(f"{entry.emulator_id} at {address}: {found.get('state', 'in the list')}")


@app.command(
    epilog="Examples: droidherd submit check --account a42 --wait 60s   |   droidherd submit scan --then check"
)
def submit(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    account: Annotated[str, typer.Option(help="Whom the task acts for.")] = "",
    param: Annotated[list[str] | None, typer.Option(help="name=value; JSON values are taken as JSON.")] = None,
    params: Annotated[str, typer.Option(help="All parameters as one JSON object.", metavar="JSON")] = "",
    pool: Annotated[str, typer.Option(help="Default: default.")] = "",
    lane: Annotated[str, typer.Option(help="Default: by whether there is an account.")] = "",
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 is first.")] = None,
    on_busy: Annotated[str, typer.Option(help="reject or queue, when the account is busy.")] = "",
    emulator: Annotated[str, typer.Option(help="Only this emulator will do.")] = "",
    requires: Annotated[list[str] | None, typer.Option(help="Label the emulator must carry: name=value.")] = None,
    mutex: Annotated[list[str] | None, typer.Option(help="Key no other task may hold meanwhile.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="name=value, to find the task by.")] = None,
    origin: Annotated[str, typer.Option(help="person, schedule or maintenance: the priority if none is said.")] = "",
    not_before: Annotated[str, typer.Option(help="ISO time before which it does not start.")] = "",
    expires_at: Annotated[str, typer.Option(help="ISO time after which it does not start.")] = "",
    then: Annotated[list[str] | None, typer.Option(help="What follows: a task type, or a JSON object.")] = None,
    critical: Annotated[bool, typer.Option("--critical", help="When it fails, nothing follows.")] = False,
    on_failure: Annotated[str, typer.Option(help="keep or rollback: what becomes of what it changed.")] = "",
    idempotency_key: Annotated[str, typer.Option(help="Repeating the same key submits nothing twice.")] = "",
    wait: Annotated[str, typer.Option(help="Wait this long for the end; the exit code tells it.")] = "",
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
        "requires": list(requires or ()),
        "mutex": list(mutex or ()),
        "labels": tasking.pairs(label or (), "--label"),
        "not_before": not_before,
        "expires_at": expires_at,
        "then": tasking.links(then or ()),
        "critical": critical,
        "on_failure": on_failure,
        "actor": getpass.getuser(),
    }
    said = {
        name: value
        for name, value in body.items()
        if value not in (None, "", [], {}, False) or name in {"type", "params"}
    }
    with Door.of(going_up.settings_of(data), url) as door:
        task = tasking.submit(door, said, key=idempotency_key)
        if wait:
            task = tasking.wait_for(door, str(task["id"]), seconds=output.duration_s(wait))
    if as_json:
        output.emit(task)
    else:
        output.out.print(tasking.table([{"task_id": task.get("id"), "type": kind, "account": account, **task}]))
    if wait and task.get("state") != "completed":
        raise typer.Exit(1)


@app.command(epilog="Examples: droidherd tasks --state failed   |   droidherd tasks --account a42 --json")
def tasks(
    task_id: Annotated[str, typer.Argument(help="One task, whole.", metavar="[TASK]")] = "",
    *,
    state: Annotated[list[str] | None, typer.Option(help="Only tasks in this state; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    account: Annotated[str, typer.Option(help="Only tasks of this account.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """List tasks, newest first, or show one."""
    with Door.of(going_up.settings_of(data), url) as door:
        if task_id:
            found = [door.get(f"/api/tasks/{task_id}")]
        else:
            query = {"state": state or (), "type": kind or (), "account": account}
            found = list(door.pages("/api/tasks", "tasks", limit=limit, **query))
    if as_json:
        output.emit(found[0] if task_id else {"tasks": found})
    else:
        output.out.print(tasking.table(found))


@app.command(epilog="Examples: droidherd watch   |   droidherd watch TASK --json")
def watch(
    task_ids: Annotated[list[str] | None, typer.Argument(help="Default: everything.", metavar="[TASK]...")] = None,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Watch tasks live, until those that are named have ended. Exit code 0 only if they all completed."""
    with Door.of(going_up.settings_of(data), url) as door:
        found = tasking.watch(door, task_ids or (), as_json=as_json)
    if any(one.get("state") != "completed" for one in found):
        raise typer.Exit(1)


@app.command(epilog='Example: droidherd pause TASK --reason "the game is under maintenance"')
def pause(task_id: str, reason: str = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Ask a task to stop at its next step boundary and to free its emulator."""
    with Door.of(going_up.settings_of(data), url) as door:
        task = door.post(f"/api/tasks/{task_id}/pause", {"reason": reason, "actor": getpass.getuser()})
    _show(task_id, task, as_json=as_json)


@app.command(epilog="Example: droidherd resume TASK")
def resume(task_id: str, reason: str = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Queue a paused task again. Completed stages are not repeated."""
    with Door.of(going_up.settings_of(data), url) as door:
        task = door.post(f"/api/tasks/{task_id}/resume", {"reason": reason, "actor": getpass.getuser()})
    _show(task_id, task, as_json=as_json)


@app.command(epilog="Examples: droidherd cancel TASK   |   droidherd cancel TASK --force")
def cancel(  # noqa: PLR0917 (options of a command)
    task_id: str,
    force: Annotated[
        bool, typer.Option("--force", help="At once: wait for nothing that runs, nor for cleanup.")
    ] = False,
    reason: str = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """End a task at its next step boundary, with its cleanup."""
    with Door.of(going_up.settings_of(data), url) as door:
        wish = {"reason": reason, "actor": getpass.getuser(), **({"force": True} if force else {})}
        task = door.post(f"/api/tasks/{task_id}/cancel", wish)
    _show(task_id, task, as_json=as_json)


@app.command(epilog="Example: droidherd answer TASK happened")
def answer(  # noqa: PLR0917 (options of a command)
    task_id: str,
    choice: str,
    reason: str = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Answer what a task asks a person. `droidherd tasks TASK` shows the question and the choices."""
    with Door.of(going_up.settings_of(data), url) as door:
        wish = {"reason": reason, "actor": getpass.getuser(), "choice": choice}
        task = door.post(f"/api/tasks/{task_id}/answer", wish)
    _show(task_id, task, as_json=as_json)


@app.command(epilog="Example: droidherd retry TASK")
def retry(task_id: str, reason: str = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Try a failed or cancelled task again, under its id."""
    with Door.of(going_up.settings_of(data), url) as door:
        task = door.post(f"/api/tasks/{task_id}/retry", {"reason": reason, "actor": getpass.getuser()})
    _show(task_id, task, as_json=as_json)


@app.command(epilog="Examples: droidherd rollback TASK   |   droidherd rollback TASK --force")
def rollback(  # noqa: PLR0917 (options of a command)
    task_id: str,
    force: Annotated[bool, typer.Option("--force", help="Restore also what somebody else changed since.")] = False,
    reason: str = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Take back what a task changed, the last change first. One that runs is cancelled before."""
    with Door.of(going_up.settings_of(data), url) as door:
        wish = {"reason": reason, "actor": getpass.getuser(), **({"force": True} if force else {})}
        task = door.post(f"/api/tasks/{task_id}/rollback", wish)
    _show(task_id, task, as_json=as_json)


@app.command(epilog='Example: droidherd prioritize TASK --reason "the event ends tonight"')
def prioritize(  # noqa: PLR0917 (options of a command)
    task_id: str,
    priority: Annotated[int, typer.Option(min=1, max=10, help="As urgent as this at least; 1 is first.")] = 1,
    reason: str = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Put a waiting task in front of those who wait for the same and are no more urgent, until it ends."""
    wish = {"reason": reason, "actor": getpass.getuser(), "priority": priority}
    with Door.of(going_up.settings_of(data), url) as door:
        said = laning.detail_of(door.post(f"/api/tasks/{task_id}/prioritize", wish))
        task = door.get(f"/api/tasks/{task_id}")
    _show(task_id, task, as_json=as_json)
    if said and not as_json:
        output.out.print(said, markup=False)


app.add_typer(laning.listing)
app.add_typer(accounting.listing)
app.add_typer(accounting.app, name="account")


@app.command(epilog="Examples: droidherd stats   |   droidherd stats daily_reward --json")
def stats(
    kinds: Annotated[list[str] | None, typer.Argument(help="Task types. Default: all.", metavar="[TYPE]...")] = None,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """How attempts ended, how long they ran and waited, by task type."""
    with Door.of(going_up.settings_of(data), url) as door:
        found = door.get("/api/stats", type=kinds or ())
    if as_json:
        output.emit(found)
    else:
        output.out.print(figuring.stats(found))


@app.command(epilog="Examples: droidherd audit   |   droidherd audit --actor ann --action lane_paused --json")
def audit(
    *,
    actor: Annotated[str, typer.Option(help="Only what this one did.")] = "",
    action: Annotated[str, typer.Option(help="Only this kind of deed: lane_paused, prioritized, …")] = "",
    task: Annotated[str, typer.Option(help="Only about this task.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 30,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Who did what to the queue, when and why, newest first."""
    with Door.of(going_up.settings_of(data), url) as door:
        found = list(door.pages("/api/audit", "entries", limit=limit, actor=actor, action=action, task=task))
    if as_json:
        output.emit({"entries": found})
    else:
        output.out.print(figuring.audit(found))


@app.command(epilog="Examples: droidherd cleanup --dry-run   |   droidherd cleanup --reason audit --json")
def cleanup(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    reason: str = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Remove what is old now: tasks by the days they are kept, and artifacts. It happens every night by itself."""
    wish = {"dry_run": dry_run, "reason": reason, "actor": getpass.getuser()}
    with Door.of(going_up.settings_of(data), url) as door:
        found = door.post("/api/maintenance/cleanup", wish, wait="30s")
    if as_json:
        output.emit(found)
    else:
        cleaning.show(found)
    if (found.get("report") or {}).get("tally", {}).get("troubles"):
        raise typer.Exit(1)


@app.command(epilog="Examples: droidherd logs -f worker   |   droidherd logs --lines 200")
def logs(
    names: Annotated[list[str] | None, typer.Argument(help="worker, api, temporal, virtual, up. Default: all.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as more is said.")] = False,
    lines: Annotated[int, typer.Option(min=0, max=10_000, help="How many of the last lines of each.")] = 20,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """What the processes said."""
    layout = Layout(going_up.settings_of(data).data.absolute())
    chosen = logging_out.choose(layout, names or ())
    for name, text in logging_out.last(chosen, lines):
        output.line(name, text, as_json=as_json)
    if follow:
        for name, text in logging_out.follow(chosen, lambda: False):
            output.line(name, text, as_json=as_json)


@app.command(epilog="Example: droidherd doctor --json")
def doctor(data: Data = None, as_json: Json = False) -> None:
    """Find what is missing on this machine and say how to fix it. Exit code 1 if something must be fixed."""
    found = doctoring.examine(going_up.settings_of(data), os.environ)
    if as_json:
        output.emit({"findings": [one.document() for one in found]})
    else:
        output.out.print(
            output.table(["grade", "what", "detail"], [[one.grade, one.what, one.detail] for one in found])
        )
        for one in found:
            if one.fix:
                output.out.print(f"→ {one.what}: {one.fix}", markup=False)
    if any(one.grade is doctoring.Grade.FAIL for one in found):
        raise typer.Exit(1)


def _show(task_id: str, task: Document, *, as_json: bool) -> None:
    if as_json:
        output.emit(task)
    else:
        output.out.print(tasking.table([{"task_id": task_id, **task}]))
