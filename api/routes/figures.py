"""What a pool counted, and who did what to it."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.errors import Kind
from api.figures import AuditFilter, AuditList, StatsOut
from api.house import Home
from api.routes.answers import answer, answers
from api.routes.filters import Name, Names

router: Final = APIRouter(prefix="/api", tags=["figures"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)


@router.get("/stats", responses=answers(StatsOut, *_READ))
async def stats(
    house: Home,
    pool: Name = "",
    type: Names = [],  # noqa: A002, B006 (the name in the query; FastAPI copies it)
) -> Response:
    """Per task type and in total: attempts by outcome, success rate, run time, queue wait, retries."""
    return answer(StatsOut.of(await house.engine.stats(pool or house.settings.host.pool), type))


@router.get("/audit", responses=answers(AuditList, *_READ))
async def audit(house: Home, wanted: Annotated[AuditFilter, Query()]) -> Response:
    """Who did what to a pool, when and why: people and the system, newest first. A task's own audit is its events."""
    page = await house.engine.pool_audit(wanted.pool or house.settings.host.pool, wanted.query())
    return answer(AuditList.of(page, wanted.task))
