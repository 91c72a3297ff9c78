"""Frames for viewers: people who look at an emulator while it works, or idles.

A task's own frames serve them while there are any. Else one capture is made for all who ask, one at a time per
emulator and a few per process. No step ever waits for a viewer: at worst its own capture shares the emulator with
one of theirs.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from droidherd.contracts.fleet import FrameTaken, FrameWork
from droidherd.domain.errors import InvalidFrameError, StillBusyError
from droidherd.domain.ids import LIVE_FRAMES
from droidherd.domain.ports import Artifacts, Frame
from droidherd.emulator.eyes import raise_lost
from droidherd.evidence.frame_buffer import BufferedFrame, FrameBuffer

BY_VIEWER = "viewer"
OWN_S = 0.5
"""A frame taken for a viewer serves the others for so long."""
TASKS_S = 1.5
"""A frame of the task's own: it looks several times a second, and what it saw last is what it acts on."""
LOOK_S = 3.0
AT_ONCE = 4
TURN_S = LOOK_S + 1.0

Take = Callable[[str, str, float], Frame]
"""Of an emulator, at a serial, within seconds."""
Assure = Callable[[str, str, float], None]
"""That this emulator answers at this serial, asked within seconds; EmulatorLostError when another one does."""


@dataclass(frozen=True, slots=True)
class ViewerPorts:
    """What they look with."""

    take: Take
    assure: Assure
    frame_buffer: FrameBuffer
    serial: Callable[[str], str]
    """Where an emulator is now; EmulatorLostError when this host does not know it."""
    look_s: float = LOOK_S
    now: Callable[[], float] = time.monotonic


class Viewers:
    """Of one process."""

    def __init__(self, onlooking: ViewerPorts, at_once: int = AT_ONCE) -> None:
        """`at_once`: captures for viewers in this process, all emulators together."""
        self._with = onlooking
        self._captures = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def frame(self, emulator_id: str) -> BufferedFrame:
        """A frame that is fresh, with the time it was taken."""
        kept = self._fresh(emulator_id)
        if kept is not None:
            return kept
        serial = self._with.serial(emulator_id)
        turn = self._turn(emulator_id)
        if not turn.acquire(timeout=TURN_S):
            raise StillBusyError("the capture before does not end", to=emulator_id)
        try:
            return self._fresh(emulator_id) or self._capture(emulator_id, serial)
        finally:
            turn.release()

    def _turn(self, emulator_id: str) -> threading.Lock:
        with self._lock:
            return self._turns.setdefault(emulator_id, threading.Lock())

    def _fresh(self, emulator_id: str) -> BufferedFrame | None:
        seen_at_s, by = self._with.frame_buffer.seen_at_s(emulator_id)
        if self._with.now() - seen_at_s > (OWN_S if by == BY_VIEWER else TASKS_S):
            return None
        return self._with.frame_buffer.latest(emulator_id)

    def _capture(self, emulator_id: str, serial: str) -> BufferedFrame:
        if not self._captures.acquire(timeout=self._with.look_s):
            raise StillBusyError("too many frames are being taken for viewers", to=emulator_id)
        try:
            with raise_lost():
                frame = self._with.take(emulator_id, serial, self._with.look_s)
                # Afterwards: an address that led elsewhere by then may have done so when the frame was taken.
                self._with.assure(emulator_id, serial, self._with.look_s)
        finally:
            self._captures.release()
        self._with.frame_buffer.add(emulator_id, frame, BY_VIEWER)
        shot = self._with.frame_buffer.latest(emulator_id)
        if shot is None:
            raise InvalidFrameError("the frame could not be encoded", to=emulator_id)
        return shot


EMULATORS_MAX = 1_000
FILES_PER_EMULATOR = 2
"""Per emulator: who reads the one before is not disturbed by the next one."""


class FreshFrames(Protocol):
    """Gives frames that are fresh."""

    def frame(self, emulator_id: str) -> BufferedFrame: ...


class LiveFrames:
    """Of one worker."""

    def __init__(self, viewers: Viewers | FreshFrames, artifacts: Artifacts) -> None:
        """Nothing is written before somebody looks."""
        self._viewers = viewers
        self._artifacts = artifacts
        self._lock = threading.Lock()
        self._written: OrderedDict[str, tuple[BufferedFrame, int, str]] = OrderedDict()

    def take(self, work: FrameWork) -> FrameTaken:
        """A fresh frame. One that shows what the last one showed is not written again."""
        shot = self._viewers.frame(work.emulator_id)
        with self._lock:
            before, slot, name = self._written.get(work.emulator_id, (None, 0, ""))
            if before is None or before.content != shot.content:
                slot = (slot + 1) % FILES_PER_EMULATOR
                name = f"frame-{work.emulator_id}-{slot}.jpg"
                self._artifacts.put(LIVE_FRAMES, name, shot.content, "image/jpeg", synced=False)
            self._written[work.emulator_id] = (shot, slot, name)
            while len(self._written) > EMULATORS_MAX:
                self._written.popitem(last=False)
        offset_s = time.time() - time.monotonic()
        return FrameTaken(
            name=name,
            taken_at=datetime.fromtimestamp(shot.last_at_s + offset_s, UTC),
            width=shot.width,
            height=shot.height,
            size=len(shot.content),
            by=shot.by,
        )
