"""`python -m bench`: every number in the documents comes from here."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError

from bench import adb, decisions, gap, history, machine, memory, throughput
from bench.figures import Figure, Watch
from bench.stand import Stand, stand
from bench.vision import measure as vision
from droidherd.domain.errors import DroidherdError

RESULTS = Path(__file__).parent / "results" / "latest.json"
FARM = 10
ROUNDS = 3
WIDE = 120
"""Columns the table needs; a pipe is taken for a narrow terminal otherwise."""
BROKEN = (RuntimeError, TimeoutError, OSError, ValueError, RPCError, TemporalError, DroidherdError)
"""A benchmark that ends so says it in the table; the others go on."""

OnStand: TypeAlias = Callable[[Stand, int, Watch], Awaitable[list[Figure]]]

ON_FARM: dict[str, OnStand] = {"gap": gap.measure, "drain": throughput.drain, "path": throughput.path}
ON_FARM["history"] = history.measure
ALL = ("adb", "decisions", "vision", *ON_FARM, "memory")
FIGURES = {
    "shell_p50_ms": "adb",
    "capture_ratio": "adb",
    "idle_gap_ratio": "gap",
    "drain_ratio": "drain",
    "path_ratio": "path",
    "events_per_task": "history",
    "bytes_per_task": "history",
    "worker_rss_mb": "memory",
    "locate_speedup_vs_opencv": "vision",
    "locate_speedup_vs_airtest": "vision",
    "locate_false_positive_rate": "vision",
    "locate_miss_rate": "vision",
    "frame_to_decision_ratio": "vision",
}
"""Names of what was promised, accepted by --only as well."""

HELP = """Measure droidherd against raw Temporal and against adb, in turns, within one run.

[bold]Examples[/bold]

  python -m bench                       everything, about twenty-five minutes on two cores

  python -m bench --only gap            one benchmark; --only may be given several times

  python -m bench --only drain_ratio    the benchmark a figure comes from

  python -m bench --rounds 5 --json     more rounds, and JSON on standard output

Exit code: 0 every target is met, 1 a target is missed or a benchmark broke, 2 a wrong option.
"""


class Run:
    """One run of some benchmarks, and what came out."""

    def __init__(self, names: list[str], rounds: int, console: Console) -> None:
        """Nothing is started yet."""
        self.names = names
        self.rounds = rounds
        self.figures: dict[str, list[Figure]] = {}
        self.broken: dict[str, str] = {}
        self._began = datetime.now(UTC)
        self._load = machine.load_average()
        self._taken: dict[str, dict[str, Any]] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.fields[name]:<10}"),
            BarColumn(30),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
        )

    async def run(self) -> None:
        with self._progress, tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            await self._one("adb", self._adb)
            await self._one("decisions", lambda watch: decisions.measure(self.rounds, watch))
            await self._one("vision", lambda watch: vision.measure(self.rounds, watch))
            await self._on_stand(Path(folder) / "farm", FARM, ON_FARM)
            await self._on_stand(Path(folder) / "crowd", memory.EMULATORS, {"memory": memory.measure})

    async def _adb(self, watch: Watch) -> list[Figure]:
        watch("shell calls and frames", 0.0)
        values = await asyncio.to_thread(adb.measure)
        limits = {"shell_p50_ms": 1.5, "capture_ratio": 1.3}
        return [
            Figure(name, value, "ms" if name.endswith("_ms") else "", at_most=limits.get(name))
            for name, value in values.items()
        ]

    async def _on_stand(self, data: Path, emulators: int, benchmarks: dict[str, OnStand]) -> None:
        chosen = {name: work for name, work in benchmarks.items() if name in self.names}
        if not chosen:
            return
        starting = self._progress.add_task(f"starting a farm of {emulators}", name="")
        try:
            async with stand(data, emulators) as made:
                self._progress.remove_task(starting)
                for name, work in chosen.items():
                    await self._one(name, lambda watch, work=work: work(made, self.rounds, watch))
        except BROKEN as error:
            self.broken.update({name: _describe(error) for name in chosen if name not in self.figures})

    async def _one(self, name: str, work: Callable[[Watch], Awaitable[list[Figure]]]) -> None:
        if name not in self.names:
            return
        bar = self._progress.add_task("", name=name, total=1.0)

        def watch(text: str, done: float) -> None:
            self._progress.update(bar, description=text, completed=done)

        began_s, load = time.monotonic(), machine.load_average()[0]
        try:
            self.figures[name] = await work(watch)
            moment = datetime.now(UTC).isoformat(timespec="seconds")
            self._taken[name] = {"taken": moment, "load": [load, machine.load_average()[0]]}
        except BROKEN as error:
            self.broken[name] = _describe(error)
        watch("broken" if name in self.broken else f"{time.monotonic() - began_s:.0f} s", 1.0)

    # --- what came out ----------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        return {
            "began": self._began.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - self._began).total_seconds()),
            "rounds": self.rounds,
            "machine": machine.facts(),
            "load_average": {"start": self._load, "end": machine.load_average()},
            "figures": {
                one.name: {"benchmark": name, **one.as_json(), **self._taken[name]}
                for name, figures in self.figures.items()
                for one in figures
            },
            "broken": self.broken,
        }

    def table(self) -> Table:
        table = Table(title="benchmarks")
        for column in ("", "figure", "value", "target", "", "by round"):
            wraps = column == "by round"
            table.add_column(column, justify="right" if column in ("value", "target") else "left", no_wrap=not wraps)
        for name, figures in self.figures.items():
            for one in figures:
                outcome = {None: "", True: "[green]pass", False: "[red]miss"}[one.passed]
                parts = " ".join(f"{part:.3g}" for part in one.parts)
                table.add_row(name, one.name, f"{one.value:.4g} {one.unit}", one.target, outcome, parts or one.note)
            table.add_section()
        for name, why in self.broken.items():
            table.add_row(name, "[red]broken", "", "", "", why)
        return table

    @property
    def passed(self) -> bool:
        every = [one.passed for figures in self.figures.values() for one in figures]
        return not self.broken and False not in every


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def chosen(only: list[str]) -> list[str]:
    """The benchmarks to run, by their own name or by that of a figure."""
    names = [FIGURES.get(name, name) for name in only] or list(ALL)
    for name in names:
        if name not in ALL:
            raise typer.BadParameter(f"{name!r} is none of: {', '.join([*ALL, *FIGURES])}", param_hint="--only")
    return names


def keep(run: Run) -> None:
    """Into latest.json. A run of some benchmarks replaces the figures of those and leaves the others."""
    result = run.as_json()
    if set(run.names) != set(ALL) and RESULTS.exists():
        before = json.loads(RESULTS.read_text("utf-8"))
        result["figures"] = {**before.get("figures", {}), **result["figures"]}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")


app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command(help=HELP)
def main(
    only: Annotated[list[str] | None, typer.Option(help="a benchmark or a figure; may be repeated")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="how often the two sides take turns")] = ROUNDS,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output instead of a table")] = False,
) -> None:
    """Run, keep, show."""
    names = chosen(only or [])
    run = Run(names, rounds, Console(stderr=True))
    asyncio.run(run.run())
    keep(run)
    if as_json:
        sys.stdout.write(json.dumps(run.as_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        out = Console()
        Console(width=max(out.width, WIDE)).print(run.table())
    raise typer.Exit(0 if run.passed else 1)


if __name__ == "__main__":
    try:
        app(prog_name="python -m bench")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # everything it started has ended; the interpreter's own exit may crash in the SDK's threads
