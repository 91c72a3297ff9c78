"""What a dispatcher knows: one model, carried whole to its next run and to whoever takes over from it."""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self

from droidherd.domain import columns
from droidherd.domain import messages as m
from droidherd.domain.columns import DERIVED
from droidherd.domain.dispatch.audit import AUDIT_ENTRIES, AuditLog, EventRing
from droidherd.domain.dispatch.board import Board, Entry, EntryState, PoolEmulator
from droidherd.domain.dispatch.keys import DisabledKey, Keys, account_key
from droidherd.domain.dispatch.lane import LaneRules
from droidherd.domain.dispatch.stats import PoolStats
from droidherd.domain.outbox import Outbox

Outgoing = m.Admitted | m.Rejected | m.Grant | m.Revoked | m.Recall | m.Reset | m.Switch
"""What a dispatcher tells tasks and emulators."""

SIZE_LIMIT_BYTES = 1_900_000
"""What a snapshot may weigh before the queue is full."""
RETURNING, RETURNING_BYTES = 1_000, 50_000
"""Beyond a full queue there is room for so many tasks that come back, and have stood in line before."""
EMULATORS_MAX = 1_000
RETIRED_KEPT = 256
EMULATORS_BYTES = 400_000
"""What the emulators of a pool may weigh together, their labels above all."""
ROOMY_BYTES = 1_600_000
FULL_BYTES = 1_850_000
FEW_EVENTS, FEWEST = 50, 10
"""So many events, and lines of the audit of each kind, when there is hardly room, and when there is none."""
ENTRY_OVERHEAD_BYTES = 16
TEXT_OVERHEAD_BYTES = 2
TEXT_BYTES_PER_100 = 96
"""A random character of an id is 6.02 bits, so 0.94 characters of base85; a little more, to be on the safe side."""
RECENT = 512
HANDLED = 256
REQUEST_ID_MAX = 128
"""Of a longer one its digest is kept."""
KEPT_BYTES = 400_000
"""What a dispatcher leaves that cannot be asked may weigh: it travels with the list of all open tasks."""


@dataclass(slots=True)
class PoolConfig:
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


@dataclass(slots=True)
class SnapshotWeight:
    """What the entries cost in a snapshot, at most: each distinct text once."""

    size_bytes: int = 0
    """Of tasks, and of accounts that are disabled."""
    texts: dict[str, int] = field(default_factory=dict[str, int])
    """How often each text stands on the board."""
    emulator_bytes: int = 0
    expected_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.size_bytes + self.emulator_bytes + self.expected_bytes

    def is_full(self, reserve_bytes: int = 0) -> bool:
        """Whether there is no room for another task. `reserve_bytes`: kept for those who were admitted before."""
        return self.total_bytes >= SIZE_LIMIT_BYTES + reserve_bytes

    def add(self, ask: m.Enqueue) -> None:
        self._change(ask, 1)

    def remove(self, ask: m.Enqueue) -> None:
        self._change(ask, -1)

    def _change(self, ask: m.Enqueue, by: int) -> None:
        self.size_bytes += by * (ENTRY_OVERHEAD_BYTES + len(ask.mutex) * 4 + len(ask.requires) * 4)
        for text in _texts(ask):
            uses = self.texts.get(text, 0)
            if uses == (0 if by > 0 else 1):
                self.size_bytes += by * _text_bytes(text)
            if uses + by:
                self.texts[text] = uses + by
            else:
                del self.texts[text]

    def replace_disabled(self, account: str, before: DisabledKey | None, after: DisabledKey | None) -> None:
        """A disabled account stands in every snapshot, too."""
        self.size_bytes += _disabled_bytes(account, after) - _disabled_bytes(account, before)

    def replace_emulator(self, before: PoolEmulator | None, after: PoolEmulator | None) -> None:
        self.emulator_bytes += emulator_bytes(after) - emulator_bytes(before)

    def add_expected(self, task_id: str, task: "ExpectedTask") -> None:
        self.expected_bytes += _expected_bytes(task_id, task)

    def remove_expected(self, task_id: str, task: "ExpectedTask") -> None:
        self.expected_bytes -= _expected_bytes(task_id, task)


def emulator_bytes(emulator: PoolEmulator | None) -> int:
    if emulator is None:
        return 0
    texts = (emulator.emulator_id, emulator.host_id, emulator.boot, emulator.why, *emulator.labels)
    return 2 * ENTRY_OVERHEAD_BYTES + sum(map(_text_bytes, texts))


def _expected_bytes(task_id: str, task: "ExpectedTask") -> int:
    return ENTRY_OVERHEAD_BYTES + sum(map(_text_bytes, (task_id, task.lane, *task.requires)))


def _text_bytes(text: str) -> int:
    return TEXT_OVERHEAD_BYTES + _bytes(text)


def _bytes(*texts: str) -> int:
    """What texts take in a snapshot at most, once it is packed: random characters of any alphabet."""
    length = sum(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return length * TEXT_BYTES_PER_100 // 100


def _disabled_bytes(account: str, disabled: DisabledKey | None) -> int:
    if disabled is None:
        return 0
    return ENTRY_OVERHEAD_BYTES + _bytes(account, disabled.actor, disabled.why)


def _texts(ask: m.Enqueue) -> tuple[str, ...]:
    key = ask.key
    kinds = (ask.lane, ask.account, ask.task_type, ask.sticky, ask.avoid)
    return (key.task_id, key.run, *kinds, *ask.mutex, *ask.requires)


@dataclass(slots=True)
class RecentTasks:
    """The last request of each task that left lately, so that a late repeat does not bring it back."""

    seqs: dict[str, int] = field(default_factory=dict[str, int])

    def remember(self, task_id: str, seq: int) -> None:
        self.seqs[task_id] = max(seq, self.seqs.pop(task_id, seq))
        if len(self.seqs) > RECENT:
            del self.seqs[next(iter(self.seqs))]

    def seq(self, task_id: str) -> int:
        """-1: it is not known."""
        return self.seqs.get(task_id, -1)


@dataclass(slots=True)
class HandledRequests:
    """The last request ids of operators, so that a repeat does nothing twice: Temporal de-duplicates per run only."""

    ids: dict[str, None] = field(default_factory=dict[str, None])

    def knows(self, request_id: str) -> bool:
        """Whether this request was handled."""
        return _short(request_id) in self.ids

    def is_new(self, request_id: str) -> bool:
        """Whether this request was not handled before; from now on it was. One without an id is always new."""
        if self.knows(request_id):
            return False
        if request_id:
            self.ids[_short(request_id)] = None
            if len(self.ids) > HANDLED:
                del self.ids[next(iter(self.ids))]
        return True


def _short(request_id: str) -> str:
    long = len(request_id) > REQUEST_ID_MAX
    return sha256(request_id.encode(errors="replace")).hexdigest() if long else request_id


@dataclass(slots=True)
class RebuildState:
    """What a dispatcher that began without memory waits for."""

    generation: int = 0
    """How often a dispatcher of this pool has taken over."""
    until_ms: int = 0
    """Nothing is granted until everyone answered, at most until then. 0: it is not rebuilding."""
    quiet_until_ms: int = 0
    """And not before this: a task closed unseen may have guards open until then."""
    blind_since_ms: int = 0
    """When this dispatcher began without any memory."""
    unanswered: dict[str, str] = field(default_factory=dict[str, str])
    """Open tasks (id → run) that have not said yet what they want or hold."""

    @property
    def active(self) -> bool:
        return self.until_ms > 0

    def why(self, pool: str) -> str:
        """Why nothing is granted meanwhile."""
        left = len(self.unanswered)
        waits = f"{left} tasks have yet to say what they hold" if left else "what lost tasks began must have run out"
        return f"the dispatcher of pool {pool} is rebuilding what it knew: {waits}"


@dataclass(frozen=True, slots=True)
class ExpectedTask:
    """A task that will ask for an emulator at a time it named."""

    at_ms: int
    requires: tuple[str, ...]
    lane: str


@dataclass(slots=True)
class DispatcherState:
    """Data only. The dispatcher's parts change it; each says in its docstring which fields are its own."""

    pool: str = ""
    config: PoolConfig = field(default_factory=PoolConfig, metadata=DERIVED)
    board: Board = field(default_factory=Board)
    keys: Keys = field(default_factory=Keys)
    outbox: Outbox[Outgoing] = field(default_factory=Outbox[Outgoing])
    stats: PoolStats = field(default_factory=PoolStats)
    events: EventRing = field(default_factory=EventRing)
    audit: AuditLog = field(default_factory=AuditLog)
    rebuild: RebuildState = field(default_factory=RebuildState)
    recent: RecentTasks = field(default_factory=RecentTasks)
    handled: HandledRequests = field(default_factory=HandledRequests)
    expected: dict[str, ExpectedTask] = field(default_factory=dict[str, ExpectedTask])
    weight: SnapshotWeight = field(default_factory=SnapshotWeight, metadata=DERIVED)
    joined_ms: int = 0
    """When the last emulator joined that was not known before."""

    def dump(self) -> str:
        """As text, for continue-as-new and for a successor; of live events and audit only as much as there is room for.

        As the last resort answers are left behind that a task gets again when it repeats its request.
        """
        text = columns.dump(self)
        if len(text) > ROOMY_BYTES:
            text = columns.dump(self._shorten(FEW_EVENTS))
        if len(text) > FULL_BYTES:
            outbox = self.outbox.without(m.Admitted, m.Rejected)
            text = columns.dump(replace(self._shorten(FEWEST), outbox=outbox))
        return text

    def dump_short(self) -> str:
        """Without a board: as much of the audit as there is room for."""
        text = columns.dump(self._shorten(AUDIT_ENTRIES))
        for lines in (AUDIT_ENTRIES // 4, FEW_EVENTS, FEWEST):
            if len(text) > KEPT_BYTES:
                text = columns.dump(self._shorten(lines))
        return text

    def _shorten(self, lines: int) -> Self:
        return replace(self, events=self.events.newest(lines), audit=self.audit.newest(lines))

    @classmethod
    def load(cls, text: str, config: PoolConfig) -> Self:
        """The state a text stands for, under these settings. What is derived is derived again.

        ValueError when the text stands for none.
        """
        state = columns.load(text, cls)
        try:
            state.apply(config)
            state.derive()
        except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"a snapshot that contradicts itself: {type(error).__name__}: {error}") from error
        return state

    def refusal_of_emulator(self, emulator_id: str) -> str:
        """Why this emulator cannot join; empty when it can."""
        if len(self.board.emulators) < EMULATORS_MAX + RETIRED_KEPT:
            return ""
        remedy = "serve others in another pool (`host.pool`), or remove some: droidherd emulator forget"
        return f"pool {self.pool} keeps {EMULATORS_MAX} emulators, and no more: {emulator_id} cannot join; {remedy}"

    def add_emulator(self, emulator_id: str, host_id: str = "", *, idle_since_ms: int = 0) -> PoolEmulator:
        emulator = PoolEmulator(emulator_id, host_id, idle_since_ms=idle_since_ms)
        self.board.emulators[emulator_id] = emulator
        self.weight.replace_emulator(None, emulator)
        return emulator

    def drop_emulator(self, emulator: PoolEmulator) -> None:
        del self.board.emulators[emulator.emulator_id]
        self.weight.replace_emulator(emulator, None)

    def apply(self, config: PoolConfig) -> None:
        """These are the settings now."""
        self.config = replace(config)
        self.board.rules = config.rules

    def derive(self) -> None:
        """Fill in every field that is not carried."""
        board = self.board
        for lane in board.lanes.values():
            lane.obey(board.rules)
        for key, disabled in self.keys.disabled.items():
            self.weight.replace_disabled(key.removeprefix(account_key("")), None, disabled)
        for entry in board.entries.values():
            self.weight.add(entry.ask)
            if entry.lease is None:
                self._line_up(entry)
            else:
                self._place(entry, entry.lease)
        for emulator in board.emulators.values():
            self.weight.replace_emulator(None, emulator)
            board.refresh(emulator)
        for task_id, task in self.expected.items():
            self.weight.add_expected(task_id, task)

    def _place(self, entry: Entry, lease: m.Lease) -> None:
        self.board.lane(entry.ask.lane).in_use += 1
        emulator = self.board.emulators[lease.emulator_id]
        if entry.task_id in (emulator.active, emulator.deck):
            self.keys.take(entry.needs(), entry.task_id)

    def _line_up(self, entry: Entry) -> None:
        self.board.count_waiting(entry, 1)
        self.keys.queue(entry.ask.account, entry.ask.task_type, entry.task_id)
        if entry.state is EntryState.PARKED:
            self.keys.park(entry.waits_for_key, entry.line(), self.board.rank(entry), entry.task_id)
        else:
            self.board.line_up(entry)
