"""A task that recurs: what its schedule carries, what its runs say, what is shown of it."""

import re
from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import Field, StringConstraints

from droidherd.contracts.base import Contract, EntityState
from droidherd.contracts.tasks import TaskSpec, TaskView, Text
from droidherd.domain import ids
from droidherd.domain.schedule.catchup import CatchUp, Missed, OnStuck, Overlap, Rules
from droidherd.domain.schedule.timetable import Timetable
from droidherd.domain.task.lifecycle import FINAL, TaskStatus

DAY_S = 86_400
CATCH_UP_MIN_S = 10
"""The engine takes no less."""
STUCK_AFTER_S = 7_200
"""As long as a mutex may be held by default."""
CHANGES_KEPT = 20
RUN = "run"
REFUSED = "refused"
"""A run by hand that was written down, and did not come about."""
SYSTEM = "system:subscription"
"""The actor of what a subscription does by itself."""

SubscriptionId = Annotated[str, StringConstraints(pattern=ids.SUBSCRIPTION)]


class Recurrence(Contract):
    """When it is due, and what becomes of a run that cannot start then. Either `cron` or `every_s`."""

    cron: str = Field(default="", max_length=200, description="five fields, or @hourly, @daily, @weekly, ...")
    every_s: int = Field(default=0, ge=0, le=366 * DAY_S, description="seconds, counted from 1970-01-01 UTC on")
    offset_s: int = Field(default=0, ge=0, le=366 * DAY_S, description="shifts an interval; less than `every_s`")
    time_zone: str = Field(default="UTC", max_length=64, description="of the cron: an IANA name")
    jitter_s: int = Field(default=0, ge=0, le=DAY_S, description="each run up to this much later, never past the next")
    overlap: Overlap = Overlap.SKIP
    catch_up_s: int = Field(
        default=3600, ge=CATCH_UP_MIN_S, le=366 * DAY_S, description="how late a run may start after an outage"
    )
    stuck_after_s: int = Field(
        default=STUCK_AFTER_S,
        ge=0,
        le=366 * DAY_S,
        description="a task that is paused or waits for longer is reported as stuck; 0: never",
    )
    on_stuck: OnStuck = Field(default=OnStuck.REPORT, description="cancel: a stuck task is cancelled, too")

    def rules(self) -> Rules:
        timetable = Timetable(self.cron, self.every_s, self.offset_s, self.time_zone)
        return Rules(timetable, self.overlap, self.catch_up_s, self.jitter_s)


class AuditLine(Contract):
    """One line of a subscription's audit."""

    at: datetime
    what: str
    """created, changed, paused, resumed, run, refused, deleted."""
    actor: Text = ""
    reason: Text = ""
    id: str = ""
    due: datetime | None = None
    """Of a run by hand: the moment it goes by. Its task is named after it."""
    why: str = ""
    """Of a run that was refused: what stood in its way."""

    @property
    def moment(self) -> datetime:
        return self.due or self.at


class Subscription(Recurrence):
    """A subscription, whole: the argument of its runs, kept by its schedule on the engine."""

    id: SubscriptionId
    task: TaskSpec
    region: str = "default"
    created_at: datetime
    paused_at: datetime | None = None
    paused_by: Text = ""
    catch_up: CatchUp
    """As it stood at the last change; the runs since then carry theirs."""
    changes: tuple[AuditLine, ...] = ()
    request: str = ""
    """Digest of the request it was made with."""

    def describe(self) -> str:
        """In one line: which one, what it does, when."""
        account = f" for {self.task.account}" if self.task.account else ""
        when = f"{self.cron} {self.time_zone}" if self.cron else f"every {self.every_s} s"
        return f"{self.id}: {self.task.type}{account}, {when}"

    def by_hand(self, scheduled_at: datetime) -> bool:
        """Whether somebody asked for a run at this moment."""
        asked = any(one.what == RUN and one.moment == scheduled_at for one in self.changes)
        return asked or not self.rules().timetable.at(int(scheduled_at.timestamp()))


class WaitingTask(Contract):
    """A task that has not ended and runs nowhere. The answer of the activity `look_at_task`."""

    task_id: str
    state: TaskStatus
    since: datetime | None = None
    """None: it runs, or has ended."""
    why: Text = ""

    @classmethod
    def of(cls, task: TaskView) -> Self:
        return cls(task_id=task.task_id, state=task.state, since=waiting_since(task), why=task.why)

    def waited_s(self, now: datetime) -> float:
        """Below 0: it waits for a time that it named itself."""
        return (now - self.since).total_seconds() if self.since else 0.0

    def is_stuck(self, after_s: float, now: datetime) -> bool:
        return bool(after_s and self.since and self.waited_s(now) >= after_s)


class SubscriptionRunState(EntityState):
    """One run of a subscription: the result of its `SubscriptionRunWorkflow`, and its memo while it runs."""

    task_id: str = ""
    scheduled_at: datetime
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str = ""
    """How the task ended: completed, failed, cancelled, rejected, ...; empty while it runs."""
    catch_up: CatchUp
    stuck: WaitingTask | None = None
    """Its task, when that was paused or waited for longer than allowed at the last look."""
    was_stuck: bool = False
    """So it was at some look."""
    stuck_tasks: int = 0
    """Tasks of the subscription that were stuck at some time, up to this one."""


class TaskLook(Contract):
    """Input of `look_at_task`."""

    task_id: str


class CarriedRun(EntityState):
    """What a run of a subscription leaves for its continuation."""

    subscription: Subscription
    run: SubscriptionRunState


class CatchUpWork(Contract):
    """Input of `settle_missed_runs`: a run that begins, and the one before it."""

    subscription: Subscription
    scheduled_at: datetime
    started_at: datetime
    before: SubscriptionRunState | None = None


class LastTask(Contract):
    task_id: str
    state: TaskStatus
    created_at: datetime
    ended_at: datetime | None = None
    why: str = ""


class SubscriptionRow(Contract):
    """A subscription in a list."""

    id: str
    type: str = ""
    account: str = ""
    pool: str = ""
    cron: str = ""
    every_s: int = 0
    time_zone: str = "UTC"
    paused: bool = False
    note: str = ""
    next_times: tuple[datetime, ...] = ()
    last_times: tuple[datetime, ...] = ()
    stuck: bool = False
    """Its task is paused, or waits, for longer than allowed. Some minutes old."""


class SubscriptionView(Recurrence):
    """A subscription as it stands."""

    id: str
    task: TaskSpec
    paused: bool = False
    paused_at: datetime | None = None
    paused_by: str = ""
    note: str = ""
    """Why it is paused, or what was said when it was resumed."""
    created_at: datetime
    next_times: tuple[datetime, ...] = ()
    started: int = 0
    """Runs that were started, those by hand among them."""
    skipped: int = 0
    """Runs that were due while the one before still ran, and dropped by `overlap`."""
    missed: int = 0
    """Runs that were due and were never started: `missed_runs` says which and why."""
    missed_runs: tuple[Missed, ...] = ()
    running: bool = False
    waiting: int = 0
    """Runs that were due and wait for the one before to end."""
    stuck: WaitingTask | None = None
    """Its task, when that is paused, or waits, for longer than `stuck_after_s`."""
    stuck_tasks: int = 0
    """Its tasks that were stuck at some time, those among them that `on_stuck` cancelled."""
    last_tasks: tuple[LastTask, ...] = ()
    changes: tuple[AuditLine, ...] = ()


RUNS = frozenset({TaskStatus.RUNNING, TaskStatus.ROLLBACK_RUNNING})
_SCHEDULED = re.compile(r"-(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", re.ASCII)


def scheduled_at(run_id: str) -> datetime | None:
    """The time a run is for, which the engine puts behind its id. None: somebody else started it."""
    found = _SCHEDULED.fullmatch(run_id[-21:])
    return datetime.fromisoformat(found[1]) if found else None


def waiting_since(task: TaskView) -> datetime | None:
    """Since when a task runs nowhere, or asks a person. None: it runs, or has ended."""
    if task.state in FINAL or task.state in RUNS:
        return None
    ended = task.attempts[-1].ended if task.attempts else task.created_at
    since = task.updated_at if task.state is TaskStatus.WAITING else ended or task.updated_at
    return max(since, task.not_before or since, task.retry_at or since)


def task_id_of(subscription_id: str, scheduled_at: datetime, mark: str = "") -> str:
    """What the task of a run is called."""
    moment = f"{scheduled_at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return f"{subscription_id}.{moment}-{mark}" if mark else f"{subscription_id}.{moment}"
