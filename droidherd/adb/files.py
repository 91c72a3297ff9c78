"""Files on one emulator, by the sync protocol, under the same deadlines as everything else."""

import struct
from collections.abc import Generator
from contextlib import contextmanager

from droidherd.adb.client import AdbClient
from droidherd.adb.model import RemoteFile
from droidherd.adb.wire import Deadline, Interrupt, Wire, WireClosedError
from droidherd.domain.errors import BadParametersError, CommandFailedError, DiskFullError

HEAD = struct.Struct("<4sI")
STAT = struct.Struct("<4sIII")
CHUNK_BYTES = 64 << 10
PATH_LIMIT_BYTES = 1024
PULL_LIMIT_BYTES = 256 << 20
FILE_MODE = 0o644


class Files:
    """Push, pull and stat on one emulator. Each call is one stream with one total deadline."""

    def __init__(self, adb: AdbClient, serial: str) -> None:
        """On the emulator at `serial`."""
        self._adb = adb
        self._serial = serial

    def stat(self, path: str, deadline_s: float, interrupt: Interrupt | None = None) -> RemoteFile:
        with self._stream(deadline_s, interrupt) as wire:
            name = _path(path)
            wire.send(HEAD.pack(b"STAT", len(name)) + name)
            word, mode, size, modified_s = STAT.unpack(wire.exactly(STAT.size))
            if word != b"STAT":
                raise WireClosedError(f"the emulator answered {word!r} to STAT")
            return RemoteFile(mode, size, modified_s)

    def push(self, content: bytes, path: str, deadline_s: float, mode: int = FILE_MODE) -> None:
        """Write the whole file, or raise; a reader may see a part of it, so push beside and `mv` what matters."""
        target = _path(path) + b",%d" % (0o100000 | mode)
        with self._stream(deadline_s) as wire:
            view = memoryview(content)
            parts = [HEAD.pack(b"SEND", len(target)) + target]
            for start in range(0, len(view), CHUNK_BYTES):
                chunk = view[start : start + CHUNK_BYTES]
                parts.append(HEAD.pack(b"DATA", len(chunk)) + chunk)
                if len(parts) > 1:
                    # Small sends one by one would each wait for the emulator's acknowledgement.
                    wire.send(b"".join(parts))
                    parts.clear()
            wire.send(b"".join(parts) + HEAD.pack(b"DONE", 0))
            word, size = HEAD.unpack(wire.exactly(HEAD.size))
            if word != b"OKAY":
                self._refuse(word, wire.exactly(size) if word == b"FAIL" else b"", path)

    def pull(self, path: str, deadline_s: float, limit_bytes: int = PULL_LIMIT_BYTES) -> bytes:
        """The whole file."""
        name = _path(path)
        content = bytearray()
        with self._stream(deadline_s) as wire:
            wire.send(HEAD.pack(b"RECV", len(name)) + name)
            while True:
                word, size = HEAD.unpack(wire.exactly(HEAD.size))
                if word == b"DONE":
                    return bytes(content)
                if word != b"DATA":
                    self._refuse(word, wire.exactly(size) if word == b"FAIL" else b"", path)
                if len(content) + size > limit_bytes:
                    raise BadParametersError(f"{path} is larger than {limit_bytes} bytes", to=self._serial)
                content += wire.exactly(size)

    @contextmanager
    def _stream(self, deadline_s: float, interrupt: Interrupt | None = None) -> Generator[Wire]:
        with self._adb.service(self._serial, b"sync:", Deadline(deadline_s), interrupt) as wire:
            yield wire

    def _refuse(self, word: bytes, reason: bytes, path: str) -> None:
        if word != b"FAIL":
            raise WireClosedError(f"the emulator answered {word!r} in a file transfer")
        text = reason.decode("utf-8", "replace")
        if "No space left" in text:
            raise DiskFullError(text, to=f"{self._serial}:{path}", remedy="free space on the emulator")
        raise CommandFailedError(text, rc=1, to=f"{self._serial}:{path}")


def _path(path: str) -> bytes:
    encoded = path.encode("utf-8", "surrogatepass")
    if "\0" in path or not path.startswith("/") or len(encoded) > PATH_LIMIT_BYTES:
        raise BadParametersError(f"{path!r} is not an absolute path on an emulator")
    return encoded
