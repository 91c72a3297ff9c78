"""`DispatcherWorkflow`: the real machine, watched."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from droidherd.contracts.queue import AuditQuery, DisabledQuery, QueueQuery
from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.dispatch.board import SWITCH_OFF, SWITCH_ON, Entry, PoolEmulator
from droidherd.domain.dispatch.commands import recovered
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.messages import EmulatorStatus
from droidherd.domain.outbox import Outbox
from tests.protocol.actors import Actor, Flight
from workflows.dispatcher import views

if TYPE_CHECKING:
    from tests.protocol.simulator import World

PATIENCE_S = 600.0
ORDERED: dict[str, Callable[[DispatcherState], Iterable[Any]]] = {
    "lanes": lambda s: s.board.lanes,
    "entries": lambda s: s.board.entries,
    "emulators": lambda s: s.board.emulators,
    "free": lambda s: s.board.free,
    "off": lambda s: s.board.off,
    "leases": lambda s: s.board.leases,
    "disabled": lambda s: s.keys.disabled,
    "outbox": lambda s: s.outbox.lines,
}
"""Where an order decides something. Two mappings are equal in any order."""
Change = Callable[[Dispatcher], None]
"""Takes a rule away from a dispatcher."""


def no_change(_: Dispatcher) -> None:
    """Every rule is in place."""


def after(part: object, method: str, then: Callable[..., object]) -> None:
    """Call `then` with the same arguments whenever this method of a part has run."""
    original = getattr(part, method)

    def both(*args: Any, **more: Any) -> Any:
        result = original(*args, **more)
        then(*args, **more)
        return result

    setattr(part, method, both)


def instead(part: object, method: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a method of a part by what `make` makes of it."""
    setattr(part, method, make(getattr(part, method)))


class Watch:
    """Shows a dispatcher's decisions to the witness."""

    def __init__(self, world: "World", d: Dispatcher) -> None:
        self._world, self._d = world, d
        after(d.leases, "grant", self._granted)
        after(d.rebuild, "adopt", self._adopted)
        instead(d.statistics, "report", self._counting)
        instead(d, "prioritize", self._preferring)
        after(d.audit_recorder, "record", self._recorded)
        after(d, "on_closed", self._closed)
        after(d, "assign", self._assigned)

    def _granted(self, entry: Entry, _: PoolEmulator, now_ms: int) -> None:
        self._world.witness.grants(self._d, entry)
        self._world.witness.in_front(entry)
        if entry.ask.account in self._world.disabled:
            self._world.witness.broken(f"{entry.task_id} was granted though account {entry.ask.account} is disabled")

    def _adopted(self, ask: m.Enqueue, lease: m.Lease, now_ms: int) -> None:
        self._world.witness.counting.leases.setdefault(lease.token, ask.task_type)

    def _counting(self, report: Callable[..., None]) -> Callable[..., None]:
        def counted(entry: Entry | None, done: m.Done) -> None:
            before = self._d.stats.total().count
            report(entry, done)
            if self._d.stats.total().count != before:
                self._world.witness.counting.counted[done.token, done.outcome] += 1

        return counted

    def _preferring(self, prioritize: Callable[..., bool]) -> Callable[..., bool]:
        def preferred(task_id: str, priority: int, actor: str, now_ms: int, **more: Any) -> bool:
            entry = self._d.board.entries.get(task_id)
            if entry is not None and entry.lease is None:
                first = self._d.board.first_ticket
                ticket, urgent = first - (entry.ticket != first), min(priority, entry.ask.priority)
                self._world.preferred[task_id, entry.key.run] = ticket, urgent
            return prioritize(task_id, priority, actor, now_ms, **more)

        return preferred

    def _recorded(self, entry: AuditEntry, now_ms: int) -> None:
        self._world.count(entry.kind)
        if entry.kind in (f"emulator_{SWITCH_OFF}", f"emulator_{SWITCH_ON}"):
            self._world.witness.switches(self._d, self._d.board.emulators[entry.emulator_id])

    def _closed(self, task_id: str, run: str, now_ms: int) -> None:
        self._world.witness.counting.closed(task_id, run)

    def _assigned(self, now_ms: int) -> None:
        self._world.witness.idle(self._d)


class DispatcherActor(Actor):
    """One run of the pool's dispatcher."""

    def __init__(self, world: "World", config: PoolConfig) -> None:
        super().__init__(world, "dispatcher/p")
        self.machine = self._watched(DispatcherState("p"), config)
        self.ready_ms = 0
        self.memory = ""
        """Of the predecessor; empty: none was found."""
        self.kept = ""
        """What its history tells of people; empty: it has none."""
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
                if not message.ticket and d.board.waiting > max(before, d.state.config.limit):
                    self.world.witness.broken(f"{d.board.waiting} waiting, {d.state.config.limit} allowed")
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
        answer = self.machine.ask(message, self.world.now)
        self.world.witness.board(self.machine)
        self.process()
        return answer

    def think(self) -> None:
        due = self.machine.next_due_ms()
        if due is not None and due <= self.world.now:
            self.machine.tick(self.world.now)
            self.world.witness.board(self.machine)

    def nobody_there(self, flight: Flight) -> None:
        if flight.target.startswith("emulator/"):
            self.world.emulators[flight.target.removeprefix("emulator/")].begin_run()
            self.machine.outbox.mark_failed(flight.target)
            return
        self.machine.undeliverable(flight.target, flight.message, self.world.now)
        self.world.witness.board(self.machine)

    def emulators_of(self, host: str) -> list[str]:
        """Asked by a worker of this host."""
        if self.frozen() or not self.restored or not self.alive:
            return []
        rows = self.machine.board.emulators.values()
        return [r.emulator_id for r in rows if r.host_id == host and r.state is not EmulatorStatus.RETIRED]

    def believed(self) -> dict[str, EmulatorStatus]:
        """What the pool believes its emulators to be, as a worker sees it."""
        if self.frozen() or not self.restored or not self.alive or self.machine.state.rebuild.active:
            return {}
        return {row.emulator_id: row.state for row in self.machine.board.emulators.values()}

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
        self._ask_everything()
        text = self.machine.state.dump()
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
        self.world.remembered = self.machine.state.dump() if self.restored else self.memory
        self.world.heard = recovered(self.machine.state, []).dump_short() if self.restored else self.kept
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
        elif self.kept:
            self.machine = self._load(self.kept)
            world.begin_anew(self.machine, kept=True)
        else:
            world.begin_anew(self.machine)
        if "roll-call" not in world.without:
            self.machine.take_over(
                out_there, world.now, PATIENCE_S, blind=not self.memory, emulators=[f"{e}" for e in world.handsets]
            )
            self._find_unanswered()
        self.machine.tick(world.now)
        world.witness.board(self.machine)

    def _find_unanswered(self) -> None:
        """Those in line are not asked. A task whose question died with the one before learns so by the clock alone.

        An answer to an earlier question was lost as well, with the run of the task that had asked.
        """
        for task in self.world.tasks.values():
            entry = self.machine.board.entries.get(task.name)
            stands = entry is not None and entry.lease is None and entry.key == task.key()
            if stands and task.unanswered and not self.world.is_underway(task):
                task.rely_on_repeating()

    def _load(self, text: str) -> Dispatcher:
        state = DispatcherState.load(text, self.world.config)
        if "outbox" in self.world.without:
            state.outbox = Outbox()
        return self._watched(state, self.world.config)

    def _watched(self, state: DispatcherState, config: PoolConfig) -> Dispatcher:
        state.apply(config)
        fresh = Dispatcher(state=state)
        Watch(self.world, fresh)
        self.world.change(fresh)
        return fresh

    def _ask_everything(self) -> None:
        """Queries are not played again by a replay: none of them may change anything, not even an order."""
        d, now = self.machine, self.world.now
        before = repr(d.state)
        views.queue(d, QueueQuery(), now)
        views.emulators(d)
        views.accounts(d, [name.partition(":")[2] for name in d.keys.held])
        views.disabled_accounts(d, DisabledQuery())
        views.details(d)
        views.places(d, [*d.board.entries, "nobody"])
        views.stats(d)
        views.audit(d, AuditQuery())
        d.state.events.since(0)
        d.state.dump()
        if repr(d.state) != before:
            self.world.witness.broken("a query changed the dispatcher")

    def _compare(self, text: str, fresh: Dispatcher) -> None:
        old = self.machine
        if fresh.state.dump() != text and "outbox" not in self.world.without:
            self.world.witness.broken("a snapshot that was read is not the snapshot that was written")
        if not {"atomic", "outbox"} & self.world.without and fresh.state != old.state:
            self.world.witness.broken(f"the restored state differs:\n{fresh.state}\n{old.state}")
        different = [name for name, get in ORDERED.items() if list(get(fresh.state)) != list(get(old.state))]
        if different and not {"atomic", "outbox"} & self.world.without:
            self.world.witness.broken(f"the restored state has another order in {', '.join(different)}")
