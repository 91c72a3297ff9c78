"""The last frames of all emulators of a process, encoded, within a limit of bytes; the oldest go first.

`FrameBuffer.add` takes a frame as it is. A thread of the buffer encodes it and works a fifth of the time at most, so no
step waits for it, and a hundred emulators cannot use up a core. A frame that shows nothing new is not kept twice.
"""

import threading
import time
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from droidherd import telemetry
from droidherd.domain.errors import InvalidFrameError
from droidherd.domain.ports import Frame

LIMIT_BYTES = 64 << 20
PER_EMULATOR = 24
WAITING_MAX = 4
"""Frames that wait to be encoded; when more come, one of whoever was served last goes unseen, the oldest first."""
REST = 4.0
"""So many times as long as it worked, the encoder rests."""
REST_MAX_S = 0.5
ENTRY_BYTES = 256
"""What an entry costs beside its picture."""

Encode = Callable[[Frame], bytes]


@dataclass(frozen=True, slots=True)
class BufferedFrame:
    """One frame of the frame buffer."""

    taken_at_s: float
    """On the host's monotonic clock."""
    last_at_s: float
    """When the screen was last seen like this; on every frame between the two it was."""
    width: int
    height: int
    content: bytes
    """JPEG."""
    by: str
    """Who looked: the task, or a viewer."""


@dataclass(slots=True, eq=False)
class _Entry:
    emulator_id: str
    by: str
    taken_at_s: float
    last_at_s: float
    width: int
    height: int
    number: int
    """Of its emulator's frames; of the last one it stands for."""
    frame: Frame | None
    """As it was taken, until it is encoded."""
    content: bytes = b""
    checksum: int = 0

    @property
    def size(self) -> int:
        return ENTRY_BYTES + (len(self.frame.rgba) if self.frame is not None else len(self.content))

    def shot(self) -> BufferedFrame:
        return BufferedFrame(self.taken_at_s, self.last_at_s, self.width, self.height, self.content, self.by)


class FrameBuffer:
    """For several emulators and several threads."""

    def __init__(self, encode: Encode, limit_bytes: int = LIMIT_BYTES, *, rest: float = REST) -> None:
        """Nothing is kept, and no thread runs before the first frame."""
        self._encode = encode
        self._limit = limit_bytes
        self._rest = rest
        self._news = threading.Condition()
        self._kept: OrderedDict[int, _Entry] = OrderedDict()
        self._by_emulator: dict[str, deque[_Entry]] = {}
        self._waiting: deque[_Entry] = deque()
        self._bytes = 0
        self._numbers: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def add(self, emulator_id: str, frame: Frame, by: str = "task") -> None:
        """Take one in. Returns at once: the frame is neither copied nor encoded here."""
        at_s = frame.taken_at_s
        entry = _Entry(emulator_id, by, at_s, at_s, frame.width, frame.height, 0, frame)
        with self._news:
            if self._closed.is_set() or entry.size > self._limit:
                return
            self._numbers[emulator_id] += 1
            entry.number = self._numbers[emulator_id]
            row = self._by_emulator.setdefault(emulator_id, deque())
            row.append(entry)
            self._kept[id(entry)] = entry
            self._waiting.append(entry)
            self._bytes += entry.size
            if len(self._waiting) > WAITING_MAX:
                self._drop(max(self._waiting, key=self._served_s))
            if len(row) > PER_EMULATOR:
                self._drop(row[0])
            while self._bytes > self._limit:
                self._drop(next(iter(self._kept.values())))
            self._begin()
            self._news.notify()

    def latest(self, emulator_id: str) -> BufferedFrame | None:
        """The newest, encoded by now."""
        found = self.last(emulator_id, 1)
        return found[0] if found else None

    def seen_at_s(self, emulator_id: str) -> tuple[float, str]:
        """When the newest frame was taken, and for whom; long ago when there is none."""
        with self._news:
            row = self._by_emulator.get(emulator_id)
            return (row[-1].last_at_s, row[-1].by) if row else (float("-inf"), "")

    def last(self, emulator_id: str, count: int, since_s: float = float("-inf")) -> tuple[BufferedFrame, ...]:
        """The newest ones, oldest first. What waits to be encoded is encoded by the caller."""
        with self._news:
            # Also the one the encoder has in hand just now: made twice it is the same.
            raw = [one for one in self._by_emulator.get(emulator_id, ()) if one.frame is not None]
            self._waiting = deque(one for one in self._waiting if one.emulator_id != emulator_id)
        for entry in raw:
            self._finish(entry)
        with self._news:
            row = [one for one in self._by_emulator.get(emulator_id, ()) if one.content and one.last_at_s >= since_s]
            return tuple(one.shot() for one in row[-count:])

    def close(self) -> None:
        """Keep nothing any more."""
        with self._news:
            self._closed.set()
            self._kept.clear()
            self._by_emulator.clear()
            self._waiting.clear()
            self._bytes = 0
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join()

    # --- inside -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="frame buffer", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._news:
                while not self._waiting:
                    if self._closed.is_set():
                        return
                    self._news.wait()
                entry = self._waiting.popleft()
            began_s = time.monotonic()
            self._finish(entry)
            telemetry.metrics.frame_buffer.labels(state="kept").set(self._bytes)
            if self._closed.wait(min(REST_MAX_S, self._rest * (time.monotonic() - began_s))):
                return

    def _finish(self, entry: _Entry) -> None:
        """From pixels to a file, or to nothing when it shows what the one before shows."""
        frame = entry.frame
        if frame is None:
            return
        checksum = zlib.crc32(frame.rgba)
        with self._news:
            before = self._before(entry)
            if before is not None and before.checksum == checksum and (before.width, before.height) == (
                entry.width, entry.height,
            ):  # fmt: skip
                self._again(before, entry)
                return
        try:
            content = self._encode(frame)
        except InvalidFrameError:
            content = b""
        with self._news:
            if id(entry) in self._kept and entry.frame is not None:
                self._settle(entry, content, checksum)

    def _again(self, before: _Entry, entry: _Entry) -> None:
        """The same picture. Where a frame between the two went unseen, nobody knows that it showed the same."""
        if entry.number <= before.number + 1:
            before.last_at_s, before.by = max(before.last_at_s, entry.last_at_s), entry.by
            before.number = max(before.number, entry.number)
            self._drop(entry)
        elif id(entry) in self._kept and entry.frame is not None:
            self._settle(entry, before.content, before.checksum)

    def _settle(self, entry: _Entry, content: bytes, checksum: int) -> None:
        self._bytes -= entry.size
        entry.frame, entry.content, entry.checksum = None, content, checksum
        self._bytes += entry.size

    def _before(self, entry: _Entry) -> _Entry | None:
        """The one right before, if it is encoded."""
        last = None
        for one in self._by_emulator.get(entry.emulator_id, ()):
            if one is entry:
                return last
            last = one if one.content else None
        return None

    def _served_s(self, entry: _Entry) -> float:
        """From when the newest encoded frame of this one's emulator is. Of a hundred that look, each gets its share."""
        row = reversed(self._by_emulator[entry.emulator_id])
        return next((one.taken_at_s for one in row if one.content), float("-inf"))

    def _drop(self, entry: _Entry) -> None:
        if self._kept.pop(id(entry), None) is None:
            return
        self._bytes -= entry.size
        row = self._by_emulator[entry.emulator_id]
        row.remove(entry)
        if not row:
            del self._by_emulator[entry.emulator_id]
        if entry in self._waiting:
            self._waiting.remove(entry)
