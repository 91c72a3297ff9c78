"""A person works at an emulator that no task holds: below every lease to come, so that a task always comes first."""

from collections.abc import Sequence

from droidherd.adb.client import AdbClient
from droidherd.domain.errors import DroidherdError, EmulatorLostError, FinalError
from droidherd.emulator import lease
from droidherd.emulator.probe import DeviceLink, ProbeResult
from droidherd.emulator.token import PART_LIMIT, Token
from droidherd.flowtools.rehearsal import ManualSession

ANSWER_S = 10.0
GREETINGS_S = (5.0, 10.0, 15.0)
"""How long an emulator may take to greet, each time it is connected: a greeting that was lost never comes on that
connection, and one that is late may come on a connection that waits longer."""
FIRST_STAGE = 500
"""Flows have far fewer stages, so what a task did under the same lease is always below."""
STAGES_MAX = 100
FRESH = Token(1)
"""Of an emulator that nobody has leased since it booted."""


class HeldError(FinalError):
    """A task is at work there."""


def take(adb: AdbClient, emulator_id: str, address: str, serialno: str = "") -> ManualSession:
    """Connect, and sit down unless a task holds the emulator. Nothing is kept from a task that comes: it takes over.

    Its token lies between the lease that ended last and the next one. So a grant outranks it, nothing the
    dispatcher counts is used up, and two people at one emulator fence each other off.
    """
    probe = meet(adb, address, serialno)
    if not probe.booted:
        raise EmulatorLostError("has not booted yet", to=emulator_id, remedy="try again in a moment")
    return ManualSession(emulator_id, *_place(_token(adb, address, probe), probe, emulator_id))


def meet(adb: AdbClient, address: str, serialno: str = "", greetings_s: Sequence[float] = GREETINGS_S) -> ProbeResult:
    """Connect, and wait until it answers. Nobody else does that here: a worker has its probe loop."""
    try:
        return DeviceLink(adb, greetings_s).ensure(address, serialno, deadline_s=ANSWER_S)
    except EmulatorLostError as error:
        error.remedy = error.remedy or _remedy(adb, address)
        raise


def _remedy(adb: AdbClient, address: str) -> str:
    try:
        state = adb.state(address)
    except DroidherdError:
        return "the adb server of this command is gone: try again"
    if state == "unauthorized":
        return "confirm this host's key on its screen, and try again"
    if state:
        return "see what is there: restart it if it does not react, or name another address"
    return "start it, or look for its address with `droidherd emulator discover`"


def _token(adb: AdbClient, address: str, probe: ProbeResult) -> Token:
    return Token.parse(probe.token or lease.floor(adb, address, FRESH))


def _place(token: Token, probe: ProbeResult, emulator_id: str) -> tuple[int, int, int]:
    """Lease, stage and attempt of a token that is above the one that stands."""
    if probe.token and probe.free != token.lease_text:
        raise HeldError(
            "is held by a task",
            to=emulator_id,
            remedy="wait for its end (`droidherd task watch`), name another emulator, or take --virtual",
        )
    if token.stage < FIRST_STAGE:
        return token.lease, FIRST_STAGE, 1
    if token.attempt_of_stage + 1 < PART_LIMIT:
        return token.lease, token.stage, token.attempt_of_stage + 1
    if token.stage + 1 + STAGES_MAX < PART_LIMIT:
        return token.lease, token.stage + 1, 1
    raise HeldError(
        "was sat at too often since its last task", to=emulator_id, remedy="let a task run on it, or restart it"
    )
