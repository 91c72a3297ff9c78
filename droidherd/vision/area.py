"""Areas of a frame. Pure."""

from droidherd.domain.ports import Box, Frame


def clipped(area: Box | None, frame: Frame) -> Box:
    """The part of an area that is on the frame; all of the frame without one."""
    if area is None:
        return Box(0, 0, frame.width, frame.height)
    left, top = max(0, area.x), max(0, area.y)
    right, bottom = min(frame.width, area.x + area.width), min(frame.height, area.y + area.height)
    return Box(left, top, max(0, right - left), max(0, bottom - top))
