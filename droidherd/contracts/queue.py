"""What can be asked of a pool's dispatcher."""

from typing import Annotated

from pydantic import Field, StringConstraints

from droidherd.contracts.base import Contract, Id
from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.tasks import Text
from droidherd.domain.moves import Event


class DispatcherInput(Contract):
    """Input of `DispatcherWorkflow`."""

    pool: Id
    snapshot: str = ""
    """Of the run before; empty: look for a predecessor, rebuild."""
    handled: tuple[str, ...] = ()
    """The last request ids of operators, so that a repeat does nothing twice."""
    limit: int = 10_000
    capacities: dict[str, int] = Field(default_factory=dict)
    repeat_min_s: float = 300.0
    rebuild_s: float = 600.0
    fence_s: float = 15.0
    audit_s: float = 30.0
    continue_after: int = 0
    """Continue as new after this many messages; 0: when the engine suggests it."""


class QueueQuery(Contract):
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
    enqueued_at_ms: int
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
    since_ms: int
    running_s: float
    place: str


class LaneView(Contract):
    name: str
    waiting: int
    running: int
    capacity: int
    paused_by: str = ""
    paused_why: str = ""


class TallyView(Contract):
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
    lanes: tuple[LaneView, ...] = ()
    emulators: int = 0
    queue: tuple[QueueRow, ...] = ()
    runs: tuple[RunningRow, ...] = ()
    tallies: tuple[TallyView, ...] = ()
    next_after: int | None = None


class AccountView(Contract):
    """The answer of the query `account`."""

    account: str
    is_queued: bool
    is_running: bool
    emulator: str = ""
    running_task: str = ""
    queued_tasks: tuple[str, ...] = ()


class Place(Contract):
    """The answer of the query `place`: where a task stands in line now. Position 0: it does not wait."""

    position: int = 0
    why: str = ""


class EventsPage(Contract):
    """The answer of the query `events`: the live ring behind a cursor."""

    cursor: int
    events: tuple[Event, ...] = ()


class EmulatorsPage(Contract):
    emulators: tuple[EmulatorView, ...] = ()


class Order(Contract):
    """An operator's order to a pool: argument of `pause_lane`, `resume_lane`, `set_capacity`, `prioritize`."""

    request_id: Annotated[str, StringConstraints(max_length=128)] = ""
    actor: Text = "somebody"
    reason: Text = ""
    lane: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    """Empty: every lane."""
    capacity: int = Field(default=0, ge=0, le=10_000)
    task_id: str = ""
    priority: int = Field(default=1, ge=1, le=10)


class Ordered(Contract):
    done: bool
    detail: str = ""
