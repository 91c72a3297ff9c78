"""Taking, leaving and fencing one emulator."""

import math
import time
from dataclasses import dataclass

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.domain.errors import UnknownOutcomeError
from droidherd.emulator import lines
from droidherd.emulator.lines import ShellReply
from droidherd.emulator.token import Token

DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class UptimeClock:
    """One reading: the emulator said `uptime_s`, and its reply was here at `read_at_s` on the host's monotonic clock.

    The reading is older than its reply, so what is computed from it lags behind the truth by the way of the reply.
    """

    uptime_s: float
    read_at_s: float

    def at(self, host_s: float) -> float:
        """What the emulator's uptime is at `host_s`, or a little less."""
        return self.uptime_s + (host_s - self.read_at_s)

    def deadline(self, host_s: float) -> int:
        """The last whole second of uptime that ends before `host_s`. The guard compares whole seconds with `<=`."""
        return max(0, math.floor(self.at(host_s)) - 1)


@dataclass(frozen=True, slots=True)
class Seized:
    """What the emulator said when it was taken."""

    token: Token
    before: str
    """The token that stood until then."""
    boot_id: str
    clock: UptimeClock
    journal_is_new: bool = False
    """There is none, so there is nothing to recall."""
    has_steps: bool = True
    """A step of the stage stands in the journal."""


def seize(
    adb: AdbClient,
    serial: str,
    token: Token,
    *,
    after: int = 0,
    journal: str = "",
    name: str = "",
) -> Seized:
    """Make `token` the one that may act. Repeating it is harmless. `name`: of the emulator that is meant.

    `after`: on deck, behind this lease.
    """
    line = lines.check_name(name) + lines.seize(token, deck=after > 0, after=after, journal=journal)
    result = adb.shell(serial, line, DEADLINE_S)
    read_at_s = time.monotonic()
    answer = ShellReply.of(result, serial)
    if answer.word != "seized":
        answer.refuse(serial)
    try:
        before, uptime, boot_id, known = answer.rest
    except ValueError as error:
        raise UnknownOutcomeError(f"seized, but without a clock: {answer.rest}", to=serial) from error
    uptime_s = parse.seconds(uptime)
    if uptime_s is None:
        raise UnknownOutcomeError(f"seized, but its clock says {uptime!r}", to=serial)
    return Seized(token, before, boot_id, UptimeClock(uptime_s, read_at_s), known == "new", known == "old")


def release(adb: AdbClient, serial: str, token: Token, deadline_s: float = DEADLINE_S) -> None:
    """Say on the emulator that the lease ended, so that the one on deck may take it."""
    answer = ShellReply.of(adb.shell(serial, lines.release(token), deadline_s), serial)
    if answer.word != "released":
        answer.refuse(serial)


def fence(adb: AdbClient, serial: str, token: Token, name: str = "") -> str:
    """Shut out everybody below `token`; returns the token that stands now."""
    return _token(adb, serial, lines.check_name(name) + lines.fence(token))


def floor(adb: AdbClient, serial: str, token: Token, name: str = "", was: str = "") -> str:
    """Give a freshly booted emulator its token, and its name; returns the token that stands now."""
    return _token(adb, serial, lines.introduce(name, was) + lines.floor(token))


def _token(adb: AdbClient, serial: str, line: str) -> str:
    answer = ShellReply.of(adb.shell(serial, line, DEADLINE_S), serial)
    if answer.word != "token":
        answer.refuse(serial)
    return answer.rest[0]
