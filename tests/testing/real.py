"""The stages of tasks under skipped time, carried out for real: on a virtual emulator, against a real server."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from typing_extensions import override

from activities.errors import translated
from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.contracts.stage import StageReport, StageWork
from droidherd.emulator.inventory import Inventory
from droidherd.flows.catalogue import Catalogue
from droidherd.flowtools.records import credential_store
from droidherd.stage.attempt import StageAttempt
from droidherd.stage.context import HostClock, StageServices
from droidherd.testing.answers import Answer
from droidherd.testing.flows import FlowEmulator, virtual_emulator
from droidherd.testing.skipping import Herd
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient
from tests.handlers.server import Site, serving

FULL = 1 << 60
"""No disk has so much room."""


SLOWED = 20
"""By so much the clock of a stage runs slower than the machine's, so that a busy machine does not use up its limit."""


@dataclass
class LateClock(HostClock):
    """The host's clock, put forward when the stage's first step begins. The stage's own waits pass in full."""

    late_s: float
    begun: bool = False
    _began_s: float = field(default_factory=time.monotonic)
    _slept_s: float = 0.0

    @override
    def now(self) -> float:
        worked_s = time.monotonic() - self._began_s - self._slept_s
        return self._began_s + self._slept_s + worked_s / SLOWED + (self.late_s if self.begun else 0.0)

    @override
    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._slept_s += seconds


@dataclass
class Life:
    """Confirmed at once, asked for nothing."""

    clock: LateClock

    def beat(self, progress: str = "") -> None:
        self.clock.begun = self.clock.begun or progress[:1].isdigit()

    def send(self, progress: str = "") -> Callable[[], None]:
        return lambda: self.beat(progress)

    def stopping(self) -> str:
        return ""

    def leaving(self) -> bool:
        return False

    def confirmed_s(self) -> float:
        return time.monotonic()

    def begin_writing(self) -> None:
        pass


@dataclass
class Place:
    """An emulator, a server, and what a worker has at hand."""

    emulator: FlowEmulator
    site: Site
    web: WebClient
    root: Path
    reports: list[StageReport] = field(default_factory=list)

    def runs(self, herd: Herd, late: timedelta = timedelta(), *, full: bool = False) -> Answer:
        """The stage itself. So much time passes at its first step; the host's disk may be `full`."""

        async def answer(work: StageWork) -> StageReport:
            if late:
                await herd.takes(late, watched=False)(work)
            clock = LateClock(late.total_seconds())
            attempt = StageAttempt(self._services(clock, full=full), work, Life(clock))
            self.reports.append(await asyncio.to_thread(translated(attempt.run)))
            return self.reports[-1]

        return answer

    def _services(self, clock: LateClock, *, full: bool) -> StageServices:
        home = self.emulator.home
        store = DirectoryStore(self.root / "artifacts", writer=Writer(reserve_bytes=FULL if full else 0))
        return StageServices(
            self.emulator.adb,
            Inventory(home),
            Catalogue(),
            store,
            "w1",
            credential_store({}),
            self.web,
            self.root / "scratch",
            clock=clock,
            writer=store.writer,
        )


@contextmanager
def place(root: Path) -> Generator[Place]:
    with (
        serving() as site,
        virtual_emulator() as emulator,
        WebClient(AllowList.of((site.address,))) as web,
    ):
        yield Place(emulator, site, web, root)
