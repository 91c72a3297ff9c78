"""Hosts and emulators as workflows."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from droidherd.domain import messages as m
from droidherd.domain.emulator import Action, Ask, Emulator, GateOrder
from droidherd.domain.ladder import Measure, Rung, Trouble
from droidherd.domain.messages import Seen, Sight
from droidherd.domain.outbox import Outbox
from droidherd.domain.presence import Watch
from tests.protocol import script
from tests.protocol.actors import Actor, Flight
from tests.protocol.care import TIMED_OUT, Tending
from workflows.emulator import dump, load

if TYPE_CHECKING:
    from tests.protocol.simulator import World

DOWN_AFTER_S = 12.0
ANEW = ("outbox", "told", "sent", "strict", "heirs", "moves", "proven")
"""Of an emulator's machine: what a new run of its workflow does not take along as it was."""


class HostActor(Actor):
    """`HostWorkflow`, its presence activity and its worker."""

    def __init__(self, world: "World", name: str, incarnation: int) -> None:
        super().__init__(world, name)
        self.box: Outbox[Any] = Outbox()
        self.worker = True
        self.connected = True
        self.incarnation = incarnation
        self.seq = 0
        self.watch = Watch(DOWN_AFTER_S)
        """Of the presence activity: each one begins with nothing, and tells changes only."""
        self.listed: dict[str, None] = {}
        """The inventory: whatever was reached through this host once."""
        self.told: dict[str, Sight] = {}
        """What the workflow passed on last. It outlives every presence, and a new presence does not know it."""
        self.begun = False
        """The presence has said what it has: all that is listed."""
        self.heard_ms = world.now
        self.leaving = False
        """It goes away in order: what runs may end, nothing new begins."""

    @property
    def outbox(self) -> Outbox[Any]:
        return self.box

    def probe(self, emulator_id: str) -> None:
        """One probe of one emulator, and the word of the presence activity about it."""
        if not (self.worker and self.connected):
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
        if news and watched.sight is Sight.GOOD:
            self.say(emulator_id, Sight.LEAVING if self.leaving else Sight.GOOD, self._care(emulator_id), watched.boot)
        elif news and watched.sight is not None:
            self.say(emulator_id, watched.sight, self._care(emulator_id))
        self.process()

    def _begin(self) -> None:
        """A presence that begins names all it has: what was taken off the list unseen has left."""
        if not self.begun and "listed" not in self.world.without:
            for emulator_id in [name for name in self.told if name not in self.listed]:
                self.say(emulator_id, Sight.LEFT)
                self.world.count("found off the list")
        self.begun = True

    def _begin_anew(self) -> None:
        self.watch, self.begun = Watch(DOWN_AFTER_S), False

    def _care(self, emulator_id: str) -> m.Care | None:
        """What can be done for it here."""
        care = self.world.script.care
        controller = self.world.script.controllers.get(emulator_id, "c")
        return replace(care, controller=controller, on_demand=self.world.config.idle_stop_s > 0) if care else None

    def say(self, emulator_id: str, sight: Sight, care: m.Care | None = None, boot: str = "") -> None:
        """Without `care`: nobody is here who could do anything for it."""
        self.told[emulator_id] = sight
        if sight is Sight.LEFT:
            del self.told[emulator_id]
        self.seq += 1
        boot = boot if sight is Sight.GOOD else ""
        seen = Seen(emulator_id, self.name, self.incarnation, self.seq, sight, boot, pool="p", care=care)
        self.box.put(f"emulator/{emulator_id}", seen)

    def think(self) -> None:
        """Silence makes emulators suspect, longer silence down. Whoever is heard next begins anew."""
        silent = self.world.now - self.heard_ms
        if silent < script.PRESENCE_TIMEOUT_MS:
            return
        self._begin_anew()
        gone = silent >= script.PRESENCE_TIMEOUT_MS + script.PRESENCE_GRACE_MS
        before = (Sight.GOOD, Sight.LEAVING, *((Sight.SUSPECT,) if gone else ()))
        for emulator_id in [name for name, sight in self.told.items() if sight in before]:
            self.say(emulator_id, Sight.DOWN if gone else Sight.SUSPECT)

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
            if self.watch.settled(emulator_id):
                self.say(emulator_id, Sight.LEAVING, self._care(emulator_id))
        self.process()

    def depart(self) -> None:
        """Its time to stop in peace is over."""
        self.kill()
        for emulator_id in self.listed:
            self.say(emulator_id, Sight.LEFT, self._care(emulator_id))
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
        self.machine = Emulator(name)
        self.gating = False
        self.tending: Tending | None = None
        """What its host does for it."""
        self.waits: tuple[Measure, int] | None = None
        """What is to be done in a while, and since when."""

    @property
    def outbox(self) -> Outbox[Any]:
        return self.machine.outbox

    def handle(self, message: Any) -> None:
        match message:
            case Seen():
                self.machine.on_seen(message, self.world.now, self._dice())
            case m.Tidy():
                self.machine.on_tidy(message)
            case m.Recall():
                self.machine.on_recall(message, self.world.now)
            case m.Switch():
                self.machine.on_switch(message, self.world.now, self._dice())
            case (GateOrder() as order, str() as evidence):
                self.gating = False
                self.machine.on_gate(order, evidence, self.world.now, self._dice())
            case (Tending() as tending, str() as evidence, bool() as idle):
                if tending is self.tending:
                    self.tending = None
                    if evidence == TIMED_OUT and tending.measure.rung is Rung.STOP:
                        return  # nobody knows whether it is off: it drains, and is switched off once more
                    self.machine.on_measure(tending.measure, evidence, self.world.now, self._dice(), idle=idle)
            case _:
                pass

    def _dice(self) -> float:
        return self.world.below(3) / 2 if self.machine.care is not None else 0.5

    def orders(self, action: Action) -> bool:
        """By a person. Whether somebody was there to take it."""
        if self.frozen():
            return False
        self.process()
        done = not self.machine.on_care(Ask(action, "ann"), self.world.now, self._dice())
        self.process()
        return done

    def is_looked_at(self) -> None:
        """By a person who takes everything back that people ordered, and mends what gave up."""
        if self.machine.draining:
            self.machine.on_drain(on=False, now_ms=self.world.now)
        if self.machine.held or self.machine.state is m.EmulatorState.QUARANTINED:
            self.orders(Action.RECOVER)

    def think(self) -> None:
        """What is due is done on its host, one measure at a time."""
        machine, now = self.machine, self.world.now
        if self.tending and (machine.due != self.tending.measure or machine.incarnation != self.tending.incarnation):
            self.tending.given_up, self.tending, self.waits = True, None, None
        if self.tending or machine.due is None:
            return
        if self.waits is None or self.waits[0] != machine.due:
            self.waits = (machine.due, now)
        if now - self.waits[1] >= machine.due.after_s * 1000:
            self.waits = None
            machine.begin(machine.due)
            self.tending = self.world.hands.tend(self, machine.due)

    def pump(self) -> None:
        super().pump()
        self.world.witness.cares(self)

    def gate(self) -> bool:
        """Run what the machine orders, on its host's queue. The result comes back as a message of its own."""
        owner = self.world.hosts.get(self.machine.owner)
        order = None if self.frozen() or self.gating else self.machine.order()
        if order is None or owner is None or not (owner.worker and owner.connected):
            return False
        if self.tending and self.tending.measure.trouble is not Trouble.SILENT:
            self.world.witness.broken(f"{self.name} passes a gate while this is done for it: {self.tending.measure}")
        handset = self.world.handsets[self.machine.emulator_id]
        evidence = handset.gate(order.boot, order.fence, full=order.full) if handset.host == owner.name else "not here"
        self.world.count("gate failed" if evidence else "gate passed")
        if evidence and self.machine.tries >= 3 and self.machine.care is None:
            self.machine.tries = 1
        self.gating = True
        self.world.later.append((self, (order, evidence)))
        return True

    def nobody_there(self, flight: Flight) -> None:
        self.world.start_dispatcher()
        self.machine.outbox.failed(flight.target)

    def continue_as_new(self) -> None:
        self.process()
        fresh = Emulator(self.machine.emulator_id)
        load(fresh, dump(self.machine))
        for name in (one.name for one in fields(fresh) if one.name not in ANEW):
            if getattr(fresh, name) != getattr(self.machine, name):
                self.world.witness.broken(f"{name} of {self.name} is not carried over")
        fresh.outbox = self.next_run()
        self.machine, self.gating = fresh, False
        if self.tending:
            self.tending.given_up, self.tending = True, None
        self.world.later = [one for one in self.world.later if one[0] is not self]
        self.process()
