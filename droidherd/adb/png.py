"""What `screencap -p` sends: a PNG file, perhaps behind warnings, perhaps cut off."""

import struct

from droidherd.adb.picture import TEXT_LIMIT_BYTES, possible, shown
from droidherd.domain.errors import InvalidFrameError

MAGIC = b"\x89PNG\r\n\x1a\n"
_CHUNK = struct.Struct(">I4s")
_CHECKSUM_BYTES = 4


def whole_png(output: bytes) -> memoryview:
    """The file from its first byte to its last. InvalidFrameError: there is none, or not all of it."""
    start = output.find(MAGIC, 0, TEXT_LIMIT_BYTES + len(MAGIC))
    if start < 0:
        told = f": {shown(output)}" if output else ""
        raise InvalidFrameError(f"screencap -p sent no PNG in {len(output)} bytes{told}")
    at = start + len(MAGIC)
    kind = b""
    while kind != b"IEND":
        if len(output) - at < _CHUNK.size:
            raise InvalidFrameError(f"truncated: a PNG without its end after {len(output)} bytes")
        size, kind = _CHUNK.unpack_from(output, at)
        if kind == b"IHDR":
            _refuse_size(output, at + _CHUNK.size)
        at += _CHUNK.size + size + _CHECKSUM_BYTES
    if at > len(output):
        raise InvalidFrameError(f"truncated: a PNG without its end after {len(output)} bytes")
    return memoryview(output)[start:at]


def _refuse_size(output: bytes, at: int) -> None:
    if len(output) - at < struct.calcsize(">II"):
        return  # the end is missing as well, and that will be said
    width, height = struct.unpack_from(">II", output, at)
    if not possible(width, height):
        raise InvalidFrameError(f"screencap -p announced an impossible size of {width}x{height}")
