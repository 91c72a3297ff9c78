"""Raw `screencap` over `shell,v2`, read without copying the picture twice."""

import struct

from droidherd.adb.shell import EXIT, HEADER, STDERR, STDOUT
from droidherd.adb.wire import Wire, WireClosedError
from droidherd.domain.errors import InvalidFrameError

LONG_PROLOGUE = 16
"""Width, height, format, colour space: Android 9 and later."""
SHORT_PROLOGUE = 12
"""The same without the colour space."""
PIXEL_BYTES = 4
SIDE_LIMIT = 16_384
PIXELS_LIMIT = 40_000_000
PART_BYTES = 16 << 20
"""Room that is made at once: for four million pixels."""
STDERR_LIMIT_BYTES = 1 << 16
TEXT_LIMIT_BYTES = 1 << 12
"""Of warnings before a picture."""
SHOWN = 80
RGBA_8888, RGBX_8888 = 1, 2
FORMAT_MAX = 0xFF
OPAQUE = 0xFF
SAMPLES = 1024


def possible(width: int, height: int) -> bool:
    """Whether a screen can have this size."""
    return 0 < width <= SIDE_LIMIT and 0 < height <= SIDE_LIMIT and width * height <= PIXELS_LIMIT


def preview(text: bytes | bytearray) -> str:
    """The beginning of what came instead of a picture, for people."""
    return repr(bytes(text[:SHOWN]).decode("ascii", "replace"))


def start_of(head: bytes | bytearray) -> int | None:
    """Where the prologue begins: at once, or behind whole lines of warnings. None: it has not come yet.

    No text reads as a size: four characters are a number far beyond any screen.
    """
    at = 0
    while len(head) - at >= LONG_PROLOGUE:
        width, height, kind = struct.unpack_from("<III", head, at)
        if possible(width, height) and kind <= FORMAT_MAX:  # a byte off, the format is 256 or more
            return at
        line_end = head.find(b"\n", at)
        if line_end < 0 or not _is_text(head[at:line_end]):
            return None
        at = line_end + 1
    return None


def _is_text(line: bytes | bytearray) -> bool:
    return all(byte >= ord(" ") or byte in b"\t\r" for byte in line)


class RawPicture:
    """Grows from a prologue to a whole picture while its bytes arrive."""

    def __init__(self) -> None:
        """No byte has come yet."""
        self.width = self.height = self.format = 0
        self.length = 0
        self.err = bytearray()
        self.rc: int | None = None
        self._head = bytearray()
        self._capacity = 0
        self._view = memoryview(b"")

    @property
    def known(self) -> bool:
        return self.width > 0

    @property
    def pixel_bytes(self) -> int:
        return self.width * self.height * PIXEL_BYTES

    def read(self, wire: Wire) -> None:
        """All frames up to the exit frame."""
        header = wire.exactly(HEADER.size)
        while True:
            kind, size = HEADER.unpack(header)
            if kind == STDOUT:
                while size and not self.known:
                    piece = min(size, max(1, LONG_PROLOGUE - len(self._head)))
                    self._head += wire.exactly(piece)
                    self.length += piece
                    size -= piece
                    self._begin()
                header = self._read_pixels(wire, size) if self.known else wire.exactly(HEADER.size)
            elif kind == STDERR and len(self.err) + size <= STDERR_LIMIT_BYTES:
                self.err += wire.exactly(size)
                header = wire.exactly(HEADER.size)
            elif kind == EXIT and size == 1:
                self.rc = wire.exactly(1)[0]
                return
            else:
                raise WireClosedError(f"a shell frame of kind {kind} and {size} bytes makes no sense")

    def _read_pixels(self, wire: Wire, size: int) -> bytes:
        """Read a payload together with the header behind it, which the next payload overwrites."""
        if self.length + size > self._capacity:
            raise InvalidFrameError(f"screencap sent more than the {self.width}x{self.height} pixels it announced")
        while size > PART_BYTES:
            wire.fill(self._next_part(PART_BYTES))
            self.length += PART_BYTES
            size -= PART_BYTES
        wire.fill(self._next_part(size + HEADER.size))
        self.length += size
        return bytes(self._view[self.length : self.length + HEADER.size])

    def _next_part(self, size: int) -> memoryview:
        """A few bytes announce a picture of any size: room for a large one is made as it comes."""
        end = self.length + size
        if end > len(self._view):
            grown = bytearray(min(self._capacity, len(self._view) + PART_BYTES) + HEADER.size)
            grown[: self.length] = self._view[: self.length]
            self._view = memoryview(grown)
        return self._view[self.length : end]

    def _begin(self) -> None:
        """Make room for the picture once its prologue is there."""
        start = start_of(self._head)
        if start is None:
            self._refuse_nonsense()
            return
        self.width, self.height, self.format = struct.unpack_from("<III", self._head, start)
        self._capacity = LONG_PROLOGUE + self.pixel_bytes
        self.length = len(self._head) - start
        self._view = memoryview(bytearray(min(self._capacity, PART_BYTES) + HEADER.size))
        self._view[: self.length] = self._head[start:]

    def _refuse_nonsense(self) -> None:
        if len(self._head) >= LONG_PROLOGUE and not _is_text(self._head.partition(b"\n")[0]):
            width, height = struct.unpack_from("<II", self._head)
            raise InvalidFrameError(f"screencap announced an impossible size of {width}x{height}")
        if len(self._head) >= TEXT_LIMIT_BYTES:
            raise InvalidFrameError(f"screencap sent text instead of a picture: {preview(self._head)}")

    def pixels(self) -> memoryview:
        """The rows of a picture that arrived whole."""
        if self.rc != 0:
            raise InvalidFrameError(f"screencap returned {self.rc} {self.err.decode('utf-8', 'replace')}".strip())
        if not self.known:
            head = f": {preview(self._head)}" if self._head else ""
            raise InvalidFrameError(f"screencap sent only {self.length} bytes{head}")
        if self.format not in {RGBA_8888, RGBX_8888}:
            raise InvalidFrameError(f"screencap sent pixel format {self.format}, expected {RGBA_8888} (RGBA)")
        prologue = self.length - self.pixel_bytes
        if prologue not in {SHORT_PROLOGUE, LONG_PROLOGUE}:
            raise InvalidFrameError(f"truncated: {self.length} bytes for {self.width}x{self.height} pixels")
        pixels = self._view[prologue : self.length].toreadonly()
        if self.format == RGBA_8888 and pixels[-1] != OPAQUE:
            raise InvalidFrameError("not drawn to its end: the last pixel is not opaque")
        if uniform(pixels):
            raise InvalidFrameError(f"all {self.width}x{self.height} pixels have one colour")
        return pixels


def uniform(pixels: memoryview) -> bool:
    """Whether all pixels are equal: a sparse look settles nearly every frame, a full one only the rest."""
    words = pixels.cast("I")
    sparse = words[:: max(1, len(words) // SAMPLES)]
    if len(set(sparse.tolist())) > 1:
        return False
    return words[:-1] == words[1:]


MAGIC = b"\x89PNG\r\n\x1a\n"
_CHUNK = struct.Struct(">I4s")
_CHECKSUM_BYTES = 4


def whole_png(output: bytes) -> memoryview:
    """The file from its first byte to its last. InvalidFrameError: there is none, or not all of it."""
    start = output.find(MAGIC, 0, TEXT_LIMIT_BYTES + len(MAGIC))
    if start < 0:
        head = f": {preview(output)}" if output else ""
        raise InvalidFrameError(f"screencap -p sent no PNG in {len(output)} bytes{head}")
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
