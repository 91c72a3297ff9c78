"""What a host does on an emulator before it may be used: the boot gate, the fencing of old leases, the baseline."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from droidherd.adb.client import AdbClient
from droidherd.adb.wire import CallInterrupt
from droidherd.contracts.fleet import GateResult, GateWork
from droidherd.domain.errors import DroidherdError, EmulatorLostError
from droidherd.domain.ports import Frame
from droidherd.emulator import boot, lease
from droidherd.emulator.boot import FULL, SHORT, BootGate
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.token import PART_LIMIT, Token

SHORT_S = 30.0


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    """Passes gates on one host's emulators."""

    adb: AdbClient
    inventory: Inventory
    boot_s: float
    cameras: Cameras | None = None
    """None: raw frames, without a probe."""

    def work(self, work: GateWork, beat: Callable[[str], None]) -> GateResult:
        """Bring the emulator to where it may be granted. What went wrong is in the result, as evidence."""
        reached: list[str] = []

        def report(stage: boot.BootStep) -> None:
            reached.append(stage)
            beat(stage)

        def pulse() -> None:
            beat(reached[-1] if reached else "")

        try:
            pulsed = replace(self, adb=self.adb.with_pulse(pulse))
            boot_id, token = pulsed._pass(work, report, pulse)  # noqa: SLF001 - itself, with a pulse
        except DroidherdError as error:
            return GateResult(passed=False, stages=tuple(reached), evidence=str(error))
        return GateResult(passed=True, boot=boot_id, stages=tuple(reached), token=token)

    def _pass(
        self, work: GateWork, report: Callable[[boot.BootStep], None], pulse: Callable[[], None]
    ) -> tuple[str, int]:
        """Its boot, and the lease of a token that others put there."""
        entry = self.inventory.find(work.emulator_id)
        if entry is None:
            raise EmulatorLostError("is not in this host's inventory", to=work.emulator_id)
        camera = self._camera(work, CallInterrupt(pulse))
        gate = BootGate(self.adb, entry.address, report, patient(pulse), take=camera)
        found = gate.wait(self.boot_s if work.full else SHORT_S, FULL if work.full else SHORT)
        if who := self.inventory.impostor(entry, found.serialno, found.name):
            raise EmulatorLostError(
                f"{who} answers in its place", to=work.emulator_id, remedy="correct its address in the inventory"
            )
        others = 0
        if work.full:
            stands = lease.floor(self.adb, entry.address, Token(work.floor), work.emulator_id, found.name)
            others = _lease_of_others(stands, Token(work.floor))
        if work.fence:
            others = self._fence(entry, work.fence)
        return found.boot_id, others

    def _camera(self, work: GateWork, interrupt: CallInterrupt) -> Callable[[str, float], Frame] | None:
        """The way this emulator is seen; after a boot that is found out anew, by the gate's own frame."""
        if self.cameras is None:
            return None
        if work.full:
            self.cameras.forget(work.emulator_id)
        return partial(self.cameras.take, work.emulator_id, interrupt=interrupt)

    def _fence(self, entry: InventoryEntry, fence: int) -> int:
        """Shut out a lease that ended badly, and remove what it left on the screen. The lease of a newer one there."""
        serial, mine = entry.address, Token(fence, PART_LIMIT - 1, PART_LIMIT - 1)
        stands = lease.fence(self.adb, serial, mine, entry.emulator_id)
        if stands == str(mine):
            boot.baseline(self.adb, serial, mine)
            lease.release(self.adb, serial, mine)
        return _lease_of_others(stands, mine)


def _lease_of_others(stands: str, mine: Token) -> int:
    """0: the token that stands is ours."""
    return Token.parse(stands).lease if stands != str(mine) else 0


def patient(beat: Callable[[], None]) -> boot.BootClock:
    """A clock whose waits show that somebody waits: a boot takes longer than any silence is borne."""

    def sleep(seconds: float) -> None:
        beat()
        time.sleep(seconds)

    return boot.BootClock(sleep=sleep)
