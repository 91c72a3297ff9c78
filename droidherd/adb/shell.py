"""A shell command on an emulator: the frames of `shell,v2`, read as they come, and its result."""

import struct
from dataclasses import dataclass

from droidherd.adb.wire import Wire, WireClosedError

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = 0, 1, 2, 3, 4
HEADER = struct.Struct("<BI")
CHUNK_BYTES = 1 << 16
OUTPUT_LIMIT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class ShellResult:
    """A command that ran to its end on the emulator: its exit frame arrived."""

    rc: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.err.decode("utf-8", "replace")


def stdin_frames(data: bytes) -> bytes:
    """All of a command's standard input, and its end."""
    return HEADER.pack(STDIN, len(data)) + data + HEADER.pack(CLOSE_STDIN, 0)


class ShellFrames:
    """Collects what arrives, in pieces of any size, until the exit frame stands."""

    def __init__(self) -> None:
        """Nothing arrived yet."""
        self.out = bytearray()
        self.err = bytearray()
        self.rc: int | None = None
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        rest = self._rest
        rest += data
        position = 0
        while self.rc is None and len(rest) - position >= HEADER.size:
            kind, size = HEADER.unpack_from(rest, position)
            end = position + HEADER.size + size
            if len(self.out) + len(self.err) + size > OUTPUT_LIMIT_BYTES:
                raise WireClosedError(f"more than {OUTPUT_LIMIT_BYTES} bytes of output")
            if len(rest) < end:
                break
            self._take(kind, memoryview(rest)[position + HEADER.size : end])
            position = end
        del rest[:position]

    def _take(self, kind: int, payload: memoryview) -> None:
        with payload:
            if kind == STDOUT:
                self.out += payload
            elif kind == STDERR:
                self.err += payload
            elif kind == EXIT and len(payload) == 1:
                self.rc = payload[0]
            else:
                raise WireClosedError(f"a shell frame of kind {kind} and {len(payload)} bytes makes no sense")


def read_result(wire: Wire) -> ShellResult:
    """Only a stream that ended with its exit frame is a result."""
    frames = ShellFrames()
    while frames.rc is None:
        frames.feed(wire.some(CHUNK_BYTES))
    return ShellResult(frames.rc, bytes(frames.out), bytes(frames.err))
