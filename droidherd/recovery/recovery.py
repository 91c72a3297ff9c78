"""What a host does for one of its emulators: its recovery steps, being switched on and off, evidence."""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.contracts.fleet import RecoveryResult, RecoveryWork
from droidherd.controllers.model import POLL_S, ControlledEmulator, Controller, ControllerCall, ControllerError, Power
from droidherd.controllers.registry import Controllers
from droidherd.domain.errors import AbandonedError, DroidherdError, EmulatorLostError
from droidherd.domain.fleet.recovery import RecoveryStep
from droidherd.emulator import boot, lease
from droidherd.emulator.boot import BootGate, BootStep
from droidherd.emulator.eyes import FOCUS_LINE, answered_by
from droidherd.emulator.gate import patient
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink, probe
from droidherd.emulator.token import PART_LIMIT, Token
from droidherd.vision.pixels import encode_png

BOOTED = (BootStep.DEVICE, BootStep.SHELL, BootStep.BOOTED, BootStep.PACKAGES)
"""What a start waits for; the boot gate looks at the rest."""
PROBE_S = 2.0
POWER_EVERY_S = 10.0
"""How often a controller is asked about what boots and does not answer."""
LOG_LINES = 200
LOG_S = 10.0
FRAME_S = 10.0
KEPT = 5
"""Folders of evidence per emulator; the oldest go."""
_SYSTEM = ("com.android.systemui", "com.android.launcher", "com.google.android.apps.nexuslauncher")

Beat = Callable[[], None]
"""Says that it goes on. Raises AbandonedError when nobody wants it any more."""


@dataclass(frozen=True, slots=True)
class RecoveryLimits:
    """How long a vendor's program may take, and how long a boot."""

    call_s: float
    boot_s: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """Of one host's emulators."""

    adb: AdbClient
    inventory: Inventory
    controllers: Controllers
    patience: RecoveryLimits
    folder: Path
    """Where evidence is kept."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What programs of controllers may know."""

    def run(self, work: RecoveryWork, beat: Beat) -> RecoveryResult:
        """Carry a step out. What went wrong is in the result, as evidence."""
        return replace(self, adb=self.adb.with_pulse(beat))._run(work, beat)  # noqa: SLF001 - itself, with a pulse

    def _run(self, work: RecoveryWork, beat: Beat) -> RecoveryResult:
        acts: dict[str, Callable[[InventoryEntry, RecoveryWork, Beat], RecoveryResult]] = {
            RecoveryStep.RECONNECT: self._reconnect,
            RecoveryStep.APP: self._restart_app,
            RecoveryStep.RESTART: self._restart,
            RecoveryStep.START: self._start,
            RecoveryStep.STOP: self._stop,
            RecoveryStep.EVIDENCE: self._evidence,
        }
        try:
            entry = self.inventory.find(work.emulator_id)
            if entry is None:
                raise EmulatorLostError("is not in this host's inventory", to=work.emulator_id)
            beat()
            return acts[work.step](entry, work, beat)
        except AbandonedError:
            raise
        except (DroidherdError, OSError) as error:  # the latter: a disk of this host
            return RecoveryResult(evidence=f"{work.step}: {error}")

    def _call(self, beat: Beat, at_most_s: float = float("inf")) -> ControllerCall:
        return ControllerCall(min(self.patience.call_s, at_most_s), beat, self.environment)

    # --- the lower steps --------------------------------------------------------------------------------------

    def _reconnect(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:  # noqa: ARG002 - one shape
        state = DeviceLink(self.adb).renew(entry.address)
        return RecoveryResult(
            evidence="" if state == "device" else f"reconnected, adb lists it as {state or 'nothing'!r}"
        )

    def _restart_app(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:  # noqa: ARG002
        """Stop what is in front and go home, under a token that shuts out every lease up to now.

        An emulator in trouble is granted to nobody, so what is in front was left there or is the trouble.
        """
        if work.floor:
            lease.floor(self.adb, entry.address, Token(work.floor), work.emulator_id)
        mine = Token(max(work.fence, work.floor), PART_LIMIT - 1, PART_LIMIT - 1)
        if lease.fence(self.adb, entry.address, mine, work.emulator_id) != str(mine):
            return RecoveryResult(idle=True)  # a newer lease is at work
        with answered_by(entry.address, "dumpsys window"):
            focus = parse.focus(self.adb.shell(entry.address, FOCUS_LINE, PROBE_S * 2).text)
        app = focus.component.partition("/")[0] if focus else ""
        if app.startswith(_SYSTEM):
            app = ""
        boot.baseline(self.adb, entry.address, mine, app)
        lease.release(self.adb, entry.address, mine)
        return RecoveryResult()

    # --- on and off -------------------------------------------------------------------------------------------

    def _restart(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:
        """Not if it came back while this waited for its turn, perhaps elsewhere: vendors move emulators."""
        controller = self._controller(entry)
        if not work.forced:
            entry = self._follow_address(entry, controller, self._call(beat))
            if self._is_well(entry, work.boot):
                return RecoveryResult(idle=True)
        controller.restart(target_of(entry), self._call(beat))
        return self._wait_for_boot(entry, controller, beat)

    def _start(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:  # noqa: ARG002 - one shape
        controller = self._controller(entry)
        controller.start(target_of(entry), self._call(beat))
        return self._wait_for_boot(entry, controller, beat)

    def _stop(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:  # noqa: ARG002 - one shape
        self._controller(entry).stop(target_of(entry), self._call(beat))
        until_s = time.monotonic() + self.patience.call_s
        while self._answers(entry):
            if time.monotonic() > until_s:
                raise ControllerError("was stopped and still answers", to=entry.emulator_id)
            beat()
            time.sleep(POLL_S)
        with contextlib.suppress(DroidherdError):
            self.adb.disconnect(entry.address)
        return RecoveryResult()

    def _is_well(self, entry: InventoryEntry, bad_boot: str) -> bool:
        """Whether it answers, it and nobody else, in another boot than the one that is no good."""
        try:
            found = DeviceLink(self.adb).ensure(entry.address, deadline_s=PROBE_S)
        except EmulatorLostError:
            return False
        return found.boot_id != bad_boot and not self.inventory.impostor(entry, found.serialno, found.name)

    def _answers(self, entry: InventoryEntry) -> bool:
        """Whether it still does on the connection there is. Its port may be another one's the moment it is free."""
        try:
            found = probe(self.adb, entry.address, PROBE_S)
        except EmulatorLostError:
            return False
        return not self.inventory.impostor(entry, found.serialno, found.name)

    def _wait_for_boot(self, entry: InventoryEntry, controller: Controller, beat: Beat) -> RecoveryResult:
        """Until Android answers, so that the next one's turn comes when this one's work is done."""
        until_s = time.monotonic() + self.patience.boot_s
        entry = self._follow_address(entry, controller, self._call(beat))
        gate = BootGate(self.adb, entry.address, lambda _: beat(), self._attentive(entry, controller, beat))
        gate.wait(max(until_s - time.monotonic(), 1.0), BOOTED)
        return RecoveryResult()

    def _attentive(self, entry: InventoryEntry, controller: Controller, beat: Beat) -> boot.BootClock:
        """A clock whose waits end when the emulator was on and is off again: the next one's turn has come.

        Vendors say `off` for a moment in the middle of a restart, so that has to be heard twice in a row.
        """
        times = patient(beat)
        heard: list[Power] = []
        asked_s = [float("-inf")]

        def sleep(seconds: float) -> None:
            times.sleep(seconds)
            if times.now() - asked_s[-1] < POWER_EVERY_S:
                return
            heard.append(self._power_of(entry, controller, beat))
            asked_s.append(times.now())
            if heard[-2:] == [Power.OFF] * 2 and not {Power.ON, Power.STARTING}.isdisjoint(heard):
                raise ControllerError("went off while it booted", to=entry.emulator_id, remedy="see its own log")

        return replace(times, sleep=sleep)

    def _power_of(self, entry: InventoryEntry, controller: Controller, beat: Beat) -> Power:
        """Who does not answer says nothing."""
        try:
            return controller.status(target_of(entry), self._call(beat, POWER_EVERY_S)).power
        except ControllerError:
            return Power.UNKNOWN

    def _follow_address(self, entry: InventoryEntry, controller: Controller, call: ControllerCall) -> InventoryEntry:
        """Vendors may give it another port after each start; the probe loop follows the inventory."""
        address = controller.status(target_of(entry), call).address
        if not address or address == entry.address:
            return entry
        return self.inventory.move(entry, address)

    def _controller(self, entry: InventoryEntry) -> Controller:
        controller = self.controllers.find(entry.controller)
        if controller is None:
            raise ControllerError("nobody starts and stops it", to=entry.emulator_id, remedy="give it a controller")
        return controller

    # --- evidence ---------------------------------------------------------------------------------------------

    def _evidence(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> RecoveryResult:
        """What can still be seen of it: a probe, the screen, the end of its log. Each may fail by itself."""
        try:
            folder = self._gather(entry, work, beat)
        except OSError as error:
            kept = f"the evidence could not be kept: {error}"
        else:
            kept = f"see {folder}"
        return RecoveryResult(evidence=f"{work.why}; {kept}" if work.why else kept)

    def _gather(self, entry: InventoryEntry, work: RecoveryWork, beat: Beat) -> Path:
        home = self.folder / entry.emulator_id
        folder = home / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"emulator: {entry.emulator_id} at {entry.address}", f"trouble: {work.why or 'not told'}"]
        parts: dict[str, Callable[[], str]] = {
            "controller": lambda: self._power(entry, beat),
            "probe": lambda: repr(probe(self.adb, entry.address, PROBE_S)),
            "focus": lambda: repr(parse.focus(self.adb.shell(entry.address, FOCUS_LINE, PROBE_S * 2).text)),
            "screen": lambda: self._screen(entry, folder),
            "log": lambda: self._log(entry, folder),
        }
        for name, look in parts.items():
            beat()
            try:
                lines.append(f"{name}: {look()}")
            except AbandonedError:
                raise
            except DroidherdError as error:
                lines.append(f"{name}: not to be had: {error}")
        (folder / "what.txt").write_text("\n".join(lines) + "\n", "utf-8")
        for old in sorted(home.iterdir())[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return folder

    def _power(self, entry: InventoryEntry, beat: Beat) -> str:
        controller = self.controllers.find(entry.controller)
        return controller.status(target_of(entry), self._call(beat)).power if controller else "none"

    def _screen(self, entry: InventoryEntry, folder: Path) -> str:
        (folder / "screen.png").write_bytes(encode_png(self.adb.capture(entry.address, FRAME_S)))
        return "screen.png"

    def _log(self, entry: InventoryEntry, folder: Path) -> str:
        result = self.adb.shell(entry.address, f"logcat -d -t {LOG_LINES}", LOG_S)
        (folder / "logcat.txt").write_text(result.text, "utf-8")
        return "logcat.txt"


def target_of(entry: InventoryEntry) -> ControlledEmulator:
    return ControlledEmulator(entry.emulator_id, entry.address, entry.instance, entry.serialno)
