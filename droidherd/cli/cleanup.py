"""`droidherd cleanup`: what went, or would go, for people."""

from typing import Any, cast

from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.door import Document, rows_of

WHY = {"age": "old enough", "orphan": "artifacts without a task", "size": "artifacts, beyond the limit"}


def show(found: Document) -> None:
    """What the API answered."""
    report = cast("Document | None", found.get("report"))
    if report is None:
        output.out.print(f"still at it as {found.get('id')}; ask again, or see the Temporal Web UI", markup=False)
        return
    tally = cast("Document", report.get("tally") or {})
    rows = rows_of(tally, "removed")
    if rows:
        output.out.print(output.table(["task", "state", "age", "size", "why"], [_row(one) for one in rows]))
    if tally.get("more"):
        output.out.print(f"and {tally['more']} more", markup=False)
    output.out.print(("would go: " if report.get("dry_run") else "gone: ") + summary(tally), markup=False)
    for trouble in cast("list[Any]", tally.get("troubles") or []):
        output.out.print(f"[yellow]not done:[/yellow] {escape(str(trouble))}")


def summary(tally: Document) -> str:
    """`2 failed, artifacts of 1 unknown task, 2.5 MB`."""
    tasks = cast("Document", tally.get("tasks") or {})
    parts = [f"{count} {state}" for state, count in tasks.items()]
    parts += [f"artifacts of {tally['orphans']} unknown tasks"] if tally.get("orphans") else []
    parts += [f"artifacts of {tally['shed']} tasks beyond the limit"] if tally.get("shed") else []
    return ", ".join([*parts, size(tally.get("bytes", 0))]) if parts else "nothing"


def size(count: float) -> str:
    """`512 B`, `2.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":  # noqa: PLR2004 (the next unit)
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def _row(one: Document) -> list[str]:
    age = output.age(float(one.get("age_s") or 0))
    return [str(one["task_id"]), str(one["state"]), age, size(one["bytes"]), WHY.get(str(one["why"]), str(one["why"]))]
