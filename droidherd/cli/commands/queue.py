"""`droidherd queue show`, `lanes`, `stats`, `audit`: the queue and what it did; `droidherd task cleanup`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.client import ApiClient, Document, detail_of, rows_of, unknown_names
from droidherd.cli.commands import tasks
from droidherd.cli.errors import CliError
from droidherd.cli.options import ApiOptions, Limit, Reason, signature, tell_unknown, with_options

STATS_COLUMNS = ("type", "ended", "completed", "failed", "retries", "cancelled", "success")
TIMES = ("mean", "p50", "p95")
AUDIT_COLUMNS = ("at", "action", "actor", "what", "reason")
QUEUE_PAGE = 1_000
"""The API's own limit."""
RUNNING_COLUMNS = ("task_id", "type", "account", "lane", "emulator", "running_s")
WAITING_COLUMNS = ("position", "task_id", "type", "account", "lane", "blocked_by")
REMOVED_BECAUSE = {"age": "old enough", "orphan": "artifacts without a task", "size": "artifacts, beyond the limit"}

app = typer.Typer()
cleaning = typer.Typer()


@dataclass(frozen=True, slots=True)
class LaneChanges:
    """What is to become of a lane."""

    pause: bool | None
    capacity: int | None
    order: str | None
    ageing: int
    reset: bool

    def any(self) -> bool:
        """Whether anything is to change, other than back to the settings."""
        return self.pause is not None or self.capacity is not None or bool(self.order)

    def of_one(self) -> bool:
        """Whether they are about one lane only."""
        return self.capacity is not None or bool(self.order) or self.reset

    def apply(self, api: ApiClient, command: dict[str, Any]) -> Iterator[str]:
        """Give them, one after the other. What was said to each that was more than yes."""
        if self.reset:
            by = {name: value for name, value in command.items() if name != "lane"}
            yield detail_of(api.delete(f"/api/queue/lanes/{command['lane']}", by))
        if self.capacity is not None:
            yield detail_of(api.post("/api/queue/capacity", {**command, "capacity": self.capacity}))
        if self.order:
            yield detail_of(api.post("/api/queue/order", {**command, "order": self.order, "ageing": self.ageing}))
        if self.pause is not None:
            yield detail_of(api.post("/api/queue/pause" if self.pause else "/api/queue/resume", command))


@app.command(epilog="Examples: droidherd queue show   |   droidherd queue show -n 20 --json")
@with_options
def show(limit: Limit = 50, *, api_options: ApiOptions) -> None:
    """Show what runs where, and what each waiting task waits for, in its order."""
    with api_options.open() as api:
        found = api.get("/api/queue", limit=min(limit, QUEUE_PAGE))
    api_options.show(found, queue_page(found))


@app.command(
    epilog="Examples: droidherd queue lanes   |   droidherd queue lanes account --capacity 4   |   "
    "droidherd queue lanes x --reset   |   "
    "droidherd queue lanes --pause --reason night   |   droidherd queue lanes account --order priority --ageing 20",
)
@with_options
def lanes(
    lane: Annotated[str, typer.Argument(help="One lane. Default: all of them.", metavar="[LANE]")] = "",
    *,
    pause: Annotated[bool, typer.Option("--pause", help="Start no more tasks.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Start tasks again.")] = False,
    capacity: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="How many of its tasks may run at once.")
    ] = None,
    order: Annotated[Literal["arrival", "priority"] | None, typer.Option(help="Who goes first.")] = None,
    ageing: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="By priority: how many may overtake one per step. 0: all.")
    ] = 0,
    reset: Annotated[bool, typer.Option("--reset", help="Undo what was set by hand, a pause included.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Set a lane that no task has used yet.")] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Show the lanes of the queue; pause or resume them; set how many of one may run at once, and who goes first."""
    if pause and resume:
        raise typer.BadParameter("say one of --pause and --resume", param_hint="--pause")
    changes = LaneChanges(pause if pause or resume else None, capacity, order, ageing, reset)
    if changes.of_one() and not lane:
        raise typer.BadParameter("name the lane that is to be set", param_hint="LANE")
    command = {"lane": lane, **signature(reason)}
    with api_options.open() as api:
        if lane and changes.any() and not create:
            _check_known(api, lane)
        details = [one for one in changes.apply(api, command) if one]
        found = [one for one in rows_of(api.get("/api/queue"), "lanes") if lane in ("", one["name"])]
    if lane and not found and not details and not reset:  # one that was reset and is empty is forgotten
        raise CliError(f"there is no lane {lane}", remedy="a lane begins with its first task, or when it is set")
    if api_options.as_json:
        output.emit({"lanes": found, "detail": "; ".join(details)})
        return
    output.out.print(tasks.lanes(found))
    for one in details:
        output.out.print(one, markup=False)


@app.command(epilog="Examples: droidherd queue stats   |   droidherd queue stats daily_reward --json")
@with_options
def stats(
    kinds: Annotated[list[str] | None, typer.Argument(help="Task types. Default: all.", metavar="[TYPE]...")] = None,
    *,
    api_options: ApiOptions,
) -> None:
    """How attempts ended, how long they ran and waited, by task type."""
    with api_options.open() as api:
        found = api.get("/api/stats", type=kinds or ())
        counted = {str(one.get("type")) for one in rows_of(found, "types")}
        if missing := [kind for kind in kinds or () if kind not in counted]:
            tell_unknown(unknown_names(api, types=missing))
    if api_options.as_json:
        output.emit(found)
    else:
        output.out.print(stats_table(found))
        if found.get("rebuilding"):
            output.out.print("incomplete: the dispatcher is still rebuilding its state")


@app.command(
    epilog="Examples: droidherd queue audit   |   droidherd queue audit --actor ann --action lane_paused --json",
)
@with_options
def audit(
    *,
    actor: Annotated[str, typer.Option(help="Only what this one did.")] = "",
    action: Annotated[str, typer.Option(help="Only this action: lane_paused, prioritized, …")] = "",
    task: Annotated[str, typer.Option(help="Only about this task.")] = "",
    limit: Limit = 30,
    api_options: ApiOptions,
) -> None:
    """Who did what to the queue, when and why, newest first."""
    with api_options.open() as api:
        found = list(api.pages("/api/audit", "entries", limit=limit, actor=actor, action=action, task=task))
    if api_options.as_json:
        output.emit({"entries": found})
    else:
        output.out.print(audit_table(found))


@cleaning.command(
    epilog="Examples: droidherd task cleanup --dry-run   |   droidherd task cleanup --reason audit --json",
)
@with_options
def cleanup(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Remove what is old now: tasks by the days they are kept, and artifacts. It happens every night by itself."""
    with api_options.open() as api:
        found = api.post("/api/maintenance/cleanup", {"dry_run": dry_run, **signature(reason)}, wait="30s")
    if api_options.as_json:
        output.emit(found)
    else:
        show_cleanup(found)
    if (found.get("report") or {}).get("stats", {}).get("troubles"):
        raise typer.Exit(1)


def queue_page(found: Document) -> RenderableType:
    """Counts, lanes, what runs, what waits."""
    counts = "   ".join(f"{name} {found.get(name, '?')}" for name in ("waiting", "running", "free"))
    running = [[str(one.get(name) or "") for name in RUNNING_COLUMNS] for one in rows_of(found, "running_info")]
    waiting = [[str(one.get(name) or "") for name in WAITING_COLUMNS] for one in rows_of(found, "queue_info")]
    parts: list[RenderableType] = [counts, "", tasks.lanes(rows_of(found, "lanes"))]
    parts += ["", output.table(RUNNING_COLUMNS, running)] if running else []
    parts += ["", output.table(WAITING_COLUMNS, waiting)] if waiting else []
    if found.get("rebuilding"):
        parts.append("incomplete: the dispatcher is still rebuilding its state")
    return Group(*parts)


def _check_known(api: ApiClient, lane: str) -> None:
    """A misspelt lane would be set for nobody, and the one that was meant would go on."""
    known = sorted(str(one.get("name")) for one in rows_of(api.get("/api/queue"), "lanes"))
    if lane not in known:
        there = f"there are: {', '.join(known)}" if known else "no task has used any lane yet"
        raise CliError(
            f"there is no lane {lane}; {there}", remedy="add --create to set it up before its first task", code=2
        )


def stats_table(found: Document) -> RenderableType:
    """One row per task type, and one for all of them together."""
    total = {**found["total"], "type": "all"}
    columns = [*STATS_COLUMNS, *(f"run {one}" for one in TIMES), "wait p50", "wait p95"]
    return output.table(columns, [_stats_row(one) for one in [*rows_of(found, "types"), total]])


def _stats_row(one: Document) -> list[str]:
    counts = [str(one.get(name, "")) for name in ("type", "count", "completed", "failed", "retries", "cancelled")]
    rate = one.get("success_rate")
    run, wait = one.get("run", {}), one.get("wait", {})
    times = [_seconds(run.get(f"{name}_s")) for name in TIMES]
    return [
        *counts,
        "" if rate is None else f"{rate:.0%}",
        *times,
        _seconds(wait.get("p50_s")),
        _seconds(wait.get("p95_s")),
    ]


def audit_table(entries: Sequence[Document]) -> RenderableType:
    return output.table(AUDIT_COLUMNS, [_audit_row(one) for one in entries])


def _audit_row(one: Document) -> list[str]:
    what = one.get("detail") or one.get("task") or one.get("emulator") or one.get("lane")
    named = {"at": str(one.get("at", ""))[:19], "what": what}
    return [str(named.get(name, one.get(name)) or "") for name in AUDIT_COLUMNS]


def _seconds(value: Any) -> str:
    return f"{value:.3g} s" if isinstance(value, int | float) else ""


def show_cleanup(found: Document) -> None:
    """What the API answered."""
    report = cast("Document | None", found.get("report"))
    if report is None:
        output.out.print(f"still running as {found.get('id')}; ask again, or see the Temporal Web UI", markup=False)
        return
    removed = cast("Document", report.get("stats") or {})
    rows = rows_of(removed, "removed")
    if rows:
        output.out.print(output.table(["task", "state", "age", "size", "why"], [_removed_row(one) for one in rows]))
    if removed.get("more"):
        output.out.print(f"and {removed['more']} more", markup=False)
    output.out.print(("would be removed: " if report.get("dry_run") else "removed: ") + summary(removed), markup=False)
    for trouble in cast("list[Any]", removed.get("troubles") or []):
        output.out.print(f"[yellow]not done:[/yellow] {escape(str(trouble))}")


def summary(removed: Document) -> str:
    """`2 failed, artifacts of 1 unknown task, 2.5 MB`."""
    tasks = cast("Document", removed.get("tasks") or {})
    parts = [f"{count} {state}" for state, count in tasks.items()]
    parts += [f"artifacts of {removed['orphans']} unknown tasks"] if removed.get("orphans") else []
    parts += [f"artifacts of {removed['shed']} tasks beyond the limit"] if removed.get("shed") else []
    return ", ".join([*parts, output.size(removed.get("bytes", 0))]) if parts else "nothing"


def _removed_row(one: Document) -> list[str]:
    age = output.age(float(one.get("age_s") or 0))
    return [
        str(one["task_id"]),
        str(one["state"]),
        age,
        output.size(one["bytes"]),
        REMOVED_BECAUSE.get(str(one["why"]), str(one["why"])),
    ]
