"""Virtual emulators behind a real, private adb server, for tests of this room."""

import itertools
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.emulator import lease
from droidherd.emulator.boot import BootClock
from droidherd.emulator.coordinates import CoordinateMap
from droidherd.emulator.eyes import EmulatorEyes, FrameSource
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.emulator.lease import Seized, UptimeClock
from droidherd.emulator.probe import DeviceLink
from droidherd.emulator.token import Token
from droidherd.virtual import journal
from droidherd.virtual.control import VirtualControl
from droidherd.virtual.journal import ExecutedCommand
from droidherd.virtual.process import VirtualFleet

LONG_S = 30.0
LEASES = itertools.count(1_790_000_000_000, 10)


@dataclass
class Farm:
    fleet: VirtualFleet
    server: AdbServer
    control: VirtualControl

    @property
    def adb(self) -> AdbClient:
        return self.server.client()

    def emulator(self, name: str) -> "One":
        """Healthy, connected, with a floor of its own."""
        self.server.ensure()
        if not self.control.state(name)["listening"]:
            self.control.start(name)
        self.control.clear_fault(name)
        floor = Token(next(LEASES))
        one = One(self, name)
        DeviceLink(self.adb).ensure(one.address, deadline_s=LONG_S)
        lease.floor(self.adb, one.address, floor)
        lease.fence(self.adb, one.address, floor)
        one.mark()
        return one


@contextmanager
def small_farm(root: Path) -> Generator[Farm]:
    """One virtual emulator behind a real adb server."""
    with (
        VirtualFleet.start(state=root / "virtual", count=1) as fleet,
        AdbServer(0, root / "adb", environment=os.environ) as server,
        fleet.control() as control,
    ):
        yield Farm(fleet, server, control)


@dataclass
class One:
    """One virtual emulator, and what it did since the last mark."""

    farm: Farm
    name: str
    lease: int = field(default_factory=lambda: next(LEASES))
    _seen: int = 0

    @property
    def address(self) -> str:
        return self.farm.fleet.addresses[self.name]

    @property
    def adb(self) -> AdbClient:
        return self.farm.adb

    @property
    def control(self) -> VirtualControl:
        return self.farm.control

    @property
    def key(self) -> str:
        return f"task.{self.lease}.1"

    def token(self, stage: int = 1, attempt: int = 1) -> Token:
        return Token(self.lease, stage, attempt)

    def seize(self, stage: int = 1, attempt: int = 1) -> Seized:
        """As a stage begins: make sure of the link, then take the emulator."""
        DeviceLink(self.adb).ensure(self.address, deadline_s=LONG_S)
        return lease.seize(self.adb, self.address, self.token(stage, attempt))

    def hands(self, *, attempt: int = 1, until_s: float = 60.0, act_s: float = LONG_S) -> EmulatorHands:
        """Of a fresh try that seized the emulator; acts are allowed for `until_s` from now."""
        clock = self.seize(attempt=attempt).clock
        return self.bare_hands(clock, time.monotonic() + until_s, attempt=attempt, act_s=act_s)

    def bare_hands(
        self, clock: UptimeClock, until_host_s: float, *, attempt: int = 1, act_s: float = LONG_S
    ) -> EmulatorHands:
        handle = LeaseHandle(self.address, self.key, self.token(1, attempt), 1)
        hands = EmulatorHands(self.adb, handle, lambda: clock.deadline(until_host_s))
        hands.act_s = act_s
        return hands

    def eyes(self, look_s: float = LONG_S, coordinates: CoordinateMap | None = None) -> EmulatorEyes:
        source = FrameSource(self.adb.capture, coordinates=coordinates, look_s=look_s)
        return EmulatorEyes(self.adb, self.address, source=source)

    def mark(self) -> None:
        commands = self._commands()
        self._seen = commands[-1].seq if commands else 0

    def did(self, start: str) -> list[ExecutedCommand]:
        """The commands since the mark that begin with `start`, by the emulator's own journal."""
        return [one for one in self._commands() if one.seq > self._seen and one.line.startswith(start)]

    def acts(self) -> list[str]:
        return [one.line for one in self.did("") if one.argv[0] in {"input", "am"}]

    def journal(self) -> list[str]:
        """Of effects: name and word only."""
        DeviceLink(self.adb).ensure(self.address, deadline_s=LONG_S)
        text = self.adb.shell(self.address, f"cat /data/local/tmp/droidherd/j/{self.key}", LONG_S).text
        return [" ".join(line.split()[:2]) for line in text.splitlines()]

    def _commands(self) -> list[ExecutedCommand]:
        return journal.read(self.farm.fleet.state, self.name)


@dataclass
class Tries:
    """A clock that stands for so many waits; then all time is over. How long each try takes says nothing."""

    left: int

    def now(self) -> float:
        return 0.0 if self.left > 0 else float("inf")

    def sleep(self, seconds: float) -> None:
        self.left -= 1
        time.sleep(seconds)

    def times(self) -> BootClock:
        return BootClock(self.now, self.sleep)

    def patient(self, beat: Callable[[], None]) -> BootClock:
        return self.times()


def eventually(true: Callable[[], bool], within_s: float = LONG_S) -> None:
    """Wait for what another process does in its own time."""
    until_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until_s, "did not happen in time"
        time.sleep(0.02)
