"""Where a pattern may be: coarse to fine, in grey. What is found here is a guess until it was judged."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from droidherd.domain.ports import Box
from droidherd.vision.look import PreparedFrame
from droidherd.vision.pattern import Floats, Pattern
from droidherd.vision.pixels import Pixels

PLACES_MAX = 10
_SMALL, _SMALL_PLACES_MAX = 120, 12
"""A pattern of so few pixels on the coarsest level looks like many things there; following them costs little."""
_MARGIN = 0.3
"""How much worse than the best a place may look on the coarsest level and still be followed."""
_MARGIN_FINE = 0.12
_KEPT_MIN = 6
"""Half of the guesses are given up on every level, but not below so many."""
_POOR_COARSE, _POOR, _KEPT_POOR = 0.65, 0.5, 3
"""Where the best is no better than that, the others are not followed for long."""
_HOPELESS, _HOPELESS_STEP = 0.4, 0.08
"""A place that is the right one looks better level by level, unless it is of another scale."""
_GLANCE_PLACES_MAX = 10
_AT_ONCE = 1 << 17
"""Places to be correlated at a time: fresh memory for millions of numbers costs more than what is done with them."""
_DIRECT_MAX = 96
"""Up to so many pixels, plain sums are quicker than what OpenCV does for larger ones (a Fourier transform)."""
_AROUND = 2
_PART_PLACES_MAX = 2
_PART_SCORE_MIN = 0.7
_FLAT = 1.0
"""Variance of grey below which a place shows nothing."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A place of one of the patterns, on one level."""

    pattern: int
    x: int
    y: int
    score: float


@dataclass(frozen=True, slots=True)
class TemplatePiece:
    """The area on one level of a frame, a little too large rather than too small."""

    looked: PreparedFrame
    level: int
    box: Box

    def grey(self, box: Box) -> Pixels:
        return self.looked.grey(self.level, box)


@dataclass(frozen=True, slots=True)
class Windows:
    """Of each window of one size: the sum of what is there, and that of its squares about the mean."""

    sums: Floats
    spread: Floats


def at_a_glance(looked: PreparedFrame, patterns: Sequence[Pattern], within: Box) -> list[Guess]:
    """The few best places from a level coarser than is safe; none where there is no such level."""
    if not all(one.glance > one.coarse for one in patterns):
        return []
    levels = [_level(looked, one, within, one.glance) for one in patterns]
    found = _follow(looked, patterns, levels, within, _GLANCE_PLACES_MAX)
    # Begun on a few pixels, the way down may end a pixel beside the place.
    part = _part(looked, within, 0)
    exact = (Guess(one.pattern, *_probe(part, patterns[one.pattern], [(one.x, one.y)], _AROUND)[0]) for one in found)
    return sorted(set(exact), key=_rank)


def guesses(looked: PreparedFrame, patterns: Sequence[Pattern], within: Box) -> list[Guess]:
    """Places on the full frame, best first."""
    return _follow(looked, patterns, [_level(looked, one, within, one.coarse) for one in patterns], within)


def _follow(
    looked: PreparedFrame, patterns: Sequence[Pattern], levels: list[int], within: Box, most: int | None = None
) -> list[Guess]:
    """The best of what each pattern looks like on its level, followed down to the frame."""
    found: list[Guess] = []
    for index, pattern in enumerate(patterns):
        (places,) = coarse(_part(looked, within, levels[index]), [pattern], most or _places(pattern))
        found += [replace(one, pattern=index) for one in places] if index else places
    best = max((one.score for one in found), default=0.0)
    kept = sorted((one for one in found if one.score >= best - _MARGIN), key=_rank)
    if most is None:
        poor = best < _POOR_COARSE and not any(map(_small, patterns))
        most = _KEPT_POOR if poor else max(map(_places, patterns))
    return _down(looked, patterns, levels, kept[:most], within)


def by_parts(looked: PreparedFrame, pattern: Pattern, within: Box) -> list[Guess]:
    """Places where one part of the pattern is plain to see: something may lie over the other."""
    parts = pattern.parts
    if not parts:
        return []
    pieces = [piece for piece, _, _ in parts]
    level = min(_level(looked, pattern, within, pattern.coarse), len(pieces[0].levels) - 1)
    plain = coarse(_part(looked, within, level), pieces, _PART_PLACES_MAX, _PART_SCORE_MIN)
    found: dict[tuple[int, int], Guess] = {}
    for (piece, left, top), places in zip(parts, plain, strict=True):
        for one in _down(looked, [piece], [level], places, within):
            guess = Guess(0, one.x - left, one.y - top, one.score)
            inside = within.x <= guess.x <= within.x + within.width - pattern.width
            inside &= within.y <= guess.y <= within.y + within.height - pattern.height
            if inside and one.score >= _PART_SCORE_MIN:
                found.setdefault((guess.x, guess.y), guess)
    return sorted(found.values(), key=_rank)


def nearby(looked: PreparedFrame, pattern: Pattern, hint: Box, within: Box) -> Guess:
    """The best place within a few pixels of a known one."""
    (place,) = _probe(_part(looked, within, 0), pattern, [(hint.x, hint.y)], _AROUND * 2)
    return Guess(0, *place)


def _down(
    looked: PreparedFrame, patterns: Sequence[Pattern], levels: list[int], kept: list[Guess], within: Box
) -> list[Guess]:
    """From each pattern's level to the frame itself."""
    hopeless = _HOPELESS
    for level in range(max(levels) - 1, -1, -1):
        if not kept:
            break
        if kept[0].score < hopeless:
            # Nothing will come of it: where it was best is said, and no more time spent.
            best, pattern = kept[0], patterns[kept[0].pattern]
            up = min(level + 1, levels[best.pattern])  # patterns begin on levels of their own
            x = min(best.x << up, within.x + within.width - pattern.width)
            y = min(best.y << up, within.y + within.height - pattern.height)
            return [Guess(best.pattern, max(x, within.x), max(y, within.y), best.score)]
        kept = _finer(_part(looked, within, level), patterns, [one > level for one in levels], kept)
        hopeless += _HOPELESS_STEP if len(patterns) == 1 else 0.0
    return kept


def _level(looked: PreparedFrame, pattern: Pattern, within: Box, level: int) -> int:
    """This one, or the next finer one on which the pattern fits into the area."""
    while level > 0:
        height, width = pattern.levels[level].shape
        box = _part(looked, within, level).box
        if width <= box.width and height <= box.height:
            break
        level -= 1
    return level


def _part(looked: PreparedFrame, within: Box, level: int) -> TemplatePiece:
    size = 1 << level
    left, top = within.x // size, within.y // size
    right = min(looked.frame.width // size, -(-(within.x + within.width) // size))
    bottom = min(looked.frame.height // size, -(-(within.y + within.height) // size))
    return TemplatePiece(looked, level, Box(left, top, max(0, right - left), max(0, bottom - top)))


def _rank(one: Guess) -> tuple[float, int, int]:
    return -one.score, one.y, one.x


def coarse(part: TemplatePiece, patterns: Sequence[Pattern], most: int, least: float = 0.01) -> list[list[Guess]]:
    """Of each of some patterns of one size, the best places on a level, half a pattern away from the better ones."""
    grey, level = part.grey(part.box), part.level
    height, width = patterns[0].levels[level].shape
    rows, columns = grey.shape[0] - height + 1, grey.shape[1] - width + 1
    at_once = -(-rows // max(1, round(rows * columns / _AT_ONCE)))
    found: list[list[Guess]] = [[] for _ in patterns]
    for top in range(0, rows, at_once):
        strip = grey[top : top + at_once + height - 1]
        windows = _windows(strip, width, height)
        for pattern, places in zip(patterns, found, strict=True):
            mask = pattern.masks[level] if pattern.masks else None
            if mask is not None and mask.any():
                scores = _correlate_masked(strip, pattern.levels[level], mask)
            else:
                scores = _correlate(strip, pattern.levels[level], windows)
            enough = max([least, *(one.score - _MARGIN for one in places)])
            for x, y, score in _peaks(scores, width, height, most, enough):
                places.append(Guess(0, part.box.x + x, part.box.y + top + y, score))
    return found if at_once >= rows else [_distinct(places, width, height)[:most] for places in found]


def _distinct(found: list[Guess], width: int, height: int) -> list[Guess]:
    """Strips know nothing of each other: what two of them found beside their border is one place."""
    kept: list[Guess] = []
    for one in sorted(found, key=_rank):
        if all(abs(one.x - other.x) > width // 2 or abs(one.y - other.y) > height // 2 for other in kept):
            kept.append(one)
    return kept


def _windows(grey: Pixels, width: int, height: int) -> Windows:
    rows, columns = grey.shape[0] - height + 1, grey.shape[1] - width + 1
    sums = cv2.boxFilter(grey, cv2.CV_32F, (width, height), anchor=(0, 0), normalize=False)[:rows, :columns]
    squares = cv2.sqrBoxFilter(grey, cv2.CV_32F, (width, height), anchor=(0, 0), normalize=False)[:rows, :columns]
    count = float(width * height)
    spread = np.asarray(cv2.scaleAdd(cv2.multiply(sums, sums), -1.0 / count, squares), np.float32)
    return Windows(np.asarray(sums, np.float32), np.maximum(spread, np.float32(_FLAT * count), out=spread))


def _correlate(grey: Pixels, wanted: Pixels, windows: Windows) -> Floats:
    """The square of the normalised correlation, with its sign.

    What TM_CCOEFF_NORMED computes; its own normalisation takes three times as long as everything here.
    """
    product = _product(grey, wanted)
    mean, spread = (float(one[0, 0]) for one in cv2.meanStdDev(wanted))
    length = max(1e-3, spread * math.sqrt(wanted.size))
    scores = np.asarray(cv2.addWeighted(product, 1 / length, windows.sums, -mean / length, 0.0), np.float32)
    scores *= np.abs(scores)
    scores /= windows.spread
    return scores


def _product(grey: Pixels, wanted: Pixels) -> Floats:
    """At each place, the sum of what is there times what is wanted."""
    if wanted.size > _DIRECT_MAX:
        return np.asarray(cv2.matchTemplate(grey, wanted, cv2.TM_CCORR), np.float32)
    height, width = wanted.shape
    product = cv2.filter2D(grey.astype(np.float32), -1, wanted.astype(np.float32), anchor=(0, 0))
    return np.asarray(product[: grey.shape[0] - height + 1, : grey.shape[1] - width + 1], np.float32)


def _correlate_masked(grey: Pixels, wanted: Pixels, mask: Pixels) -> Floats:
    scores = np.asarray(cv2.matchTemplate(grey, wanted, cv2.TM_CCOEFF_NORMED, mask=mask), np.float32)
    # Over flat ground the formula divides by zero; flat ground is never what was searched for.
    scores = np.nan_to_num(scores, copy=False, nan=-1.0, posinf=-1.0, neginf=-1.0)
    scores *= np.abs(scores)
    return scores


def _small(pattern: Pattern) -> bool:
    """Whether its coarsest level has so few pixels that many places look alike there."""
    return pattern.levels[pattern.coarse].size < _SMALL


def _places(pattern: Pattern) -> int:
    return _SMALL_PLACES_MAX if _small(pattern) else PLACES_MAX


def _peaks(scores: Floats, width: int, height: int, most: int, least: float) -> list[tuple[int, int, float]]:
    """The best places, each at least half a pattern away from the better ones."""
    found: list[tuple[int, int, float]] = []
    across, down = max(1, width // 2), max(1, height // 2)
    for _ in range(most):
        _, high, _, (x, y) = cv2.minMaxLoc(scores)
        score = math.sqrt(max(0.0, high))
        if score < least:
            break
        if not found:
            least = max(least, score - _MARGIN)
        found.append((x, y, score))
        scores[max(0, y - down) : y + down + 1, max(0, x - across) : x + across + 1] = -1.0
    return found


def _finer(part: TemplatePiece, patterns: Sequence[Pattern], due: list[bool], guessed: list[Guess]) -> list[Guess]:
    """One level further down, those that are `due`. Two guesses that meet become one."""
    seen: dict[tuple[int, int, int], Guess] = {}
    for index in dict.fromkeys(one.pattern for one in guessed):
        found = [one for one in guessed if one.pattern == index]
        if due[index]:
            places = _probe(part, patterns[index], [(one.x * 2, one.y * 2) for one in found], _AROUND)
            found = [Guess(index, *place) for place in places]
        for one in found:
            seen.setdefault((one.pattern, one.x, one.y), one)
    ranked = sorted(seen.values(), key=_rank)
    poor = ranked[0].score < _POOR and not any(map(_small, patterns))
    most = _KEPT_POOR if poor else max(_KEPT_MIN, len(ranked) * 2 // 3)
    return [one for one in ranked[:most] if one.score >= ranked[0].score - _MARGIN_FINE]


def _probe(
    part: TemplatePiece, pattern: Pattern, places: list[tuple[int, int]], around: int
) -> list[tuple[int, int, float]]:
    """The best place around each of these, by some of the pixels."""
    probe, box = pattern.probe(part.level), part.box
    rows, columns = box.height - probe.height + 1, box.width - probe.width + 1
    if rows < 1 or columns < 1:
        return [(x, y, -1.0) for x, y in places]
    down, across = min(2 * around + 1, rows), min(2 * around + 1, columns)
    lefts = [min(max(x - around, box.x), box.x + columns - across) for x, _ in places]
    tops = [min(max(y - around, box.y), box.y + rows - down) for _, y in places]
    left, top = min(lefts), min(tops)
    grey = part.looked.pixels(
        part.level,
        Box(left, top, max(lefts) - left + across - 1 + probe.width, max(tops) - top + down - 1 + probe.height),
    )
    # One row per place around one of them, one column per sample.
    stride = grey.pixels.shape[1]
    starts = np.array([(y - grey.top) * stride + x - grey.left for x, y in zip(lefts, tops, strict=True)])
    beside = (np.arange(down)[:, None] * stride + np.arange(across)).reshape(-1)
    index = (starts[:, None] + beside).reshape(-1, 1) + (probe.rows * stride + probe.columns)
    values = grey.pixels.reshape(-1).take(index).astype(np.float32)
    count = np.float32(values.shape[1])
    sums = values @ np.ones_like(probe.values)
    spread = np.maximum(np.einsum("ij,ij->i", values, values) - sums * sums / count, np.float32(_FLAT) * count)
    # What is compared with has no mean: that of the frame need not be taken away.
    scores = (values @ probe.values / np.sqrt(spread)).reshape(len(places), -1)
    best = scores.argmax(axis=1).tolist()
    return [
        (x + at % across, y + at // across, float(line[at]))
        for x, y, at, line in zip(lefts, tops, best, scores, strict=True)
    ]
