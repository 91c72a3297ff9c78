"""The small moves a dispatcher is made of: enter, leave, park, wake, soil, fence. No decision is taken here."""

from collections import deque
from dataclasses import dataclass, field, replace

from droidherd.domain import messages as m
from droidherd.domain.audit import DEEDS, EVENTS, Deed, Event
from droidherd.domain.board import Board, Entry, Place, Row
from droidherd.domain.keys import Bar, Keys
from droidherd.domain.lane import LaneRules, is_system
from droidherd.domain.messages import RevokeReason
from droidherd.domain.outbox import Outbox
from droidherd.domain.tally import Tallies

GHOST = "~"
"""Between a task's id and the token of a lease that a closed run of it left behind. No id contains it."""
SIZE_LIMIT_BYTES = 1_900_000
"""What a snapshot may weigh before the queue is full."""
ENTRY_OVERHEAD_BYTES = 16
TEXT_OVERHEAD_BYTES = 2
TEXT_BYTES_PER_100 = 96
"""A random character of an id is 6.02 bits, so 0.94 characters of base85; a little more, to be on the safe side."""
RECENT = 512
MUTEX_OVERDUE = f"{RevokeReason.EXPIRED} mutex"
"""Why a lease was taken back whose holder kept a mutex for too long."""


@dataclass(frozen=True, slots=True)
class Config:
    """What an operator may set for a pool."""

    limit: int = 10_000
    repeat_min_s: float = 300.0
    repeat_per_entry_s: float = 0.5
    fence_s: float = 15.0
    """After this an unreachable emulator's guards have run out, and its last lease may be freed."""
    deck_horizon_s: float = 10.0
    """A task may queue up behind another only if that kind of task takes no longer on average."""
    settle_s: float = 60.0
    """After the last emulator joined, before a task nobody can run is refused."""
    mutex_hold_s: float = 7_200.0
    """How long a task may hold a mutex; then its emulator is fenced and the mutex broken. 0: no limit."""
    rules: LaneRules = field(default_factory=LaneRules)
    idle_stop_s: float = 0.0
    """An emulator idle for so long is switched off, if it can be started again. 0: never."""
    idle_keep: int = 0
    """But not the last so many."""


ToOthers = m.Admitted | m.Rejected | m.Grant | m.Revoked | m.Recall | m.Tidy | m.Switch


@dataclass(slots=True)
class Moves:
    """Board and keys, and the steps that keep them consistent with each other."""

    pool: str
    config: Config = field(default_factory=Config)
    board: Board = field(default_factory=Board)
    keys: Keys = field(default_factory=Keys)
    outbox: Outbox[ToOthers] = field(default_factory=Outbox)
    recent: dict[str, int] = field(default_factory=dict)
    """task → last seq, of the last ones that left, so that a late repeat does not bring them back."""
    tallies: Tallies = field(default_factory=Tallies)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS))
    by_people: deque[Event] = field(default_factory=lambda: deque(maxlen=DEEDS))
    by_system: deque[Event] = field(default_factory=lambda: deque(maxlen=DEEDS))
    cursor: int = 0
    size_bytes: int = 0
    texts: dict[str, int] = field(default_factory=dict)
    """How often each text stands on the board."""
    joined_ms: int = 0
    generation: int = 0
    rebuild_until_ms: int = 0
    """While rebuilding without a predecessor nothing is granted until everyone answered, at most until then."""
    quiet_until_ms: int = 0
    """And not before this: a task closed unseen may have guards open until then."""
    blind_ms: int = 0
    """When this dispatcher began without any memory."""
    unheard: dict[str, str] = field(default_factory=dict)
    """Open tasks (id → run) that have not said yet what they want or hold."""
    soon: dict[str, tuple[int, tuple[str, ...], str]] = field(default_factory=dict)
    """Tasks whose time is near: when, what they require, and in which lane."""
    waits_no_longer: bool = True
    """For tasks that are late, by itself. False: in a run that began before that was so."""
    strict: bool = True
    """Precedence is heard from who waits already, and a ghost holds what its run held, and no more.

    False: in a run that began before that was so.
    """
    woken: bool = False
    """Somebody came back from the parked ones since this was last cleared."""
    held_back: bool = False
    """Nothing more is granted: this run of the dispatcher is about to hand over to the next."""

    def __post_init__(self) -> None:
        self.board.rules = self.config.rules

    def _enter(self, entry: Entry) -> None:
        self.board.entries[entry.task_id] = entry
        self._weigh(entry, 1)
        if entry.lease is not None:
            self.board.leases[entry.task_id] = None

    def _weigh(self, entry: Entry, by: int) -> None:
        """Keep count of what the entries cost in a snapshot, at most: each distinct text once."""
        ask = entry.ask
        self.size_bytes += by * (ENTRY_OVERHEAD_BYTES + len(ask.mutex) * 4 + len(ask.requires) * 4)
        for text in _texts(ask):
            uses = self.texts.get(text, 0)
            if uses == (0 if by > 0 else 1):
                self.size_bytes += by * (TEXT_OVERHEAD_BYTES + len(text) * TEXT_BYTES_PER_100 // 100)
            if uses + by:
                self.texts[text] = uses + by
            else:
                del self.texts[text]

    def _weigh_bar(self, account: str, bar: Bar | None, by: int) -> None:
        """A disabled account stands in every snapshot, too."""
        if bar is not None:
            length = len(account) + len(bar.actor) + len(bar.why)
            self.size_bytes += by * (ENTRY_OVERHEAD_BYTES + length * TEXT_BYTES_PER_100 // 100)

    def _supersede(self, entry: Entry, run: str, now_ms: int) -> None:
        """The same task under a newer key: its older self is over, though it never said so.

        Within a run the task let go before it asked again. What an older run left behind may still act.
        """
        if entry.lease is not None and entry.key.run != run:
            self._haunt(entry, now_ms)
            return
        if entry.lease is not None:
            self._soil(entry)
        self._remove(entry, entry.ask.seq, now_ms)

    def _haunt(self, entry: Entry, now_ms: int) -> None:
        """Keep the lease of a closed run under a name of its own until its emulator is fenced.

        And its keys, unless others have them by now: the lease may have been fenced and freed before, and its holder
        did not hear of that.
        """
        lease = entry.lease
        if lease is None:
            return
        task_id, ghost = entry.task_id, f"{entry.task_id}{GHOST}{lease.token}"
        row = self.board.rows[lease.emulator_id]
        seats = row.active == task_id, row.deck == task_id
        held = [key for key in entry.needs() if not self.strict or self.keys.held.get(key) == task_id]
        del self.board.entries[task_id], self.board.leases[task_id]
        self._weigh(entry, -1)
        self.keys.free(held, task_id)
        entry.ask = replace(entry.ask, key=replace(entry.key, task_id=ghost))
        self._enter(entry)
        self.keys.take(held, ghost)
        row.active, row.deck = ghost if seats[0] else row.active, ghost if seats[1] else row.deck
        self._fence(entry, now_ms, closed=True)

    def _remove(self, entry: Entry, seq: int, now_ms: int) -> None:
        """Take a task off the board, whatever it held."""
        del self.board.entries[entry.task_id]
        self._weigh(entry, -1)
        self._remember(entry.task_id, seq)
        if entry.lease is None:
            self._take_out(entry)
            self.board.waiting -= 1
            self.keys.leave(entry.ask.account, entry.ask.task_type, entry.task_id)
        else:
            if not entry.told:
                self.tallies.owe(entry.lease.token, entry.stint())
            del self.board.leases[entry.task_id]
            self.board.lane(entry.ask.lane).in_use -= 1
            self.keys.free(entry.needs(), entry.task_id)
            self._vacate(entry, now_ms)
        self.board.drop_idle(entry.ask.lane)
        for key in entry.needs():
            self._wake(key)

    def _free_fenced(self, entry: Entry, now_ms: int) -> None:
        """Nothing of this lease can act any more, and its holder has not let go: free what it held."""
        if entry.revoked == MUTEX_OVERDUE:
            held = ", ".join(entry.ask.mutex)
            reason = f"held for longer than {self.config.mutex_hold_s:g} s; its emulator is fenced"
            where = entry.lease.emulator_id if entry.lease else ""
            self.act(Deed("mutex_broken", "system:mutex_hold", reason, "", entry.task_id, where, held), now_ms)
        self._remove(entry, entry.ask.seq, now_ms)
        if entry.asks:
            self._send(entry.task_id, m.Recall(self.generation))

    def _vacate(self, entry: Entry, now_ms: int) -> None:
        if entry.lease is None:
            return
        row = self.board.rows[entry.lease.emulator_id]
        if row.deck == entry.task_id:
            row.deck = ""
        elif row.active == entry.task_id:
            row.active, row.idle_since_ms = "", now_ms
            if row.dirty > row.tidied:
                self.outbox.put(f"emulator/{row.emulator_id}", m.Tidy(row.dirty))
            self._promote(row, now_ms)
        self.board.refresh(row)

    def _promote(self, row: Row, now_ms: int) -> None:
        """Who stood on deck is the active one now."""
        deck = self.board.entries.get(row.deck)
        row.deck = ""
        if deck is None or deck.lease is None:
            return
        row.active, deck.granted_ms = deck.task_id, now_ms
        if not row.dirty:
            deck.lease = replace(deck.lease, after=0)
        if deck.place is Place.FENCING and deck.lease.token <= row.tidied:
            self._free_fenced(deck, now_ms)
            return
        if deck.place is Place.FENCING:
            self._soil(deck)
            self.outbox.put(f"emulator/{row.emulator_id}", m.Tidy(row.dirty))
            return
        deck.place = Place.ACTIVE
        self._tell_restarted(row)

    def _tell_restarted(self, row: Row) -> None:
        """Stages that ran under an older worker are lost: by word, not by waiting for their heartbeats to run out."""
        active = self.board.entries.get(row.active)
        if active is not None and active.lease is not None and active.lease.incarnation < row.incarnation:
            self._revoke(row.active, RevokeReason.RESTARTED, row.incarnation)

    def _take_out(self, entry: Entry) -> None:
        if entry.place is Place.PARKED:
            self.keys.unpark(entry.parked_on, entry.line(), self.board.order(entry), entry.task_id)
        else:
            self.board.step_out(entry)

    def _park(self, entry: Entry, key: str) -> None:
        self.board.step_out(entry)
        entry.place, entry.parked_on = Place.PARKED, key
        self.keys.park(key, entry.line(), self.board.order(entry), entry.task_id)
        for other in entry.needs():
            if other != key:
                self._wake(other)

    def _wake(self, key: str) -> None:
        """A key may be free: the first of each bucket who waits for it goes back there, with its ticket."""
        for task_id in self.keys.next_parked(key):
            self.board.line_up(self.board.entries[task_id])
            self.woken = True

    def _soil(self, entry: Entry) -> None:
        """This lease did not end cleanly: nobody gets the emulator before it was tidied up.

        A lease on deck may have begun already, because the one before it ended without our knowing yet. Its remains
        are tidied up once that one left: fencing it now would fence both.
        """
        if entry.lease is None:
            return
        row = self.board.rows[entry.lease.emulator_id]
        if entry.task_id in (row.active, row.deck) and entry.lease.token > row.tidied:
            row.dirty = max(row.dirty, entry.lease.token)
            self.board.refresh(row)
        if row.active == entry.task_id:
            self._revoke(row.deck, RevokeReason.DECK)

    def _fence(self, entry: Entry, now_ms: int, *, closed: bool) -> None:
        """Its holder will not let go: the emulator is fenced first, then the lease is freed.

        When the emulator cannot be reached, time fences it, but only if the holder is closed: the guards of a living
        one stay open for as long as its stage confirms itself.
        """
        if entry.lease is None:
            return
        if closed and not entry.fence_until_ms:
            entry.fence_until_ms = now_ms + int(self.config.fence_s * 1000)
        if entry.place is Place.FENCING:
            return
        entry.place = Place.FENCING
        row = self.board.rows[entry.lease.emulator_id]
        if row.active == entry.task_id and entry.lease.token <= row.tidied:
            self._free_fenced(entry, now_ms)  # fenced already, with all before it
        elif row.active == entry.task_id:
            self._soil(entry)
            self.outbox.put(f"emulator/{row.emulator_id}", m.Tidy(row.dirty))

    def _revoke(self, task_id: str, reason: RevokeReason, incarnation: int = 0) -> bool:
        entry = self.board.entries.get(task_id)
        if entry is None or entry.lease is None or entry.place is Place.FENCING:
            return False
        if entry.revoked == f"{reason} {incarnation}":
            return False
        entry.revoked = f"{reason} {incarnation}"
        self._send(task_id, m.Revoked(entry.key, entry.lease.token, reason, incarnation))
        return True

    def _send(self, task_id: str, message: m.Admitted | m.Rejected | m.Grant | m.Revoked | m.Recall) -> None:
        if isinstance(message, m.Admitted):
            before = self.outbox.take_last(task_id, m.Admitted)  # the newer one says all that it would have said
            if self.strict and isinstance(before, m.Admitted) and before.ticket < min(message.ticket, 0):
                self.outbox.put(task_id, before)  # all but precedence: the task has left the line since, and come back
        self.outbox.put(task_id, message)

    def _remember(self, task_id: str, seq: int) -> None:
        self.recent[task_id] = max(seq, self.recent.pop(task_id, seq))
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]

    def _hear(self, entry: Entry | None, said: m.Done) -> None:
        """How a lease ended, in its holder's words. Counted the first time they are heard."""
        if not said.token and not said.outcome:
            return
        lease = entry.lease if entry is not None else None
        if entry is not None and lease is not None and said.token in (0, lease.token):
            if not entry.told:
                entry.told = True
                self.tallies.add(entry.stint(), said.outcome, said.seconds)
            if entry.adopted:
                self.tallies.remember(lease.token)
        elif said.token:
            self.tallies.hear(said.token, said.outcome, said.seconds)

    def note(self, now_ms: int, kind: str, task_id: str, emulator_id: str = "", detail: str = "") -> None:
        self.cursor += 1
        self.events.append(Event(self.cursor, now_ms, kind, task_id, emulator_id, detail))

    def act(self, deed: Deed, now_ms: int) -> None:
        """Note what somebody did, also where people look for who did what."""
        event = self.show(deed, now_ms)
        (self.by_system if is_system(deed.actor) else self.by_people).append(event)

    def show(self, deed: Deed, now_ms: int) -> Event:
        """Note it in the live view alone: one of many, for all of which another deed stands."""
        self.cursor += 1
        event = deed.event(self.cursor, now_ms)
        self.events.append(event)
        return event


def _texts(ask: m.Enqueue) -> tuple[str, ...]:
    return (ask.key.task_id, ask.key.run, ask.account, ask.task_type, ask.sticky, ask.avoid, *ask.mutex, *ask.requires)
