"""Files on one emulator, by the sync protocol, under the same deadlines as everything else."""

import io
import struct
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from droidherd.adb.client import AdbClient
from droidherd.adb.wire import CallInterrupt, Deadline, Wire, WireClosedError, WireTimeoutError
from droidherd.domain.errors import BadParametersError, CommandFailedError, DiskFullError
from droidherd.domain.ports import Sink

HEAD = struct.Struct("<4sI")
STAT = struct.Struct("<4sIII")
CHUNK_BYTES = 64 << 10
PIECE_LIMIT_BYTES = 1 << 20
"""Adb's own pieces have 64 kB. Pieces without a byte would keep a transfer alive for ever."""
PATH_LIMIT_BYTES = 1024
PULL_LIMIT_BYTES = 256 << 20
REASON_LIMIT_BYTES = 64 << 10
FILE_MODE = 0o644
SLOWEST_BYTES_PER_S = 4 << 10
"""On average. Emulators send a thousand times as much."""
FLUSH_S = 60.0
"""How long an emulator may take to bring a whole file to its disk."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What `stat` says about a file on the emulator; a mode of 0 means that there is none."""

    mode: int
    size: int
    modified_s: int

    @property
    def exists(self) -> bool:
        return self.mode != 0


class Source(Protocol):
    """What can be read piece by piece."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a transfer may stand still, and who is told that it moves."""

    stall_s: float
    moved: Callable[[], None]

    def go_on(self, wire: Wire) -> None:
        self.moved()
        wire.renew(Deadline(self.stall_s))

    def follow(self, wire: Wire) -> Callable[[int], None]:
        """Told how much has come; an emulator that sends byte after byte must not keep a transfer alive for ever."""
        began_s = time.monotonic()

        def go_on(received: int) -> None:
            took_s = time.monotonic() - began_s
            if received < SLOWEST_BYTES_PER_S * (took_s - self.stall_s):
                raise WireTimeoutError(f"only {received} bytes came in {took_s:.1f} s")
            self.go_on(wire)

        return go_on


class DeviceFiles:
    """Push, pull and stat on one emulator: each call is one stream with one total deadline.

    `send` and `fetch` are for what may be large: they have a deadline for each piece instead.
    """

    def __init__(self, adb: AdbClient, serial: str, interrupt: CallInterrupt | None = None) -> None:
        """On the emulator at `serial`; `interrupt` ends any of the calls."""
        self._adb = adb
        self._serial = serial
        self._interrupt = interrupt

    def stat(self, path: str, deadline_s: float) -> RemoteFile:
        with self._stream(f"stat {path}", deadline_s) as wire:
            name = _path(path)
            wire.send(HEAD.pack(b"STAT", len(name)) + name)
            word, mode, size, modified_s = STAT.unpack(wire.exactly(STAT.size))
            if word != b"STAT":
                raise WireClosedError(f"the emulator answered {word!r} to STAT")
            return RemoteFile(mode, size, modified_s)

    def push(self, content: bytes, path: str, deadline_s: float, mode: int = FILE_MODE) -> None:
        """Write the whole file, or raise; a reader may see a part of it, so push beside and `mv` what matters."""
        with self._stream(f"push {path}", deadline_s) as wire:
            self._send(wire, io.BytesIO(content), _target(path, mode), lambda: None)
            self._read_status(wire, path)

    def send(self, source: Source, path: str, pace: Pace, mode: int = FILE_MODE) -> None:
        """Write a file of any size, piece by piece, from `source`."""
        target = _target(path, mode)
        with self._stream(f"push {path}", pace.stall_s) as wire:
            self._send(wire, source, target, lambda: pace.go_on(wire))
            wire.renew(Deadline(FLUSH_S))
            wire.pulse_with(pace.moved)
            self._read_status(wire, path)

    def pull(self, path: str, deadline_s: float, limit_bytes: int = PULL_LIMIT_BYTES) -> bytes:
        """The whole file."""
        content = io.BytesIO()
        with self._stream(f"pull {path}", deadline_s) as wire:
            self._receive(wire, path, content, limit_bytes, lambda _: None)
        return content.getvalue()

    def fetch(self, path: str, into: Sink, pace: Pace, limit_bytes: int) -> int:
        """Read a file of any size, piece by piece, into `into`; returns its size."""
        with self._stream(f"pull {path}", pace.stall_s) as wire:
            return self._receive(wire, path, into, limit_bytes, pace.follow(wire))

    def _send(self, wire: Wire, source: Source, target: bytes, moved: Callable[[], None]) -> None:
        parts = [HEAD.pack(b"SEND", len(target)) + target]
        while chunk := source.read(CHUNK_BYTES):
            # Small sends one by one would each wait for the emulator's acknowledgement.
            wire.send(b"".join((*parts, HEAD.pack(b"DATA", len(chunk)), chunk)))
            parts.clear()
            moved()
        wire.send(b"".join(parts) + HEAD.pack(b"DONE", 0))

    def _read_status(self, wire: Wire, path: str) -> None:
        word, size = HEAD.unpack(wire.exactly(HEAD.size))
        if word != b"OKAY":
            self._refuse(word, _reason(wire, size) if word == b"FAIL" else b"", path)

    def _receive(self, wire: Wire, path: str, into: Sink, limit_bytes: int, moved: Callable[[int], None]) -> int:
        name = _path(path)
        received = 0
        wire.send(HEAD.pack(b"RECV", len(name)) + name)
        while True:
            word, size = HEAD.unpack(wire.exactly(HEAD.size))
            if word == b"DONE":
                return received
            if word != b"DATA":
                self._refuse(word, _reason(wire, size) if word == b"FAIL" else b"", path)
            if not 0 < size <= PIECE_LIMIT_BYTES:
                raise WireClosedError(f"the emulator sent a piece of {size} bytes in a file transfer")
            received += size
            if received > limit_bytes:
                raise BadParametersError(f"{path} is larger than {limit_bytes} bytes", to=self._serial)
            into.write(wire.exactly(size))
            moved(received)

    @contextmanager
    def _stream(self, step: str, deadline_s: float) -> Generator[Wire]:
        with self._adb.service(self._serial, b"sync:", Deadline(deadline_s), self._interrupt, step=step) as wire:
            yield wire

    def _refuse(self, word: bytes, reason: bytes, path: str) -> None:
        if word != b"FAIL":
            raise WireClosedError(f"the emulator answered {word!r} in a file transfer")
        text = reason.decode("utf-8", "replace")
        if "No space left" in text:
            raise DiskFullError(text, to=f"{self._serial}:{path}", remedy="free space on the emulator")
        raise CommandFailedError(text, rc=1, to=f"{self._serial}:{path}")


def _reason(wire: Wire, size: int) -> bytes:
    """Why the emulator refused. A length that makes no sense is no reason to make room for it."""
    if size > REASON_LIMIT_BYTES:
        raise WireClosedError(f"the emulator gave a reason of {size} bytes in a file transfer")
    return wire.exactly(size)


def _target(path: str, mode: int) -> bytes:
    return _path(path) + b",%d" % (0o100000 | mode)


def _path(path: str) -> bytes:
    encoded = path.encode("utf-8", "surrogatepass")
    if "\0" in path or not path.startswith("/") or len(encoded) > PATH_LIMIT_BYTES:
        raise BadParametersError(f"{path!r} is not an absolute path on an emulator")
    return encoded
