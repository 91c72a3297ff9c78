"""Each fault with each operation, by the real adb server: the right class of error, in time, nothing left behind.

The rows are those of the table in docs/adb.md. What must never be: an answer that is wrong, a call that does not end,
a thread or a socket that stays, an act that happens twice or that is called "not sent" and happens.
"""

import io
import threading
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from droidherd.adb.files import DeviceFiles
from droidherd.domain.errors import (
    CommandFailedError,
    DiskFullError,
    DroidherdError,
    EmulatorLostError,
    FencedError,
    InvalidFrameError,
    NotSentError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted, Wanted
from droidherd.domain.task.things import State
from droidherd.emulator import lease
from droidherd.emulator.probe import DeviceLink
from droidherd.emulator.things import EmulatorThings
from droidherd.emulator.token import Token
from tests.adb import faulty
from tests.adb.faulty import CONTENT, DEADLINES_S, HANG_S, LONG_S, PATH, RIGHT, Blow, Place, amid, fault, place_of
from tests.emulator.farm import Farm

ALL = ("shell", "effect", "capture", "push", "pull", "stat")
SHELLS, SYNCS = ALL[:3], ALL[3:]
Expected = type[DroidherdError]
NO_ANSWER = frozenset({
    "stalled open", "no output", "no word of a file", "stopped emulator", "trickling output",
    "frozen adb server", "adb server freezes amid",
})  # fmt: skip
"""Only the deadline ends a call then."""

BLOWS: dict[str, tuple[Blow, dict[str, Expected]]] = {
    "not connected": (faulty.unknown_serial, dict.fromkeys(ALL, NotSentError)),
    "offline": (faulty.offline, dict.fromkeys(ALL, NotSentError)),
    "unauthorized": (faulty.unauthorized, dict.fromkeys(ALL, NotSentError)),
    "refused service": (fault("refuse_open"), dict.fromkeys(ALL, UnknownOutcomeError)),
    "stalled open": (fault("no_open"), dict.fromkeys(ALL, UnknownOutcomeError)),
    "stopped emulator": (fault("stall"), dict.fromkeys(ALL, UnknownOutcomeError)),
    "no output": (fault("shell_hang"), dict.fromkeys(SHELLS, UnknownOutcomeError)),
    "no word of a file": (fault("sync_hang"), dict.fromkeys(SYNCS, UnknownOutcomeError)),
    "trickling output": (fault("trickle"), dict.fromkeys(ALL, UnknownOutcomeError)),
    "drop amid output": (
        fault("drop"),
        {"shell": UnknownOutcomeError, "effect": UnknownOutcomeError, "capture": InvalidFrameError},
    ),
    "drop amid a file": (fault("sync_drop"), dict.fromkeys(SYNCS, UnknownOutcomeError)),
    "clean close after half": (
        fault("shell_cut"),
        {"shell": UnknownOutcomeError, "effect": UnknownOutcomeError, "capture": InvalidFrameError},
    ),
    "clean close of a file": (fault("sync_cut"), dict.fromkeys(SYNCS, UnknownOutcomeError)),
    "half a pull": (fault("half_pull"), {"pull": UnknownOutcomeError}),
    "half screencap": (fault("half_screencap"), {"capture": InvalidFrameError}),
    "empty screencap": (fault("empty_screencap"), {"capture": InvalidFrameError}),
    "black screencap": (fault("black_screencap"), {"capture": InvalidFrameError}),
    "disk full": (fault("disk_full"), {"effect": DiskFullError, "push": DiskFullError}),
    "push answered FAIL": (fault("push_full"), {"push": DiskFullError}),
    "reboot amid": (amid(faulty.reboot), dict.fromkeys(ALL, UnknownOutcomeError)),
    "no adb server": (faulty.no_server, dict.fromkeys(ALL, NotSentError)),
    "frozen adb server": (faulty.frozen_server, dict.fromkeys(ALL, NotSentError)),
    "adb server dies amid": (amid(faulty.kill_server), dict.fromkeys(ALL, UnknownOutcomeError)),
    "adb server freezes amid": (
        amid(faulty.freeze_server, faulty.thaw_server),
        dict.fromkeys(ALL, UnknownOutcomeError),
    ),
}
ROWS = [(name, operation) for name, (_, rows) in BLOWS.items() for operation in rows]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with place_of(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
def place(farm: Farm) -> Place:
    """All is well, the emulator is seized, and the file that is pulled is there."""
    one = farm.emulator("virtual-1")
    made = Place(farm, one, one.seize().clock)
    made.calls()["push"](LONG_S)
    return made


def held() -> tuple[set[str], set[int]]:
    """The sockets and the threads of this process."""
    sockets: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            sockets.add(target)
    return sockets, {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


def ends(place: Place, operation: str, within_s: float) -> tuple[object, DroidherdError | None]:
    """What a call gave, or raised; on a thread of its own, so that one that never ends fails the test alone."""
    given: list[object] = []
    raised: list[DroidherdError] = []

    def call() -> None:
        try:
            given.append(place.calls()[operation](within_s))
        except DroidherdError as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive(), f"{operation} does not keep its deadline of {within_s} s"
    return (given or [None])[0], (raised or [None])[0]


@pytest.mark.parametrize(("name", "operation"), ROWS, ids=lambda value: value.replace(" ", "-"))
def test_each_fault_gives_its_error_and_leaves_nothing_behind(place: Place, name: str, operation: str):
    blow, rows = BLOWS[name]
    before = held()
    given, error = None, None
    for within_s in DEADLINES_S if name in NO_ANSWER else [LONG_S]:
        with blow(place, operation) as in_force:
            given, error = ends(place, operation, within_s)
        if in_force() and not _too_early(rows[operation], error):
            break
    assert (None, rows[operation]) == (given, type(error))
    assert (set(), set()) == _left_behind(before)
    _all_is_well_again(place, name, operation, error)


def _too_early(expected: Expected, error: DroidherdError | None) -> bool:
    """The machine was too busy for the call to be sent by then: nothing is known of one that is not answered."""
    return expected is UnknownOutcomeError and type(error) is NotSentError


def _left_behind(before: tuple[set[str], set[int]]) -> tuple[set[str], set[int]]:
    """A thread that was joined is gone a moment later."""
    end_s = time.monotonic() + HANG_S
    while True:
        sockets, threads = held()
        left = sockets - before[0], threads - before[1]
        if left == (set(), set()) or time.monotonic() > end_s:
            return left
        time.sleep(0.005)


def _all_is_well_again(place: Place, name: str, operation: str, error: DroidherdError | None) -> None:
    """The same call gives the right answer now; an act is on the emulator's own record once at most."""
    place.farm.server.ensure()
    found = DeviceLink(place.one.adb).ensure(place.one.address, "VIRT0001", deadline_s=LONG_S)
    if not found.token:
        lease.floor(place.one.adb, place.one.address, Token(place.one.lease))
    answer = place.again(operation)
    if operation != "effect":
        assert RIGHT[operation] == answer
        return
    taps = place.taps()
    if isinstance(error, NotSentError | DiskFullError):
        assert (Acted.DONE, 1) == (answer, taps), f"{name}: it was called not done"
    else:
        assert taps <= 1, f"{name}: it was done twice"
        assert answer in {Acted.DONE, Acted.AGAIN, "unknown"}
        assert taps == 1 or answer == "unknown"


def test_a_file_never_acknowledged_is_unknown_and_leaves_nothing_behind(place: Place):
    """Only what does not fit into one packet waits for the word that the last one came."""
    before = held()
    place.one.control.set_fault(place.one.name, "no_ack")
    error: DroidherdError | None = None
    for within_s in DEADLINES_S:
        with pytest.raises(DroidherdError) as caught:
            DeviceFiles(place.one.adb, place.one.address).push(CONTENT * 20, PATH, within_s)
        error = caught.value
        if not _too_early(UnknownOutcomeError, error):
            break
    assert UnknownOutcomeError is type(error)
    place.one.control.clear_fault(place.one.name)
    assert (set(), set()) == _left_behind(before)
    _all_is_well_again(place, "no acknowledgement", "push", None)


# --- port drift --------------------------------------------------------------------------------------------------


def test_nothing_lands_on_another_emulator_that_took_the_address(farm: Farm, place: Place):
    """The address is the same, the connection is good, and somebody else answers."""
    one, other = place.one, farm.emulator("virtual-2")
    other.seize()
    address = one.address
    hands = place.hands()
    farm.control.swap_ports(one.name, other.name)
    try:
        with pytest.raises(EmulatorLostError, match="expected VIRT0001, but VIRT0002"):
            DeviceLink(one.adb).ensure(address, "VIRT0001", deadline_s=LONG_S)
        assert "device" == one.adb.state(address)
        other.mark()
        with pytest.raises(FencedError):
            hands.tap("1", 11, 22)
        with pytest.raises(FencedError):
            hands.settle("1")
        with pytest.raises(FencedError):
            one.eyes(coordinates=hands.coordinates).look()
        things = EmulatorThings(hands, partial(DeviceFiles, one.adb, address), one.token(), lambda: None)
        file = Wanted("file", "/sdcard/x", State("0" * 64), content=lambda: io.BytesIO(CONTENT))
        for _ in range(2):
            with pytest.raises(FencedError):
                things.make("2", file)
        assert [] == [command.line for command in other.did("") if command.effect]
    finally:
        farm.control.swap_ports(one.name, other.name)


@pytest.mark.parametrize("serialno", ["VIRT0001", ""])
def test_a_stage_that_begins_at_a_drifted_address_takes_nothing(farm: Farm, place: Place, serialno: str):
    """Also when it outranks whoever holds the other emulator, and when their serial numbers say nothing."""
    one, other = place.one, farm.emulator("virtual-2")
    for each in (one, other):
        lease.floor(each.adb, each.address, Token(each.lease), name=each.name)
    address, newest = one.address, Token(other.lease + 5, 1, 1)
    farm.control.swap_ports(one.name, other.name)
    try:
        if serialno:
            with pytest.raises(EmulatorLostError):
                DeviceLink(one.adb).ensure(address, serialno, deadline_s=LONG_S)
        else:
            DeviceLink(one.adb).ensure(address, deadline_s=LONG_S)
        other.mark()
        with pytest.raises(EmulatorLostError, match="virtual-2 answers in its place"):
            lease.seize(one.adb, address, newest, name=one.name)
        with pytest.raises(EmulatorLostError, match="virtual-2"):
            lease.fence(one.adb, address, newest, name=one.name)
        with pytest.raises(EmulatorLostError, match="virtual-2"):
            lease.floor(one.adb, address, newest, name=one.name)
        assert [] == [command.line for command in other.did("") if command.effect]
    finally:
        farm.control.swap_ports(one.name, other.name)


def test_a_file_that_may_not_be_written_is_reported_as_android_says_it(place: Place):
    with pytest.raises(CommandFailedError, match="Read-only file system"):
        DeviceFiles(place.one.adb, place.one.address).push(CONTENT, "/system/x", LONG_S)
    assert len(CONTENT) == DeviceFiles(place.one.adb, place.one.address).stat(PATH, LONG_S).size
