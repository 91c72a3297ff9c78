"""How long an emulator idles between two tasks, against the pause between two activities of one workflow."""

import itertools
import statistics
import time
from pathlib import Path

from bench.figures import Figure, Watch
from bench.stand import Stand
from droidherd.virtual import journal

TASKS = 120
KIND = "five_taps"
TASK_S = 1.0
"""What such a task takes on its emulator, beside the work itself."""
RAW_ACTIVITIES = 100


async def measure(stand: Stand, rounds: int, watch: Watch) -> list[Figure]:
    ours: list[float] = []
    raw: list[float] = []
    loaded: list[float] = []
    await _ours(stand, "gap-warm", watch, 0.0)
    for turn in range(rounds):
        begun = turn / rounds
        watch("raw activities, one by one", begun)
        raw.append(statistics.median(await stand.raw_gaps_ms(f"gap-raw-{turn}", RAW_ACTIVITIES)))
        watch("tasks, one by one on each emulator", begun)
        ours.append(statistics.median(await _ours(stand, f"gap-{turn}", watch, begun)))
        watch("raw activities under the same load", begun)
        side_by_side = len(stand.emulators)
        crowd = await stand.raw_gaps_ms(f"gap-crowd-{turn}", 12, busy_s=TASK_S, side_by_side=side_by_side)
        loaded.append(statistics.median(crowd))
    ratios = [a / b for a, b in zip(ours, raw, strict=True)]
    under_load = [a / b for a, b in zip(ours, loaded, strict=True)]
    return [
        Figure("idle_gap_ratio", statistics.median(ratios), at_most=2.0, parts=tuple(ratios)),
        Figure(
            "idle_gap_ratio_same_load",
            statistics.median(under_load),
            note="raw side: one workflow per emulator at once, each activity as long as a task",
            parts=tuple(under_load),
        ),
        Figure("idle_gap_ms", statistics.median(ours), "ms", parts=tuple(ours)),
        Figure("raw_gap_ms", statistics.median(raw), "ms", parts=tuple(raw)),
        Figure("raw_gap_same_load_ms", statistics.median(loaded), "ms", parts=tuple(loaded)),
    ]


async def _ours(stand: Stand, prefix: str, watch: Watch, begun: float) -> list[float]:
    from_s = time.monotonic()
    await stand.start_tasks(prefix, TASKS, KIND)
    await stand.all_ended(prefix, TASKS, lambda done: watch(f"{prefix}: {done:.0%} of {TASKS} tasks ended", begun))
    return [gap for one in stand.emulators for gap in gaps_ms(stand.data / "virtual", one, from_s)]


def gaps_ms(state: Path, emulator: str, from_s: float) -> list[float]:
    """From the last command of one task (it lets go) to the first of the next (it seizes), by the journal."""
    seized: list[float] = []
    released: list[float] = []
    commands = (one for one in journal.read(state, emulator) if one.monotonic_s >= from_s)
    for _, stream in itertools.groupby(sorted(commands, key=_stream), key=_stream):
        line = list(stream)
        words = {word for command in line for word in command.argv[1:2] if command.argv[0] == "echo"}
        if any(word.startswith("dh:seized") for word in words):
            seized.append(line[0].monotonic_s)
        elif "dh:released" in words:
            released.append(line[-1].monotonic_s)
    following = sorted(seized)[1:]
    return [1000 * (after - before) for before, after in zip(sorted(released), following, strict=False)]


def _stream(command: journal.ExecutedCommand) -> tuple[int, int]:
    """Commands of one shell line belong together; between two of them a probe may run."""
    return command.boot, command.stream
