"""What a pool counted and who did what to it, as it comes out over HTTP."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, Field

from api.engine import CursorError
from droidherd.contracts.base import MaybeId
from droidherd.contracts.queue import AuditPage, AuditQuery, StatsPage, Times, TypeStats
from droidherd.domain.audit import Event

Name = MaybeId
NOT_ALL = "the dispatcher still looks for what its predecessor knew: this is not all"


class TimesOut(BaseModel):
    """Durations, in seconds. Percentiles are at most 10 % off, between 10 ms and a day."""

    count: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None

    @classmethod
    def of(cls, times: Times) -> Self:
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
    run: TimesOut = Field(description="how long attempts held their emulators; without the cancelled ones")
    wait: TimesOut = Field(description="from admission to the emulator, of the same attempts")

    @classmethod
    def of(cls, stats: TypeStats) -> Self:
        plain = stats.model_dump(exclude={"run", "wait", "success_rate"})
        return cls(
            **plain, success_rate=_rounded(stats.success_rate), run=TimesOut.of(stats.run), wait=TimesOut.of(stats.wait)
        )


class StatsOut(BaseModel):
    """What a pool's dispatcher counted."""

    pool: str
    since: datetime | None = Field(description="when counting began; null: nobody knows")
    total: TypeStatsOut
    types: list[TypeStatsOut]
    rebuilding: bool = Field(default=False, description=NOT_ALL)

    @classmethod
    def of(cls, page: StatsPage, kinds: Collection[str]) -> Self:
        return cls(
            pool=page.pool,
            since=moment_of(page.since_ms) if page.since_ms else None,
            total=TypeStatsOut.of(page.total),
            types=[TypeStatsOut.of(one) for one in page.types if not kinds or one.type in kinds],
            rebuilding=page.rebuilding,
        )


class AuditEntry(BaseModel):
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
    def of(cls, event: Event) -> Self:
        return cls(
            id=event.cursor,
            at=moment_of(event.at_ms),
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
    entries: list[AuditEntry]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")
    task_events: str = Field(description="where the audit of a task is found")
    rebuilding: bool = Field(default=False, description=NOT_ALL)

    @classmethod
    def of(cls, page: AuditPage, task: str) -> Self:
        return cls(
            pool=page.pool,
            entries=[AuditEntry.of(event) for event in page.events],
            cursor=str(page.next_before or ""),
            task_events=f"/api/tasks/{task or '{task}'}/events",
            rebuilding=page.rebuilding,
        )


class AuditFilter(BaseModel):
    """What of a pool's audit is wanted, as query parameters."""

    pool: Name = ""
    actor: str = Field(default="", max_length=200, description="`ann` finds what `ann for ben` did, too")
    action: Name = ""
    task: Name = ""
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str = Field(default="", max_length=20)

    def query(self) -> AuditQuery:
        if self.cursor and not (self.cursor.isascii() and self.cursor.isdigit()):
            raise CursorError("the cursor is not one of ours")
        before = int(self.cursor or 0)
        return AuditQuery(before=before, limit=self.limit, actor=self.actor, action=self.action, task_id=self.task)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def moment_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
