"""Evidence: what a stage saw, and what it looked for, kept while it runs and put together when it ends badly."""

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from droidherd.domain.errors import (
    AbandonedError,
    DroidherdError,
    FencedError,
    InfrastructureError,
    InvalidFrameError,
    LateError,
    NotReleasedError,
    StillBusyError,
)
from droidherd.domain.ports import Frame, Match
from droidherd.emulator.reel import Shot
from droidherd.vision.pixels import encode_jpeg

LOOKS_MAX = 60
ROWS_MAX = 60
FRAMES = 8
FRAMES_BYTES = 6_000_000
QUALITY = 92
TEMPLATE_BYTES = 512_000
_IMAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\.png")
_STEP = re.compile(r"^step (\S+)")
SILENT = (FencedError, AbandonedError, LateError, NotReleasedError, StillBusyError)
"""Ends that say nothing of what is on the screen: the emulator is somebody else's, or its turn never came."""


@dataclass(frozen=True, slots=True)
class Sought:
    """One thing that was looked for, once."""

    at_s: float
    path: str
    what: str
    match: Match


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked for on one look after the other, each time with the same outcome."""

    sought: Sought
    """The last time."""
    since_s: float
    looks: int = 1

    def goes_on(self, one: Sought) -> bool:
        return self._outcome(self.sought) == self._outcome(one)

    def _outcome(self, one: Sought) -> tuple[str, str, bool, str]:
        """What was read where nothing was found is another thing each time, and so are scores."""
        return one.path, one.what, one.match.found, one.match.text if one.match.found else ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A JPEG, when it was taken, and what was looked for on it."""

    at: float
    """Seconds since 1970."""
    width: int
    height: int
    content: bytes
    sought: tuple[Sought, ...] = ()


@dataclass(slots=True)
class Trail:
    """Follows one stay: told of every look, and of everything that was sought."""

    sought: deque[Sought] = field(default_factory=lambda: deque(maxlen=LOOKS_MAX))
    rows: deque[Row] = field(default_factory=lambda: deque(maxlen=ROWS_MAX))
    """For people: a wait of a hundred looks is one row for each thing it sought."""
    last: Frame | None = None
    """On which something was sought last."""
    path: str = ""
    began_s: float = field(default_factory=time.monotonic)
    _looks_s: tuple[float, float] = (0.0, 0.0)
    """When something was sought last, and on the look before that."""

    def seen(self, path: str, what: str, frame: Frame, match: Match | None) -> None:
        self.path = path or self.path
        if match is not None:
            self.last = frame
            self.sought.append(Sought(frame.taken_at_s, path, what, match))
            self._write(self.sought[-1])
        elif self.last is None:
            self.last = frame

    def _write(self, one: Sought) -> None:
        """Into the row of the look before this one, or of this one, when it came out the same; else as a row."""
        if one.at_s != self._looks_s[0]:
            self._looks_s = one.at_s, self._looks_s[0]
        for number, row in enumerate(self.rows):
            if row.sought.at_s in self._looks_s and row.goes_on(one):
                self.rows[number] = Row(one, row.since_s, row.looks + (row.sought.at_s != one.at_s))
                return
        self.rows.append(Row(one, one.at_s))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the page shows. Texts may hold secrets until they are masked."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """What, in which order people want to read it."""
    error: str
    remedy: str
    step: str
    annotated: Picture | None = None
    """The frame on which something was sought last."""
    templates: dict[str, bytes] = field(default_factory=dict)
    """The images that were sought on it, as PNG."""
    pictures: tuple[Picture, ...] = ()
    rows: tuple[Row, ...] = ()
    offset_s: float = 0.0
    """From the clock of the rows to the calendar's."""
    log: tuple[str, ...] = ()
    app_log: str = ""


def worth_keeping(error: DroidherdError) -> bool:
    return not isinstance(error, SILENT)


def worth_asking(error: DroidherdError) -> bool:
    """Whether the emulator can be expected to answer a question about its log."""
    return not isinstance(error, InfrastructureError) or isinstance(error, InvalidFrameError)


def step_of(error: DroidherdError, trail: Trail) -> str:
    """The path of the step where it ended."""
    named = _STEP.match(error.to)
    return named[1].rstrip(":,") if named else trail.path


def annotated(trail: Trail, offset_s: float) -> Picture | None:
    """The frame something was sought on last, with all that was sought on it. `offset_s`: to the calendar's clock."""
    frame = trail.last
    if frame is None:
        return None
    here = tuple(one for one in trail.sought if one.at_s == frame.taken_at_s)
    content = encode_jpeg(frame, QUALITY)
    return Picture(frame.taken_at_s + offset_s, frame.width, frame.height, content, here)


def pictures(shots: tuple[Shot, ...], trail: Trail, offset_s: float) -> tuple[Picture, ...]:
    """The last frames of this stay, within a limit, oldest first."""
    kept: list[Picture] = []
    left = FRAMES_BYTES
    for shot in reversed(shots):
        left -= len(shot.content)
        if left < 0:
            break
        on_it = tuple(one for one in trail.sought if shot.taken_at_s <= one.at_s <= shot.last_at_s)
        kept.append(Picture(shot.taken_at_s + offset_s, shot.width, shot.height, shot.content, on_it))
    return tuple(reversed(kept))


def templates(sought: tuple[Sought, ...], read: Callable[[str], bytes]) -> dict[str, bytes]:
    """The flow's images among what was sought, by name. `read` raises DroidherdError for what is no image of it."""
    found: dict[str, bytes] = {}
    for name in dict.fromkeys(name for one in sought for name in _IMAGE.findall(one.what)):
        try:
            content = read(name)
        except (DroidherdError, OSError):
            continue
        if len(content) <= TEMPLATE_BYTES:
            found[name] = content
    return found
