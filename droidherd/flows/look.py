"""One look at the screen: a frame, and what else is asked of it, each fetched or worked out once at most."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.ports import Box, Frame

T = TypeVar("T")


class Look:
    """Serves every check that is made of it, so that all of them speak of the same moment."""

    def __init__(self, frame: Frame, tree: Callable[[], str]) -> None:
        """`tree` asks the emulator for its elements: a little after the frame, and only if somebody needs them."""
        self.frame = frame
        self._tree = tree
        self._kept: dict[Hashable, object] = {}

    def tree(self) -> str:
        """The elements, as `uiautomator dump` writes them."""
        return self.once("tree", self._tree)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes, made once under this key."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])


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


def grown(box: Box, by: int) -> Box:
    """Larger on every side."""
    return Box(box.x - by, box.y - by, box.width + 2 * by, box.height + 2 * by)


def beside(box: Box, offset: tuple[float, float] | None, size: tuple[int, int]) -> tuple[int, int]:
    """The centre of what was found, or a place off it, in percent of its width and height."""
    across, down = box.centre()
    if offset is not None:
        across, down = across + round(offset[0] * box.width / 100), down + round(offset[1] * box.height / 100)
    if not (0 <= across < size[0] and 0 <= down < size[1]):
        raise ScreenNotReachedError(f"{across},{down} is not on the screen", remedy="mind the offset")
    return across, down
