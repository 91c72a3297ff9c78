"""Hosts and emulators as workflows."""

import copy
from typing import TYPE_CHECKING, Any

from droidherd.domain import messages as m
from droidherd.domain.emulator import Emulator, GateOrder
from droidherd.domain.messages import Seen, Sight
from droidherd.domain.outbox import Outbox
from droidherd.domain.presence import Watch
from tests.protocol import script
from tests.protocol.actors import Actor, Flight

if TYPE_CHECKING:
    from tests.protocol.simulator import World

DOWN_AFTER_S = 12.0


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
        self.told: dict[str, Sight] = {}
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
        handset = self.world.handsets[emulator_id]
        if handset.host == self.name and not handset.stalled:
            news = self.watch.good(emulator_id, f"b{handset.boot}", self.world.now / 1000)
        elif emulator_id in self.told:
            news = self.watch.bad(emulator_id, self.world.now / 1000)
        else:
            return
        watched = self.watch.emulators[emulator_id]
        sight = Sight.LEAVING if self.leaving and watched.sight is Sight.GOOD else watched.sight
        if news or self.told.get(emulator_id) is not sight:
            self.say(emulator_id, sight, watched.boot if sight is not Sight.LEAVING else "")

    def say(self, emulator_id: str, sight: Sight, boot: str) -> None:
        self.told[emulator_id] = sight
        self.seq += 1
        seen = Seen(emulator_id, self.name, self.incarnation, self.seq, sight, boot, pool="p")
        self.box.put(f"emulator/{emulator_id}", seen)
        self.process()

    def think(self) -> None:
        """Silence makes emulators suspect, longer silence down."""
        silent = self.world.now - self.heard_ms
        if silent < script.PRESENCE_TIMEOUT_MS:
            return
        down = silent >= script.PRESENCE_TIMEOUT_MS + script.PRESENCE_GRACE_MS
        for emulator_id, sight in list(self.told.items()):
            if down and sight is not Sight.DOWN:
                self.say(emulator_id, Sight.DOWN, "")
            elif sight in (Sight.GOOD, Sight.LEAVING):
                self.say(emulator_id, Sight.SUSPECT, "")

    def kill(self) -> None:
        """The worker's process dies, with every stage it ran."""
        self.worker = False
        for handset in self.world.handsets.values():
            if self.world.owner_name(handset.name) == self.name:
                handset.vanish()

    def revive(self) -> None:
        """A new worker: a new incarnation, which remembers nothing."""
        self.worker, self.incarnation, self.leaving = True, self.world.now, False
        self.reconnect()

    def leave(self) -> None:
        """The worker is asked to stop."""
        self.leaving = True
        for emulator_id, sight in list(self.told.items()):
            if sight is Sight.GOOD:
                self.say(emulator_id, Sight.LEAVING, "")

    def depart(self) -> None:
        """Its time to stop in peace is over."""
        self.kill()
        for emulator_id in list(self.told):
            self.say(emulator_id, Sight.LEFT, "")

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
        self.connected, self.watch, self.heard_ms = True, Watch(DOWN_AFTER_S), self.world.now
        self.told = dict.fromkeys(self.told, Sight.LEFT)

    def continue_as_new(self) -> None:
        self.process()
        self.box = self.next_run()
        self.process()


class EmulatorActor(Actor):
    """`EmulatorWorkflow`."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, f"emulator/{name}")
        self.machine = Emulator(name)
        self.gating = False

    @property
    def outbox(self) -> Outbox[Any]:
        return self.machine.outbox

    def handle(self, message: Any) -> None:
        match message:
            case Seen():
                self.machine.on_seen(message)
            case m.Tidy():
                self.machine.on_tidy(message)
            case m.Recall():
                self.machine.on_recall()
            case (GateOrder() as order, str() as evidence):
                self.gating = False
                self.machine.on_gate(order, evidence)
            case _:
                pass

    def gate(self) -> bool:
        """Run what the machine orders, on its host's queue. The result comes back as a message of its own."""
        owner = self.world.hosts.get(self.machine.owner)
        order = None if self.frozen() or self.gating else self.machine.order()
        if order is None or owner is None or not (owner.worker and owner.connected):
            return False
        handset = self.world.handsets[self.machine.emulator_id]
        evidence = handset.gate(order.boot, order.fence, full=order.full) if handset.host == owner.name else "not here"
        self.world.count("gate failed" if evidence else "gate passed")
        if evidence and self.machine.tries >= 3:
            self.machine.tries = 1
        self.gating = True
        self.world.later.append((self, (order, evidence)))
        return True

    def nobody_there(self, flight: Flight) -> None:
        self.world.start_dispatcher()
        self.machine.outbox.failed(flight.target)

    def continue_as_new(self) -> None:
        self.process()
        self.machine.outbox = self.next_run()
        self.machine = copy.deepcopy(self.machine)
        self.gating = False
        self.world.later = [one for one in self.world.later if one[0] is not self]
        self.process()
