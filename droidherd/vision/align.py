"""Lays a frame's piece onto the template's own pixels where the two are not of the same scale."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.vision.look import PreparedFrame
from droidherd.vision.pattern import Floats, Pattern, Slopes, median
from droidherd.vision.pixels import Pixels, halve

_STEPS = 5
_LEVELS = (3, 2, 1, 0)
_MARGIN = 0.06
_REDUCED_FROM = 1.2
_TOGETHER, _FIRM = (0.0, 0.3), (100.0, 0.0)
"""How stiff the scale is: against any change, and against another one across than down."""
_STRETCH = 0.03
_OUTLIER = 60.0
_SIDE_MIN, _STILL = 8, 0.02


@dataclass(frozen=True, slots=True)
class Alignment:
    """From places on the template to places on the frame, both counted from the left edge of the first pixel."""

    scale_x: float
    scale_y: float
    left: float
    top: float


@dataclass(frozen=True, slots=True)
class AlignedWindow:
    """The frame's piece on the template's grid, and where it lies on the frame."""

    rgb: Pixels
    lay: Alignment


def refine(looked: PreparedFrame, pattern: Pattern, lay: Alignment, doubt: float = 0.0) -> AlignedWindow:
    """Scale and place made exact, from coarse to fine, by what the template's slopes say.

    `doubt` is by how much, as a share, the scale may be wrong: then it is begun from three scales.
    """
    height, width = looked.rgba.shape[:2]
    margin_x, margin_y = (8 + _MARGIN * side * scale for side, scale in
                          ((pattern.width, lay.scale_x), (pattern.height, lay.scale_y)))  # fmt: skip
    left, top = max(0, int(lay.left - margin_x)), max(0, int(lay.top - margin_y))
    right = min(width, int(lay.left + pattern.width * lay.scale_x + margin_x) + 1)
    bottom = min(height, int(lay.top + pattern.height * lay.scale_y + margin_y) + 1)
    piece = looked.patch(left, top, right - left, bottom - top)
    shrink_x = shrink_y = 1.0
    if lay.scale_x > _REDUCED_FROM:
        # Averaged down to about the template's own resolution first: picking single pixels would drop detail.
        size = (max(1, round(piece.shape[1] / lay.scale_x)), max(1, round(piece.shape[0] / lay.scale_y)))
        shrink_x, shrink_y = size[0] / piece.shape[1], size[1] / piece.shape[0]
        piece = np.asarray(cv2.resize(piece, size, interpolation=cv2.INTER_AREA), np.uint8)
    local = Alignment(
        lay.scale_x * shrink_x, lay.scale_y * shrink_y, (lay.left - left) * shrink_x, (lay.top - top) * shrink_y
    )
    local = _best(piece, pattern, local, doubt)
    there = cv2.warpAffine(
        piece, _matrix(local), (pattern.width, pattern.height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    whole = Alignment(
        local.scale_x / shrink_x, local.scale_y / shrink_y, local.left / shrink_x + left, local.top / shrink_y + top
    )
    return AlignedWindow(np.asarray(there, np.uint8), whole)


def _matrix(lay: Alignment) -> NDArray[np.float64]:
    return np.array([
        [lay.scale_x, 0, 0.5 * lay.scale_x + lay.left - 0.5],
        [0, lay.scale_y, 0.5 * lay.scale_y + lay.top - 0.5],
    ])  # fmt: skip


def _best(piece: Pixels, pattern: Pattern, lay: Alignment, doubt: float) -> Alignment:
    greys = [np.asarray(cv2.cvtColor(piece, cv2.COLOR_RGB2GRAY), np.uint8)]
    while len(greys) <= max(_LEVELS):
        greys.append(halve(greys[-1]))
    if not doubt:
        return _exact(greys, pattern, lay, firm=True)
    starts = (_grow(lay, pattern, 1.0 + part * doubt) for part in (0.0, -2 / 3, 2 / 3))
    return min(
        (_exact(greys, pattern, start, firm=False) for start in starts), key=lambda one: _off(greys[0], pattern, one)
    )


def _grow(lay: Alignment, pattern: Pattern, factor: float) -> Alignment:
    """Larger or smaller around the same middle."""
    across, down = pattern.width * lay.scale_x, pattern.height * lay.scale_y
    return Alignment(lay.scale_x * factor, lay.scale_y * factor,
               lay.left - across * (factor - 1) / 2, lay.top - down * (factor - 1) / 2)  # fmt: skip


def _off(grey: Pixels, pattern: Pattern, lay: Alignment) -> float:
    """How badly it fits: what is far off counts no more than what is plainly off."""
    slopes = pattern.slopes(0)
    rest = _sample(grey, slopes, lay, 1.0) - slopes.values
    return float(np.minimum(np.abs(rest - median(rest)), _OUTLIER).mean())


def _sample(grey: Pixels, slopes: Slopes, lay: Alignment, size: float) -> Floats:
    across = (lay.scale_x * slopes.columns + (lay.left / size - 0.5)).astype(np.float32).reshape(-1, 1)
    down = (lay.scale_y * slopes.rows + (lay.top / size - 0.5)).astype(np.float32).reshape(-1, 1)
    there = cv2.remap(grey, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(there, np.float32).reshape(-1)


def _exact(greys: list[Pixels], pattern: Pattern, lay: Alignment, *, firm: bool) -> Alignment:
    """`firm`: the scale is known, but for a pixel of rounding, and only the place is searched for."""
    for level in _LEVELS:
        if level < len(pattern.levels) and min(pattern.levels[level].shape) >= _SIDE_MIN:
            lay = _newton_step(greys[level], pattern, level, lay, firm=firm)
    return lay


def _newton_step(grey: Pixels, pattern: Pattern, level: int, lay: Alignment, *, firm: bool) -> Alignment:
    """Newton steps on one level; a step that leads away from what was known is not taken."""
    slopes = pattern.slopes(level)
    size = float(1 << level)
    now, limit = lay, min(3.0 * size, 3.0 + _STRETCH * max(pattern.width, pattern.height))
    for number in range(_STEPS):
        rest = _sample(grey, slopes, now, size) - slopes.values
        # Edges a pixel away from their place look like outliers: they are left out only at the very end.
        late = level == 0 and number >= _STEPS - 2
        step = _step(slopes, rest, _FIRM if firm else _TOGETHER, late=late)
        moved = Alignment(
            now.scale_x + step[2], now.scale_y + step[3], now.left + step[0] * size, now.top + step[1] * size
        )
        if _far(moved, lay, pattern, limit):
            return lay
        now = moved
        if level and abs(step[0]) + abs(step[1]) < _STILL:
            break
    return now


def _step(slopes: Slopes, rest: Floats, stiff: tuple[float, float], *, late: bool) -> list[float]:
    left, columns = slopes.normal.copy(), slopes.jacobian
    if late:
        off = np.abs(rest - median(rest))
        used = off <= max(_OUTLIER, 3.5 * median(off))
        columns, rest = columns[used], rest[used]
        left = columns.T @ columns
    left[np.diag_indices(len(left))] += 1e-3 * np.diag(left) + 1e-3
    # Wider and higher go together: a screen is scaled as a whole, but for a pixel of rounding.
    alone, apart = ((left[2, 2] + left[3, 3]) * share for share in stiff)
    left[2:4, 2:4] += np.array([[alone + apart, -apart], [-apart, alone + apart]], np.float32)
    found = np.linalg.solve(left, columns.T @ rest)
    gain = max(0.3, 1.0 + float(found[4]))
    return [-float(one) / gain for one in found[:4]]


def _far(moved: Alignment, lay: Alignment, pattern: Pattern, limit: float) -> bool:
    """Whether a corner went further than a step of this level may take it."""
    right = (moved.scale_x - lay.scale_x) * pattern.width + moved.left - lay.left
    bottom = (moved.scale_y - lay.scale_y) * pattern.height + moved.top - lay.top
    return max(abs(moved.left - lay.left), abs(moved.top - lay.top), abs(right), abs(bottom)) > limit
