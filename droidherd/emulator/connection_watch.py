"""Learns from the adb server, within milliseconds, that the connection to an emulator broke."""

import threading
from collections.abc import Callable

from typing_extensions import override

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.parse import Listed
from droidherd.adb.wire import CallInterrupt, Closing, Deadline, Wire, WireError, WireTimeoutError
from droidherd.domain.errors import NotSentError

LISTEN_S = 60.0
AGAIN_S = 1.0
"""Between two tries to reach a server that is away."""
OPEN_S = 2.0
BODY_S = 2.0


class Track(Closing):
    """A `track-devices` stream. Fast, but blind to an emulator that hangs: only a probe finds that."""

    def __init__(self, adb: AdbClient, interrupt: CallInterrupt | None = None) -> None:
        """Opens the stream at once. Raises NotSentError when no adb server answers."""
        self._name = f"adb server at {adb.host}:{adb.port}"
        self._wire = Wire(Deadline(OPEN_S), interrupt)
        try:
            self._wire.connect(adb.host, adb.port)
            self._wire.request(b"host:track-devices-l")
        except WireError as error:
            self._wire.close()
            raise NotSentError(str(error), to=self._name) from error

    @override
    def close(self) -> None:
        self._wire.close()

    def next(self, timeout_s: float) -> tuple[Listed, ...] | None:
        """The next list, or None when nothing changed in time. Raises NotSentError when the server went away."""
        try:
            self._wire.renew(Deadline(timeout_s))
            try:
                first = self._wire.exactly(1)
            except WireTimeoutError:
                return None
            self._wire.renew(Deadline(BODY_S))
            return parse.devices(self._wire.block_after(first).decode("utf-8", "replace"))
        except WireError as error:
            raise NotSentError(str(error), to=self._name) from error


class ConnectionWatch(Closing):
    """Listens on a thread of its own until it is closed. It only hints: an emulator that hangs says nothing."""

    def __init__(self, adb: AdbClient, lost: Callable[[frozenset[str]], None]) -> None:
        """`lost` is told, on that thread, the addresses of emulators that were reached a moment ago."""
        self._adb = adb
        self._lost = lost
        self._interrupt = CallInterrupt()
        self._closed = threading.Event()
        self.hears = threading.Event()
        """It knows who is reached: whoever is lost from now on is noticed."""
        self._thread = threading.Thread(target=self._listen, name="connection-watch", daemon=True)
        self._thread.start()

    @override
    def close(self) -> None:
        self._closed.set()
        self._interrupt.fire()
        self._thread.join(AGAIN_S)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with Track(self._adb, self._interrupt) as track:
                    self._follow(track)
            except NotSentError:
                self._closed.wait(AGAIN_S)

    def _follow(self, track: Track) -> None:
        """Until the server goes away, which is no word about any emulator."""
        reached: frozenset[str] = frozenset()
        while not self._closed.is_set():
            listed = track.next(LISTEN_S)
            if listed is not None:
                self.hears.set()
                before, reached = reached, _reachable(listed)
                if before - reached:
                    self._lost(before - reached)


def _reachable(listed: tuple[Listed, ...]) -> frozenset[str]:
    return frozenset(one.serial for one in listed if one.ready)
