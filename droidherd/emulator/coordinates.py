"""From places on a frame to places of the input, so that a tap lands on what was seen.

Android gives both in the same coordinates, those of the display as it is turned. Not so where the size was overridden
and `screencap` does not know, and on emulators whose frames never turn. Frames leave here upright, and places on them
are scaled to the display, of which `dumpsys display` tells the size and the rotation.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from droidherd.domain.errors import InvalidFrameError
from droidherd.domain.ports import Frame

FRESH_S = 5.0
"""How long an answer about the display holds at most while frames keep their size and nothing of ours stirs it."""
LOOKS = 3
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
DISPLAY_LINE = "dumpsys display | grep DisplayViewport"
"""From Android 7 to 15 the same words, one by one or in a list."""
_VIEWPORT = re.compile(r"DisplayViewport\{([^{}]*)\}")
_ID = re.compile(r"\bdisplayId=(\d{1,9})\b")
_TURNS = re.compile(r"\borientation=([0-3])\b")
_FRAME = re.compile(r"\blogicalFrame=Rect\((-?\d{1,6}), ?(-?\d{1,6}) - (-?\d{1,6}), ?(-?\d{1,6})\)")


@dataclass(frozen=True, slots=True)
class Display:
    """One display as apps and touches see it: turned already, and with an override of its size."""

    display_id: int
    width: int
    height: int
    turns: int
    """By how many quarters what is shown is turned against the panel, clockwise."""


def displays_in(text: str) -> tuple[Display, ...]:
    """Those that are there, the default one first. Each once, though it may have a viewport for touch as well."""
    found: dict[int, Display] = {}
    for one in _VIEWPORT.finditer(text):
        display = _display(one[1])
        if display is not None:
            found.setdefault(display.display_id, display)
    return tuple(found[number] for number in sorted(found))


def default_display(text: str) -> Display | None:
    """The one that frames are of and touches go to."""
    return next((one for one in displays_in(text) if one.display_id == 0), None)


def _display(words: str) -> Display | None:
    number, turns, frame = _ID.search(words), _TURNS.search(words), _FRAME.search(words)
    if "valid=false" in words or not (number and turns and frame):
        return None
    left, top, right, bottom = (int(side) for side in frame.groups())
    if right <= left or bottom <= top:
        return None
    return Display(int(number[1]), right - left, bottom - top, int(turns[1]))


@dataclass(slots=True)
class CoordinateMap:
    """Shared by the hands and the eyes of one attempt."""

    ask: Callable[[], Display | None]
    """How the display is now; None when the emulator does not say."""
    now: Callable[[], float] = time.monotonic
    _frame: tuple[int, int] = (0, 0)
    """The size of the frame that was given last."""
    _raw: tuple[int, int] = (0, 0)
    """As it came."""
    _display: Display | None = None
    _asked_s: float = field(default=float("-inf"))
    _stirred_s: float = field(default=float("-inf"))

    def stir(self) -> None:
        """Something was done that may turn or resize the display, at once or a moment later."""
        self._stirred_s = self.now()

    def to_display(self, x: int, y: int) -> tuple[int, int]:
        """Where to touch what was seen at (x, y)."""
        if self._frame[0] and self._asked_s <= self._stirred_s:
            self._learn()
        (width, height), display = self._frame, self._display
        if display is None or not width or (width, height) == (display.width, display.height):
            return x, y
        return _scale(x, width, display.width), _scale(y, height, display.height)

    def tree_on_frame(self, tree: str) -> str:
        """The elements of a screen, with their bounds on the frame that was given last."""
        (width, height), display = self._frame, self._display
        if display is None or not width or (width, height) == (display.width, display.height):
            return tree

        def on_frame(found: re.Match[str]) -> str:
            left, top, right, bottom = map(int, found.groups())
            across, down = width / display.width, height / display.height
            return f"[{round(left * across)},{round(top * down)}][{round(right * across)},{round(bottom * down)}]"

        return _BOUNDS.sub(on_frame, tree)

    def see(self, look: Callable[[], Frame]) -> Frame:
        """One frame, upright."""
        frame = look()
        raw = frame.width, frame.height
        if raw != self._raw or self._is_stale():
            self._display, self._asked_s = self.ask(), self.now()
        if self._display is not None and _lies(frame, self._display):
            frame, raw = self._wait_while_turning(look)
        self._frame, self._raw = (frame.width, frame.height), raw
        return frame

    def _is_stale(self) -> bool:
        """After a stir an answer holds only for as long again as it came after it: things need time to settle."""
        return self.now() - self._asked_s > min(FRESH_S, max(0.0, self._asked_s - self._stirred_s))

    def _learn(self) -> Display | None:
        self._display, self._asked_s = self.ask(), self.now()
        return self._display

    def _wait_while_turning(self, look: Callable[[], Frame]) -> tuple[Frame, tuple[int, int]]:
        """A frame that lies while the display stands. It may just be turning: both are asked until they agree."""
        before = self._learn()
        for _ in range(LOOKS):
            frame = look()
            after = self._learn()
            if before == after and after is not None:
                raw = frame.width, frame.height
                if not _lies(frame, after):
                    return frame, raw
                if after.turns % 2:
                    return upright(frame, after.turns), raw
            before = after
        raise InvalidFrameError("the frame does not lie as the display does, or turns while it is looked at")


def upright(frame: Frame, turns: int) -> Frame:
    """A frame in the panel's own position, turned back by as many quarters as the display is turned."""
    rows = np.frombuffer(frame.rgba, np.uint8).reshape(frame.height, frame.width, 4)
    turned = np.rot90(rows, turns)
    return Frame(turned.shape[1], turned.shape[0], turned.tobytes(), frame.taken_at_s)


def _lies(frame: Frame, display: Display) -> bool:
    """Whether one is wide and the other is tall."""
    return (frame.width - frame.height) * (display.width - display.height) < 0


def _scale(place: int, size: int, target: int) -> int:
    """The middle of a pixel stays the middle."""
    return min(target - 1, (2 * place + 1) * target // (2 * size))
