"""A place where things go wrong on purpose: two virtual emulators behind a real adb server, and the blows for both."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from droidherd.adb.files import DeviceFiles
from droidherd.adb.server import AdbServer
from droidherd.domain.errors import UnknownOutcomeError
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.lease import UptimeClock
from droidherd.virtual.process import VirtualFleet
from tests.emulator.farm import Farm, One

DEADLINES_S = (0.2, 1.0, 5.0, 25.0)
"""Of a call that nobody answers; a longer one where the machine was too busy for the blow to fall in time."""
LONG_S = 30.0
"""The deadline of a call that the fault itself ends."""
HANG_S = 60.0
"""A call that is not back by now does not keep its deadline."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CONTENT = bytes(position % 251 for position in range(150_000))
PATH = "/data/local/tmp/fault-table"
TAP = "input tap 11 22"
SYNC = frozenset({"push", "pull", "stat"})

Call = Callable[[float], object]


@dataclass
class Place:
    """Where one row of the table is played."""

    farm: Farm
    one: One
    clock: UptimeClock
    """Of the try that seized the emulator."""

    @property
    def server_pid(self) -> int:
        return self.farm.server.pid

    def calls(self) -> Mapping[str, Call]:
        adb, address = self.one.adb, self.one.address
        files = DeviceFiles(adb, address)
        return {
            "shell": lambda within_s: adb.shell(address, f"echo {LETTERS}", within_s).text,
            "effect": self._tap,
            "capture": lambda within_s: adb.capture(address, within_s).width,
            "push": lambda within_s: files.push(CONTENT, PATH, within_s),
            "pull": lambda within_s: files.pull(PATH, within_s) == CONTENT,
            "stat": lambda within_s: files.stat(PATH, within_s).size,
        }

    def hands(self, within_s: float = LONG_S) -> EmulatorHands:
        return self.one.bare_hands(self.clock, time.monotonic() + 60.0, act_s=within_s)

    def _tap(self, within_s: float) -> object:
        return self.hands(within_s).tap("1", 11, 22)

    def again(self, operation: str) -> object:
        """Once all is well: the right answer, or for an act what a second try is told."""
        if operation != "effect":
            return self.calls()[operation](LONG_S)
        with contextlib.suppress(UnknownOutcomeError):
            return self.one.hands(attempt=2).tap("1", 11, 22)
        return "unknown"

    def taps(self) -> int:
        return len(self.one.did(TAP))


RIGHT: Mapping[str, object] = {
    "shell": f"{LETTERS}\n", "capture": 1280, "push": None, "pull": True, "stat": len(CONTENT),
}  # fmt: skip


@contextmanager
def place_of(root: Path) -> Generator[Farm]:
    with (
        VirtualFleet.start(state=root / "virtual", count=2, size=(1280, 720)) as fleet,
        AdbServer(0, root / "adb", environment=os.environ) as server,
        fleet.control() as control,
    ):
        yield Farm(fleet, server, control)


# --- blows: each is in force inside its `with`, and all is well again behind it ---------------------------------


InForce = Callable[[], bool]
"""Whether the blow fell while the call was under way: on a busy machine a call may have ended before."""
Blow = Callable[[Place, str], AbstractContextManager[InForce]]


def always() -> bool:
    return True


def fault(name: str) -> Blow:
    """One of the virtual emulator's own."""

    @contextmanager
    def blow(place: Place, _operation: str) -> Generator[InForce]:
        place.one.control.set_fault(place.one.name, name)
        yield always
        place.one.control.clear_fault(place.one.name)

    return blow


@contextmanager
def unknown_serial(place: Place, _operation: str) -> Generator[InForce]:
    place.one.adb.disconnect(place.one.address)
    yield always


@contextmanager
def offline(place: Place, _operation: str) -> Generator[InForce]:
    place.one.control.kill(place.one.name)
    _until(lambda: place.one.adb.state(place.one.address) != "device")
    yield always
    place.one.control.start(place.one.name)


@contextmanager
def unauthorized(place: Place, _operation: str) -> Generator[InForce]:
    place.one.control.set_fault(place.one.name, "auth")
    _until(lambda: place.one.adb.state(place.one.address) == "unauthorized")
    yield always
    place.one.control.clear_fault(place.one.name)


@contextmanager
def no_server(place: Place, _operation: str) -> Generator[InForce]:
    os.kill(place.server_pid, signal.SIGKILL)
    _until(lambda: place.server_pid == 0)
    yield always


@contextmanager
def frozen_server(place: Place, _operation: str) -> Generator[InForce]:
    pid = place.server_pid
    os.kill(pid, signal.SIGSTOP)
    yield always
    os.kill(pid, signal.SIGCONT)


def amid(strike: Callable[[Place], None], after: Callable[[Place], None] = lambda _: None) -> Blow:
    """Struck while the emulator has the request in hand and does not answer."""

    @contextmanager
    def blow(place: Place, operation: str) -> Generator[InForce]:
        name = "sync_hang" if operation in SYNC else "shell_hang"
        place.one.control.set_fault(place.one.name, name, times=1)
        over, struck = threading.Event(), threading.Event()

        def wait_and_strike() -> None:
            with place.farm.fleet.control() as control:
                while not over.is_set() and name in control.state(place.one.name)["faults"]:
                    time.sleep(0.005)
                if not over.is_set():
                    strike(place)
                    struck.set()

        striker = threading.Thread(target=wait_and_strike)
        striker.start()
        yield struck.is_set
        over.set()
        striker.join(HANG_S)
        if struck.is_set():
            after(place)

    return blow


def kill_server(place: Place) -> None:
    os.kill(place.server_pid, signal.SIGKILL)


def freeze_server(place: Place) -> None:
    os.kill(place.server_pid, signal.SIGSTOP)


def thaw_server(place: Place) -> None:
    os.kill(place.server_pid, signal.SIGCONT)


def reboot(place: Place) -> None:
    with place.farm.fleet.control() as control:
        control.reboot(place.one.name, boot_s=0.0)


def _until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + HANG_S
    while not true():
        assert time.monotonic() < end_s, "did not happen in time"
        time.sleep(0.005)
