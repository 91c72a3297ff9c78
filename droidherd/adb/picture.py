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
STDERR_LIMIT_BYTES = 1 << 16
RGBA_8888, RGBX_8888 = 1, 2
SAMPLES = 1024


class Picture:
    """Grows from a prologue to a whole picture while its bytes arrive."""

    def __init__(self) -> None:
        """No byte has come yet."""
        self.width = self.height = self.format = 0
        self.length = 0
        self.err = bytearray()
        self.rc: int | None = None
        self._capacity = LONG_PROLOGUE
        self._view = memoryview(bytearray(LONG_PROLOGUE + HEADER.size))

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
                header = self._read_pixels(wire, size)
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
        if not self.known:
            first = min(size, LONG_PROLOGUE - self.length)
            wire.fill(self._view[self.length : self.length + first])
            self.length += first
            size -= first
            if self.length >= LONG_PROLOGUE:
                self._allocate()
        if self.length + size > self._capacity:
            raise InvalidFrameError(f"screencap sent more than the {self.width}x{self.height} pixels it announced")
        end = self.length + size
        wire.fill(self._view[self.length : end + HEADER.size])
        self.length = end
        return bytes(self._view[end : end + HEADER.size])

    def _allocate(self) -> None:
        width, height, kind = struct.unpack_from("<III", self._view)
        if not (0 < width <= SIDE_LIMIT and 0 < height <= SIDE_LIMIT and width * height <= PIXELS_LIMIT):
            raise InvalidFrameError(f"screencap announced an impossible size of {width}x{height}")
        self.width, self.height, self.format = width, height, kind
        self._capacity = LONG_PROLOGUE + self.pixel_bytes
        grown = memoryview(bytearray(self._capacity + HEADER.size))
        grown[:LONG_PROLOGUE] = self._view[:LONG_PROLOGUE]
        self._view = grown

    def pixels(self) -> memoryview:
        """The rows of a picture that arrived whole."""
        if self.rc != 0:
            raise InvalidFrameError(f"screencap returned {self.rc} {self.err.decode('utf-8', 'replace')}".strip())
        if not self.known:
            raise InvalidFrameError(f"screencap sent only {self.length} bytes")
        if self.format not in {RGBA_8888, RGBX_8888}:
            raise InvalidFrameError(f"screencap sent pixel format {self.format}, expected {RGBA_8888} (RGBA)")
        prologue = self.length - self.pixel_bytes
        if prologue not in {SHORT_PROLOGUE, LONG_PROLOGUE}:
            raise InvalidFrameError(f"truncated: {self.length} bytes for {self.width}x{self.height} pixels")
        pixels = self._view[prologue : self.length].toreadonly()
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
