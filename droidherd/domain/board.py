"""The pool's board: lanes, buckets, emulators, leases. Who may run where, and who is next.

Pure and deterministic: no clock, no randomness, no sets. Per decision the work does not grow with the queue.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from droidherd.domain.keys import Line, Order, account_key, mutex_key
from droidherd.domain.messages import EmulatorState, Enqueue, Key, Lease, RevokeReason


class Place(StrEnum):
    """Where a task stands on the board."""

    WAITING = "waiting"
    PARKED = "parked"
    """Waiting for a key somebody else holds."""
    DECK = "deck"
    ACTIVE = "active"
    FENCING = "fencing"
    """Its holder is gone; the lease lasts until the emulator is fenced."""


@dataclass(slots=True)
class Entry:
    """A task on the board."""

    ask: Enqueue
    ticket: int
    since_ms: int
    place: Place = Place.WAITING
    parked_on: str = ""
    lease: Lease | None = None
    granted_ms: int = 0
    ending: bool = False
    fence_until_ms: int = 0
    revoked: str = ""
    """Why it was asked to let go, so that it is asked once."""

    @property
    def task_id(self) -> str:
        return self.ask.key.task_id

    @property
    def key(self) -> Key:
        return self.ask.key

    def leaving(self) -> bool:
        """Asked to let go: what follows it on the emulator waits until it was tidied up."""
        return bool(self.revoked) and not self.revoked.startswith(RevokeReason.RESTARTED)

    def line(self) -> Line:
        """The bucket it belongs to."""
        return self.ask.lane, self.ask.requires

    def needs(self) -> tuple[str, ...]:
        """Everything this task must hold to run."""
        account = (account_key(self.ask.account),) if self.ask.account else ()
        return account + tuple(mutex_key(name) for name in self.ask.mutex)


@dataclass(slots=True)
class Row:
    """An emulator on the board."""

    emulator_id: str
    host_id: str = ""
    state: EmulatorState = EmulatorState.REGISTERING
    labels: tuple[str, ...] = ()
    incarnation: int = 0
    seq: int = -1
    boot: str = ""
    active: str = ""
    deck: str = ""
    idle_since_ms: int = 0
    dirty: int = 0
    """The lease whose remains must be tidied up before the next grant; 0: clean."""
    tidied: int = 0
    """Every lease up to this one was fenced and tidied up."""

    def offers(self, requires: tuple[str, ...]) -> bool:
        return all(need in self.labels or need == f"emulator_id={self.emulator_id}" for need in requires)


@dataclass(slots=True)
class Bucket:
    """Tasks of one lane with equal requirements, in order."""

    lane: str
    requires: tuple[str, ...]
    line: list[tuple[Order, str]] = field(default_factory=list)


@dataclass(slots=True)
class Lane:
    """A named queue with its own capacity and its own pause switch."""

    name: str
    capacity: int = 100
    weight: int = 1
    by_priority: bool = False
    paused_by: str = ""
    paused_why: str = ""
    in_use: int = 0
    turns: int = 0
    """How many of its weight it has used in this round."""

    def open(self) -> bool:
        return not self.paused_by and self.in_use < self.capacity


@dataclass(slots=True)
class Board:
    """All of it. `Dispatcher` is the only one who changes it."""

    lanes: dict[str, Lane] = field(default_factory=dict)
    buckets: dict[tuple[str, tuple[str, ...]], Bucket] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    free: dict[str, None] = field(default_factory=dict)
    """Emulators a grant may go to now; the one idle longest first."""
    last_token: int = 0
    last_ticket: int = 1_000_000
    """Far from 0, which means "draw one", so that there is room in front of the first."""
    leases: dict[str, None] = field(default_factory=dict)
    """Tasks with a lease."""
    waiting: int = 0
    """Tasks in line, parked ones included."""

    # --- lines ------------------------------------------------------------------------------------------------

    def lane(self, name: str) -> Lane:
        return self.lanes.setdefault(name, Lane(name))

    def order(self, entry: Entry) -> Order:
        by_priority = self.lane(entry.ask.lane).by_priority
        return (entry.ask.priority if by_priority else 0, entry.ticket)

    def bucket(self, entry: Entry) -> Bucket:
        key = entry.line()
        return self.buckets.setdefault(key, Bucket(*key))

    def line_up(self, entry: Entry) -> None:
        """Stand in the bucket's line, at the place of one's ticket."""
        entry.place, entry.parked_on = Place.WAITING, ""
        insort(self.bucket(entry).line, (self.order(entry), entry.task_id))

    def step_out(self, entry: Entry) -> None:
        """Leave the bucket's line."""
        bucket = self.bucket(entry)
        mark = (self.order(entry), entry.task_id)
        at = bisect_left(bucket.line, mark)
        if at < len(bucket.line) and bucket.line[at] == mark:
            del bucket.line[at]
        if not bucket.line:
            del self.buckets[bucket.lane, bucket.requires]

    def position(self, entry: Entry) -> int:
        """How many of its lane stand before it, plus one."""
        mark = (self.order(entry), entry.task_id)
        lines = [b.line for b in self.buckets.values() if b.lane == entry.ask.lane]
        return 1 + sum(bisect_left(line, mark) for line in lines)

    # --- emulators --------------------------------------------------------------------------------------------

    def refresh(self, row: Row) -> None:
        """Keep `free` true after a change to this emulator."""
        grantable = row.state is EmulatorState.UP and not row.active and not row.dirty
        if not grantable:
            self.free.pop(row.emulator_id, None)
        elif row.emulator_id not in self.free:
            self.free[row.emulator_id] = None

    def choose(self, entry: Entry) -> Row | None:
        """A free emulator for this task: its sticky one, else the one idle longest, the one it just lost last."""
        offering = [row for e in self.free if (row := self.rows[e]).offers(entry.ask.requires)]
        if not offering:
            return None
        sticky = next((row for row in offering if row.emulator_id == entry.ask.sticky), None)
        other = next((row for row in offering if row.emulator_id != entry.ask.avoid), None)
        return sticky or other or offering[0]

    def can_deck(self, row: Row) -> bool:
        """Whether a next task may queue up behind the one that runs there."""
        entry = self.entries.get(row.active)
        return (
            row.state is EmulatorState.UP
            and not row.deck
            and not row.dirty
            and entry is not None
            and entry.ending
            and entry.place is Place.ACTIVE
            and not entry.leaving()
        )

    # --- turns ------------------------------------------------------------------------------------------------

    def lanes_in_turn(self) -> list[Lane]:
        """Open lanes: first those that have not had all their turns in this round, then the others."""
        lanes = [lane for lane in self.lanes.values() if lane.open()]
        return sorted(lanes, key=lambda lane: lane.turns >= lane.weight)

    def took_turn(self, lane: Lane) -> None:
        """Count a turn. Who had all of its turns and goes on begins a new round for everybody."""
        if lane.turns >= lane.weight:
            for other in self.lanes.values():
                other.turns = 0
        lane.turns += 1

    def lines_of(self, lane: Lane) -> Iterator[Bucket]:
        """The lane's buckets, the longest-waiting head first."""
        mine = [b for b in self.buckets.values() if b.lane == lane.name and b.line]
        yield from sorted(mine, key=lambda b: b.line[0])

    # --- leases -----------------------------------------------------------------------------------------------

    def draw_token(self, now_ms: int) -> int:
        self.last_token = max(self.last_token + 1, now_ms)
        return self.last_token

    def draw_ticket(self) -> int:
        self.last_ticket += 1
        return self.last_ticket

    def held(self) -> Iterator[Entry]:
        """Everyone with a lease."""
        return (self.entries[task_id] for task_id in self.leases)
