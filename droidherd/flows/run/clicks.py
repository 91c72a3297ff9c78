"""The guard against loops of taps that get nowhere. Pure."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from droidherd.domain.ports import Frame

POINTS = 2_000
"""At so many points, more or less, frames are compared."""
NOTICEABLE = 24
"""The least difference of a point that is one, of 255."""
NEAR = 0.02
"""How near two taps on the same target are, as a part of the screen. Rows of a list look alike."""


@dataclass(slots=True)
class MadeTap:
    """One tap, and what the screen looked like before it."""

    target: str
    place: tuple[float, float]
    """As parts of the screen."""
    screen: bytes
    got_there: bool = False
    """What it was to bring about came true, on another screen."""

    def aims_as(self, other: "MadeTap") -> bool:
        """At the same thing, at the same place."""
        (x, y), (u, v) = self.place, other.place
        return self.target == other.target and abs(x - u) <= NEAR and abs(y - v) <= NEAR


class ClickGuard:
    """Remembers the last taps. One that brought about what it was to is no loop, however often it is made."""

    def __init__(self, taps: int, of: int, changed: float) -> None:
        """`taps` of the last `of` are too many; a screen of which less than `changed` percent differ is the same."""
        self._taps = taps
        self._changed = changed
        self._last: deque[MadeTap] = deque(maxlen=of)

    def judge(self, tap: MadeTap) -> str:
        """Remember a tap that is about to be made. Not empty: what it would be the last straw of."""
        self._last.append(tap)
        if not self._taps:
            return ""
        alike = [one for one in self._last if not one.got_there and self._repeats(one, tap)]
        if len(alike) >= self._taps:
            return f"{tap.target} {len(alike)} times of the last {len(self._last)}, and the screen stays as it is"
        return self._to_and_fro()

    def came_true(self, screen: bytes) -> None:
        """A post-condition holds, on this screen."""
        if self._last and not self._is_same(self._last[-1].screen, screen):
            self._last[-1].got_there = True

    def _to_and_fro(self) -> str:
        """Two targets by turns, each time on the screen of the time before."""
        count = 2 * (self._taps // 2)
        last = list(self._last)[-count:]
        if count < 4 or len(last) < count or last[0].aims_as(last[1]):  # noqa: PLR2004 -- twice each, at the least
            return ""
        pairs = zip(last, last[2:], strict=False)
        if not any(one.got_there for one in last) and all(self._repeats(old, new) for old, new in pairs):
            return f"{last[0].target} and {last[1].target} by turns, {count} taps, and the same two screens each time"
        return ""

    def _repeats(self, old: MadeTap, new: MadeTap) -> bool:
        return new.aims_as(old) and self._is_same(old.screen, new.screen)

    def _is_same(self, one: bytes, other: bytes) -> bool:
        if len(one) != len(other):
            return False
        before, after = (np.frombuffer(screen, np.uint8).astype(np.int16) for screen in (one, other))
        differing = int(np.count_nonzero(np.abs(before - after) > NOTICEABLE))
        return differing * 100 <= self._changed * max(1, len(one))


def look_of(frame: Frame) -> bytes:
    """What a frame looks like, at points spread over it: an odd stride falls on ever other columns."""
    step = (frame.width * frame.height // POINTS) | 1
    return memoryview(frame.rgba)[1 :: 4 * step].tobytes()
