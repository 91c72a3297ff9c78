"""Is this emulator alive from end to end, and is it the one we think? An address says neither."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import CallInterrupt, WireRefusedError
from droidherd.domain.errors import EmulatorLostError, NotSentError, ServerSilencedError, UnknownOutcomeError
from droidherd.emulator.eyes import raise_lost
from droidherd.emulator.lease import UptimeClock
from droidherd.emulator.lines import (
    FREE_PROPERTY,
    NAME_PROPERTY,
    ON_ANDROID,
    TOKEN_PROPERTY,
    DevicePaths,
    ShellReply,
    check_name,
)

PROBE_S = 2.0
CONNECT_S = 5.0
COMING = frozenset({"offline", "connecting", "authorizing"})
"""As what the adb server lists an address that may answer yet."""
SHELL_V2 = "shell_v2"
"""Among the features of an emulator's adb: without it no command tells its return code."""
FIELDS = {
    "booted": "sys.boot_completed",
    "token": TOKEN_PROPERTY,
    "free": FREE_PROPERTY,
    "serialno": "ro.serialno",
    "name": NAME_PROPERTY,
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What an emulator said of itself in one answer."""

    serialno: str
    """Who it is."""
    boot_id: str
    """Since when: another one after every boot."""
    booted: bool
    token: str
    free: str
    clock: UptimeClock
    name: str = ""
    """By which it was introduced at the boot gate; empty since its last boot."""


def line(nonce: str, places: DevicePaths = ON_ANDROID) -> str:
    properties = " ".join(f"{name}=$(getprop {where})" for name, where in FIELDS.items())
    return f'read u x <{places.uptime}; read i <{places.boot_id}; echo "dh:probe {nonce} $u $i {properties}"'


def probe(
    adb: AdbClient, serial: str, deadline_s: float = PROBE_S, interrupt: CallInterrupt | None = None
) -> ProbeResult:
    """Ask once, through adb server, emulator and shell. No answer in time, or not to this question: lost."""
    nonce = secrets.token_hex(8)
    with raise_lost():
        result = adb.shell(serial, line(nonce), deadline_s, interrupt=interrupt)
        read_at_s = time.monotonic()
        answer = ShellReply.of(result, serial)
    if answer.word != "probe" or len(answer.rest) < 3 + len(FIELDS) or answer.rest[0] != nonce:
        raise EmulatorLostError(f"answered a probe with {' '.join((answer.word, *answer.rest))!r}", to=serial)
    _, uptime, boot_id, *words = answer.rest
    fields = {name: value for name, _, value in (word.partition("=") for word in words)}
    uptime_s = parse.seconds(uptime)
    if uptime_s is None:
        raise EmulatorLostError(f"said its uptime is {uptime!r}", to=serial)
    clock = UptimeClock(uptime_s, read_at_s)
    booted = fields["booted"] == "1"
    return ProbeResult(fields["serialno"], boot_id, booted, fields["token"], fields["free"], clock, fields["name"])


def assure(adb: AdbClient, emulator_id: str, serial: str, deadline_s: float = PROBE_S) -> None:
    """EmulatorLostError when this emulator does not answer at this serial, or another one does.

    One that was not introduced to anybody since its boot passes: it is nobody else's.
    """
    with raise_lost():
        answer = ShellReply.of(adb.shell(serial, f"{check_name(emulator_id)}echo dh:here", deadline_s), serial)
    if answer.word != "here":
        answer.refuse(serial)


def _was_refused(error: BaseException) -> bool:
    """Whether the emulator's adb itself said no to a shell."""
    cause = error.__cause__
    return isinstance(cause, UnknownOutcomeError) and isinstance(cause.__cause__, WireRefusedError)


class DeviceLink:
    """Keeps the adb server connected to an address, and makes sure who answers there."""

    def __init__(self, adb: AdbClient, connects_s: Sequence[float] = (CONNECT_S,)) -> None:
        """Over one adb server. `connects_s`: how long the emulator may take to greet, at each time it is connected."""
        self._adb = adb
        self._connects_s = connects_s

    def ensure(self, address: str, serialno: str = "", *, deadline_s: float = PROBE_S) -> ProbeResult:
        """Connect what is not, and probe. An empty `serialno`: whoever answers."""
        try:
            return self._meet(address, serialno, deadline_s)
        except EmulatorLostError as error:
            if _was_refused(error) and self._is_too_old(address, deadline_s):
                what = "its adb knows no `shell,v2`"
                raise EmulatorLostError(what, to=address, remedy="take an emulator with Android 7 or newer") from error
            raise

    def _is_too_old(self, address: str, deadline_s: float) -> bool:
        try:
            return SHELL_V2 not in self._adb.ask(f"host-serial:{address}:features", deadline_s).split(",")
        except NotSentError:
            return False

    def _meet(self, address: str, serialno: str, deadline_s: float) -> ProbeResult:
        with raise_lost():
            state = self._adb.state(address, deadline_s)
        if state == "device":
            try:
                return self._who(address, serialno, deadline_s)
            except EmulatorLostError as error:
                if not self._broke(address, error, deadline_s):
                    raise
        # The server itself would wait up to 3 s; forgetting and connecting anew takes 21 ms.
        *sooner, last_s = self._connects_s
        for connect_s in sooner:
            state = self.renew(address, connect_s)
            try:
                return self._greet(state, address, serialno, deadline_s)
            except EmulatorLostError as error:
                if state not in COMING and not self._broke(address, error, deadline_s):
                    raise
        return self._greet(self.renew(address, last_s), address, serialno, deadline_s)

    def _greet(self, state: str, address: str, serialno: str, deadline_s: float) -> ProbeResult:
        if state != "device":
            raise EmulatorLostError(f"the adb server lists it as {state!r}" if state else "nothing answers", to=address)
        return self._who(address, serialno, deadline_s)

    def _broke(self, address: str, error: EmulatorLostError, deadline_s: float) -> bool:
        """Whether the connection broke just now, which the list shows a moment later.

        One that stands is never torn down from here: others have streams on it.
        """
        if isinstance(error.__cause__, UnknownOutcomeError):
            with raise_lost():
                return self._adb.state(address, deadline_s) != "device"
        return isinstance(error.__cause__, NotSentError)

    def _who(self, address: str, serialno: str, deadline_s: float) -> ProbeResult:
        found = probe(self._adb, address, deadline_s)
        if serialno and found.serialno != serialno:
            raise EmulatorLostError(f"expected {serialno}, but {found.serialno} answers at this address", to=address)
        return found

    def renew(self, address: str, connect_s: float = CONNECT_S) -> str:
        """Disconnect and connect; returns the state listed afterwards."""
        with raise_lost():
            self._adb.disconnect(address)
            try:
                return self._adb.connect(address, connect_s)
            except NotSentError as error:  # it answered a moment ago; by now it is silent, or was ended for its silence
                what = "the adb server answers nobody since it began to connect this emulator"
                raise ServerSilencedError(what, to=address, remedy="take it off the list") from error
