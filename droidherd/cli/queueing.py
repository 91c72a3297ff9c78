"""`droidherd stats`, `audit`, `cleanup`: the queue, and what it did."""

from typing import Annotated

import typer

from droidherd.cli import cleanup as cleaning
from droidherd.cli import figures, output
from droidherd.cli.options import QUEUE, Data, Json, Limit, Reason, Url, opened, signature

app = typer.Typer()


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
        if found.get("rebuilding"):
            output.out.print("the dispatcher still looks for what its predecessor knew: this is not all")


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
