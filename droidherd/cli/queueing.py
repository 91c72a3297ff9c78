"""`droidherd lanes`, `stats`, `audit`, `cleanup`: the queue, and what it did."""

from typing import Annotated

import typer

from droidherd.cli import cleanup as cleaning
from droidherd.cli import figures, output, tasks
from droidherd.cli.door import rows_of
from droidherd.cli.errors import CliError
from droidherd.cli.options import QUEUE, Data, Json, Limit, Reason, Url, opened, signature

app = typer.Typer()


@app.command(
    rich_help_panel=QUEUE,
    epilog="Examples: droidherd lanes   |   droidherd lanes account --capacity 4   |   "
    "droidherd lanes --pause --reason night   |   droidherd lanes account --order priority --ageing 20",
)
def lanes(  # noqa: PLR0917 (options of a command)
    lane: Annotated[str, typer.Argument(help="One lane. Default: all of them.", metavar="[LANE]")] = "",
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Grant nothing any more, or again.")] = None,
    capacity: Annotated[int | None, typer.Option(min=0, max=10_000, help="How many may hold an emulator.")] = None,
    order: Annotated[str, typer.Option(help="arrival or priority: who goes first.", metavar="ORDER")] = "",
    ageing: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="By priority: how many may overtake one per step. 0: all.")
    ] = 0,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Show the lanes of the queue; pause or resume them; set how many of one may run at once, and who goes first."""
    if (capacity is not None or order) and not lane:
        raise typer.BadParameter("name the lane that is to be set", param_hint="LANE")
    command = {"lane": lane, **signature(reason)}
    with opened(data, url) as door:
        if capacity is not None:
            door.post("/api/queue/capacity", {**command, "capacity": capacity})
        if order:
            door.post("/api/queue/order", {**command, "order": order, "ageing": ageing})
        if pause is not None:
            door.post("/api/queue/pause" if pause else "/api/queue/resume", command)
        found = [one for one in rows_of(door.get("/api/queue"), "lanes") if lane in ("", one["name"])]
    if lane and not found:
        raise CliError(f"there is no lane {lane}", remedy="a lane begins with its first task, or when it is set")
    if as_json:
        output.emit({"lanes": found})
    else:
        output.out.print(tasks.lanes(found))


@app.command(rich_help_panel=QUEUE, epilog="Examples: droidherd stats   |   droidherd stats daily_reward --json")
def stats(
    kinds: Annotated[list[str] | None, typer.Argument(help="Task types. Default: all.", metavar="[TYPE]...")] = None,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """How attempts ended, how long they ran and waited, by task type."""
    with opened(data, url) as door:
        found = door.get("/api/stats", type=kinds or ())
    if as_json:
        output.emit(found)
    else:
        output.out.print(figures.stats(found))


@app.command(
    rich_help_panel=QUEUE,
    epilog="Examples: droidherd audit   |   droidherd audit --actor ann --action lane_paused --json",
)
def audit(
    *,
    actor: Annotated[str, typer.Option(help="Only what this one did.")] = "",
    action: Annotated[str, typer.Option(help="Only this kind of deed: lane_paused, prioritized, …")] = "",
    task: Annotated[str, typer.Option(help="Only about this task.")] = "",
    limit: Limit = 30,
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Who did what to the queue, when and why, newest first."""
    with opened(data, url) as door:
        found = list(door.pages("/api/audit", "entries", limit=limit, actor=actor, action=action, task=task))
    if as_json:
        output.emit({"entries": found})
    else:
        output.out.print(figures.audit(found))


@app.command(
    rich_help_panel=QUEUE,
    epilog="Examples: droidherd cleanup --dry-run   |   droidherd cleanup --reason audit --json",
)
def cleanup(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Remove what is old now: tasks by the days they are kept, and artifacts. It happens every night by itself."""
    with opened(data, url) as door:
        found = door.post("/api/maintenance/cleanup", {"dry_run": dry_run, **signature(reason)}, wait="30s")
    if as_json:
        output.emit(found)
    else:
        cleaning.show(found)
    if (found.get("report") or {}).get("tally", {}).get("troubles"):
        raise typer.Exit(1)
