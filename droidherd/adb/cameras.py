"""Cameras: the ways to take a frame of an emulator's screen. Each one takes a whole, new frame or raises."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Generator
from typing import Protocol

import adbutils
from adbutils import AdbConnection, AdbDevice
from adbutils.errors import AdbConnectionError, AdbError
from PIL import UnidentifiedImageError
from typing_extensions import override

from droidherd.adb.client import AdbClient
from droidherd.adb.picture import possible, uniform, whole_png
from droidherd.adb.wire import REQUEST_LIMIT_BYTES, CallInterrupt, WireClosedError
from droidherd.domain.errors import DroidherdError, InvalidFrameError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame

Decode = Callable[[memoryview], tuple[int, int, memoryview]]
"""Width, height and RGBA rows of a PNG file; InvalidFrameError for what is none."""

REFUSALS = ("not found", "offline", "unauthorized")
"""Of the adb server, which knows such an emulator or does not."""


BITS_AT, SIZE_AT, HEADER_NUMBERS = 1, 2, 13
"""Before the pixels of a framebuffer: version, bits of a pixel, size, width, height, offset and length of 4 colours."""


class Camera(Protocol):
    """One way to take a frame. For several threads at once."""

    @property
    def name(self) -> str:
        """For people, logs and metrics."""
        ...

    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        """A frame that was asked for after this call began: one that streams drops what was on its way.

        Raises NotSentError, UnknownOutcomeError (no answer) or InvalidFrameError (no picture).
        """
        ...


class RawCamera:
    """`screencap`: pixels as they are. Nothing to encode and nothing to decode, and the most bytes."""

    name = "raw"

    def __init__(self, adb: AdbClient) -> None:
        """Over our own connections."""
        self.take = adb.capture


class PngCamera:
    """`screencap -p`: the emulator encodes, we decode. Slow, but the file says by itself whether it is whole."""

    name = "png"

    def __init__(self, adb: AdbClient, decode: Decode) -> None:
        """`decode` is the picture library's."""
        self._adb = adb
        self._decode = decode

    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        try:
            result = self._adb.shell(serial, "screencap -p", deadline_s, interrupt=interrupt)
        except UnknownOutcomeError as error:
            error.locate("screencap -p")
            raise
        taken_at_s = time.monotonic()
        try:
            if result.rc:
                message = result.err.decode("utf-8", "replace")
                raise InvalidFrameError(f"screencap -p returned {result.rc} {message}".strip())
            width, height, rgba = self._decode(whole_png(result.out))
            return check_frame(Frame(width, height, rgba, taken_at_s))
        except InvalidFrameError as error:
            raise InvalidFrameError(error.what, to=serial) from error


class FramebufferCamera:
    """The service `framebuffer`, by adbutils: another road to the emulator for when `screencap` itself is broken.

    What adbutils leaves open is closed here: it waits 600 s for a read, starts an adb server of its own when ours is
    away, and leaves its connections to the garbage collector. Its `screenshot` paints a black picture when it failed,
    and is not used.
    """

    name = "framebuffer"

    def __init__(self, adb: AdbClient) -> None:
        """The same adb server."""
        self._adb = adb

    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        began_s = time.monotonic()  # before the deadline's own clock: what it cuts off was cut off in time
        with _lend_device(self._adb, serial, deadline_s, interrupt or CallInterrupt()) as device:
            try:
                picture = device.framebuffer()
                taken_at_s = time.monotonic()
                rgba = memoryview(picture.convert("RGBA").tobytes())
                return check_frame(Frame(picture.width, picture.height, rgba, taken_at_s))
            except InvalidFrameError as error:
                raise InvalidFrameError(error.what, to=serial) from error
            except WireClosedError as error:
                raise NotSentError(str(error), to=serial) from error
            except (OSError, EOFError, ValueError, NotImplementedError, AdbError) as error:
                if time.monotonic() - began_s >= deadline_s:
                    raise UnknownOutcomeError(f"framebuffer: no answer within {deadline_s:g} s", to=serial) from error
                raise _classify(error, serial) from error


def every_camera(adb: AdbClient, decode: Decode) -> tuple[Camera, ...]:
    """Every way there is, in the order in which they are tried while nothing is known. A new camera is listed here."""
    return RawCamera(adb), PngCamera(adb, decode), FramebufferCamera(adb)


def check_frame(frame: Frame) -> Frame:
    """The frame, if it shows anything."""
    if uniform(memoryview(frame.rgba)):
        raise InvalidFrameError(f"all {frame.width}x{frame.height} pixels have one colour")
    return frame


def _classify(error: Exception, serial: str) -> DroidherdError:
    """What adbutils lets out, in our three classes. Its refusals come before anything was asked of the emulator."""
    what = f"framebuffer: {error}"
    if isinstance(error, UnidentifiedImageError | NotImplementedError | EOFError | ValueError):
        return InvalidFrameError(what, to=serial)
    unsent = isinstance(error, AdbConnectionError) or any(word in str(error) for word in REFUSALS)
    return NotSentError(what, to=serial) if unsent else UnknownOutcomeError(what, to=serial)


class Device(AdbDevice):
    """One whose transport has no time-out of its own."""

    @override
    def open_transport(self, command: str | None = None, timeout: float | None = None) -> AdbConnection:
        return super().open_transport(command, timeout=None)


def _check_header(numbers: list[int]) -> None:
    """Of a picture, once all numbers before it are read: room is made for its pixels, however few bytes follow."""
    again = len(numbers) > SIZE_AT and numbers[SIZE_AT] == 1  # its size stands behind
    if len(numbers) < HEADER_NUMBERS + again:
        return
    bits, size = numbers[BITS_AT], numbers[SIZE_AT + again]
    width, height = numbers[SIZE_AT + again + 1 :][:2]
    if not possible(width, height) or size * 8 != width * height * bits:
        raise InvalidFrameError(f"framebuffer announced {size} bytes for {width}x{height} pixels of {bits} bits")


@contextlib.contextmanager
def _lend_device(adb: AdbClient, serial: str, deadline_s: float, stop: CallInterrupt) -> Generator[Device]:
    """A device of adbutils whose connections end with the deadline, with `stop`, and with this block."""
    sockets: list[socket.socket] = []
    numbers: list[int] = []

    class Connection(AdbConnection):
        """One that makes no room for a picture that no screen can show."""

        @override
        def read_uint32(self) -> int:
            numbers.append(super().read_uint32())
            _check_header(numbers)
            return numbers[-1]

        @override
        def read(self, n: int) -> bytes:
            if n > REQUEST_LIMIT_BYTES and len(numbers) < HEADER_NUMBERS:
                raise InvalidFrameError(f"framebuffer announced {n} bytes before a picture")
            return super().read(n)

        @override
        def _safe_connect(self) -> socket.socket:
            # What it would call itself starts a server when there is none.
            try:
                made = socket.create_connection((adb.host, adb.port), deadline_s)
            except OSError as error:
                raise AdbConnectionError(f"adb server at {adb.host}:{adb.port}: {error}") from error
            sockets.append(made)
            stop.attach(made)
            return made

    class Client(adbutils.AdbClient):
        @override
        def make_connection(self, timeout: float | None = None) -> AdbConnection:
            return Connection(self.host, self.port)

    def end() -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    deadline = threading.Timer(deadline_s, end)
    deadline.start()
    try:
        yield Device(Client(adb.host, adb.port), serial)
    finally:
        deadline.cancel()
        for one in sockets:
            stop.detach(one)
            one.close()
        deadline.join()
