"""What can be asked of a pool's dispatcher."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints

from droidherd.contracts.base import Contract, Id, MaybeId, MaybeTaskId, Request
from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.tasks import Text
from droidherd.domain.dispatch.lane import LaneRules
from droidherd.domain.dispatch.state import PoolConfig


class QueueSettings(Request):
    """What the operator's settings say of a pool's queue: argument of the signal `configure`.

    What somebody set by hand stays as it is.
    """

    limit: int = Field(default=10_000, ge=1, le=10_000)
    capacities: dict[str, int] = Field(default_factory=dict)
    by_priority: tuple[str, ...] = ()
    """Lanes ordered by priority; `*`: all of them."""
    ageing: int = Field(default=0, ge=0, le=1_000_000)
    """In a lane ordered by priority: how many later ones may overtake a task per step between them. 0: no limit."""
    mutex_hold_s: float = Field(default=7_200.0, ge=0)
    """How long a task may hold a mutex; 0: no limit."""
    idle_stop_s: float = Field(default=0.0, ge=0)
    """An emulator idle for so long is switched off, if its host can start it again; 0: never."""
    idle_keep: int = Field(default=0, ge=0, le=10_000)
    """But not the last so many of the pool."""


class PoolSettings(QueueSettings):
    """Everything the operator set for a pool. A dispatcher asks a worker for it (activity `read_pool`)."""

    repeat_min_s: float = Field(default=300.0, gt=0)
    rebuild_s: float = Field(default=600.0, ge=0, le=86_400)
    fence_s: float = Field(default=15.0, ge=0, le=86_400)
    continue_after: int = Field(default=0, ge=0)
    """Continue as new after this many messages; 0: when Temporal suggests it."""

    def pool_config(self) -> PoolConfig:
        """The same, for the dispatcher's machine."""
        return PoolConfig(
            limit=self.limit,
            repeat_min_s=self.repeat_min_s,
            fence_s=self.fence_s,
            mutex_hold_s=self.mutex_hold_s,
            idle_stop_s=self.idle_stop_s,
            idle_keep=self.idle_keep,
            rules=LaneRules(self.capacities, self.by_priority, self.ageing),
        )


class DispatcherInput(Request):
    """Input of `DispatcherWorkflow`. Whoever starts one names its pool, and nothing else."""

    pool: Id
    snapshot: str = ""
    """Of the run before; empty: look for a predecessor, rebuild."""
    settings: PoolSettings = PoolSettings()
    """Of the run before; read anew without a snapshot."""


class QueueQuery(Request):
    """A page of the queue."""

    after: int = 0
    """Rows behind this many."""
    limit: int = Field(default=100, ge=1, le=1000)
    lane: str = ""


class QueueRow(Contract):
    """A task that waits."""

    task_id: str
    position: int
    lane: str
    account: str = ""
    type: str
    priority: int
    enqueued_at: datetime
    waited_s: float
    blocked_by: str


class RunningRow(Contract):
    """A task that holds an emulator."""

    task_id: str
    account: str = ""
    type: str
    lane: str
    emulator: str
    host: str
    token: int
    since: datetime
    running_s: float
    place: str


class LaneView(Contract):
    name: str
    waiting: int
    running: int
    capacity: int
    paused_by: str = ""
    paused_why: str = ""
    order: Literal["arrival", "priority"] = "arrival"
    ageing: int = 0
    capacity_by: str = ""
    """Who set the capacity by hand; empty: the settings."""
    order_by: str = ""


class TypeSummary(Contract):
    """The short form of what the query `stats` says of a type."""

    type: str
    count: int
    completed: int
    mean_s: float
    waited_mean_s: float


class QueuePage(Contract):
    """The answer of the query `queue`."""

    pool: str
    waiting: int
    limit: int
    running: int
    free: int
    rebuilding: bool = False
    paused_by: str = ""
    """Who paused the pool as a whole: lanes that come into being are paused, too."""
    paused_why: str = ""
    lanes: tuple[LaneView, ...] = ()
    emulators: int = 0
    queue: tuple[QueueRow, ...] = ()
    runs: tuple[RunningRow, ...] = ()
    statistics: tuple[TypeSummary, ...] = ()
    next_after: int | None = None


class DurationStats(Contract):
    """Durations of one kind. Percentiles are at most 10 % off, between 10 ms and a day."""

    count: int = 0
    mean_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    sum_s: float = 0.0
    buckets: tuple[int, ...] = ()
    """How many were not longer than each of `StatsPage.bounds_s`."""


class TypeStats(Contract):
    """What is known of one task type: its attempts, by how they ended."""

    type: str
    count: int = 0
    """Attempts that ended. An attempt that moved to another emulator, or was paused, has not ended."""
    completed: int = 0
    failed: int = 0
    """For good."""
    retries: int = 0
    """Attempts that failed and were followed by another one."""
    cancelled: int = 0
    success_rate: float | None = None
    """Of the tasks that ended by themselves, how many completed."""
    run: DurationStats = DurationStats()
    """How long the attempts held their emulators; without those that were cancelled."""
    wait: DurationStats = DurationStats()
    """From admission to the emulator."""


class StatsPage(Contract):
    """The answer of the query `stats`."""

    pool: str
    since: datetime | None = None
    """When counting began; null: nobody knows."""
    total: TypeStats = TypeStats(type="")
    types: tuple[TypeStats, ...] = ()
    """Most used first. Types used least are counted as `other` once there are more than 64."""
    bounds_s: tuple[float, ...] = ()
    rebuilding: bool = False
    """It looks for what its predecessor knew: this is not all yet."""


class PoolEvent(Contract):
    """One line of a pool's live events, and of its audit when it has an actor."""

    cursor: int
    at: datetime
    kind: str
    task_id: str
    emulator_id: str = ""
    detail: str = ""
    actor: str = ""
    """Who did it, when somebody did: a person, or `system:` and why."""
    reason: str = ""
    lane: str = ""


class AuditQuery(Request):
    """A page of a pool's audit, newest first. Argument of the query `audit`."""

    before: int = 0
    """Lines older than this cursor; 0: from the newest on."""
    limit: int = Field(default=100, ge=1, le=1000)
    actor: str = ""
    """Who did it. `ann` finds what `ann for ben` did, too."""
    action: str = ""
    task_id: str = ""


class AuditPage(Contract):
    """The answer of the query `audit`."""

    pool: str
    events: tuple[PoolEvent, ...] = ()
    next_before: int | None = None
    """None: there is nothing older."""
    rebuilding: bool = False
    """It looks for what its predecessor knew: this is not all yet."""


class Disabled(Contract):
    """That an account is disabled: by whom, why, since when."""

    by: str
    reason: str = ""
    since: datetime | None = None


class AccountView(Contract):
    """The answer of the query `account`."""

    account: str
    is_queued: bool
    is_running: bool
    emulator: str = ""
    running_task: str = ""
    queued_tasks: tuple[str, ...] = ()
    queued_types: tuple[str, ...] = ()
    """Of the tasks that wait, each once."""
    disabled: Disabled | None = None
    """Nothing is granted to it."""


class AccountsQuery(Request):
    """Which accounts are asked about. Argument of the query `accounts`."""

    accounts: tuple[Id, ...] = Field(default=(), max_length=500)


class AccountsPage(Contract):
    """The answer of the query `accounts`, in the order of the question."""

    pool: str
    accounts: tuple[AccountView, ...] = ()
    rebuilding: bool = False
    """It looks for what its predecessor knew: this is not all yet."""


class DisabledQuery(Request):
    """A page of the disabled accounts, by name. Argument of the query `disabled`."""

    after: str = ""
    """Names behind this one."""
    limit: int = Field(default=100, ge=1, le=1000)


class DisabledPage(AccountsPage):
    """The answer of the query `disabled`."""

    next_after: str = ""
    """Empty: this was the last page."""


class QueuePosition(Contract):
    """The answer of the query `place`: where a task stands in line now.

    Position 0: it does not wait; or, with `why`, its dispatcher does not know yet.
    """

    position: int = 0
    why: str = ""
    priority: int = 0
    prioritized: int = 0


class PositionsQuery(Request):
    """Which tasks are asked about. Argument of the query `places`."""

    tasks: tuple[str, ...] = Field(default=(), max_length=500)


class QueuePositions(Contract):
    """The answer of the query `places`: where those of them stand that wait in line."""

    places: dict[str, QueuePosition] = Field(default_factory=dict)


class EventsPage(Contract):
    """The answer of the query `events`: the live ring behind a cursor."""

    cursor: int
    events: tuple[PoolEvent, ...] = ()


class EmulatorsPage(Contract):
    emulators: tuple[EmulatorView, ...] = ()
    rebuilding: bool = False
    """It looks for what its predecessor knew: this is not all yet."""


class OperatorCommand(Request):
    """An operator's order to a pool.

    Argument of `pause_lane`, `resume_lane`, `set_capacity`, `set_order`, `reset_lane`, `prioritize`, `disable_account`
    and `enable_account`.
    """

    request_id: Annotated[str, StringConstraints(max_length=128)] = ""
    actor: Text = "somebody"
    reason: Text = ""
    lane: MaybeId = ""
    """Empty: every lane."""
    capacity: int = Field(default=0, ge=0, le=10_000)
    task_id: MaybeTaskId = ""
    account: MaybeId = ""
    priority: int = Field(default=1, ge=1, le=10)
    order: Literal["arrival", "priority"] = "arrival"
    ageing: int = Field(default=0, ge=0, le=1_000_000)
    bulk: bool = False
    """Of `prioritize`: one of many, for which one line stands in the audit already."""


class CommandResult(Contract):
    done: bool
    detail: str = ""

    def adding(self, detail: str) -> Self:
        """With this detail, if there is none yet."""
        return self.model_copy(update={"detail": detail}) if detail and not self.detail else self
