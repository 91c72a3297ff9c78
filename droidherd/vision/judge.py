"""Is this the same picture? Looks where it differs, after taking away what may differ.

A frame shows a template a fraction of a pixel further, a little blurred, a little brighter, with noise. All of that is
one small filter for the whole picture: nine neighbours and a constant. The filter that explains the frame best is
fitted, leaving out the pixels that do not go along. What then remains, beyond noise and slopes, is another content.
"""

from dataclasses import dataclass
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.domain.ports import Box
from droidherd.vision.cover import find_cover
from droidherd.vision.pattern import OFFSET_UNIT, Floats, Pattern, median
from droidherd.vision.pixels import Pixels, strongest

Mask: TypeAlias = NDArray[np.bool_]

GAIN_MIN, GAIN_MAX = 0.72, 1.4
"""What still counts as the same at another brightness. Darker than that is something behind a dialog."""
OFFSET_MAX = 64.0
SAME_SHAPE = 0.6
"""From this score on a place shows the template with something changed; below, it shows something else."""

_EQUAL = 2
_DARK, _BRIGHT = 1, 254
_ROUNDS = 3
_RIDGE = 4.0
_NOISE_MIN, _NOISE_MAX = 1.0, 12.0
_NOISE_SHARE = 2.5


@dataclass(frozen=True, slots=True)
class Rule:
    """How much may remain."""

    window: int
    """Side of the window over which what remains is averaged."""
    slope: float
    """Of a pixel, per level by which its neighbours vary: places are not exact."""
    least: int
    """Of a window's mean."""
    contrast: float
    """Of a window's mean, per level of contrast around it."""
    moved: bool
    """Whether a neighbourhood may lie up to a pixel beside its place."""
    thick: int
    """What is thinner than so many pixels does not count."""
    edge: int
    """How many pixels along the edge are not judged."""


RIGID = Rule(window=5, slope=0.12, least=5, contrast=0.03, moved=False, thick=1, edge=1)
"""For a template on a screen like its own."""
LOOSE = Rule(window=5, slope=0.12, least=3, contrast=0.12, moved=True, thick=2, edge=3)
"""For one from another resolution: letters are placed anew there, word by word."""

_MOVES = ((0, 0), (-0.5, 0), (0.5, 0), (0, -0.5), (0, 0.5), (-1, 0), (1, 0), (0, -1), (0, 1),
          (-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5))  # fmt: skip
_NEIGHBOURHOOD = (17, 15)
_REACH = 9


@dataclass(frozen=True, slots=True)
class Fit:
    """How the template has to be filtered to look like the frame."""

    kernel: NDArray[np.float64]
    offset: float
    noise: float
    score: float

    @property
    def gain(self) -> float:
        return float(self.kernel.sum())


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one place."""

    score: float
    differs: Box | None
    """On the template; None with a high score: it is the same."""


def judge_place(pattern: Pattern, there: Pixels, rule: Rule) -> Comparison:
    """`there` is the frame's piece, as large as the pattern."""
    if pattern.mask is None and cv2.norm(there, pattern.rgb, cv2.NORM_INF) <= _EQUAL:
        return Comparison(1.0, None)
    fit = fit_pattern(pattern, there)
    whole = Box(0, 0, pattern.width, pattern.height)
    if not GAIN_MIN <= fit.gain <= GAIN_MAX or abs(fit.offset) > OFFSET_MAX:
        gain = max(0.0, min(fit.gain / GAIN_MIN, GAIN_MAX / max(fit.gain, GAIN_MAX)))
        return Comparison(round(fit.score * min(1.0, gain), 4), whole)
    if fit.score < SAME_SHAPE / 2:
        return Comparison(round(fit.score, 4), whole)
    shown = expected_pixels(pattern, fit)
    differing = _differing(pattern, there, shown, fit, rule)
    if not differing.any():
        return Comparison(round(_score(pattern, there, shown, fit.noise, pattern.counts), 4), None)
    hidden = find_cover(pattern, there, shown, differing, fit.noise)
    if hidden is not None:
        return Comparison(round(_score(pattern, there, shown, fit.noise, ~hidden), 4), None)
    return Comparison(round(_score(pattern, there, shown, fit.noise, pattern.counts), 4), _where(differing))


def fit_pattern(pattern: Pattern, there: Pixels) -> Fit:
    """Least squares, again without what stands out. One filter for all channels: a colour cannot be fitted away."""
    basis = pattern.basis
    x, y = basis.columns_of, there[basis.rows, basis.columns].T.reshape(-1).astype(np.float32)
    # Where the frame is as bright or dark as can be, brightness says nothing any more.
    usable = (y > _DARK) & (y < _BRIGHT)
    if np.count_nonzero(usable) < len(y) // 4:
        usable = np.ones(len(y), np.bool_)
    same = np.zeros(x.shape[1], np.float32)
    same[4] = 1.0
    rest = y - x[:, 4]
    off = np.abs(rest - median(rest[usable]))
    used = usable & (off <= max(20.0, 3 * median(off[usable])))
    found, noise = same, 0.0
    for _ in range(_ROUNDS):
        xs = x.compress(used, axis=0)
        left = xs.T @ xs
        left[np.diag_indices(len(left))] += _RIDGE * len(xs)
        found = same + np.linalg.solve(left, xs.T @ rest[used])
        off = np.abs(y - x @ found)
        noise = 1.4826 * median(off[usable])
        along = usable & (off < 3 * min(max(noise, 1.5), _NOISE_MAX) + 4)
        if np.array_equal(along, used) or not along.any():
            break
        used = along
    kernel = found[:9].reshape(3, 3).astype(np.float64)
    offset = float(found[9]) * OFFSET_UNIT
    return Fit(kernel, offset, noise, _correlation(y[usable], off[usable], noise))


def expected_pixels(pattern: Pattern, fit: Fit) -> Pixels:
    """The template as the frame should show it."""
    shown = cv2.filter2D(pattern.rgb, -1, fit.kernel, delta=fit.offset, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(shown, np.uint8)


def _correlation(values: Floats, off: Floats, noise: float) -> float:
    """A correlation that noise does not lower: the root of the share of the variance that is explained."""
    variance = float(np.var(values))
    if variance < 1.0:
        return 0.0
    left = max(0.0, float(np.mean(off * off)) - min(noise, _NOISE_MAX) ** 2)
    return float(np.sqrt(max(0.0, 1.0 - left / variance)))


def _score(pattern: Pattern, there: Pixels, shown: Pixels, noise: float, where: Mask) -> float:
    counts = (where & pattern.counts).astype(np.uint8)
    if not counts.any():
        return 0.0
    left = np.float32(cv2.norm(there, shown, cv2.NORM_L2SQR, counts) / (3 * np.count_nonzero(counts)))
    mean, spread = cv2.meanStdDev(there, mask=counts)
    variance = float(np.mean(spread**2) + np.var(mean))
    left = max(0.0, float(left) - min(noise, _NOISE_MAX) ** 2)
    return float(np.sqrt(max(0.0, 1.0 - left / variance))) if variance >= 1.0 else 0.0


def _differing(pattern: Pattern, there: Pixels, shown: Pixels, fit: Fit, rule: Rule) -> Mask:
    """The middles of windows in which too much remains."""
    noise = 1.0 + _NOISE_SHARE * min(max(fit.noise, _NOISE_MIN), _NOISE_MAX)
    allowed = pattern.allowed(rule.slope, rule.edge, noise)
    tolerated = pattern.tolerated(rule.least, rule.contrast)
    mean = _remaining(there, shown, allowed, rule)
    over = np.asarray(cv2.subtract(mean, tolerated), np.uint8)
    if rule.moved and over.any():
        # Only where something remained: the rest is settled.
        x, y, width, height = cv2.boundingRect(over)
        rows, columns = slice(max(0, y - _REACH), y + height + _REACH), slice(max(0, x - _REACH), x + width + _REACH)
        mean = _settle(there[rows, columns], shown[rows, columns], allowed[rows, columns], rule)
        over[rows, columns] = cv2.min(over[rows, columns], cv2.subtract(mean, tolerated[rows, columns]))
    return np.asarray(over > 0, np.bool_)


def _remaining(there: Pixels, shown: Pixels, allowed: Pixels, rule: Rule) -> Pixels:
    """What is left of the difference, averaged over a window around each pixel."""
    rest = strongest(np.asarray(cv2.subtract(cv2.absdiff(there, shown), allowed), np.uint8))
    if rule.thick > 1:
        rest = cv2.morphologyEx(rest, cv2.MORPH_OPEN, np.ones((rule.thick, rule.thick), np.uint8))
    return np.asarray(cv2.blur(rest, (rule.window, rule.window), borderType=cv2.BORDER_CONSTANT), np.uint8)


def _settle(there: Pixels, shown: Pixels, allowed: Pixels, rule: Rule) -> Pixels:
    """The same after each neighbourhood, a few letters wide, was moved by at most a pixel to where it fits best.

    One letter cannot choose for itself: another one would be moved until it looks like the one that was searched for.
    """
    height, width = there.shape[:2]
    best = np.full((height, width), np.float32(np.inf))
    settled = np.zeros((height, width), np.uint8)
    for across, down in _MOVES:
        move = np.array([[1, 0, across], [0, 1, down]], np.float64)
        moved = cv2.warpAffine(shown, move, (width, height), borderMode=cv2.BORDER_REPLICATE)
        off = strongest(np.asarray(cv2.absdiff(there, moved), np.uint8))
        cost = np.asarray(cv2.boxFilter(off, cv2.CV_32F, _NEIGHBOURHOOD), np.float32)
        better = (cost < best).astype(np.uint8)
        cv2.copyTo(cost, better, best)
        cv2.copyTo(_remaining(there, np.asarray(moved, np.uint8), allowed, rule), better, settled)
    return settled


def _where(differing: Mask) -> Box:
    """Around the largest of the differences."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(differing.astype(np.uint8), connectivity=8)
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    x, y, width, height = (int(one) for one in stats[largest][:4])
    return Box(x, y, width, height)
