"""One look at the screen: a frame, and what else is asked of it, each fetched or worked out once at most."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from droidherd.domain.ports import Frame

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
