"""`DispatcherWorkflow`: the real machine, watched."""

from typing import TYPE_CHECKING, Any

from droidherd.domain import messages as m
from droidherd.domain import snapshot
from droidherd.domain.audit import Deed
from droidherd.domain.board import Entry, Row
from droidherd.domain.dispatcher import Dispatcher
from droidherd.domain.moves import Config
from droidherd.domain.outbox import Outbox
from tests.protocol.actors import Actor, Flight

if TYPE_CHECKING:
    from tests.protocol.simulator import World

PATIENCE_S = 600.0


class Watched(Dispatcher):
    """Shows every grant to the witness."""

    world: "World"
    judged = True
    """Whether its statistics are judged, too."""

    def _grant(self, entry: Entry, row: Row, now_ms: int) -> None:
        super()._grant(entry, row, now_ms)
        self.world.witness.grants(self, entry)
        self.world.witness.in_front(entry)
        if entry.ask.account in self.world.disabled:
            self.world.witness.broken(f"{entry.task_id} was granted though account {entry.ask.account} is disabled")

    def _adopt(self, ask: m.Enqueue, lease: m.Lease, now_ms: int) -> None:
        super()._adopt(ask, lease, now_ms)
        self.world.witness.counting.leases.setdefault(lease.token, ask.task_type)

    def _hear(self, entry: Entry | None, said: m.Done) -> None:
        before = self.tallies.total().count
        super()._hear(entry, said)
        if self.tallies.total().count != before:
            self.world.witness.counting.counted[said.token, said.outcome] += 1

    def prioritize(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        entry = self.board.entries.get(task_id)
        if entry is not None and entry.lease is None:
            first = self.board.first_ticket
            ticket, urgent = first - (entry.ticket != first), min(priority, entry.ask.priority)
            self.world.preferred[task_id, entry.key.run] = ticket, urgent
        return super().prioritize(task_id, priority, actor, now_ms, reason)

    def act(self, deed: Deed, now_ms: int) -> None:
        super().act(deed, now_ms)
        self.world.count(deed.kind)
        if deed.kind in ("emulator_rest", "emulator_wake"):
            self.world.witness.switches(self, self.board.rows[deed.emulator_id])

    def on_closed(self, task_id: str, run: str, now_ms: int) -> None:
        super().on_closed(task_id, run, now_ms)
        self.world.witness.counting.closed(task_id, run)

    def assign(self, now_ms: int) -> None:
        super().assign(now_ms)
        self.world.witness.idle(self)


class DispatcherActor(Actor):
    """One run of the pool's dispatcher."""

    def __init__(self, world: "World", config: Config) -> None:
        super().__init__(world, "dispatcher/p")
        self.machine = world.kind("p", config)
        self.machine.world = world
        self.ready_ms = 0
        self.memory = ""
        """Of the predecessor; empty: none was found."""
        self.restored = True

    @property
    def outbox(self) -> Outbox[Any]:
        return self.machine.outbox

    def process(self) -> None:
        if self.frozen() or not self.alive:
            return
        if not self.restored:
            self._restore()
        super().process()

    def handle(self, message: Any) -> None:
        d, now = self.machine, self.world.now
        match message:
            case m.Enqueue():
                before = d.board.waiting
                d.on_enqueue(message, now)
                if not message.ticket and d.board.waiting > max(before, d.config.limit):
                    self.world.witness.broken(f"{d.board.waiting} waiting, {d.config.limit} allowed")
            case m.Soon():
                d.on_soon(message, now)
            case m.Ending():
                d.on_ending(message, now)
            case m.Done():
                d.on_done(message, now)
            case m.Announce():
                d.on_announce(message, now)
            case _:
                pass
        self.world.witness.board(d)

    def question(self, message: Any) -> Any:
        """An update is answered by whoever is awake and knows its board; anybody else takes it as a signal."""
        awake = self.alive and not self.frozen() and self.restored
        if not isinstance(message, m.Enqueue) or not awake:
            return super().question(message)
        self.process()
        if self.world.hostile and self.world.below(16) == 15:
            # The asker has waited long enough and said it by a signal; what is answered now, nobody hears.
            self.world.count("answered to nobody")
            self.receive(message)
            self.machine.ask(message, self.world.now)
            self.process()
            return None
        verdict = self.machine.ask(message, self.world.now)
        self.world.witness.board(self.machine)
        self.process()
        return verdict

    def think(self) -> None:
        due = self.machine.next_due_ms()
        if due is not None and due <= self.world.now:
            self.machine.tick(self.world.now)
            self.world.witness.board(self.machine)

    def nobody_there(self, flight: Flight) -> None:
        self.machine.undeliverable(flight.target, flight.message, self.world.now)
        self.world.witness.board(self.machine)

    def audit(self) -> None:
        """Are the holders still there? Described with their run ids."""
        if self.frozen() or not self.restored or not self.alive:
            return
        for task_id, run in self.machine.to_audit().items():
            if not self.world.tasks[task_id].is_open(run):
                self.world.count("audit found a closed holder")
                self.machine.on_closed(task_id, run, self.world.now)
                self.world.witness.board(self.machine)
        self.pump()

    # --- runs -------------------------------------------------------------------------------------------------

    def close_to_new(self) -> None:
        """Nothing more is granted; the outbox drains."""
        self.machine.held_back = True

    def continue_as_new(self) -> None:
        if not self.restored or not self.alive or self.frozen():
            return
        self.process()
        text = snapshot.dump(self.machine)
        if "atomic" in self.world.without:
            self.world.deliver_some()  # an await between the snapshot and continuing
        fresh = self._load(text)
        self._compare(text, fresh)
        self.next_run()
        self.machine = fresh
        self.machine.tick(self.world.now)
        self.world.witness.board(self.machine)
        self.process()

    def terminate(self) -> None:
        """Closed without a word; what was delivered and not handled is lost."""
        self.world.remembered = snapshot.dump(self.machine) if self.restored else self.memory
        self.alive = False
        self.run += 1
        for message in self.inbox:
            self.world.witness.counting.unheard(message)
        self.inbox.clear()
        self.world.lose_flights(self)

    def _restore(self) -> None:
        """A successor begins: with its predecessor's memory, or with nothing but the list of who is open."""
        self.restored = True
        world = self.world
        out_there = {name: task.first_run for name, task in world.tasks.items() if task.alive}
        world.witness.counting.looks_around()
        if self.memory:
            self.machine = self._load(self.memory)
        else:
            world.begin_anew(self.machine)
        if "roll-call" not in world.without:
            self.machine.rebuild(
                out_there, world.now, PATIENCE_S, blind=not self.memory, emulators=[f"{e}" for e in world.handsets]
            )
        self.machine.tick(world.now)
        world.witness.board(self.machine)

    def _load(self, text: str) -> Watched:
        fresh = snapshot.load(text, "p", self.world.config)
        fresh.__class__ = self.world.kind
        if not isinstance(fresh, Watched):
            raise TypeError(type(fresh))
        fresh.world = self.world
        if "outbox" in self.world.without:
            fresh.outbox = Outbox()
        return fresh

    def _compare(self, text: str, fresh: Dispatcher) -> None:
        old = self.machine
        if snapshot.dump(fresh) != text and "outbox" not in self.world.without:
            self.world.witness.broken("a snapshot that was read is not the snapshot that was written")
        if "atomic" in self.world.without:
            return
        if (fresh.board, fresh.keys) != (old.board, old.keys):
            self.world.witness.broken(f"restored board differs:\n{fresh.board}\n{old.board}\n{fresh.keys}\n{old.keys}")
