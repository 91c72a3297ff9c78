"""What a pool counted and who did what to it, as tables."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from droidherd.cli import output
from droidherd.cli.door import Document, rows_of

STATS = ("type", "ended", "completed", "failed", "retries", "cancelled", "success")
TIMES = ("mean", "p50", "p95")
AUDIT = ("at", "action", "actor", "what", "reason")


def stats(found: Document) -> RenderableType:
    """One row per task type, and one for all of them together."""
    total = {**found["total"], "type": "all"}
    columns = [*STATS, *(f"run {one}" for one in TIMES), "wait p50", "wait p95"]
    return output.table(columns, [_row(one) for one in [*rows_of(found, "types"), total]])


def _row(one: Document) -> list[str]:
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


def audit(entries: Sequence[Document]) -> RenderableType:
    return output.table(AUDIT, [_line(one) for one in entries])


def _line(one: Document) -> list[str]:
    what = one.get("detail") or one.get("task") or one.get("emulator") or one.get("lane")
    named = {"at": str(one.get("at", ""))[:19], "what": what}
    return [str(named.get(name, one.get(name)) or "") for name in AUDIT]


def _seconds(value: Any) -> str:
    return f"{value:.3g} s" if isinstance(value, int | float) else ""
