"""A pool over HTTP: its queue, commands to it, its statistics and its audit."""

import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, Field

from api.bodies import INTEGER_MAX, ActionRequest
from droidherd.contracts.base import MaybeId, MaybeTaskId
from droidherd.contracts.queue import (
    AuditPage,
    AuditQuery,
    DurationStats,
    LaneView,
    PoolEvent,
    QueuePage,
    QueueRow,
    RunningRow,
    StatsPage,
    TypeStats,
    TypeSummary,
)
from droidherd.domain import ids
from droidherd.engine.errors import CursorError

Name = MaybeId
COUNTS = ("count", "completed", "failed", "retries", "cancelled")
NOT_ALL = "the dispatcher still restores what its predecessor knew: this is not complete"


class LaneRequest(ActionRequest):
    """The body of pause and resume. It may be left out."""

    lane: str = Field(default="", pattern=ids.OPTIONAL, description="empty: every lane")


class CapacityRequest(ActionRequest):
    """The body of a change of capacity."""

    lane: str = Field(pattern=ids.PATTERN, description="the lane whose capacity it is")
    capacity: int = Field(ge=0, le=10_000, description="how many of its tasks may hold an emulator at once")


class LaneOrderRequest(ActionRequest):
    """The body of a change of order."""

    lane: str = Field(pattern=ids.PATTERN, description="the lane whose order it is")
    order: Literal["arrival", "priority"] = Field(
        description="which of the tasks with the same requirements goes first"
    )
    ageing: int = Field(
        default=0, ge=0, le=1_000_000, description="by priority: how many may overtake a task per step; 0: all"
    )


class QueueEntry(BaseModel):
    id: str
    position: int
    task_id: str
    lane: str
    account: str
    type: str
    priority: int
    enqueued_at: datetime
    waited_s: float
    blocked_by: str

    @classmethod
    def of(cls, row: QueueRow) -> Self:
        return cls(
            id=row.task_id,
            waited_s=_seconds_since(row.enqueued_at),
            **row.model_dump(exclude={"waited_s"}),
        )


class RunningEntry(BaseModel):
    id: str
    task_id: str
    lane: str
    account: str
    type: str
    emulator: str
    host: str
    token: int
    since: datetime
    running_s: float
    place: str

    @classmethod
    def of(cls, row: RunningRow) -> Self:
        return cls(
            id=row.task_id,
            running_s=_seconds_since(row.since),
            **row.model_dump(exclude={"running_s"}),
        )


class QueueOut(BaseModel):
    """A pool's queue."""

    pool: str
    waiting: int
    running: int
    limit: int
    emulators: int
    free: int
    rebuilding: bool
    lanes: list[LaneView]
    queue_info: list[QueueEntry]
    running_info: list[RunningEntry]
    statistics: list[TypeSummary]
    next_after: int | None = None
    paused_by: str = Field(default="", description="who paused the whole pool, lanes to come included")
    paused_why: str = ""

    @classmethod
    def of(cls, page: QueuePage) -> Self:
        return cls(
            queue_info=[QueueEntry.of(row) for row in page.queue],
            running_info=[RunningEntry.of(row) for row in page.runs],
            lanes=list(page.lanes),
            statistics=list(page.statistics),
            **page.model_dump(exclude={"queue", "runs", "lanes", "statistics"}),
        )


class DurationsOut(BaseModel):
    """Durations, in seconds. Percentiles are at most 10 % off, between 10 ms and a day."""

    count: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None

    @classmethod
    def of(cls, times: DurationStats) -> Self:
        rounded = {name: _rounded(getattr(times, name)) for name in ("mean_s", "p50_s", "p95_s")}
        return cls(count=times.count, **rounded)


class TypeStatsOut(BaseModel):
    """Attempts of one task type, by how they ended."""

    type: str
    count: int
    completed: int
    failed: int
    retries: int = Field(description="attempts that failed and were followed by another one")
    cancelled: int
    success_rate: float | None = Field(description="completed, of those that completed or failed for good")
    run: DurationsOut = Field(description="how long attempts held their emulators; without the cancelled ones")
    wait: DurationsOut = Field(description="from admission to the emulator, of the same attempts")

    @classmethod
    def of(cls, stats: TypeStats) -> Self:
        plain = stats.model_dump(exclude={"run", "wait", "success_rate"})
        return cls(
            **plain,
            success_rate=_rounded(stats.success_rate),
            run=DurationsOut.of(stats.run),
            wait=DurationsOut.of(stats.wait),
        )


def _sum_of(types: Sequence[TypeStats]) -> TypeStats:
    """Of the chosen types together. Percentiles of several cannot be told from theirs."""
    if len(types) == 1:
        return types[0].model_copy(update={"type": ""})
    counts = {name: sum(getattr(one, name) for one in types) for name in COUNTS}
    ended = counts["completed"] + counts["failed"]
    return TypeStats(
        type="",
        **counts,
        success_rate=counts["completed"] / ended if ended else None,
        run=_sum_of_times([one.run for one in types]),
        wait=_sum_of_times([one.wait for one in types]),
    )


def _sum_of_times(times: Sequence[DurationStats]) -> DurationStats:
    count, seconds = sum(one.count for one in times), sum(one.sum_s for one in times)
    return DurationStats(count=count, mean_s=seconds / count if count else None, sum_s=seconds)


class StatsOut(BaseModel):
    """The statistics of a pool's dispatcher."""

    pool: str
    since: datetime | None = Field(description="when counting began; null: unknown")
    total: TypeStatsOut = Field(description="of the types asked for; p50_s and p95_s are null when those are several")
    types: list[TypeStatsOut]
    rebuilding: bool = Field(default=False, description=NOT_ALL)

    @classmethod
    def of(cls, page: StatsPage, kinds: Collection[str]) -> Self:
        shown = [one for one in page.types if not kinds or one.type in kinds]
        return cls(
            pool=page.pool,
            since=page.since,
            total=TypeStatsOut.of(_sum_of(shown) if kinds else page.total),
            types=[TypeStatsOut.of(one) for one in shown],
            rebuilding=page.rebuilding,
        )


class AuditEntryOut(BaseModel):
    """Who did what to a pool, when and why."""

    id: int
    at: datetime
    action: str
    actor: str = Field(description="a person, the name of an API key (`ann`, `ann for ben`), or `system:` and why")
    reason: str
    lane: str
    task: str
    task_events: str = Field(description="where the task's own audit is found")
    emulator: str
    detail: str

    @classmethod
    def of(cls, event: PoolEvent) -> Self:
        return cls(
            id=event.cursor,
            at=event.at,
            action=event.kind,
            actor=event.actor,
            reason=event.reason,
            lane=event.lane,
            task=event.task_id,
            task_events=f"/api/tasks/{event.task_id}/events" if event.task_id else "",
            emulator=event.emulator_id,
            detail=event.detail,
        )


class AuditList(BaseModel):
    """A pool's audit, newest first. What was done to a single task stands in that task's own."""

    pool: str
    entries: list[AuditEntryOut]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")
    task_events: str = Field(description="where the audit of a task is found")
    rebuilding: bool = Field(default=False, description=NOT_ALL)

    @classmethod
    def of(cls, page: AuditPage, task: str) -> Self:
        return cls(
            pool=page.pool,
            entries=[AuditEntryOut.of(event) for event in page.events],
            cursor=str(page.next_before or ""),
            task_events=f"/api/tasks/{task or '{task}'}/events",
            rebuilding=page.rebuilding,
        )


class AuditFilter(BaseModel):
    """What of a pool's audit is wanted, as query parameters."""

    pool: Name = ""
    actor: str = Field(default="", max_length=200, description="`ann` finds what `ann for ben` did, too")
    action: Name = ""
    task: MaybeTaskId = ""
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str = Field(default="", max_length=20)

    def query(self) -> AuditQuery:
        is_number = self.cursor.isascii() and self.cursor.isdigit()
        if self.cursor and not (is_number and int(self.cursor) <= INTEGER_MAX):
            raise CursorError("not a valid cursor: pass the `cursor` of the page before, unchanged")
        before = int(self.cursor or 0)
        return AuditQuery(before=before, limit=self.limit, actor=self.actor, action=self.action, task_id=self.task)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _seconds_since(moment: datetime) -> float:
    """By this process's clock: a workflow's own stands still while nothing happens to it."""
    return round(max(time.time() - moment.timestamp(), 0.0), 3)
