"""What hosts do for their emulators: measures on two queues, one boot at a time, and what becomes of the things."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from droidherd.domain.ladder import BOOTS, Measure, Rung, Trouble
from tests.protocol import script

if TYPE_CHECKING:
    from tests.protocol.emulators import Handset
    from tests.protocol.fleet import EmulatorActor
    from tests.protocol.simulator import World

QUEUE_TIMEOUT_MS = 30_000
TIMED_OUT = "timed out"
CURES = {Rung.RECONNECT: ("connection",), Rung.APP: ("connection", "app")}
"""Which trouble goes away by which rung. A boot helps against all."""


@dataclass(slots=True, eq=False)
class Tending:
    """One measure, as the engine knows it and as its host carries it out."""

    actor: "EmulatorActor"
    measure: Measure
    host: str
    incarnation: int
    bad_boot: str
    lease: int
    """No lease up to this one is at work there."""
    queued_ms: int
    started: bool = False
    given_up: bool = False
    """The engine does not want to hear of it any more."""
    gone: bool = False
    """No thread carries it out any more."""
    last_beat_ms: int = 0
    boots_until_ms: int = 0
    said: tuple[str, bool] | None = None
    """Evidence, and whether nothing had to be done."""

    @property
    def emulator(self) -> str:
        return self.actor.machine.emulator_id

    def live(self) -> bool:
        return self.started and not self.gone


class Hands:
    """Of all hosts."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.all: list[Tending] = []

    def tend(self, actor: "EmulatorActor", due: Measure) -> Tending:
        """The emulator's workflow schedules the activity."""
        machine, now = actor.machine, self.world.now
        bad_boot = machine.boot if due.trouble is Trouble.UNFIT else ""
        lease = max(machine.tidy, now)
        tending = Tending(actor, due, machine.owner, machine.incarnation, bad_boot, lease, now)
        self.all.append(tending)
        return tending

    def work(self) -> None:
        """One step of everything that is under way."""
        for tending in list(self.all):
            self._step(tending)
            if tending.gone and tending.given_up:
                self.all.remove(tending)
        for handset in self.world.handsets.values():
            if handset.rises_ms and self.world.now >= handset.rises_ms:
                handset.rise()

    def vanish(self, host: str) -> None:
        """Its worker was killed. What a vendor began to boot may boot on."""
        for tending in self.all:
            if tending.host == host and tending.live():
                tending.gone = True
                if tending.boots_until_ms and self.world.below(2):
                    self.world.handsets[tending.emulator].rises_ms = tending.boots_until_ms

    def timeouts(self) -> None:
        """The engine gives up what it heard nothing of. A boot may wait for its turn for as long as it takes."""
        now = self.world.now
        for tending in [one for one in self.all if not one.given_up]:
            late = tending.started and now - tending.last_beat_ms > script.PRESENCE_TIMEOUT_MS
            if not tending.started and tending.measure.rung not in BOOTS:
                late = now - tending.queued_ms > QUEUE_TIMEOUT_MS
            if late:
                self.world.count("measure timed out")
                self._end(tending, TIMED_OUT)

    # --- one of them ------------------------------------------------------------------------------------------

    def _step(self, tending: Tending) -> None:
        host = self.world.hosts[tending.host]
        if tending.gone or not host.worker:
            tending.gone = tending.gone or tending.given_up
            return
        if not tending.started:
            tending.gone = tending.given_up
            if host.connected and not tending.gone and self._turn(tending):
                self._start(tending)
            return
        if host.connected and tending.given_up:
            self.world.count("measure abandoned")
            tending.gone = True
            return
        if host.connected:
            tending.last_beat_ms = self.world.now
        if tending.said is None:
            tending.said = self._act(tending, self.world.handsets[tending.emulator])
        if tending.said is not None and host.connected:
            tending.gone = True
            self._end(tending, *tending.said)

    def _turn(self, tending: Tending) -> bool:
        """Boots wait for each other; everything else has a slot at once."""
        if tending.measure.rung not in BOOTS:
            return True
        return not any(one.live() and one.host == tending.host and one.measure.rung in BOOTS for one in self.all)

    def _start(self, tending: Tending) -> None:
        tending.started, tending.last_beat_ms = True, self.world.now
        others = [one for one in self.all if one is not tending and one.live() and one.emulator == tending.emulator]
        # Who is cut off from the engine cannot be called back, and nothing on a vendor's side fences it.
        if any(one.host == tending.host or self.world.hosts[one.host].connected for one in others):
            self.world.witness.broken(f"{tending.emulator} is cared for by two: {tending} and {others}")

    def _end(self, tending: Tending, evidence: str, idle: bool = False) -> None:
        self.world.count(f"{tending.measure.rung} {'failed' if evidence else 'idle' if idle else 'done'}")
        tending.given_up = True
        self.world.later.append((tending.actor, (tending, evidence, idle)))

    def _act(self, tending: Tending, handset: "Handset") -> tuple[str, bool] | None:
        """None: not done yet."""
        rung = tending.measure.rung
        if rung in (Rung.START, Rung.RESTART):
            return self._boot(tending, handset)
        if rung is Rung.EVIDENCE:
            return "see folder", False
        if rung is Rung.STOP:
            return self._stop(tending, handset)
        return self._mend(tending, handset)

    def _stop(self, tending: Tending, handset: "Handset") -> tuple[str, bool]:
        if handset.stubborn:
            return "still answers", False
        self.world.witness.switches_off(handset, tending)
        handset.fall()
        return "", False

    def _mend(self, tending: Tending, handset: "Handset") -> tuple[str, bool]:
        rung = tending.measure.rung
        if handset.host != tending.host or not handset.answers():
            return "no answer", False
        if rung is Rung.APP and not handset.clear(tending.lease):
            return "", True
        if handset.unfit in CURES[rung]:
            handset.unfit = ""
        return "", False

    def _boot(self, tending: Tending, handset: "Handset") -> tuple[str, bool] | None:
        now, due = self.world.now, tending.measure
        if not tending.boots_until_ms:
            well = handset.host == tending.host and handset.answers() and f"b{handset.boot}" != tending.bad_boot
            if due.rung is Rung.RESTART and due.trouble is not Trouble.NONE and well:
                return "", True
            if due.rung is Rung.START and handset.answers():
                return "", False
            booting = [one for one in self.all if one.live() and one.host == tending.host and one.boots_until_ms]
            if booting:
                self.world.witness.broken(f"{tending.host} boots {handset.name} while it boots {booting}")
            handset.fall()
            tending.boots_until_ms = now + 500 + 1_000 * self.world.below(8)
        if now < tending.boots_until_ms:
            return None
        if handset.fails:
            handset.fails -= 1
            return "did not boot", False
        handset.rise()
        return "", False
