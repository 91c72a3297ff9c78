"""What the demo shows: a live view while it runs, a table when it is over."""

import time
from collections.abc import Mapping, Sequence

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from droidherd.cli import output
from droidherd.cli.client import Document, rows_of
from droidherd.cli.demo.script import DemoRun, DemoTaskRun

NEWS_SHOWN = 4
WIDE = ConsoleDimensions(112, 50)
TABLE_WIDTH = 104
NARROW = 100
"""Below this many columns something has to be left out."""
FRAME = 6
"""Lines of the head, of the border, and one for the cursor."""


def live(demo: DemoRun, urls: Mapping[str, str], news: Sequence[str], size: ConsoleDimensions = WIDE) -> RenderableType:
    """The whole screen of one moment, or as much of it as a terminal of this size holds."""
    tasks, emulators = len(demo.runs) + 1, len(demo.emulators) + 1
    body: list[RenderableType] = [_head(demo, urls), "", _tasks(demo, narrow=size.width < NARROW)]
    left = size.height - FRAME - tasks - emulators - 1
    if left >= 0:
        body += ["", _emulators(demo)]
    if left > NEWS_SHOWN:
        lines = [Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis") for line in news[-NEWS_SHOWN:]]
        body += ["", *lines]
    return Panel(Group(*body), title="[bold]droidherd demo[/bold]", border_style="cyan")


def results(demo: DemoRun, complaints: Mapping[str, Sequence[str]], width: int = WIDE.width) -> RenderableType:
    """Task by task: what was expected, and what became of it."""
    table = Table(box=None, pad_edge=False, header_style="bold", width=min(width, TABLE_WIDTH))
    for column, wide in (("", 1), ("task", 11), ("type", 12), ("what it shows", 0), ("expected", 9), ("actual", 9)):
        if wide or width >= NARROW:
            table.add_column(column, no_wrap=True, width=wide or None, ratio=None if wide else 1, overflow="ellipsis")
    for column in ("attempts", "seconds"):
        table.add_column(column, no_wrap=True, width=len(column), justify="right")
    for name, run in demo.runs.items():
        wrong = complaints[name]
        sign = "[red]✗[/red]" if wrong else "[green]✓[/green]"
        shows = [run.task.shows] if width >= NARROW else []
        cells = [name, run.task.kind, *shows, run.task.expected, run.state or "not submitted"]
        attempts, seconds = str(run.view.get("attempt") or ""), run.seconds(time.time())
        table.add_row(sign, *[output.add_colour(cell) for cell in cells], attempts, f"{seconds:.1f}" if seconds else "")
    wrongs = [f"[red]✗ {escape(name)}: {escape(one)}[/red]" for name, found in complaints.items() for one in found]
    return Group(table, *wrongs)


def rows(demo: DemoRun, complaints: Mapping[str, Sequence[str]]) -> list[Document]:
    """The same for programs."""
    now = time.time()
    return [
        {
            "name": name,
            "id": run.task_id,
            "type": run.task.kind,
            "shows": run.task.shows,
            "expected": run.task.expected,
            "actual": run.state,
            "attempts": int(run.view.get("attempt") or 0),
            "seconds": round(run.seconds(now), 1),
            "problems": list(complaints[name]),
        }
        for name, run in demo.runs.items()
    ]


def _head(demo: DemoRun, urls: Mapping[str, str]) -> RenderableType:
    ended = sum(run.over for run in demo.runs.values())
    grid = Table.grid(padding=(0, 1))
    counts = "   ".join(f"{name} {demo.queue.get(name, 0)}" for name in ("waiting", "running", "free"))
    bar = ProgressBar(total=len(demo.runs), completed=ended, width=24)
    grid.add_row(bar, f"{ended}/{len(demo.runs)} ended", f"[dim]{counts}   {demo.running_s():.0f} s[/dim]")
    where = "   ".join(f"{name} {url}" for name, url in urls.items() if name in {"docs", "temporal_ui"})
    return Group(grid, Text(where, style="dim", no_wrap=True, overflow="ellipsis"))


def _tasks(demo: DemoRun, *, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for column, width in (("task", 11), ("type", 12), ("state", 13), ("emulator", 9), ("stage", 12)):
        if not (narrow and column == "type"):
            table.add_column(column, no_wrap=True, width=width)
    table.add_column("what it shows, or why it waits", no_wrap=True, overflow="ellipsis", ratio=1)
    for name, run in demo.runs.items():
        cells = [name, run.task.kind, *(_cells(run) if run.status else ("", "", "", run.task.shows))]
        if narrow:
            del cells[1]
        table.add_row(*[output.add_colour(cell) for cell in cells], style="" if run.status else "dim")
    return table


def _cells(run: DemoTaskRun) -> list[str]:
    running = run.state == "running"
    attempt = int(run.view.get("attempt") or 1)
    again = f" (attempt {attempt})" if attempt > 1 else ""
    why = "" if running or run.over else str(run.waits or run.view.get("why") or "")
    if run.refusal:
        why = str(run.refusal.get("detail") or "")
    stage = _stage(run) if running else ""
    emulator = str(run.view.get("emulator") or "") if running else ""
    return [run.state, emulator, stage, (why or run.task.shows) + again]


def _stage(run: DemoTaskRun) -> str:
    stages = rows_of(run.view, "stages")
    for number, stage in enumerate(stages, start=1):
        if stage.get("state") == "running":
            return f"{stage['name']} {number}/{len(stages)}"
    return ""


def _emulators(demo: DemoRun) -> Table:
    names = {run.task_id: name for name, run in demo.runs.items() if run.task_id}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("emulator", "state", "runs", "on deck"):
        table.add_column(column, no_wrap=True, min_width=12)
    for one in sorted(demo.emulators, key=lambda row: str(row.get("emulator_id"))):
        holders = [names.get(str(one.get(place)), "") for place in ("task", "on_deck")]
        table.add_row(str(one["emulator_id"]), output.add_colour(str(one.get("state"))), *holders)
    return table
