"""Subscriptions as they are shown."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, Field

from api.engine import TaskPage
from api.schedules import Found
from api.subscribing import reckoned
from droidherd.contracts.subscriptions import LastTask, SubscriptionRow, SubscriptionView, Timing
from droidherd.contracts.tasks import TaskView

ELSEWHERE = "somebody on the engine"
LAST_TASKS = 10


class SubscriptionList(BaseModel):
    subscriptions: list[SubscriptionRow]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")


class Ran(BaseModel):
    """What became of a run by hand."""

    subscription: str
    task_id: str
    scheduled_at: datetime
    outcome: Literal["started", "waiting"] = Field(description="waiting: for the run before to end")


class Removed(BaseModel):
    """A subscription that is gone."""

    id: str
    tasks: Literal["cancel", "finish"]
    running: str = Field(default="", description="the task that still runs, or ends now")


def view_of(found: Found, tasks: TaskPage) -> SubscriptionView:
    known = found.subscription
    reckoning = reckoned(found, datetime.now(UTC))
    by = (known.paused_by if known.paused_at else ELSEWHERE) if found.paused else ""
    return SubscriptionView(
        **{name: getattr(known, name) for name in Timing.model_fields},
        id=known.id,
        task=known.task,
        paused=found.paused,
        paused_at=known.paused_at if found.paused else None,
        paused_by=by,
        note=found.note,
        created_at=known.created_at,
        next_times=found.next_times,
        started=found.started,
        skipped=reckoning.skipped,
        missed=reckoning.missed,
        missed_runs=reckoning.rows,
        running=found.busy,
        waiting=found.waiting,
        last_tasks=tuple(map(_last, tasks.tasks)),
        changes=known.changes,
    )


def running_task(found: Found) -> str:
    """The task that runs now; empty: none, or it has not said yet."""
    return found.last.task_id if found.busy and found.last and not found.last.outcome else ""


def _last(task: TaskView) -> LastTask:
    why = task.error.message if task.error else task.why
    return LastTask(task_id=task.task_id, state=task.state, created_at=task.created_at, ended_at=task.ended_at, why=why)
