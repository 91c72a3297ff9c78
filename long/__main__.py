"""Run the full sizes and write `long/results/latest.json`.

python -m long                          everything (under 90 minutes on 2 cores)
python -m long --part resume            one part
python -m long --rounds 3               fewer rounds, for a try
"""

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from long import parts
from long.parts import Figures
from tests.chaos import strikes
from tests.chaos.faults import FAULTS, ON_SMALL_DISKS, Extent
from tests.fuzz.parsers import PARSERS

RESULTS = Path(__file__).parent / "results" / "latest.json"
VICTIMS: dict[str, strikes.Strike] = {
    "worker": strikes.worker,
    "engine": strikes.engine,
    "adb_server": strikes.adb_server,
    "emulator": strikes.emulator,
    "reboot": strikes.reboot,
    "fleet": strikes.fleet,
    "dispatcher": strikes.dispatcher,
    "host": strikes.everything_of_the_host,
}

Part = Callable[[Callable[[str], None]], Figures]


def all_parts(rounds: int, seed: int, histories: int, seconds: float) -> dict[str, Part]:
    """Name → part, in the order in which they run."""
    found: dict[str, Part] = {
        "protocol": lambda _: parts.command_part(
            "protocol", "-m", "tests.protocol.driver", "--histories", str(histories), "--seed", str(seed),
            "--processes", "2",
        ),
        "exclusion": lambda _: parts.pytest_part("exclusion", "tests/e2e/test_exclusion.py"),
        "limit": lambda _: parts.pytest_part("limit", "tests/e2e/test_limit.py", "-m", "long or not long"),
        "buttons": lambda _: parts.pytest_part("buttons", "tests/chaos/test_buttons.py"),
        "messages": lambda _: parts.command_part("messages", "-m", "tests.workflows.garbage", "--json"),
        "forged": lambda _: parts.command_part("forged", "-m", "tests.workflows.forged", "--json"),
        "cold_updates": lambda _: parts.pytest_part("cold_updates", "tests/workflows/test_cold_updates.py"),
        "flood": lambda _: parts.pytest_part("flood", "tests/e2e/test_flood.py"),
        "fuzz": lambda _: parts.pytest_part("fuzz", "tests/api/test_fuzz.py", "-k", "without_a_key"),
        "fuzz_with_key": lambda _: parts.pytest_part("fuzz_with_key", "tests/api/test_fuzz.py", "-k", "behind_a_key"),
        "half_open": parts.half_open,
        "effects": lambda progress: parts.effects(50 * rounds, round(2.5 * rounds), seed, progress),
        "stall": lambda progress: parts.stall(max(1, rounds // 5), progress),
        "resume": lambda progress: parts.resume(rounds, seed, progress),
        "subscriptions": parts.subscriptions,
        "rollback": lambda progress: parts.rollback(rounds, seed, progress),
        "engine_away": lambda progress: parts.crash_engine_away(rounds, 60.0, seed, progress),
    }  # fmt: skip
    for parser in PARSERS:
        found[f"fuzz_{parser.name}"] = _fuzz(parser.name, 30 * rounds, seed)
    for name, strike in VICTIMS.items():
        found[f"crash_{name}"] = _crash(name, strike, rounds, seed)
    for name in FAULTS:
        found[f"crash_{name}"] = _fault(name, Extent(rounds, seed, seconds))
    found["others"] = lambda _: parts.pytest_part(
        "others",
        "tests",
        "--ignore=tests/e2e",
        "--ignore=tests/conformance",
        "--ignore=tests/protocol",
        "--ignore=tests/api/test_fuzz.py",
        "--ignore=tests/workflows/test_cold_updates.py",
        "--ignore=tests/api/test_subscriptions_outage.py",
    )
    return found


def _fuzz(parser: str, seconds: int, seed: int) -> Part:
    line = ("-m", "tests.fuzz", "--seconds", str(seconds), "--seed", str(seed), parser)
    return lambda _: parts.command_part(f"fuzz_{parser}", *line)


def _crash(name: str, strike: strikes.Strike, rounds: int, seed: int) -> Part:
    return lambda progress: parts.crash(name, strike, rounds, seed, progress)


def _fault(name: str, extent: Extent) -> Part:
    if name in ON_SMALL_DISKS:
        return lambda _: parts.fault_in_namespace(name, extent)
    return lambda progress: parts.fault(name, extent, progress)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m long", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--part", action="append", help="only this part; may be given several times")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=20_261_118)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of a fault: no new round after so long, for a try"
    )
    parser.add_argument("--away", type=float, default=60.0, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if options.part == ["engine_away_farm"]:
        figures = parts.crash("engine_away", strikes.engine_away(options.away), options.rounds, options.seed, _quiet)
        sys.stdout.write(json.dumps(figures.as_json()))
        return 0 if figures.passed else 1
    if options.part and options.part[0].startswith("namespace_"):
        extent = Extent(options.rounds, options.seed, options.seconds)
        figures = parts.fault(options.part[0].removeprefix("namespace_"), extent, _quiet)
        sys.stdout.write(json.dumps(figures.as_json()))
        return 0 if figures.passed else 1
    chosen = all_parts(options.rounds, options.seed, options.histories, options.seconds)
    if unknown := sorted({*(options.part or ())} - chosen.keys()):
        parser.error(f"there is no part {unknown[0]}; known are: {', '.join(chosen)}")
    if options.part:
        chosen = {name: part for name, part in chosen.items() if name in options.part}
    results = _run(chosen)
    _write(results, complete=not options.part, seed=options.seed)
    if options.json:
        sys.stdout.write(json.dumps([figures.as_json() for figures in results], indent=1))
    else:
        _show(results)
    return 0 if all(figures.passed for figures in results) else 1


def _quiet(_: str) -> None:
    pass


def _run(chosen: dict[str, Part]) -> list[Figures]:
    """One part after the other. A part that breaks is a miss, and the others go on."""
    results: list[Figures] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("long", total=len(chosen))
        for name, part in chosen.items():
            bar.update(task, description=name)
            began = time.monotonic()
            try:
                figures = part(lambda text: bar.update(task, description=text))
            except Exception:  # noqa: BLE001 - the runner's own edge: the other parts still have to run
                figures = Figures(name, passed=False, problems=[traceback.format_exc()[-4000:]])
            figures.seconds = round(time.monotonic() - began, 1)
            results.append(figures)
            bar.advance(task)
    return results


def _write(results: list[Figures], *, complete: bool, seed: int) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() and not complete else {"parts": {}}
    merged = {**before["parts"], **{figures.name: figures.as_json() for figures in results}}
    document = {
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "seed": seed,
        "parts": merged,
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def _show(results: list[Figures]) -> None:
    table = Table("part", "seconds", "", "figures", title="long")
    for figures in results:
        text = ", ".join(f"{k}={v}" for k, v in figures.figures.items())
        table.add_row(figures.name, f"{figures.seconds:.0f}", "ok" if figures.passed else "MISS", text)
    Console().print(table)
    for figures in results:
        for problem in figures.problems:
            Console(stderr=True).print(f"[red]{figures.name}[/red]", problem, markup=False)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # everything it started has ended; the interpreter's own exit may crash in the SDK's threads
