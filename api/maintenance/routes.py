"""Cleanups: started by hand, and the last ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Final, Self

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.answers import answer, answers, body
from api.bodies import SOMEBODY, Line, optional, wait_seconds, with_actor
from api.errors import Kind
from api.state import App, Caller
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.engine.maintenance import Cleanup, CleanupSchedule

router: Final = APIRouter(prefix="/api/maintenance", tags=["maintenance"])

_KINDS: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE)


class CleanupRequest(CleanupInput):
    """The body of a cleanup. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""


class CleanupOut(BaseModel):
    """A cleanup. It has a `report` when it is over."""

    id: str
    run_id: str
    state: str
    report: CleanupReport | None = None
    unreadable: str = Field(default="", description="why its report cannot be read")

    @classmethod
    def of(cls, found: Cleanup) -> Self:
        return cls.model_validate(found, from_attributes=True)


class CleanupsOut(BaseModel):
    """The last cleanups, newest first, without the names of what was removed; and when the next one comes."""

    next: datetime | None = None
    paused: bool = False
    note: str = ""
    cleanups: list[CleanupOut]

    @classmethod
    def of(cls, schedule: CleanupSchedule | None, recent: Sequence[Cleanup]) -> Self:
        cleanups = [CleanupOut.of(one) for one in recent]
        if schedule is None:
            return cls(cleanups=cleanups, note="no worker has made the schedule yet")
        following = schedule.next[0] if schedule.next and not schedule.paused else None
        return cls(next=following, paused=schedule.paused, note=schedule.note, cleanups=cleanups)


@router.post("/cleanup", responses=answers(CleanupOut, *_KINDS, also=(202,)), openapi_extra=body(CleanupRequest))
async def cleanup(app: App, caller: Caller, request: Request, wait: Annotated[str, Query()] = "30s") -> Response:
    """Remove now what is old. `dry_run` only lists what would be removed; 202: it takes longer than `wait`."""
    wanted = with_actor(await optional(CleanupRequest, request), caller)
    pool = await app.pool_of(wanted.pool if "pool" in wanted.model_fields_set else "")
    work = CleanupInput(actor=wanted.actor, reason=wanted.reason, dry_run=wanted.dry_run, pool=pool)
    seconds = wait_seconds(wait)
    with app.waits.one(caller, seconds):
        found = await app.maintenance.cleanup(work, seconds)
    return answer(CleanupOut.of(found), 200 if found.report else 202)


@router.get("/cleanup", responses=answers(CleanupsOut, *_KINDS))
async def cleanups(app: App) -> Response:
    """The last cleanups, and when the next one comes."""
    return answer(CleanupsOut.of(await app.maintenance.schedule(), await app.maintenance.recent()))
