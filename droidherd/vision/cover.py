"""Something lies over a part of it: the one difference that is no other content.

What lies over a template is solid, larger than letters, and takes no notice of what is below it: its outline does not
follow the template's own, and nothing of the template shines through. A changed letter is thin, a changed colour
ends where the template's shapes end.
"""

from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.vision.pattern import Pattern
from droidherd.vision.pixels import OPAQUE, Pixels, strongest

Mask: TypeAlias = NDArray[np.bool_]

SHARE_MIN, SHARE_MAX = 0.04, 0.3
"""Of the template's area: less is as small as a letter, and with more hidden nobody knows what it is."""
_SPREAD_MAX = 0.45
"""What differs, as seen through windows, is a little larger than what is hidden."""
_SIDE_MIN = 20
"""Smaller templates have no room for a cover beside what it leaves."""
_OFF_MIN = 10.0
_SOLID = 0.8
_THICK, _THICK_INSIDE = 0.09, 0.18
_THICK_MIN, _THICK_INSIDE_MIN = 3.0, 5.0
"""Half of the least thickness, as a share of the shorter side and in pixels; inside is what touches no edge."""
_AROUND = 8
_OUTLINE_SHARE = 0.45
_OUTLINE_MORE = 0.3
_LIKE_MAX, _SHINING_MAX = 0.5, 2000
"""How much what lies over it may look like what is below, by so many pixels at most."""
_STEEP, _PIXELS_MIN = 24, 12
_CROSS = np.ones((3, 3), np.uint8)


def find_cover(pattern: Pattern, there: Pixels, shown: Pixels, differing: Mask, noise: float) -> Mask | None:
    """The pixels that are hidden, if all that differs is hidden; None: something differs otherwise."""
    if min(pattern.width, pattern.height) < _SIDE_MIN or np.count_nonzero(differing) > _SPREAD_MAX * differing.size:
        return None
    rows, columns = _around(differing)
    off = strongest(np.asarray(cv2.absdiff(there[rows, columns], shown[rows, columns]), np.uint8))
    changed = _to_the_edge(np.asarray(off > max(_OFF_MIN, 3 * noise), np.uint8), (rows, columns), pattern)
    seen = differing[rows, columns]
    _, labels, stats, _ = cv2.connectedComponentsWithStats(_join(changed, seen), connectivity=8)
    hidden = np.zeros(differing.shape, np.bool_)
    for label in np.flatnonzero(np.bincount(labels[seen])):
        x, y, width, height = (int(one) for one in stats[label][:4])
        part = np.asarray(labels[y : y + height, x : x + width] == label, np.bool_)
        outline = _outline(part & (changed[y : y + height, x : x + width] > 0))
        top, left = rows.start + y, columns.start + x
        piece = slice(top, top + height), slice(left, left + width)
        if outline is None or not _foreign(pattern, there, shown, outline, piece):
            return None
        hidden[piece] |= outline
    middle = hidden[pattern.height // 2, pattern.width // 2]
    share = np.count_nonzero(hidden) / hidden.size
    return hidden if SHARE_MIN <= share <= SHARE_MAX and not middle else None


def _around(differing: Mask) -> tuple[slice, slice]:
    """Where anything differs, and a little around it."""
    x, y, width, height = cv2.boundingRect(differing.astype(np.uint8))
    return (slice(max(0, y - _AROUND), min(differing.shape[0], y + height + _AROUND)),
            slice(max(0, x - _AROUND), min(differing.shape[1], x + width + _AROUND)))  # fmt: skip


def _to_the_edge(changed: Pixels, where: tuple[slice, slice], pattern: Pattern) -> Pixels:
    """The outermost pixels are not judged: they go along with their neighbours."""
    rows, columns = where
    if rows.start == 0:
        changed[0] = changed[1]
    if rows.stop == pattern.height:
        changed[-1] = changed[-2]
    if columns.start == 0:
        changed[:, 0] = changed[:, 1]
    if columns.stop == pattern.width:
        changed[:, -1] = changed[:, -2]
    if pattern.mask is not None:
        changed &= (pattern.mask[where] > OPAQUE).astype(np.uint8)
    return changed


def _join(changed: Pixels, differing: Mask) -> Pixels:
    """What belongs together: changed pixels, and the gaps of a few pixels between them."""
    closed = cv2.morphologyEx(changed, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    return np.asarray(cv2.bitwise_or(closed, differing.astype(np.uint8)), np.uint8)


def _outline(changed: Mask) -> Mask | None:
    """The convex hull of what changed, if it is nearly filled and not thin."""
    if np.count_nonzero(changed) < _PIXELS_MIN:
        return None
    # The ends of each row have the same hull as all of it.
    down = np.flatnonzero(changed.any(axis=1))
    first, last = changed[down].argmax(axis=1), changed.shape[1] - 1 - changed[down, ::-1].argmax(axis=1)
    ends = np.stack([np.concatenate([first, last]), np.concatenate([down, down])], axis=1)
    hull = cv2.convexHull(ends.astype(np.int32))
    filled = np.zeros(changed.shape, np.uint8)
    cv2.fillConvexPoly(filled, hull, 1)
    if np.count_nonzero(changed) < _SOLID * np.count_nonzero(filled):
        return None
    return np.asarray(filled > 0, np.bool_)


def _foreign(pattern: Pattern, there: Pixels, shown: Pixels, outline: Mask, piece: tuple[slice, slice]) -> bool:
    """Thick, and without regard for what it lies on."""
    whole, middle = _continue_outline(outline, piece, pattern)
    deep = cv2.distanceTransform(whole, cv2.DIST_L2, 3)
    side = min(pattern.width, pattern.height)
    inside = whole.shape == (outline.shape[0] + 2, outline.shape[1] + 2)
    least = max(_THICK_INSIDE_MIN, _THICK_INSIDE * side) if inside else max(_THICK_MIN, _THICK * side)
    if float(deep.max()) < least:
        return False
    steep = strongest(np.ascontiguousarray(pattern.slope[piece])) > _STEEP
    inner = np.asarray(cv2.erode(whole, _CROSS, borderType=cv2.BORDER_CONSTANT, borderValue=1)[middle] > 0, np.bool_)
    rim = outline & ~inner
    # By chance as well, where there are edges everywhere.
    chance = np.count_nonzero(inner & steep) / max(1, np.count_nonzero(inner))
    if np.count_nonzero(rim & steep) > max(_OUTLINE_SHARE, _OUTLINE_MORE + chance) * np.count_nonzero(rim):
        return False
    if np.count_nonzero(inner & steep) < _PIXELS_MIN:
        return True
    places = np.flatnonzero(inner)
    rows, columns = np.divmod(places[:: 1 + len(places) // _SHINING_MAX], inner.shape[1])
    one, other = (picture[piece][rows, columns].astype(np.float32) for picture in (there, shown))
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    length = float(np.sqrt(np.sum(one * one) * np.sum(other * other)))
    return length < 1.0 or float(np.sum(one * other)) / length < _LIKE_MAX


def _continue_outline(
    outline: Mask, piece: tuple[slice, slice], pattern: Pattern
) -> tuple[Pixels, tuple[slice, slice]]:
    """As it may go on beyond the template's edge, where nobody looks: what reaches in from there has no rim there."""
    rows, columns = piece
    beyond = 2 + round(2 * max(_THICK_MIN, _THICK * min(pattern.width, pattern.height)))
    up, down = (beyond if rows.start <= 1 else 0), (beyond if rows.stop >= pattern.height - 1 else 0)
    left, right = (beyond if columns.start <= 1 else 0), (beyond if columns.stop >= pattern.width - 1 else 0)
    grown = np.pad(outline.astype(np.uint8), ((up, down), (left, right)), mode="edge")
    # Elsewhere it ends with its own last pixel.
    sides = tuple((int(not before), int(not after)) for before, after in ((up, down), (left, right)))
    first_row, first_column = up + sides[0][0], left + sides[1][0]
    middle = (
        slice(first_row, first_row + outline.shape[0]),
        slice(first_column, first_column + outline.shape[1]),
    )
    return np.asarray(np.pad(grown, sides), np.uint8), middle
