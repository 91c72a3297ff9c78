"""The displays of an emulator, from `dumpsys display`: how large what is on them is, and how it is turned. Pure."""

import re
from dataclasses import dataclass

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


def displays(text: str) -> tuple[Display, ...]:
    """Those that are there, the default one first. Each once, though it may have a viewport for touch as well."""
    found: dict[int, Display] = {}
    for one in _VIEWPORT.finditer(text):
        display = _display(one[1])
        if display is not None:
            found.setdefault(display.display_id, display)
    return tuple(found[number] for number in sorted(found))


def default(text: str) -> Display | None:
    """The one that frames are of and touches go to."""
    return next((one for one in displays(text) if one.display_id == 0), None)


def _display(words: str) -> Display | None:
    number, turns, frame = _ID.search(words), _TURNS.search(words), _FRAME.search(words)
    if "valid=false" in words or not (number and turns and frame):
        return None
    left, top, right, bottom = (int(side) for side in frame.groups())
    if right <= left or bottom <= top:
        return None
    return Display(int(number[1]), right - left, bottom - top, int(turns[1]))
