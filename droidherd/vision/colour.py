"""Colours: at a place, or as a patch in an area. Pure."""

import re
from typing import Any

import cv2
import numpy as np

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.vision.area import clip
from droidherd.vision.pixels import of_frame

HEX = re.compile(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})")
TOLERANCE = 24
"""Levels of each channel by which a colour may differ."""
_LEVELS = 255


def rgb_of(colour: str) -> tuple[int, int, int]:
    """From `#ff8800`."""
    found = HEX.fullmatch(colour)
    if found is None:
        raise FlowError(f"{colour[:40]!r} is not a colour", remedy="write it as in '#ff8800'")
    red, green, blue = (int(part, 16) for part in found.groups())
    return red, green, blue


def at(frame: Frame, place: tuple[int, int], colour: tuple[int, int, int], tolerance: int = TOLERANCE) -> Match:
    """Whether one pixel has this colour; the text is the colour it has."""
    x, y = place
    if not (0 <= x < frame.width and 0 <= y < frame.height):
        raise FlowError(f"{x},{y} is not on a screen of {frame.width}x{frame.height}")
    red, green, blue = (int(value) for value in of_frame(frame)[y, x, :3])
    apart = max(abs(one - other) for one, other in zip((red, green, blue), colour, strict=True))
    score = round(1 - apart / _LEVELS, 4)
    return Match(apart <= tolerance, Box(x, y, 1, 1), score, 0.0, text=f"#{red:02x}{green:02x}{blue:02x}")


def patch(
    frame: Frame, colour: tuple[int, int, int], *, share: float, tolerance: int = TOLERANCE, area: Box | None = None
) -> Match:
    """The largest connected patch of a colour; found when it covers at least `share` of the area, 0 to 1.

    The score is the part of what is asked for that is there, 1 when there is enough.
    """
    within = clip(area, frame)
    if not within.width or not within.height:
        raise FlowError("the area is empty", remedy="widen it")
    part = of_frame(frame)[within.y : within.y + within.height, within.x : within.x + within.width]
    low = np.array([*(max(0, level - tolerance) for level in colour), 0], np.uint8)
    high = np.array([*(min(_LEVELS, level + tolerance) for level in colour), _LEVELS], np.uint8)
    alike: Any = cv2.inRange(part, low, high)
    count, _, stats, _ = cv2.connectedComponentsWithStats(alike, connectivity=8)
    whole = within.width * within.height
    order = sorted(range(1, count), key=lambda n: (-int(stats[n, cv2.CC_STAT_AREA]), n))[:2]
    boxes = [_box(stats[n], within) for n in order]
    needed = max(1.0, share * whole)
    scores = [round(min(1.0, int(stats[n, cv2.CC_STAT_AREA]) / needed), 4) for n in order]
    if not order:
        return Match(found=False, box=within, score=0.0, runner_up=0.0)
    return Match(
        int(stats[order[0], cv2.CC_STAT_AREA]) >= needed,
        boxes[0],
        scores[0],
        scores[1] if scores[1:] else 0.0,
        runner_up_box=boxes[1] if boxes[1:] else None,
    )


def _box(stats: Any, within: Box) -> Box:
    left, top, width, height = (int(stats[n]) for n in range(4))
    return Box(within.x + left, within.y + top, width, height)
