"""Live frames: what an emulator shows now, left in the store for whoever asked, by reference."""

import threading
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Protocol

from droidherd.contracts.fleet import FrameTaken, FrameWork
from droidherd.contracts.names import LIVE_FRAMES
from droidherd.domain.ports import Artifacts
from droidherd.emulator.onlooker import Onlookers
from droidherd.emulator.reel import Shot

EMULATORS_MAX = 1_000
SLOTS = 2
"""Per emulator: who reads the one before is not disturbed by the next one."""


class Watched(Protocol):
    """Gives frames that are fresh."""

    def frame(self, emulator_id: str) -> Shot: ...


class LiveFrames:
    """Of one worker."""

    def __init__(self, onlookers: Onlookers | Watched, artifacts: Artifacts) -> None:
        """Nothing is written before somebody looks."""
        self._onlookers = onlookers
        self._artifacts = artifacts
        self._lock = threading.Lock()
        self._written: OrderedDict[str, tuple[Shot, int, str]] = OrderedDict()

    def take(self, work: FrameWork) -> FrameTaken:
        """A fresh frame. One that shows what the last one showed is not written again."""
        shot = self._onlookers.frame(work.emulator_id)
        with self._lock:
            before, slot, name = self._written.get(work.emulator_id, (None, 0, ""))
            if before is None or before.content != shot.content:
                slot = (slot + 1) % SLOTS
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
