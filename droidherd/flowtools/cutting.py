"""Which piece of a frame is worth looking for: around a tapped place, or newly there. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame
from droidherd.vision.match import find
from droidherd.vision.pixels import Pixels, of_frame
from droidherd.vision.template import Template, check_template

THRESHOLD = 0.9
GAP = 0.1
"""By so much the second-best place has to be worse than what counts as found."""
SIDE_MIN = 14
SHARE_MAX = 0.12
"""Of the screen: a larger piece holds things that change."""
INSET = 2
"""The edge of an element belongs half to what is behind it."""
SQUARES = (24, 36, 48, 72, 96, 128)
"""Half sides of what is tried around a place where nothing stands out."""
AREA_MIN = 0.06
CANDIDATES_MAX = 12
_CHANGED = 12
"""Levels of grey by which a pixel has to differ to count as changed."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a frame that is found there exactly once."""

    box: Box
    area: Box | None = None
    """Where it has to be searched for, when there is something like it elsewhere."""


def around(frame: Frame, point: tuple[int, int], elements: Sequence[Box] = ()) -> Cut | None:
    """A piece whose centre may be tapped in the place of `point`. None: nothing there is like nothing else.

    `elements`: what the emulator says is there, if it does.
    """
    candidates = [*_limit(_about(frame, point, elements))]
    for box in candidates:
        if _found_once(frame, box, None):
            return Cut(box)
    for box in candidates:
        area = _vicinity(frame, box)
        if _found_once(frame, box, area):
            return Cut(box, area)
    return None


def news(before: Frame, after: Frame, elements: Sequence[Box] = ()) -> Cut | None:
    """A piece of `after` that shows that something came of it: there once, and before nowhere."""
    if (before.width, before.height) != (after.width, after.height):
        return None
    for box in _limit(_find_new(before, after, elements)):
        if _found_once(after, box, None) and not is_seen(before, picture(after, box)):
            return Cut(box)
    return None


def is_seen(frame: Frame, rgb: Pixels, area: Box | None = None, *, gap: float = GAP) -> bool:
    """Whether a picture might be taken for something on the frame. What comes within `gap` might."""
    try:
        return find(frame, Template("cut", rgb), threshold=THRESHOLD, area=area).score > THRESHOLD - gap
    except FlowError:
        return False


def picture(frame: Frame, box: Box) -> Pixels:
    part = of_frame(frame)[box.y : box.y + box.height, box.x : box.x + box.width]
    return np.asarray(cv2.cvtColor(part, cv2.COLOR_RGBA2RGB), np.uint8)


def png(rgb: Pixels) -> bytes:
    good, content = cv2.imencode(".png", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    if not good:
        raise FlowError("the image could not be written as PNG")
    return content.tobytes()


# --- candidates ----------------------------------------------------------------------------------------------


def _about(frame: Frame, point: tuple[int, int], elements: Sequence[Box]) -> Iterator[Box]:
    """From what is meant most likely: elements, then what stands out, then more and more of the surroundings."""
    holding = [_inner(box) for box in elements if _holds(box, point)]
    yield from sorted(holding, key=_size)
    yield from sorted((box for box in _patches(_edges(frame)) if _holds(box, point)), key=_size)
    for half in SQUARES:
        yield _square(frame, point, half)


def _find_new(before: Frame, after: Frame, elements: Sequence[Box]) -> Iterator[Box]:
    """Elements and patches that lie in what changed, the largest first: small things come and go by themselves."""
    changed = cv2.absdiff(_grey(before), _grey(after)) > _CHANGED
    inner = [_inner(box) for box in elements if _share(changed, box)]
    yield from sorted((box for box in inner if _fits(after, box)), key=_size, reverse=True)
    edges = np.where(changed, _edges(after), np.uint8(0)).astype(np.uint8)
    yield from sorted((box for box in _patches(edges) if _fits(after, box)), key=_size, reverse=True)


def _share(changed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], box: Box) -> bool:
    part = changed[max(0, box.y) : box.y + box.height, max(0, box.x) : box.x + box.width]
    return bool(part.size) and float(part.mean()) > 0.05  # noqa: PLR2004 - a new text changes little of its field


def _limit(boxes: Iterable[Box]) -> Iterator[Box]:
    seen: set[Box] = set()
    for box in boxes:
        if box not in seen and min(box.width, box.height) >= SIDE_MIN:
            seen.add(box)
            yield box
        if len(seen) == CANDIDATES_MAX:
            return


def _found_once(frame: Frame, box: Box, area: Box | None) -> bool:
    """There, exactly, and with a clear gap to whatever comes second."""
    if not _fits(frame, box):
        return False
    try:
        template = check_template(Template("cut", picture(frame, box)))
        match = find(frame, template, threshold=THRESHOLD, area=area)
    except FlowError:
        return False
    near = abs(match.box.x - box.x) <= 1 and abs(match.box.y - box.y) <= 1
    return match.found and near and match.runner_up <= THRESHOLD - GAP


def _fits(frame: Frame, box: Box) -> bool:
    inside = box.x >= 0 and box.y >= 0 and box.x + box.width <= frame.width and box.y + box.height <= frame.height
    small = _size(box) <= SHARE_MAX * frame.width * frame.height
    return inside and small and min(box.width, box.height) >= SIDE_MIN


def _vicinity(frame: Frame, box: Box) -> Box:
    """Where its like would not be: one size of it around, and something more for what is small."""
    across = max(box.width, round(AREA_MIN * frame.width))
    down = max(box.height, round(AREA_MIN * frame.height)) // 2
    left, top = max(0, box.x - across // 2), max(0, box.y - down)
    right = min(frame.width, box.x + box.width + across // 2)
    return Box(left, top, right - left, min(frame.height, box.y + box.height + down) - top)


def _holds(box: Box, point: tuple[int, int]) -> bool:
    return box.x <= point[0] < box.x + box.width and box.y <= point[1] < box.y + box.height


def _inner(box: Box) -> Box:
    if min(box.width, box.height) < SIDE_MIN + 2 * INSET:
        return box
    return Box(box.x + INSET, box.y + INSET, box.width - 2 * INSET, box.height - 2 * INSET)


def _square(frame: Frame, point: tuple[int, int], half: int) -> Box:
    """Around the point, so that its centre is the point, also near the edge of the screen."""
    across = min(half, point[0], frame.width - 1 - point[0])
    down = min(half, point[1], frame.height - 1 - point[1])
    return Box(point[0] - across, point[1] - down, 2 * across, 2 * down)


def _size(box: Box) -> int:
    return box.width * box.height


def _grey(frame: Frame) -> Pixels:
    return np.asarray(cv2.cvtColor(of_frame(frame), cv2.COLOR_RGBA2GRAY), np.uint8)


def _edges(frame: Frame) -> Pixels:
    return np.asarray(cv2.Canny(_grey(frame), 60, 140), np.uint8)


def _patches(edges: Pixels) -> list[Box]:
    """What hangs together: words and buttons, once the gaps between their letters are closed."""
    joined = cv2.dilate(edges, np.ones((7, 15), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    return [Box(int(x), int(y), int(w), int(h)) for x, y, w, h, _ in stats[1:count]]
