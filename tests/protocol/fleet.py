"""Hosts and emulators as workflows."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from droidherd.contracts.fleet import EmulatorInput
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import Emulator, EmulatorAction, EmulatorRequest, EmulatorState, GateRequest
from droidherd.domain.fleet.recovery import EmulatorTrouble, PlannedStep, RecoveryStep
from droidherd.domain.messages import Health, Seen
from droidherd.domain.outbox import Outbox
from droidherd.emulator.probe_loop import Watch
from droidherd.worker.host_workers import PLAUSIBLE
from tests.protocol import script
from tests.protocol.actors import Actor, Flight
from tests.protocol.emulators import FENCE
from tests.protocol.recovery import TIMED_OUT, RecoveryJob

if TYPE_CHECKING:
    from tests.protocol.simulator import World

DOWN_AFTER_S = 12.0


def carried(state: EmulatorState) -> EmulatorState:
    """What the next run of an emulator's workflow finds in its input."""
    written = EmulatorInput(emulator_id=state.emulator_id, state=state).model_dump_json()
    found = EmulatorInput.model_validate_json(written).state
    if found is None:
        raise TypeError(written)
    return found


class HostActor(Actor):
    """`HostWorkflow`, its presence activity and its worker."""

    def __init__(self, world: "World", name: str, incarnation: int) -> None:
        super().__init__(world, name)
        self.box: Outbox[Any] = Outbox()
        self.worker = True
        self.connected = True
        self.incarnation = incarnation
        self.joined, self.newest = 0, 0
        """Of the worker that joined last: what it calls itself, and what its emulators are told."""
        self.seq = 0
        self.doubted: dict[str, m.EmulatorStatus] = {}
        """What the pool believed when its worker looked last."""
        self.watch = Watch(DOWN_AFTER_S)
        """Of the presence activity: each one begins with nothing, and tells changes only."""
        self.listed: dict[str, None] = {}
        """The inventory: whatever was reached through this host once."""
        self.reported: dict[str, Health] = {}
        """What the workflow passed on last. It outlives every presence, and a new presence does not know it."""
        self.begun = False
        """The presence has said what it has: all that is listed."""
        self.heard_ms = world.now
        self.gone_ms = 0
        """When its workflow was terminated."""
        self.looked_ms = 0
        """When its worker looked last whether the workflows of its emulators are there."""
        self.known_runs: dict[str, int] = {}
        """When the workflow began that was there when its worker looked last."""
        self.leaving = False
        """It goes away in order: what runs may end, nothing new begins."""

    @property
    def outbox(self) -> Outbox[Any]:
        return self.box

    def probe(self, emulator_id: str) -> None:
        """One probe of one emulator, and the word of the presence activity about it."""
        if not (self.worker and self.connected and self.alive):
            return
        self.heard_ms = self.world.now
        self._begin()
        handset = self.world.handsets[emulator_id]
        here = handset.host == self.name
        if here:
            self.listed[emulator_id] = None
        if emulator_id not in self.listed:
            return
        if here and handset.answers():
            news = self.watch.good(emulator_id, f"b{handset.boot}", self.world.now / 1000)
        else:
            news = self.watch.bad(emulator_id, self.world.now / 1000)
        watched = self.watch.emulators[emulator_id]
        if news and watched.health is Health.GOOD:
            self.say(
                emulator_id, Health.LEAVING if self.leaving else Health.GOOD, self._recovery(emulator_id), watched.boot
            )
        elif news and watched.health is not None:
            self.say(emulator_id, watched.health, self._recovery(emulator_id))
        self.process()

    def _begin(self) -> None:
        """A presence that begins names all it has: what was taken off the list unseen has left."""
        if not self.begun and "listed" not in self.world.without:
            for emulator_id in [name for name in self.reported if name not in self.listed]:
                self.say(emulator_id, Health.LEFT)
                self.world.count("found off the list")
        self.begun = True

    def _begin_anew(self) -> None:
        self.watch, self.begun = Watch(DOWN_AFTER_S), False

    def _recovery(self, emulator_id: str) -> m.RecoveryPolicy | None:
        """What can be done for it here."""
        recovery = self.world.script.recovery
        controller = self.world.script.controllers.get(emulator_id, "c")
        return (
            replace(recovery, controller=controller, on_demand=self.world.config.idle_stop_s > 0) if recovery else None
        )

    def say(self, emulator_id: str, health: Health, recovery: m.RecoveryPolicy | None = None, boot: str = "") -> None:
        """Without `recovery`: nobody is here who could do anything for it."""
        self.reported[emulator_id] = health
        if health is Health.LEFT:
            del self.reported[emulator_id]
        self.seq += 1
        if self.incarnation != self.joined:
            self.joined, self.newest = self.incarnation, max(self.newest + 1, self.incarnation)
        boot = boot if health is Health.GOOD else ""
        seen = Seen(emulator_id, self.name, self.newest, self.seq, health, boot, pool="p", recovery=recovery)
        self.box.put(f"emulator/{emulator_id}", seen)

    def handle(self, message: Any) -> None:
        """An emulator heard something newer: it is told again, beyond that."""
        if isinstance(message, m.Recall) and "heal" not in self.world.without:
            self.world.count("host asked anew")
            self.newest = message.incarnation + 1 if message.incarnation > self.newest else self.newest
            self.seq = max(self.seq, message.seq)
            if message.emulator_id in self.reported:
                self.watch.forget(message.emulator_id)

    def think(self) -> None:
        """Silence makes emulators suspect, longer silence down. Whoever is heard next begins anew."""
        silent = self.world.now - self.heard_ms
        if silent < script.PRESENCE_TIMEOUT_MS:
            return
        self._begin_anew()
        gone = silent >= script.PRESENCE_TIMEOUT_MS + script.PRESENCE_GRACE_MS
        before = (Health.GOOD, Health.LEAVING, *((Health.SUSPECT,) if gone else ()))
        for emulator_id in [name for name, health in self.reported.items() if health in before]:
            self.say(emulator_id, Health.DOWN if gone else Health.SUSPECT)

    def terminate(self) -> None:
        """Its workflow is gone, with what it knew and had to say; its presence ends."""
        self.alive = False
        self.run += 1
        self.inbox.clear()
        self.world.lose_flights(self)
        self.gone_ms = self.world.now

    def _begin_run(self) -> None:
        """Its worker joined again. What this run reports is not older than what the one before reported."""
        self.alive, self.box, self.seq = True, Outbox(), self.world.now
        self.reported = {}
        self.heard_ms = self.world.now
        self._begin_anew()

    def keep_entities(self) -> None:
        """Its worker joins again when no presence runs, and tells anew of whose workflow is not there."""
        if not (self.worker and self.connected):
            return
        if not self.alive and self.world.now - self.gone_ms > script.PRESENCE_GRACE_MS:
            self._begin_run()
        if not self.alive or self.world.now - self.looked_ms < script.LOOK_EVERY_MS:
            return
        self.looked_ms = self.world.now
        for emulator_id in self.listed:
            there = self.world.emulators[emulator_id]
            if not there.alive or there.begun_ms != self.known_runs.get(emulator_id, 0):
                self.watch.forget(emulator_id)
                self.world.count("missing emulator found")
            self.known_runs[emulator_id] = there.begun_ms
        self._doubt()
        for emulator_id in self.world.dispatcher.emulators_of(self.name):
            if emulator_id not in self.listed and "listed" not in self.world.without:
                self.say(emulator_id, Health.LEFT)
                self.world.count("found off the list by its pool")

    def _doubt(self) -> None:
        """Its worker tells anew of who answers while the pool believes otherwise."""
        if "doubt" in self.world.without:
            return
        believed = self.world.dispatcher.believed()
        known, self.doubted = self.doubted, {n: s for n, s in believed.items() if s is not m.EmulatorStatus.UP}
        for emulator_id in [one for one in self.listed if one in self.doubted]:
            state, watched = self.doubted[emulator_id], self.watch.emulators.get(emulator_id)
            good = watched is not None and watched.health is Health.GOOD and state not in PLAUSIBLE
            if watched is None or watched.health is None:
                self.doubted.pop(emulator_id)  # its presence has yet to say what it finds
            elif good or known.get(emulator_id) is not state:
                self.say(emulator_id, watched.health, self._recovery(emulator_id), watched.boot)
                self.world.count("doubted")

    def nobody_there(self, flight: Flight) -> None:
        self.world.emulators[flight.target.removeprefix("emulator/")].begin_run()
        self.box.mark_failed(flight.target)

    def kill(self) -> None:
        """The worker's process dies, with every stage it ran."""
        self.worker = False
        for handset in self.world.handsets.values():
            if self.world.owner_name(handset.name) == self.name:
                handset.vanish()
        self.world.hands.vanish(self.name)

    def revive(self) -> None:
        """A new worker: a new incarnation, which remembers nothing."""
        self.worker, self.incarnation, self.leaving = True, self.world.now, False
        self.reconnect()

    def leave(self) -> None:
        """The worker is asked to stop."""
        self.leaving = True
        for emulator_id in self.listed:
            if self.watch.is_settled(emulator_id):
                self.say(emulator_id, Health.LEAVING, self._recovery(emulator_id))
        self.process()

    def depart(self) -> None:
        """Its time to stop in peace is over."""
        self.kill()
        for emulator_id in self.listed:
            self.say(emulator_id, Health.LEFT, self._recovery(emulator_id))
        self.process()

    def heal(self) -> None:
        """Somebody saw to it that it serves."""
        if self.leaving and self.worker:
            self.kill()
        if not self.worker:
            self.revive()
        elif not self.connected:
            self.reconnect()

    def reconnect(self) -> None:
        """The presence activity begins anew."""
        self.connected, self.heard_ms = True, self.world.now
        if not self.alive:
            self._begin_run()
        self._begin_anew()

    def continue_as_new(self) -> None:
        """The presence activity ends with the run that ordered it; the next run orders another."""
        self.process()
        self.box = self.next_run()
        self._begin_anew()
        self.process()


class EmulatorActor(Actor):
    """`EmulatorWorkflow`."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, f"emulator/{name}")
        self.machine = Emulator(EmulatorState(name))
        self.begun_ms = 0
        self.gating = False
        self.job: RecoveryJob | None = None
        """What its host does for it."""
        self.waits: tuple[PlannedStep, int] | None = None
        """What is to be done in a while, and since when."""

    @property
    def outbox(self) -> Outbox[Any]:
        return self.machine.outbox

    def handle(self, message: Any) -> None:
        match message:
            case Seen():
                self.machine.on_seen(message, self.world.now, self._dice())
            case m.Reset():
                self.machine.on_reset(message)
            case m.Recall():
                self.machine.on_recall(message, self.world.now)
            case m.Switch():
                self.machine.on_switch(message, self.world.now, self._dice())
            case (GateRequest() as request, str() as evidence, int() as token):
                self.gating = False
                evidence = evidence or self.machine.note_token(token, self.world.now)
                self.machine.on_gate(request, evidence, self.world.now, self._dice())
            case (RecoveryJob() as job, str() as evidence, bool() as idle):
                if job is self.job:
                    self.job = None
                    if evidence == TIMED_OUT and job.step.step is RecoveryStep.STOP:
                        return  # nobody knows whether it is off: it drains, and is switched off once more
                    self.machine.on_step_done(job.step, evidence, self.world.now, self._dice(), idle=idle)
            case _:
                pass

    def _dice(self) -> float:
        return self.world.below(3) / 2 if self.machine.state.recovery is not None else 0.5

    def orders(self, action: EmulatorAction) -> bool:
        """By a person. Whether somebody was there to take it."""
        if self.frozen() or not self.alive:
            return False
        self.process()
        done = not self.machine.on_control(EmulatorRequest(action, "ann"), self.world.now, self._dice())
        self.process()
        return done

    def is_looked_at(self) -> None:
        """By a person who takes everything back that people ordered, and fixes what gave up."""
        if self.machine.state.draining:
            self.machine.on_drain(on=False, now_ms=self.world.now)
        if self.machine.state.quarantined_by or self.machine.state.status is m.EmulatorStatus.QUARANTINED:
            self.orders(EmulatorAction.RECOVER)

    def think(self) -> None:
        """What is due is done on its host, one step at a time."""
        machine, now = self.machine, self.world.now
        if self.job and (machine.state.due != self.job.step or machine.state.incarnation != self.job.incarnation):
            self.job.given_up, self.job, self.waits = True, None, None
        if self.job or machine.state.due is None:
            return
        if self.waits is None or self.waits[0] != machine.state.due:
            self.waits = (machine.state.due, now)
        if now - self.waits[1] >= machine.state.due.after_s * 1000:
            self.waits = None
            machine.begin_step(machine.state.due)
            self.job = self.world.hands.start(self, machine.state.due)

    def pump(self) -> None:
        super().pump()
        self.world.witness.checks_recovery(self)

    def gate(self) -> bool:
        """Run what the machine orders, on its host's queue. The result comes back as a message of its own."""
        owner = self.world.hosts.get(self.machine.state.owner)
        request = None if self.frozen() or self.gating or not self.alive else self.machine.gate_request()
        if request is None or owner is None or not (owner.worker and owner.connected):
            return False
        if self.job and self.job.step.trouble is not EmulatorTrouble.SILENT:
            self.world.witness.broken(f"{self.name} passes a gate while this is done for it: {self.job.step}")
        handset = self.world.handsets[self.machine.state.emulator_id]
        evidence = (
            handset.gate(request.boot, request.fence, self.machine.state.token, full=request.full)
            if handset.host == owner.name
            else "not here"
        )
        self.world.count("gate failed" if evidence else "gate passed")
        if evidence and self.machine.state.tries >= 3 and self.machine.state.recovery is None:
            self.machine.state.tries = 1
        self.gating = True
        stands = handset.token
        others = stands is not None and stands[1] != FENCE and not evidence and "heal" not in self.world.without
        token = stands[0] if stands is not None and others else 0
        self.world.later.append((self, (request, evidence, token)))
        return True

    def nobody_there(self, flight: Flight) -> None:
        if flight.target.startswith("host/"):
            return
        self.world.start_dispatcher()
        self.machine.outbox.mark_failed(flight.target)

    def terminate(self) -> None:
        """Its workflow is gone, with all it knew and had to do."""
        self.alive = False
        self.run += 1
        self.inbox.clear()
        self.world.lose_flights(self)
        self._drop_activities()

    def begin_run(self) -> None:
        """Whoever finds it gone starts it; one wins."""
        if self.alive:
            return
        self.alive = True
        self.begun_ms = now = self.world.now
        self.machine = Emulator(EmulatorState(self.machine.state.emulator_id, incarnation=now, seq=now))
        self.process()

    def _drop_activities(self) -> None:
        self.gating, self.waits = False, None
        if self.job:
            self.job.given_up, self.job = True, None
        self.world.later = [one for one in self.world.later if one[0] is not self]

    def continue_as_new(self) -> None:
        self.process()
        state = carried(self.machine.state)
        for name in (one.name for one in fields(state)):
            if getattr(state, name) != getattr(self.machine.state, name):
                self.world.witness.broken(f"{name} of {self.name} is not carried over")
        state.outbox = self.next_run().lines
        self.machine = Emulator(state)
        self.machine.resume()
        waits = self.waits
        self._drop_activities()
        self.waits = waits
        self.process()
