"""Areas of frames: what of one lies on the screen, and how much of one moved between two frames."""

from typing import Any

import cv2

from droidherd.domain.ports import Box, Frame
from droidherd.vision.pixels import of_frame

LEVELS = 12
"""Of a channel: what differs by less is the noise of a picture that stands still."""


def clip(area: Box | None, frame: Frame) -> Box:
    """The part of an area that is on the frame; all of the frame without one."""
    if area is None:
        return Box(0, 0, frame.width, frame.height)
    left, top = max(0, area.x), max(0, area.y)
    right, bottom = min(frame.width, area.x + area.width), min(frame.height, area.y + area.height)
    return Box(left, top, max(0, right - left), max(0, bottom - top))


def share_moved(before: Frame, after: Frame, area: Box | None = None) -> float:
    """The share of pixels that changed, 0 to 1. A screen of another size has changed altogether."""
    if (before.width, before.height) != (after.width, after.height):
        return 1.0
    within = clip(area, after)
    if not within.width or not within.height:
        return 0.0
    rows, columns = slice(within.y, within.y + within.height), slice(within.x, within.x + within.width)
    apart: Any = cv2.absdiff(of_frame(before)[rows, columns], of_frame(after)[rows, columns])
    alike: Any = cv2.inRange(apart, (0, 0, 0, 0), (LEVELS, LEVELS, LEVELS, 255))
    whole = within.width * within.height
    return (whole - cv2.countNonZero(alike)) / whole
