"""The adb server's own news: which emulators it lists, told at once when that changes."""

from typing_extensions import override

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.model import Listed
from droidherd.adb.wire import Closing, Deadline, Interrupt, Wire, WireError, WireTimeoutError
from droidherd.domain.errors import NotSentError

OPEN_S = 2.0
BODY_S = 2.0


class Track(Closing):
    """A `track-devices` stream. Fast, but blind to an emulator that hangs: only a probe finds that."""

    def __init__(self, adb: AdbClient, interrupt: Interrupt | None = None) -> None:
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
