"""What hosts do for their emulators: steps on two queues, one boot at a time, and what becomes of the things."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from droidherd.domain.fleet.recovery import BOOTS, EmulatorTrouble, PlannedStep, RecoveryStep
from tests.protocol import script

if TYPE_CHECKING:
    from tests.protocol.emulators import Handset
    from tests.protocol.fleet import EmulatorActor
    from tests.protocol.simulator import World

QUEUE_TIMEOUT_MS = 30_000
TIMED_OUT = "timed out"
CURES = {RecoveryStep.RECONNECT: ("connection",), RecoveryStep.APP: ("connection", "app")}
"""Which trouble goes away by which step. A boot helps against all."""


@dataclass(slots=True, eq=False)
class RecoveryJob:
    """One step, as the engine knows it and as its host carries it out."""

    actor: "EmulatorActor"
    step: PlannedStep
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
    result: tuple[str, bool] | None = None
    """Evidence, and whether nothing had to be done."""

    @property
    def emulator(self) -> str:
        return self.actor.machine.state.emulator_id

    def live(self) -> bool:
        return self.started and not self.gone


class Hands:
    """Of all hosts."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.all: list[RecoveryJob] = []

    def start(self, actor: "EmulatorActor", due: PlannedStep) -> RecoveryJob:
        """The emulator's workflow schedules the activity."""
        machine, now = actor.machine, self.world.now
        bad_boot = machine.state.boot if due.trouble is EmulatorTrouble.UNFIT else ""
        lease = max(machine.state.reset_wanted, now)
        job = RecoveryJob(actor, due, machine.state.owner, machine.state.incarnation, bad_boot, lease, now)
        self.all.append(job)
        return job

    def work(self) -> None:
        """One step of everything that is under way."""
        for job in list(self.all):
            self._step(job)
            if job.gone and job.given_up:
                self.all.remove(job)
        for handset in self.world.handsets.values():
            if handset.rises_ms and self.world.now >= handset.rises_ms:
                handset.rise()

    def vanish(self, host: str) -> None:
        """Its worker was killed. What a vendor began to boot may boot on."""
        for job in self.all:
            if job.host == host and job.live():
                job.gone = True
                if job.boots_until_ms and self.world.below(2):
                    self.world.handsets[job.emulator].rises_ms = job.boots_until_ms

    def timeouts(self) -> None:
        """The engine gives up what it heard nothing of. A boot may wait for its turn for as long as it takes."""
        now = self.world.now
        for job in [one for one in self.all if not one.given_up]:
            late = job.started and now - job.last_beat_ms > script.PRESENCE_TIMEOUT_MS
            if not job.started and job.step.step not in BOOTS:
                late = now - job.queued_ms > QUEUE_TIMEOUT_MS
            if late:
                self.world.count("step timed out")
                self._end(job, TIMED_OUT)

    # --- one of them ------------------------------------------------------------------------------------------

    def _step(self, job: RecoveryJob) -> None:
        host = self.world.hosts[job.host]
        if job.gone or not host.worker:
            job.gone = job.gone or job.given_up
            return
        if not job.started:
            job.gone = job.given_up
            if host.connected and not job.gone and self._turn(job):
                self._start(job)
            return
        if host.connected and job.given_up:
            self.world.count("step abandoned")
            job.gone = True
            return
        if host.connected:
            job.last_beat_ms = self.world.now
        if job.result is None:
            job.result = self._act(job, self.world.handsets[job.emulator])
        if job.result is not None and host.connected:
            job.gone = True
            self._end(job, *job.result)

    def _turn(self, job: RecoveryJob) -> bool:
        """Boots wait for each other; everything else has a slot at once."""
        if job.step.step not in BOOTS:
            return True
        return not any(one.live() and one.host == job.host and one.step.step in BOOTS for one in self.all)

    def _start(self, job: RecoveryJob) -> None:
        job.started, job.last_beat_ms = True, self.world.now
        others = [one for one in self.all if one is not job and one.live() and one.emulator == job.emulator]
        # Who is cut off from the engine cannot be called back, and nothing on a vendor's side fences it.
        if any(one.host == job.host or self.world.hosts[one.host].connected for one in others):
            self.world.witness.broken(f"{job.emulator} is recovered by two: {job} and {others}")

    def _end(self, job: RecoveryJob, evidence: str, idle: bool = False) -> None:
        self.world.count(f"{job.step.step} {'failed' if evidence else 'idle' if idle else 'done'}")
        job.given_up = True
        self.world.later.append((job.actor, (job, evidence, idle)))

    def _act(self, job: RecoveryJob, handset: "Handset") -> tuple[str, bool] | None:
        """None: not done yet."""
        step = job.step.step
        if step in (RecoveryStep.START, RecoveryStep.RESTART):
            return self._boot(job, handset)
        if step is RecoveryStep.EVIDENCE:
            return "see folder", False
        if step is RecoveryStep.STOP:
            return self._stop(job, handset)
        return self._cure(job, handset)

    def _stop(self, job: RecoveryJob, handset: "Handset") -> tuple[str, bool]:
        if handset.stubborn:
            return "still answers", False
        self.world.witness.switches_off(handset, job)
        handset.fall()
        return "", False

    def _cure(self, job: RecoveryJob, handset: "Handset") -> tuple[str, bool]:
        step = job.step.step
        if handset.host != job.host or not handset.answers():
            return "no answer", False
        if step is RecoveryStep.APP and not handset.clear(job.lease):
            return "", True
        if handset.unfit in CURES[step]:
            handset.unfit = ""
        return "", False

    def _boot(self, job: RecoveryJob, handset: "Handset") -> tuple[str, bool] | None:
        now, due = self.world.now, job.step
        if not job.boots_until_ms:
            well = handset.host == job.host and handset.answers() and f"b{handset.boot}" != job.bad_boot
            if due.step is RecoveryStep.RESTART and due.trouble is not EmulatorTrouble.NONE and well:
                return "", True
            if due.step is RecoveryStep.START and handset.answers():
                return "", False
            booting = [one for one in self.all if one.live() and one.host == job.host and one.boots_until_ms]
            if booting:
                self.world.witness.broken(f"{job.host} boots {handset.name} while it boots {booting}")
            handset.fall()
            job.boots_until_ms = now + 500 + 1_000 * self.world.below(8)
        if now < job.boots_until_ms:
            return None
        if handset.fails:
            handset.fails -= 1
            return "did not boot", False
        handset.rise()
        return "", False
