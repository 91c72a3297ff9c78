"""Subscriptions over HTTP: request bodies and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from api.bodies import SOMEBODY, Line
from api.tasks.schemas import Mutex, PolicyRequest
from droidherd.contracts.base import Id
from droidherd.contracts.subscriptions import (
    LastTask,
    Recurrence,
    SubscriptionRow,
    SubscriptionView,
    WaitingTask,
)
from droidherd.contracts.tasks import TaskSpec, TaskView
from droidherd.domain import ids
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.engine.schedules import SubscriptionReading

ELSEWHERE = "somebody in Temporal"
"""Who paused a schedule that was not paused through this API."""
LAST_TASKS = 10
PRIORITY = 5
"""The default of recurring tasks."""
EXAMPLE: JsonValue = {
    "id": "daily-gift",
    "task": {"type": "daily_reward", "account": "player-42", "params": {"tab": "gift"}},
    "cron": "30 5 * * *",
    "time_zone": "Asia/Shanghai",
    "overlap": "buffer_one",
    "catch_up_s": 7200,
}
NOT_HERE = ("not_before", "expires_at", "actor", "chain")
"""Fields of a submission that the task of a subscription must not have."""


class RecurringTask(TaskSpec):
    """The task, as it would be submitted."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    priority: int = Field(default=PRIORITY, ge=1, le=10)
    mutex: tuple[Mutex, ...] = Field(default=(), max_length=3, description="beside the subscription's own")
    policy: PolicyRequest | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound

    @field_validator(*NOT_HERE)
    @classmethod
    def _not_here(cls, _: Any) -> Any:
        raise ValueError("not in a subscription: its schedule says when, and it is its own actor")


class SubscriptionRequest(Recurrence):
    """The body that makes or replaces a subscription. Either `cron` or `every_s`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [EXAMPLE]}
    )

    id: Id | None = Field(
        default=None, description=f"your id for it, {ids.SUBSCRIPTION_MAX} characters at most; empty: one is made"
    )
    task: RecurringTask
    paused: bool = Field(default=False, description="create it paused")
    actor: Line = SOMEBODY
    reason: Line = ""


class SubscriptionList(BaseModel):
    subscriptions: list[SubscriptionRow]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")


class ManualRunOut(BaseModel):
    """What became of a run by hand."""

    subscription: str
    task_id: str
    scheduled_at: datetime
    outcome: Literal["started", "waiting"] = Field(description="waiting: for the run before to end")


class RemovedSubscription(BaseModel):
    """A subscription that was deleted."""

    id: str
    tasks: Literal["cancel", "finish"]
    running: str = Field(default="", description="the task that still runs, or is being cancelled")


def view_of(
    found: SubscriptionReading, tasks: Sequence[TaskView], catch_up: CatchUp, now: datetime
) -> SubscriptionView:
    known = found.subscription
    waiting = [WaitingTask.of(one) for one in tasks]
    by = (known.paused_by if known.paused_at else ELSEWHERE) if found.paused else ""
    return SubscriptionView(
        **{name: getattr(known, name) for name in Recurrence.model_fields},
        id=known.id,
        task=known.task.shown(),
        paused=found.paused,
        paused_at=known.paused_at if found.paused else None,
        paused_by=by,
        note=found.note,
        created_at=known.created_at,
        next_times=found.next_times,
        started=found.started,
        skipped=catch_up.skipped,
        missed=catch_up.missed,
        missed_runs=catch_up.rows,
        running=found.busy,
        waiting=found.waiting,
        stuck=next((one for one in waiting if one.is_stuck(known.stuck_after_s, now)), None),
        stuck_tasks=found.last.stuck_tasks if found.last else 0,
        last_tasks=tuple(map(_last, tasks)),
        changes=known.changes,
    )


def running_task(found: SubscriptionReading) -> str:
    """The task that runs now; empty: none, or it is not known yet."""
    return found.last.task_id if found.busy and found.last and not found.last.outcome else ""


def _last(task: TaskView) -> LastTask:
    failed = task.error.message if task.error else ""
    # Of a task that waits in line again, what it waits for is news, and how an earlier attempt ended is not.
    why = failed or task.why if task.ended_at else task.why or failed
    return LastTask(task_id=task.task_id, state=task.state, created_at=task.created_at, ended_at=task.ended_at, why=why)
