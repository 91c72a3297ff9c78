"""What the command prints: for people on a terminal, or one JSON document for programs.

Everything goes through `SafeConsole` or `json_text`: what comes from outside (names, reasons, logs, element trees) is
shown, and never obeyed by the terminal.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from droidherd.cli.errors import CliError
from droidherd.domain.text import visible, visible_in_json

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
    "stuck": "red",
    "cancelled": "yellow",
    "paused": "yellow",
    "suspect": "yellow",
    "quarantined": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

PIPE_CLOSED = 128 + 13
"""As a shell says that a program ended because nobody read what it wrote."""
GAP = 2
"""Between two columns."""
FOLD = 40
"""A column narrower than this is no place for a sentence."""
WIDE = 120
"""Tables are no wider than this, or than the terminal."""
CUT_MIN = 12
"""Names are cut to no less."""


def json_text(document: Any, *, indent: int | None = None) -> str:
    """JSON that no terminal obeys either."""
    return visible_in_json(json.dumps(document, indent=indent, ensure_ascii=False, default=str))


class SafeConsole(Console):
    """A console that spells out control characters in every text, cells of tables included, before it lays it out."""

    @override
    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(visible(text), **how)

    @override
    def on_broken_pipe(self) -> NoReturn:
        stop_writing()


out = SafeConsole(soft_wrap=True, highlight=False, emoji=False)
err = SafeConsole(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def emit(document: Any) -> None:
    """One JSON document on standard output."""
    _write(json_text(document, indent=2))


def emit_line(document: Any) -> None:
    """One of several JSON documents, on one line."""
    _write(json_text(document))


def plain(text: str) -> None:
    """One line, not folded, for people and programs."""
    _write(visible(text))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        stop_writing()


def stop_writing() -> NoReturn:
    """Nobody reads any more, as behind `| head -1`. Python would complain once more when it closes the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(PIPE_CLOSED)


def complain(error: CliError, *, as_json: bool) -> None:
    if as_json:
        # On one line: it may come after the events of `up`.
        emit_line({"error": error.what, "remedy": error.remedy})
    else:
        err.print(f"[red]error:[/red] {escape(str(error))}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Plain columns; a cell that is the name of a state gets its colour.

    The first column stays whole, however narrow the terminal is: it is there to be copied. Long names in the others are
    cut. Sentences, in the last column, fold.
    """
    *names, last = _widths([max(map(len, cells)) for cells in zip(columns, *rows, strict=True)], max(out.width, WIDE))
    rows = [[*(_cut(cell, most) for cell, most in zip(row, names, strict=False)), row[-1]] for row in rows]
    left = sum(names) + GAP * len(names)
    made = Table(box=None, pad_edge=False, header_style="bold", width=left + min(last, max(out.width - left, FOLD)))
    for place, column in enumerate(columns, start=1):
        made.add_column(column, no_wrap=place < len(columns), overflow="fold")
    for row in rows:
        made.add_row(*[add_colour(cell) for cell in row])
    return made


def _widths(found: Sequence[int], most: int) -> list[int]:
    """Of the columns, so that a row fits: the widest ones behind the first are cut, and the last one folds."""
    *names, last = found
    while len(names) > 1 and sum(names) + GAP * len(names) + min(last, FOLD) > most and max(names[1:]) > CUT_MIN:
        names[1 + names[1:].index(max(names[1:]))] -= 1
    return [*names, last]


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 1]}…"


def pairs(values: Mapping[str, Any]) -> Table:
    """Name and value, one pair per line; without those that are empty."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for name, value in values.items():
        if value not in (None, ""):
            made.add_row(name, escape(str(value)))
    return made


def heading(text: str) -> str:
    return f"[bold]{escape(text)}[/bold]"


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


def moment(text: Any) -> str:
    """`2026-11-18 05:30:00Z` of an ISO time, in UTC, as the API has it."""
    return f"{str(text).replace('T', ' ')[:19]}Z" if text else ""


def span(begun: Any, ended: Any) -> str:
    """`3.5 s` between two ISO times; empty when one is not there."""
    try:
        seconds = (datetime.fromisoformat(str(ended)) - datetime.fromisoformat(str(begun))).total_seconds()
    except (TypeError, ValueError):
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else age(seconds)  # noqa: PLR2004 (a minute)


def size(count: float) -> str:
    """`512 B`, `2.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":  # noqa: PLR2004 (the next unit)
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def quoted(word: str) -> str:
    """As one word of a shell line."""
    return shlex.quote(word)


def line(name: str, text: str, *, as_json: bool) -> None:
    """One line of a log."""
    if as_json:
        emit_line({"process": name, "line": text})
    else:
        out.print(f"[dim]{name:<9}[/dim] {escape(text)}")
