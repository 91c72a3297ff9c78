"""The hot path to the adb server: one connection per call, one total deadline, errors in three classes.

* NotSentError: the request surely did not reach the emulator.
* UnknownOutcomeError: it may have been carried out, or may yet be.
* a result: the exit frame came; what its return code means is the caller's business.
"""

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import NoReturn

from droidherd.adb import parse
from droidherd.adb.parse import Listed
from droidherd.adb.picture import RawPicture
from droidherd.adb.shell import ShellResult, read_result, stdin_frames
from droidherd.adb.wire import (
    REQUEST_LIMIT_BYTES,
    CallInterrupt,
    Deadline,
    Wire,
    WireClosedError,
    WireError,
    WireRefusedError,
)
from droidherd.domain.errors import BadParametersError, InvalidFrameError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame

STDIN_LIMIT_BYTES = 1 << 16
SHELL = b"shell,v2,raw:"
LIST_DEADLINE_S = 5.0
CONNECT_POLL_S = 0.02
LAST_LOOK_S = 1.0
TURN_S = 0.25
"""How soon one who waits for a turn to connect notices that it was interrupted."""

Span = Callable[[str, str], AbstractContextManager[object]]
"""Opened around every call with the operation and the serial, for traces."""


def no_span(operation: str, serial: str) -> AbstractContextManager[object]:  # noqa: ARG001 - the shape of a Span
    return contextlib.nullcontext()


class AdbClient:
    """Speaks to one adb server. Thread-safe: nothing but the cap on connects is shared between calls."""

    _interrupt: CallInterrupt | None = None
    """For calls that bring none of their own."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", connects_at_once: int = 32, span: Span = no_span) -> None:
        """The adb server at `host:port`; it need not run yet."""
        self.host = host
        self.port = port
        self._span = span
        # The server's listen backlog is 128: a burst beyond it waits a second for the kernel's SYN retry.
        self._connects = threading.BoundedSemaphore(connects_at_once)

    def with_pulse(self, pulse: Callable[[], None]) -> "AdbClient":
        """The same client, under the same cap, with a pulse for each call that brings no interrupt of its own."""
        other = copy.copy(self)
        other._interrupt = CallInterrupt(pulse)  # noqa: SLF001 - a copy of its own
        return other

    # --- one emulator ----------------------------------------------------------------------------------------

    def shell(
        self, serial: str, command: str, deadline_s: float, stdin: bytes = b"", interrupt: CallInterrupt | None = None
    ) -> ShellResult:
        """Run a line to its end. A line that reads input without being given any waits for the deadline."""
        service = SHELL + _encode(command)
        if len(service) > REQUEST_LIMIT_BYTES:
            raise BadParametersError(f"a shell line of {len(service)} bytes is too long", to=serial)
        if len(stdin) > STDIN_LIMIT_BYTES:
            raise BadParametersError(f"{len(stdin)} bytes of input are too many", to=serial, remedy="push a file")
        with (
            self._span("shell", serial),
            self.service(serial, service, Deadline(deadline_s), interrupt, step="shell") as wire,
        ):
            if stdin:
                wire.send(stdin_frames(stdin))
            return read_result(wire)

    def capture(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        """One whole frame of more than one colour, or an error."""
        picture = RawPicture()
        try:
            with (
                self._span("capture", serial),
                self.service(serial, SHELL + b"screencap", Deadline(deadline_s), interrupt, step="screencap") as wire,
            ):
                picture.read(wire)
                taken_at_s = time.monotonic()
                return Frame(picture.width, picture.height, picture.pixels(), taken_at_s)
        except InvalidFrameError as error:
            raise InvalidFrameError(error.what, to=serial) from error
        except UnknownOutcomeError as error:
            if not picture.length:
                raise
            raise InvalidFrameError(f"truncated after {picture.length} bytes: {error.what}", to=serial) from error

    @contextlib.contextmanager
    def service(
        self, serial: str, service: bytes, deadline: Deadline, interrupt: CallInterrupt | None = None, *, step: str
    ) -> Generator[Wire]:
        """A stream to a service of the emulator. Whatever goes wrong once it was asked for is of unknown outcome.

        `step` is what errors call it. A shell line itself may hold a password.
        """
        interrupt = interrupt or self._interrupt
        with Wire(deadline, interrupt) as wire:
            try:
                with self._connecting(deadline, interrupt):
                    wire.connect(self.host, self.port)
                    wire.request(b"host:transport:" + _encode(serial))
            except WireError as error:
                self._not_sent(error, serial)
            try:
                wire.request(service)
                yield wire
            except WireError as error:
                raise UnknownOutcomeError(f"{step}: {error}", to=serial) from error

    @contextlib.contextmanager
    def _connecting(self, deadline: Deadline, interrupt: CallInterrupt | None) -> Generator[None]:
        while not self._connects.acquire(timeout=min(TURN_S, deadline.left_s())):
            if interrupt is not None:
                interrupt.check()
        try:
            yield
        finally:
            self._connects.release()

    def _not_sent(self, error: WireError, to: str) -> NoReturn:
        if isinstance(error, WireRefusedError):
            raise NotSentError(str(error), to=to) from error
        raise NotSentError(f"adb server at {self.host}:{self.port}: {error}", to=to) from error

    # --- the server itself -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open_request(self, request: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Generator[Wire]:
        """A connection on which the server has accepted a request that it answers by itself."""
        deadline, interrupt = Deadline(deadline_s), interrupt or self._interrupt
        with Wire(deadline, interrupt) as wire:
            try:
                with self._connecting(deadline, interrupt):
                    wire.connect(self.host, self.port)
                    wire.request(_encode(request))
                yield wire
            except WireError as error:
                self._not_sent(error, request)

    def ask(self, request: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> str:
        """One text as the answer."""
        with self._open_request(request, deadline_s, interrupt) as wire:
            return wire.block().decode("utf-8", "replace")

    def version(self, deadline_s: float = LIST_DEADLINE_S) -> int:
        with self._open_request("host:version", deadline_s) as wire:
            return _number(wire.block(), 16)

    def devices(
        self, deadline_s: float = LIST_DEADLINE_S, interrupt: CallInterrupt | None = None
    ) -> tuple[Listed, ...]:
        return parse.devices(self.ask("host:devices-l", deadline_s, interrupt))

    def state(self, serial: str, deadline_s: float = LIST_DEADLINE_S, interrupt: CallInterrupt | None = None) -> str:
        """The state the server lists for `serial`, or an empty text."""
        return next((one.state for one in self.devices(deadline_s, interrupt) if one.serial == serial), "")

    def connect(self, address: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> str:
        """Connect and return the state that the server's *list* gives afterwards: its answer in words can lie."""
        deadline = Deadline(deadline_s)
        try:
            while True:
                answer = self.ask(f"host:connect:{address}", deadline.left_s(), interrupt)
                state = self._settled_state(address, deadline, interrupt)
                # An entry on its way out still counts as connected, and is gone a moment later.
                if state or "already connected" not in answer:
                    return state
        except (WireError, NotSentError):
            # The server waits 10 s for an address that answers nothing; whether it answers us at all shows here.
            return self.state(address, LAST_LOOK_S, interrupt)

    def _settled_state(self, address: str, deadline: Deadline, interrupt: CallInterrupt | None) -> str:
        state = self.state(address, deadline.left_s(), interrupt)
        while state and state != "device":
            time.sleep(min(CONNECT_POLL_S, deadline.left_s()))
            state = self.state(address, deadline.left_s(), interrupt)
        return state

    def disconnect(self, address: str, deadline_s: float = LIST_DEADLINE_S) -> None:
        """Forget an address; one that the server does not know is forgotten already."""
        try:
            self.ask(f"host:disconnect:{address}", deadline_s)
        except NotSentError as error:
            if isinstance(error.__cause__, WireRefusedError):
                return
            raise


def _number(digits: bytes, base: int) -> int:
    try:
        return int(digits, base)
    except ValueError as error:
        raise WireClosedError(f"the adb server answered {digits[:40]!r} where a number belongs") from error


def _encode(text: str) -> bytes:
    if "\0" in text:
        raise BadParametersError("a NUL character cannot be sent to an emulator")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadParametersError("text that is not valid Unicode cannot be sent to an emulator") from error
