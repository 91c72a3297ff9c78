"""What the command prints: for people on a terminal, or one JSON document for programs."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from droidherd.cli.errors import CliError

STATE_STYLES: Mapping[str, str] = {
    "completed": "green",
    "up": "green",
    "healthy": "green",
    "running": "cyan",
    "failed": "red",
    "down": "red",
    "gave up": "red",
    "unhealthy": "red",
    "rejected": "red",
    "cancelled": "yellow",
    "paused": "yellow",
    "suspect": "yellow",
    "quarantined": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

GAP = 2
"""Between two columns."""
FOLD = 40
"""A column narrower than this is no place for a sentence."""

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def emit(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def complain(error: CliError, *, as_json: bool) -> None:
    if as_json:
        # On one line: it may come after the events of `up`.
        sys.stdout.write(json.dumps({"error": error.what, "remedy": error.remedy}, ensure_ascii=False) + "\n")
    else:
        err.print(f"[red]error:[/red] {escape(str(error))}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Plain columns; a cell that is the name of a state gets its colour.

    Names stay whole, however narrow the terminal is: they are there to be copied. Sentences, in the last column, fold.
    """
    *names, last = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    left = sum(names) + GAP * len(names)
    made = Table(box=None, pad_edge=False, header_style="bold", width=left + min(last, max(out.width - left, FOLD)))
    for place, column in enumerate(columns, start=1):
        made.add_column(column, no_wrap=place < len(columns), overflow="fold")
    for row in rows:
        made.add_row(*[add_colour(cell) for cell in row])
    return made


def add_colour(text: str) -> str:
    style = STATE_STYLES.get(text)
    return f"[{style}]{escape(text)}[/{style}]" if style else escape(text)


def age(seconds: float) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`."""
    for limit, size, unit in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def clock(text: str | None) -> str:
    """`12:30:05` of an ISO time, in the zone of this machine."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return text


def duration_s(text: str) -> float:
    """`60s`, `2m`, `1.5h`, or a plain number of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", text.strip())
    if found is None:
        raise CliError(f"{text!r} is not a duration", remedy="write for example 60s, 2m or 1.5h", code=2)
    return float(found[1]) * {"ms": 0.001, "s": 1, None: 1, "m": 60, "min": 60, "h": 3600}[found[2]]


def line(name: str, text: str, *, as_json: bool) -> None:
    """One line of a log."""
    if as_json:
        sys.stdout.write(json.dumps({"process": name, "line": text}, ensure_ascii=False) + "\n")
    else:
        out.print(f"[dim]{name:<9}[/dim] {escape(text)}")
    sys.stdout.flush()
