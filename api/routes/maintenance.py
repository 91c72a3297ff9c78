"""Removing what is old, by hand; and what was removed lately."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.bodies import optional, wait_seconds
from api.errors import Kind
from api.house import Caller, Home, pool_of
from api.routes.answers import answer, answers, body
from api.schemas import CleanupOut, CleanupWish, MaintenanceOut
from api.signing import signed
from droidherd.contracts.maintenance import CleanupInput

router: Final = APIRouter(prefix="/api/maintenance", tags=["maintenance"])

_KINDS: Final = (Kind.INVALID, Kind.OVERLOADED, Kind.AWAY)


@router.post("/cleanup", responses=answers(CleanupOut, *_KINDS, also=(202,)), openapi_extra=body(CleanupWish))
async def cleanup(house: Home, caller: Caller, request: Request, wait: Annotated[str, Query()] = "30s") -> Response:
    """Remove what is old now. `dry_run` only lists what would go; 202: it takes longer than `wait`."""
    wish = signed(await optional(CleanupWish, request), caller)
    pool = await pool_of(house, wish.pool if "pool" in wish.model_fields_set else "")
    wanted = CleanupInput(actor=wish.actor, reason=wish.reason, dry_run=wish.dry_run, pool=pool)
    found = await house.upkeep.cleanup(wanted, wait_seconds(wait))
    return answer(CleanupOut.of(found), 200 if found.report else 202)


@router.get("/cleanup", responses=answers(MaintenanceOut, *_KINDS))
async def cleanups(house: Home) -> Response:
    """The last cleanups, and when the next one comes."""
    return answer(MaintenanceOut.of(await house.upkeep.timetable(), await house.upkeep.recent()))
