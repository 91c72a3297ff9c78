"""Places and areas in percent of the screen, so that a flow fits screens of any size, and what they are in pixels."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.ports import Box, Frame

EXPECT_MARGIN_PX = 4
"""An expected place may be as large as the picture itself, and no number of pixels is whole at every size."""
PLACEHOLDER: dict[str, Any] = {"type": "string", "pattern": r"^\$\{[a-z][a-z0-9_]*\}$"}
Percent: TypeAlias = Annotated[
    float,
    Field(ge=0, le=100),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 100}, PLACEHOLDER]}),
]
Point: TypeAlias = tuple[Percent, Percent]
"""Across and down."""


def _area(area: "tuple[float, float, float, float]") -> "tuple[float, float, float, float]":
    if area[0] >= area[2] or area[1] >= area[3]:
        raise ValueError("an area is [left, top, right, bottom] with left < right and top < bottom, in percent")
    return area


Area: TypeAlias = Annotated[tuple[Percent, Percent, Percent, Percent], AfterValidator(_area)]


def pixel(place: tuple[float, float], size: tuple[int, int]) -> tuple[int, int]:
    """From percent of the screen; 100 is the last pixel."""
    return round(place[0] / 100 * (size[0] - 1)), round(place[1] / 100 * (size[1] - 1))


def box_in(frame: Frame, area: tuple[float, float, float, float] | None) -> Box | None:
    """From percent of the screen."""
    return None if area is None else pixels_of(area, (frame.width, frame.height))


def pixels_of(area: tuple[float, float, float, float], size: tuple[int, int]) -> Box:
    """An area in percent, on a screen of this size."""
    left, right = (round(part * size[0] / 100) for part in (area[0], area[2]))
    top, bottom = (round(part * size[1] / 100) for part in (area[1], area[3]))
    return Box(left, top, right - left, bottom - top)


def grow(box: Box, by: int) -> Box:
    """Larger on every side."""
    return Box(box.x - by, box.y - by, box.width + 2 * by, box.height + 2 * by)


def expected_margin(width: int) -> int:
    """By how much an expected place is widened on a screen of this width."""
    return max(EXPECT_MARGIN_PX, width // 100)


def beside(box: Box, offset: tuple[float, float] | None, size: tuple[int, int]) -> tuple[int, int]:
    """The centre of what was found, or a place off it, in percent of its width and height."""
    across, down = box.centre()
    if offset is not None:
        across, down = across + round(offset[0] * box.width / 100), down + round(offset[1] * box.height / 100)
    if not (0 <= across < size[0] and 0 <= down < size[1]):
        raise ScreenNotReachedError(f"{across},{down} is not on the screen", remedy="mind the offset")
    return across, down
