"""How fast and how reliably templates are located: droidherd, OpenCV's plain search and Airtest in turns."""

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Watch
from bench.vision.cases import NEAR, Case, cases
from bench.vision.decide import frame_to_decision
from bench.vision.rivals import Airtest, Answer, Ours, PlainOpenCv

CASES = 600
SEED, HELD_OUT = 20_261_119, 4_711
"""The first set, and one that was never looked at while the search was written."""
REPEATS = 3
"""Asked so often in turns; the median counts. Airtest, which takes longest, is asked once."""
OPENCV_THRESHOLDS = (0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Row:
    """One case: what each said, whether it was right, and how long it took."""

    kind: str
    present: bool
    hinted: bool
    ours: bool
    ours_ms: float
    unhinted_ms: float
    opencv: tuple[bool, ...]
    """By threshold."""
    opencv_ms: float
    airtest: bool | None = None
    airtest_ms: float = 0.0


async def measure(_rounds: int, watch: Watch) -> list[Figure]:
    return await asyncio.to_thread(_measure, watch)


def _measure(watch: Watch) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, Airtest(Path(folder)) as airtest:
        rows = compare(
            CASES, SEED, airtest, lambda done: watch("locating, in turns with OpenCV and Airtest", done * 0.7)
        )
    held_out = compare(CASES, HELD_OUT, None, lambda done: watch("locating, other seed", 0.7 + done * 0.25))
    watch("frame to decision", 0.95)
    return [*figures(rows, held_out), *frame_to_decision()]


def compare(count: int, seed: int, airtest: Airtest | None, progress: Callable[[float], None]) -> list[Row]:
    """One row per case of a set."""
    rows: list[Row] = []
    for case in cases(count, seed):
        progress(case.number / count)
        rows.append(_row(case, airtest))
    return rows


def _row(case: Case, airtest: Airtest | None) -> Row:
    ours, opencv = Ours(case), PlainOpenCv(case)
    hinted = case.hint is not None
    words: list[tuple[Answer, Answer, Answer]] = []
    for turn in range(REPEATS):
        # In turns, and each of them goes first now and then.
        first = opencv.ask() if turn % 2 else None
        words.append((ours.ask(hinted=hinted), ours.ask(hinted=False), first or opencv.ask()))
    with_hint, without, plain = ([one[index] for one in words] for index in range(3))
    answer, best = words[0][0], words[0][2]
    other = airtest.ask(case) if airtest else None
    return Row(
        kind=case.kind,
        present=case.truth is not None,
        hinted=hinted,
        ours=case.solved(answer.found, answer.centre) and case.solved(words[0][1].found, words[0][1].centre),
        ours_ms=_median_ms(with_hint),
        unhinted_ms=_median_ms(without),
        opencv=tuple(case.solved(best.score >= least, best.centre) for least in OPENCV_THRESHOLDS),
        opencv_ms=_median_ms(plain),
        airtest=case.solved(other.found, other.centre) if other else None,
        airtest_ms=other.time_ms if other else 0.0,
    )


def _median_ms(answers: Iterable[Answer]) -> float:
    return statistics.median(one.time_ms for one in answers)


# --- figures --------------------------------------------------------------------------------------------------------


def figures(rows: Sequence[Row], held_out: Sequence[Row]) -> list[Figure]:
    """What was promised, and what is there to be read beside it."""
    hints = sum(row.hinted for row in rows) / len(rows)
    both = [row for row in rows if row.ours and row.opencv[0]]
    with_airtest = [row for row in rows if row.ours and row.airtest]
    return [
        _speedup("opencv", [(row.opencv_ms, row.ours_ms) for row in both], f"hint in {hints:.0%} of the cases"),
        _speedup("airtest", [(row.airtest_ms, row.ours_ms) for row in with_airtest], "the same"),
        _speedup("opencv_no_hint", [(row.opencv_ms, row.unhinted_ms) for row in both], "no hints", None),
        _speedup("airtest_no_hint", [(row.airtest_ms, row.unhinted_ms) for row in with_airtest], "no hints", None),
        _speedup("airtest_present", [(row.airtest_ms, row.ours_ms) for row in with_airtest if row.present], "", None),
        *_rates("locate", [(row, row.ours) for row in rows], at_most=(0.02, 0.05)),
        *_rates("locate_held_out", [(row, row.ours) for row in held_out], at_most=(0.02, 0.05)),
        *(
            figure
            for index, least in enumerate(OPENCV_THRESHOLDS)
            for figure in _rates(f"opencv_{least:g}", [(row, row.opencv[index]) for row in rows])
        ),
        *_rates("airtest", [(row, bool(row.airtest)) for row in rows]),
        Figure("locate_p50_ms", statistics.median(row.unhinted_ms for row in rows), "ms", note="no hints"),
        Figure("locate_p95_ms", statistics.quantiles([row.unhinted_ms for row in rows], n=20)[-1], "ms"),
        Figure("opencv_p50_ms", statistics.median(row.opencv_ms for row in rows), "ms"),
        Figure("airtest_p50_ms", statistics.median(row.airtest_ms for row in rows), "ms"),
    ]


def _speedup(name: str, pairs: list[tuple[float, float]], note: str, at_least: float | None = 10.0) -> Figure:
    """Total time over total time: what a machine saves. The median of the ratios says what a usual case saves."""
    if not pairs:
        raise RuntimeError(f"no case was solved by both: {name}")
    usual = statistics.median(theirs / ours for theirs, ours in pairs)
    value = sum(theirs for theirs, _ in pairs) / sum(ours for _, ours in pairs)
    words = f"{len(pairs)} cases both solve; median of ratios {usual:.1f}" + (f"; {note}" if note else "")
    return Figure(f"locate_speedup_vs_{name}", value, at_least=at_least, note=words)


def _rates(
    name: str, words: list[tuple[Row, bool]], at_most: tuple[float | None, float | None] = (None, None)
) -> list[Figure]:
    absent = [(row.kind, right) for row, right in words if not row.present]
    present = [(row.kind, right) for row, right in words if row.present]
    near = [right for kind, right in absent if kind in NEAR]
    wrong = f"; near-duplicates {near.count(False)} of {len(near)}"
    return [
        Figure(f"{name}_false_positive_rate", _share(absent), at_most=at_most[0], note=_by_kind(absent) + wrong),
        Figure(f"{name}_miss_rate", _share(present), at_most=at_most[1], note=_by_kind(present)),
    ]


def _share(words: list[tuple[str, bool]]) -> float:
    return sum(not right for _, right in words) / len(words)


def _by_kind(words: list[tuple[str, bool]]) -> str:
    kinds = sorted({kind for kind, _ in words})
    counts = {kind: [right for one, right in words if one == kind] for kind in kinds}
    return ", ".join(f"{kind} {rights.count(False)}/{len(rights)}" for kind, rights in counts.items())
