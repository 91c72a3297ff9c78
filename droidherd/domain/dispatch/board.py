"""The pool's board: lanes, buckets, emulators, leases. Who may run where, and who is next.

Pure and deterministic: no clock, no randomness, no sets. Per decision the work does not grow with the queue.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from droidherd.domain.columns import DERIVED
from droidherd.domain.dispatch.keys import Line, Rank, account_key, mutex_key
from droidherd.domain.dispatch.lane import LANES, Lane, LaneRules
from droidherd.domain.messages import EmulatorStatus, Enqueue, Key, Lease, RevokeReason

SWITCH_OFF, SWITCH_ON = "rest", "wake"
"""What a pool may have asked of an emulator: to be switched off because nobody needs it, or on again."""
NAMED = "emulator_id="
"""How a requirement begins that one emulator alone meets."""


class EntryState(StrEnum):
    """Where a task stands on the board."""

    WAITING = "waiting"
    PARKED = "parked"
    """Waiting for a key another task holds."""
    DECK = "deck"
    ACTIVE = "active"
    FENCING = "fencing"
    """Its holder is gone; the lease lasts until the emulator is fenced."""


@dataclass(slots=True)
class Entry:
    """A task on the board."""

    ask: Enqueue
    since_ms: int
    state: EntryState = EntryState.WAITING
    parked_on: int = 0
    """Which of its keys it waits for, counted from 1."""
    lease: Lease | None = None
    granted_ms: int = 0
    ending: bool = False
    fence_until_ms: int = 0
    revoked: str = ""
    """Why it was asked to let go, so that it is asked once."""
    held_ms: int = 0
    """Since when it holds its keys."""
    asked_meanwhile: bool = False
    """While it was being fenced its holder asked for an emulator: it never knew of this lease, and waits."""
    counted: bool = False
    """How this lease ended is counted, or was before it stood here: a further report of it is no news."""
    adopted: bool = False
    """Granted before our memory begins: nobody knows how long it waited."""

    @property
    def task_id(self) -> str:
        return self.ask.key.task_id

    @property
    def key(self) -> Key:
        return self.ask.key

    @property
    def ticket(self) -> int:
        return self.ask.ticket

    @property
    def waits_for_key(self) -> str:
        """The key it is parked on; empty: it is not parked."""
        return self.needs()[self.parked_on - 1] if self.parked_on else ""

    def must_let_go(self) -> bool:
        """It was asked to: what follows it on the emulator waits until that was reset."""
        return bool(self.revoked) and not self.revoked.startswith(RevokeReason.RESTARTED)

    def line(self) -> Line:
        """The bucket it belongs to."""
        return self.ask.lane, self.ask.requires

    def needs(self) -> tuple[str, ...]:
        """Every key this task must hold to run."""
        account = (account_key(self.ask.account),) if self.ask.account else ()
        return account + tuple(mutex_key(name) for name in self.ask.mutex)


@dataclass(slots=True)
class PoolEmulator:
    """An emulator on the board."""

    emulator_id: str
    host_id: str = ""
    state: EmulatorStatus = EmulatorStatus.REGISTERING
    labels: tuple[str, ...] = ()
    incarnation: int = 0
    seq: int = -1
    boot: str = ""
    active: str = ""
    deck: str = ""
    idle_since_ms: int = 0
    dirty: int = 0
    """The lease whose remains must be reset before the next grant; 0: clean."""
    reset_up_to: int = 0
    """Every lease up to this one was fenced and its remains reset."""
    reset_ordered: int = 0
    """Up to which lease it was asked to do that."""
    token: int = 0
    """The greatest that was found on it and not put there by a reset, or whose lease ended cleanly on it."""
    startable: bool = False
    """Its host can switch it on and off."""
    switch: str = ""
    """What was asked of it and is not settled: `SWITCH_OFF` or `SWITCH_ON`."""
    switch_seq: int = 0
    why: str = ""
    """Why it cannot be granted, in its own words."""

    def offers(self, requires: tuple[str, ...]) -> bool:
        this = f"{NAMED}{self.emulator_id}"
        return all(need == this if need.startswith(NAMED) else need in self.labels for need in requires)


def named_emulator(requires: tuple[str, ...]) -> str:
    """The only one that can meet these; empty: several may."""
    return next((need.removeprefix(NAMED) for need in requires if need.startswith(NAMED)), "")


@dataclass(slots=True)
class Bucket:
    """Tasks of one lane with equal requirements, in order."""

    lane: str
    requires: tuple[str, ...]
    line: list[tuple[Rank, str]] = field(default_factory=list)


@dataclass(slots=True)
class Board:
    """All of it, kept consistent by the methods here. The dispatcher's parts change it and nobody else does."""

    lanes: dict[str, Lane] = field(default_factory=dict)
    buckets: dict[Line, Bucket] = field(default_factory=dict, metadata=DERIVED)
    by_lane: dict[str, dict[Line, Bucket]] = field(default_factory=dict, metadata=DERIVED)
    """The same buckets: there may be as many lanes as tasks, and each decision looks at every lane."""
    entries: dict[str, Entry] = field(default_factory=dict)
    emulators: dict[str, PoolEmulator] = field(default_factory=dict)
    free: dict[str, None] = field(default_factory=dict)
    """Emulators a grant may go to now; the one idle longest first."""
    last_token: int = 0
    last_ticket: int = 1_000_000
    first_ticket: int = 0
    """The smallest that was drawn for a prioritized task. Below 0, which means "draw one"."""
    off: dict[str, None] = field(default_factory=dict)
    """Emulators that are switched off and can be started; the one switched off first is the first to be started."""
    leases: dict[str, None] = field(default_factory=dict)
    """Tasks with a lease."""
    waiting: int = field(default=0, metadata=DERIVED)
    """Tasks in line, parked ones included."""
    rules: LaneRules = field(default_factory=LaneRules, metadata=DERIVED)
    pattern: Lane = field(default_factory=lambda: Lane(""))
    """For lanes that come into being: while the whole pool is paused, so are they."""

    # --- lines ------------------------------------------------------------------------------------------------

    def lane(self, name: str) -> Lane:
        """This lane. One nobody was in yet comes into being as the settings say, and paused if the pool is."""
        if name not in self.lanes:
            self.lanes[name] = self._new(name)
        return self.lanes[name]

    def peek(self, name: str) -> Lane:
        """This lane as it is or would be, for questions: those must not change anything."""
        return self.lanes.get(name) or self._new(name)

    def _new(self, name: str) -> Lane:
        lane = Lane(name, paused_by=self.pattern.paused_by, paused_why=self.pattern.paused_why)
        lane.obey(self.rules)
        return lane

    def free_capacity(self, name: str) -> int:
        """How many more could run in this lane now; also in one that nobody is in yet."""
        lane = self.peek(name)
        return lane.capacity - lane.in_use if lane.open() else 0

    def by_hand(self, lane: Lane) -> bool:
        """Whether somebody set something on this lane alone."""
        pattern = self.pattern
        paused = (lane.paused_by, lane.paused_why) != (pattern.paused_by, pattern.paused_why)
        return bool(lane.capacity_by or lane.ordering_by or paused)

    def drop_idle(self, name: str) -> None:
        """A lane nobody uses and nobody set is forgotten: names come from submitters, and there is no end of them."""
        lane = self.lanes.get(name)
        if lane is None or name in LANES or name in self.rules.capacities or lane.in_use or lane.waiting:
            return
        if not self.by_hand(lane):
            del self.lanes[name]

    def rank(self, entry: Entry) -> Rank:
        return (self.peek(entry.ask.lane).ordering.rank(entry.ask.priority, entry.ticket), entry.ticket)

    def bucket(self, entry: Entry) -> Bucket:
        key = entry.line()
        found = self.buckets.get(key)
        if found is None:
            found = self.buckets[key] = self.by_lane.setdefault(entry.ask.lane, {})[key] = Bucket(*key)
        return found

    def line_up(self, entry: Entry) -> None:
        """Stand in the bucket's line, at the place of one's ticket."""
        entry.state, entry.parked_on = EntryState.WAITING, 0
        insort(self.bucket(entry).line, (self.rank(entry), entry.task_id))

    def step_out(self, entry: Entry) -> None:
        """Leave the bucket's line."""
        bucket = self.bucket(entry)
        mark = (self.rank(entry), entry.task_id)
        at = bisect_left(bucket.line, mark)
        if at < len(bucket.line) and bucket.line[at] == mark:
            del bucket.line[at]
        if not bucket.line:
            self._drop(bucket)

    def _drop(self, bucket: Bucket) -> None:
        key = (bucket.lane, bucket.requires)
        of_lane = self.by_lane[bucket.lane]
        del self.buckets[key], of_lane[key]
        if not of_lane:
            del self.by_lane[bucket.lane]

    def count_waiting(self, entry: Entry, by: int) -> None:
        """A task came into line, or left it."""
        self.waiting += by
        self.lane(entry.ask.lane).waiting += by

    def position(self, entry: Entry) -> int:
        """How many of its lane stand before it, plus one."""
        mark = (self.rank(entry), entry.task_id)
        return 1 + sum(bisect_left(bucket.line, mark) for bucket in self.by_lane.get(entry.ask.lane, {}).values())

    # --- emulators --------------------------------------------------------------------------------------------

    def refresh(self, emulator: PoolEmulator) -> None:
        """Keep `free` and `off` true after a change to this emulator."""
        idle = emulator.state is EmulatorStatus.UP and not emulator.active and not emulator.dirty
        if emulator.state is EmulatorStatus.STOPPED and emulator.startable:
            self.off[emulator.emulator_id] = None
        else:
            self.off.pop(emulator.emulator_id, None)
        if not idle or emulator.switch == SWITCH_OFF:
            self.free.pop(emulator.emulator_id, None)
        elif emulator.emulator_id not in self.free:
            self.free[emulator.emulator_id] = None

    def choose(self, entry: Entry) -> PoolEmulator | None:
        """A free emulator for this task: its sticky one, else the one idle longest; last the one it just lost."""
        ask, named = entry.ask, named_emulator(entry.ask.requires)
        candidates = (named,) if named else (ask.sticky, *self.free) if ask.sticky else self.free
        lost: PoolEmulator | None = None
        for emulator_id in candidates:
            if emulator_id not in self.free or not self.emulators[emulator_id].offers(ask.requires):
                continue
            if emulator_id != ask.avoid or emulator_id == ask.sticky:
                return self.emulators[emulator_id]
            lost = self.emulators[emulator_id]
        return lost

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
        mine = [bucket for bucket in self.by_lane.get(lane.name, {}).values() if bucket.line]
        yield from sorted(mine, key=lambda bucket: bucket.line[0])

    # --- leases -----------------------------------------------------------------------------------------------

    def draw_token(self, now_ms: int) -> int:
        self.last_token = max(self.last_token + 1, now_ms)
        return self.last_token

    def saw_token(self, token: int) -> None:
        """Somebody heard of it, and takes no smaller one: what is drawn from now on lies beyond."""
        self.last_token = max(self.last_token, token)

    def draw_ticket(self) -> int:
        self.last_ticket += 1
        return self.last_ticket

    def draw_priority_ticket(self) -> int:
        """A ticket in front of every other. Its holder keeps it, whatever makes it come back."""
        self.first_ticket -= 1
        return self.first_ticket

    def saw_ticket(self, ticket: int) -> None:
        """Somebody came back with it: what is drawn from now on lies beyond."""
        self.last_ticket = max(self.last_ticket, ticket)
        self.first_ticket = min(self.first_ticket, ticket)

    def held(self) -> Iterator[Entry]:
        """Everyone with a lease."""
        return (self.entries[task_id] for task_id in self.leases)
