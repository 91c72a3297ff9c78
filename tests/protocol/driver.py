"""Many histories from seeds, without hypothesis: `python -m tests.protocol.driver --histories 20000`.

A failing history prints its seed and its last steps, and `--seed N --histories 1` replays it.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.protocol.choices import Choices, Seeded
from tests.protocol.dispatchers import Change, no_change
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

CHUNK = 250


@dataclass(slots=True)
class Findings:
    """What a number of histories showed."""

    histories: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    broken: list[str] = field(default_factory=list)


def chunk(work: tuple[int, int, str, dict[str, bool]]) -> Findings:
    """Run the histories of seeds first, first + 1, …"""
    first, count, without, faults = work
    findings = Findings()
    for seed in range(first, first + count):
        findings.histories += 1
        counts, broken = judged(Seeded(seed), without, **faults)
        findings.counts += counts
        findings.broken += [f"seed {seed}: {one}" for one in broken]
    return findings


def judged(
    choices: Choices, without: str = "", change: Change = no_change, /, **faults: bool
) -> tuple[Counter[str], list[str]]:
    """What happened in one history, and the promise that was broken in it, with its last steps."""
    try:
        return history(choices, without, change, **faults).witness.counts, []
    except BrokenPromiseError as broken:
        return Counter(), ["\n".join([str(broken), *getattr(broken, "__notes__", [])])]


def run(
    first: int,
    histories: int,
    *,
    processes: int = 1,
    without: str = "",
    **faults: bool,
) -> Findings:
    """All of them, in chunks, over some processes. `faults`: kinds of them that a `World` can have, too."""
    starts = range(first, first + histories, CHUNK)
    chunks = [(at, min(CHUNK, first + histories - at), without, faults) for at in starts]
    total = Findings()
    if processes == 1:
        parts = [chunk(one) for one in chunks]
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            parts = pool.map(chunk, chunks, chunksize=1)
    for part in parts:
        total.histories += part.histories
        total.counts += part.counts
        total.broken.extend(part.broken)
    return total


def found(without: str, seeds: range, **faults: bool) -> list[str]:
    """Violations within these seeds, the first chunk that has any being enough."""
    for at in seeds[::CHUNK]:
        findings = chunk((at, min(CHUNK, seeds.stop - at), without, faults))
        if findings.broken:
            return findings.broken
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--without", default="", help="rules to switch off, to see them missed")
    parser.add_argument("--entities-end", action="store_true", help="terminate emulators and hosts, too")
    parser.add_argument(
        "--tasks-return", action="store_true", help="tasks go back to their emulator; journals are lost"
    )
    parser.add_argument("--forged", action="store_true", help="messages are forged, and counters lie hours ahead")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    findings = run(
        options.seed,
        options.histories,
        processes=options.processes,
        without=options.without,
        entities_end=options.entities_end,
        tasks_return=options.tasks_return,
        forged=options.forged,
    )
    seconds = time.perf_counter() - began
    report = {
        "histories": findings.histories,
        "seconds": round(seconds, 1),
        "histories_per_s": round(findings.histories / seconds, 1),
        "broken": findings.broken,
        "counts": dict(sorted(findings.counts.items())),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if findings.broken else 0


if __name__ == "__main__":
    sys.exit(main())
