"""One connection to the adb server: every read and write lives under one total deadline."""

import contextlib
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from typing_extensions import override

STATUS_BYTES = 4
REQUEST_LIMIT_BYTES = 0xFFFF
PULSE_S = 1.0
_LENGTH = re.compile(rb"[0-9A-Fa-f]{4}")


class WireError(Exception):
    """The connection cannot go on; the caller knows how far its request had come and names the class."""


class WireTimeoutError(WireError):
    """The deadline passed."""


class WireClosedError(WireError):
    """The other side closed, or somebody interrupted us."""


class WireRefusedError(WireError):
    """The adb server answered FAIL; the text is its reason."""


class Deadline:
    """A moment on the monotonic clock that all steps of one call share."""

    __slots__ = ("_at_s", "seconds")

    def __init__(self, seconds: float) -> None:
        """`seconds` from now."""
        self.seconds = seconds
        self._at_s = time.monotonic() + seconds

    def left_s(self, at_most_s: float = float("inf")) -> float:
        left = self._at_s - time.monotonic()
        if left <= 0:
            raise WireTimeoutError(f"no answer within {self.seconds:g} s")
        return min(left, at_most_s)


class CallInterrupt:
    """Ends calls from another thread: closes what is open now, and refuses what would be opened later.

    `pulse` may end them from within: it is called about once a second while an answer is waited for.
    """

    def __init__(self, pulse: Callable[[], None] | None = None) -> None:
        """Not fired. What `pulse` raises ends the call."""
        self.pulse = pulse
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._fired = False

    @property
    def fired(self) -> bool:
        return self._fired

    def fire(self) -> None:
        with self._lock:
            self._fired = True
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def check(self) -> None:
        """For whoever waits without a socket: raises when it has fired, and is a pulse."""
        if self._fired:
            raise WireClosedError("interrupted")
        if self.pulse is not None:
            self.pulse()

    def attach(self, sock: socket.socket) -> None:
        with self._lock:
            if self._fired:
                raise WireClosedError("interrupted")
            self._sockets.add(sock)

    def detach(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)


class Closing(ABC):
    """Closed at the end of its `with`."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """End it; harmless when it has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Wire(Closing):
    """A smart-socket connection. Raises WireError only."""

    __slots__ = ("_deadline", "_interrupt", "_pulse", "_sock", "_wait_s")

    def __init__(self, deadline: Deadline, interrupt: CallInterrupt | None = None) -> None:
        """Not connected yet."""
        self._deadline = deadline
        self._interrupt = interrupt
        self.pulse_with(interrupt.pulse if interrupt else None)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def connect(self, host: str, port: int) -> None:
        if self._interrupt is not None:
            self._interrupt.attach(self._sock)
        try:
            self._sock.settimeout(self._deadline.left_s())
            self._sock.connect((host, port))
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self._translate(error) from error

    @override
    def close(self) -> None:
        if self._interrupt is not None:
            self._interrupt.detach(self._sock)
        self._sock.close()

    def pulse_with(self, pulse: Callable[[], None] | None) -> None:
        """Call it now and then while something is waited for."""
        self._pulse = pulse
        self._wait_s = float("inf") if pulse is None else PULSE_S

    def renew(self, deadline: Deadline) -> None:
        """Long streams live from one deadline to the next."""
        self._deadline = deadline

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """All of it. Whoever does not read makes us wait, but not beyond the deadline."""
        rest = memoryview(data)
        while rest:
            try:
                self._sock.settimeout(self._deadline.left_s(self._wait_s))
                rest = rest[self._sock.send(rest) :]
            except OSError as error:
                self._wait_on(error)

    def some(self, limit: int) -> bytes:
        """At least one byte."""
        while True:
            try:
                self._sock.settimeout(self._deadline.left_s(self._wait_s))
                data = self._sock.recv(limit)
            except OSError as error:
                self._wait_on(error)
                continue
            if not data:
                raise self._end_error()
            return data

    def fill(self, view: memoryview) -> None:
        """Exactly as many bytes as `view` holds, straight into it."""
        position, size = 0, len(view)
        while position < size:
            try:
                self._sock.settimeout(self._deadline.left_s(self._wait_s))
                count = self._sock.recv_into(view[position:])
            except OSError as error:
                self._wait_on(error)
                continue
            if not count:
                raise self._end_error()
            position += count

    def exactly(self, size: int) -> bytes:
        data = bytearray(size)
        self.fill(memoryview(data))
        return bytes(data)

    def request(self, service: bytes) -> None:
        """Ask for a service and read the status."""
        self.send(b"%04x%b" % (len(service), service))
        word = bytearray(STATUS_BYTES)
        self.fill(memoryview(word))
        status = bytes(word)
        if status == b"OKAY":
            return
        if status != b"FAIL":
            raise WireClosedError(f"the adb server answered {status!r}")
        raise WireRefusedError(self.block().decode("utf-8", "replace"))

    def block(self) -> bytes:
        """A text with its length in four hexadecimal digits before it."""
        return self.block_after(b"")

    def block_after(self, begun: bytes) -> bytes:
        """The same, where some of the digits are read already."""
        digits = begun + self.exactly(STATUS_BYTES - len(begun))
        if _LENGTH.fullmatch(digits) is None:
            raise WireClosedError(f"the adb server answered {digits!r} where a length belongs")
        return self.exactly(int(digits, 16))

    def _wait_on(self, error: OSError) -> None:
        """A wait that was cut short for a pulse goes on after it; anything else is the end."""
        if self._pulse is None or not isinstance(error, TimeoutError):
            raise self._translate(error) from error
        self._deadline.left_s()  # raises when that was the last wait
        self._pulse()

    def _end_error(self) -> WireError:
        fired = self._interrupt is not None and self._interrupt.fired
        return WireClosedError("interrupted" if fired else "the connection was closed")

    def _translate(self, error: OSError) -> WireError:
        if isinstance(error, TimeoutError):
            return WireTimeoutError(f"no answer within {self._deadline.seconds:g} s")
        if self._interrupt is not None and self._interrupt.fired:
            return WireClosedError("interrupted")
        return WireClosedError(error.strerror or str(error))
