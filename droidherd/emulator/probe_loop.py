"""A host's round: probes each of its emulators end to end, and says what is new."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from droidherd import telemetry
from droidherd.adb.server import AdbServer
from droidherd.contracts.fleet import PresenceBeat, ProbedEmulator
from droidherd.domain.errors import BadParametersError, DroidherdError, EmulatorLostError, ServerSilencedError
from droidherd.domain.messages import Health, RecoveryPolicy, Seen
from droidherd.emulator.connection_watch import ConnectionWatch
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink, ProbeResult

T = TypeVar("T")
Tell: TypeAlias = Callable[[tuple[Seen, ...], tuple[str, ...] | None], Awaitable[None]]
"""Takes what is new and, once, as soon as the list can be read, the ids of all who are on it."""
log = logging.getLogger(__name__)

GOOD_FOR_UP = 2
"""Good probes in a row until an emulator is up."""
SOON_S = 0.03
"""Between two probes of an emulator on its way up."""
REFUSED_S = 1.0
PATIENT_AFTER = 10
PATIENT_S = 5.0
"""After so many unanswered probes in a row the next ones come more slowly: adb suffers from being asked in vain."""
SILENCE_S, SILENCE_MAX_S = 2.0, 300.0
"""Whoever silences the adb server while it connects is left alone for so long, and each time for twice as long.

One device can do so with signatures that it asks for without end; then the server has to be started again, and all
other emulators of the host have to be connected anew.
"""
INVENTORY_EVERY_S = 1.0
REASONS_LOGGED = 5
"""Of one outage, in the log."""


@dataclass(frozen=True, slots=True)
class ProbeTiming:
    """How often, and how long to wait."""

    every_s: float
    timeout_s: float
    down_after_s: float


@dataclass(frozen=True, slots=True)
class ProbedHost:
    """Whose emulators these are."""

    host_id: str
    pool: str
    recovery: RecoveryPolicy | None = None
    """What can be done for them here, whoever their controllers are."""


@dataclass(slots=True)
class Watched:
    """One emulator, as its host's probes see it."""

    health: Health | None = None
    """None: nothing was told of it yet. Others may still believe what was told by whoever watched it before."""
    boot: str = ""
    good_in_a_row: int = 0
    last_good_s: float = -math.inf


@dataclass(slots=True)
class Watch:
    """All emulators of one host. `good` and `bad` return whether there is news to tell."""

    down_after_s: float
    emulators: dict[str, Watched] = field(default_factory=dict)

    def good(self, emulator_id: str, boot: str, now_s: float) -> bool:
        """A probe was answered end to end."""
        watched = self.emulators.setdefault(emulator_id, Watched())
        before = (watched.health, watched.boot)
        watched.last_good_s = now_s
        watched.good_in_a_row += 1
        watched.boot = boot
        if watched.good_in_a_row >= GOOD_FOR_UP:
            watched.health = Health.GOOD
        return (watched.health, watched.boot) != before and watched.health is Health.GOOD

    def bad(self, emulator_id: str, now_s: float) -> bool:
        """A probe was not answered, or not by the one we meant."""
        watched = self.emulators.setdefault(emulator_id, Watched())
        before = watched.health
        watched.good_in_a_row = 0
        if watched.health is not Health.DOWN:
            gone = now_s - watched.last_good_s >= self.down_after_s
            watched.health = Health.DOWN if gone else Health.SUSPECT
        return watched.health is not before

    def age_s(self, emulator_id: str, now_s: float) -> float:
        """How long ago a probe was answered; infinite when none was."""
        watched = self.emulators.get(emulator_id)
        return now_s - watched.last_good_s if watched is not None else math.inf

    def forget(self, emulator_id: str) -> None:
        """It is watched no longer. Should it come back, whatever is found then is news."""
        self.emulators.pop(emulator_id, None)

    def is_settled(self, emulator_id: str) -> bool:
        """Whether the next probe may wait for its turn; an emulator on its way up is probed again at once."""
        watched = self.emulators.get(emulator_id)
        return watched is not None and watched.health is Health.GOOD


class ProbeLoop:
    """Runs until cancelled. One task per emulator; the blocking part on the given threads."""

    def __init__(
        self,
        post: ProbedHost,
        server: AdbServer,
        inventory: Inventory,
        round_: ProbeTiming,
        threads: ThreadPoolExecutor,
    ) -> None:
        """Over one adb server, which is kept alive on the way."""
        self._post = post
        self._server = server
        self._inventory = inventory
        self._round = round_
        self._threads = threads
        self._adb = server.client()
        self._link = DeviceLink(self._adb)
        self._watch = Watch(round_.down_after_s)
        self._walks: dict[str, tuple[InventoryEntry, asyncio.Task[None]]] = {}
        self._news: dict[str, Seen] = {}
        self._changed = asyncio.Event()
        self._boots: dict[str, tuple[str, str]] = {}
        self._broken: dict[str, asyncio.Event] = {}
        """By address: set when the adb server says that its connection broke."""
        self._reasons: dict[str, set[str]] = {}
        """Why an emulator does not answer, as far as it was told since it last did."""
        self._silences: dict[str, int] = {}
        """How often the adb server fell silent when it connected an emulator, since that one was good."""
        self._leaving = False

    async def run(self, tell: Tell, incarnation: int) -> None:
        """Tell all who are listed, then what is new, in order, as soon as it is known."""
        loop = asyncio.get_running_loop()
        supervisor = asyncio.create_task(self._keep_server())
        ear = ConnectionWatch(self._adb, lambda addresses: _call_on_loop(loop, lambda: self._wake(addresses)))
        try:
            listed = self._all_listed(incarnation)
            await tell((), listed)
            while True:
                if supervisor.done():
                    await supervisor  # raises: the host must not look watched while nobody keeps its adb server
                unread, listed = listed is None, self._all_listed(incarnation)
                if unread and listed is not None:
                    await tell((), listed)
                try:
                    await asyncio.wait_for(self._changed.wait(), INVENTORY_EVERY_S)
                except TimeoutError:
                    continue
                self._changed.clear()
                news, self._news = tuple(self._news.values()), {}
                await tell(news, None)
        finally:
            supervisor.cancel()
            for _, walk in self._walks.values():
                walk.cancel()
            ear.close()

    def leave(self, incarnation: int) -> None:
        """The host is about to go: no emulator of it is good for anything new from now on."""
        self._leaving = True
        for entry, _ in self._walks.values():
            if self._watch.is_settled(entry.emulator_id):
                self._say(self._report_of(entry, Health.LEAVING, incarnation))

    def tell_again(self, emulators: Iterable[str], incarnation: int, *, only: Health | None = None) -> None:
        """Say what is known of these: whoever heard it is gone. `only`: if it is this."""
        for emulator_id in emulators:
            entry, _ = self._walks.get(emulator_id, (None, None))
            watched = self._watch.emulators.get(emulator_id)
            if entry is None or watched is None or watched.health is None:
                continue
            if only is None or watched.health is only:
                self._say(self._report_of(entry, watched.health, incarnation))

    def disown(self, emulators: Iterable[str], incarnation: int) -> None:
        """Say that these have left, which are not on the list: they are believed to be here."""
        if not self._inventory.unread:
            for emulator_id in [one for one in emulators if one not in self._walks]:
                host, pool = self._post.host_id, self._post.pool
                self._say(Seen(emulator_id, host, incarnation, 0, Health.LEFT, pool=pool))

    def last_probes(self) -> PresenceBeat:
        """Of every emulator on the list, when a probe was answered last."""
        probed = {
            entry.emulator_id: ProbedEmulator(address=entry.address, good_at_ms=self._good_at_ms(entry.emulator_id))
            for entry, _ in self._walks.values()
        }
        return PresenceBeat(emulators=probed)

    def _good_at_ms(self, emulator_id: str) -> int:
        age_s = self._watch.age_s(emulator_id, time.monotonic())
        return int((time.time() - age_s) * 1000) if age_s < math.inf else 0

    def left_reports(self, incarnation: int) -> tuple[Seen, ...]:
        """What is said when the host leaves in order."""
        return tuple(self._report_of(entry, Health.LEFT, incarnation) for entry, _ in self._walks.values())

    # --- the list ---------------------------------------------------------------------------------------------

    def _all_listed(self, incarnation: int) -> tuple[str, ...] | None:
        """Followed from now on. None: the list makes no sense yet, which was so before whoever corrects it now did."""
        self._inventory.entries()
        unread = self._inventory.unread
        self._sync_walks(incarnation)
        return None if unread else tuple(self._walks)

    def _sync_walks(self, incarnation: int) -> None:
        """Follow the inventory: walk to whoever is new, stop walking to whoever left."""
        entries = {entry.emulator_id: entry for entry in self._inventory.entries()}
        changed: set[str] = set()
        for emulator_id, (entry, walk) in list(self._walks.items()):
            if entries.get(emulator_id) != entry:
                walk.cancel()
                del self._walks[emulator_id]
                if emulator_id in entries:
                    changed.add(emulator_id)
                else:
                    self._watch.forget(emulator_id)
                    self._say(self._report_of(entry, Health.LEFT, incarnation))
        for emulator_id, entry in entries.items():
            if emulator_id not in self._walks:
                walk = self._walk(entry, incarnation, changed=emulator_id in changed)
                self._walks[emulator_id] = (entry, asyncio.create_task(walk, name=f"probe loop {emulator_id}"))

    async def _keep_server(self) -> None:
        """The adb server of this host, supervised. One that cannot be started now is tried again, for ever."""
        up = telemetry.metrics.adb_up.labels(host=self._post.host_id)
        while True:
            try:
                await self._blocking(self._server.ensure)
                up.set(1)
            except (DroidherdError, OSError) as error:
                up.set(0)
                log.warning("the adb server could not be started: %s", error)
            await asyncio.sleep(REFUSED_S)

    # --- one emulator -----------------------------------------------------------------------------------------

    async def _walk(self, entry: InventoryEntry, incarnation: int, *, changed: bool) -> None:
        """Probe, judge, wait; for ever. `changed`: the list says something new of it, so its first probe is news."""
        missed = 0
        broken = self._broken[entry.address] = asyncio.Event()
        while True:
            broken.clear()
            began_s = time.monotonic()
            found = await self._probe(entry, incarnation)
            now_s = time.monotonic()
            missed = 0 if found else missed + 1
            if found is None:
                news = self._watch.bad(entry.emulator_id, now_s)
            else:
                self._boots[entry.emulator_id] = (found.boot_id, found.serialno)
                self._reasons.pop(entry.emulator_id, None)
                self._silences.pop(entry.emulator_id, None)
                news = self._watch.good(entry.emulator_id, found.boot_id, now_s)
            health = self._watch.emulators[entry.emulator_id].health
            if health is not None and (news or changed):
                changed = False
                self._say(self._report_of(entry, health, incarnation))
            pause_s = self._round.every_s if self._watch.is_settled(entry.emulator_id) else SOON_S
            if found is None:
                pause_s = min(self._round.every_s, REFUSED_S) if missed < PATIENT_AFTER else PATIENT_S
            pause_s = max(pause_s - (now_s - began_s), self._silence_s(entry.emulator_id), SOON_S)
            if missed:
                await asyncio.sleep(pause_s)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(broken.wait(), pause_s)

    def _silence_s(self, emulator_id: str) -> float:
        """How long it is left alone."""
        times = self._silences.get(emulator_id, 0)
        return min(SILENCE_S * 2 ** min(times - 1, 20), SILENCE_MAX_S) if times else 0.0

    def _wake(self, addresses: frozenset[str]) -> None:
        for address in addresses:
            if broken := self._broken.get(address):
                broken.set()

    async def _probe(self, entry: InventoryEntry, incarnation: int) -> ProbeResult | None:
        """One probe; None when it was not answered in time, or by somebody else."""
        asked = asyncio.ensure_future(self._blocking(lambda: self._meet(entry)))
        try:
            return await asyncio.wait_for(asyncio.shield(asked), 1.5 * self._round.timeout_s)
        except TimeoutError:
            news = self._watch.bad(entry.emulator_id, time.monotonic())
            health = self._watch.emulators[entry.emulator_id].health
            if health is not None and news:
                self._say(self._report_of(entry, health, incarnation))
        except DroidherdError as error:
            return self._note_unanswered(entry, error)
        try:
            return await asked
        except DroidherdError as error:
            return self._note_unanswered(entry, error)

    def _note_unanswered(self, entry: InventoryEntry, error: DroidherdError) -> None:
        """People want to know what is wrong with one that never comes."""
        if isinstance(error, ServerSilencedError):
            self._silences[entry.emulator_id] = self._silences.get(entry.emulator_id, 0) + 1
        logged = self._reasons.setdefault(entry.emulator_id, set())
        if str(error) not in logged and len(logged) < REASONS_LOGGED:
            logged.add(str(error))
            log.warning("%s does not answer: %s", entry.emulator_id, error)

    def _meet(self, entry: InventoryEntry) -> ProbeResult:
        """Whoever answers must be the one that is meant, by its serial number and by the name it was given here."""
        found = self._link.ensure(entry.address, deadline_s=self._round.timeout_s)
        if who := self._inventory.impostor(entry, found.serialno, found.name):
            raise EmulatorLostError(f"{who} answers at this address", to=entry.emulator_id)
        if found.serialno and not entry.serialno:
            try:
                self._inventory.identify(entry.emulator_id, found.serialno)
            except (BadParametersError, OSError) as error:
                log.warning("who answers at %s could not be written down: %s", entry.address, error)
        return found

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _report_of(self, entry: InventoryEntry, health: Health, incarnation: int) -> Seen:
        boot, serialno = self._boots.get(entry.emulator_id, ("", entry.serialno))
        if self._leaving and health is Health.GOOD:
            health = Health.LEAVING
        labels = tuple(sorted(f"{name}={value}" for name, value in entry.labels.items()))
        return Seen(
            entry.emulator_id,
            self._post.host_id,
            incarnation,
            0,
            health,
            boot if health is Health.GOOD else "",
            entry.address,
            serialno,
            labels,
            self._post.pool,
            replace(self._post.recovery, controller=entry.controller) if self._post.recovery else None,
            good_at_ms=self._good_at_ms(entry.emulator_id),
        )

    def _say(self, seen: Seen) -> None:
        self._news[seen.emulator_id] = seen
        self._changed.set()


def _call_on_loop(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """From another thread; a loop that has ended hears nothing any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
