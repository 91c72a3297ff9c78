"""A pool's queue, commands to it, its statistics and its audit."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.answers import answer, answers, body
from api.bodies import ActionRequest, optional, require_body, with_actor
from api.errors import Kind, ProblemError
from api.queue.schemas import (
    AuditFilter,
    AuditList,
    CapacityRequest,
    LaneOrderRequest,
    LaneRequest,
    QueueOut,
    StatsOut,
)
from api.state import App, AppState, Caller, path_id
from api.tasks.filters import Name, Names
from droidherd.contracts.names import Update
from droidherd.contracts.queue import CommandResult, OperatorCommand, QueueQuery

router: Final = APIRouter(prefix="/api/queue", tags=["queue"])
figures: Final = APIRouter(prefix="/api", tags=["figures"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)
_COMMAND: Final = answers(CommandResult, *_READ, Kind.REFUSED)


@router.get("", responses=answers(QueueOut, *_READ))
async def queue(
    app: App,
    pool: Name = "",
    lane: Name = "",
    after: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Which tasks wait for what, and which run where. `next_after` is `after` of the next page."""
    wanted = QueueQuery(after=after, limit=limit, lane=lane)
    return answer(QueueOut.of(await app.queue.page(pool or app.pool, wanted)))


@router.post("/pause", responses=_COMMAND, openapi_extra=body(LaneRequest))
async def pause(app: App, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant no emulators on a lane, or on all lanes, those to come included. Running tasks continue."""
    wanted = with_actor(await optional(LaneRequest, request), caller)
    return await _command(app, pool, Update.PAUSE_LANE, dict(wanted))


@router.post("/resume", responses=_COMMAND, openapi_extra=body(LaneRequest))
async def resume(app: App, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant emulators again."""
    wanted = with_actor(await optional(LaneRequest, request), caller)
    return await _command(app, pool, Update.RESUME_LANE, dict(wanted))


@router.post("/capacity", responses=_COMMAND, openapi_extra=body(CapacityRequest, required=True))
async def capacity(app: App, caller: Caller, request: Request, pool: Name = "") -> Response:
    """How many tasks of a lane may hold an emulator at once. Effective at once; running tasks continue."""
    wanted = with_actor(await require_body(CapacityRequest, request), caller)
    return await _command(app, pool, Update.SET_CAPACITY, dict(wanted))


@router.delete("/lanes/{lane}", responses=_COMMAND, openapi_extra=body(ActionRequest))
async def reset(app: App, lane: str, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Undo what was set on a lane by hand, a pause included. A lane without tasks is forgotten."""
    wanted = with_actor(await optional(ActionRequest, request), caller)
    return await _command(app, pool, Update.RESET_LANE, {**dict(wanted), "lane": path_id(lane, "lane")})


@router.post("/order", responses=_COMMAND, openapi_extra=body(LaneOrderRequest, required=True))
async def order(app: App, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Which task of a lane goes first: the earlier one, or the one with the smaller priority. Effective at once."""
    wanted = with_actor(await require_body(LaneOrderRequest, request), caller)
    return await _command(app, pool, Update.SET_ORDER, dict(wanted))


@figures.get("/stats", responses=answers(StatsOut, *_READ))
async def stats(
    app: App,
    pool: Name = "",
    type: Names = [],  # noqa: A002, B006 (the name in the query; FastAPI copies it)
) -> Response:
    """Per task type and in total: attempts by outcome, success rate, run time, queue wait, retries."""
    return answer(StatsOut.of(await app.queue.stats(pool or app.pool), type))


@figures.get("/audit", responses=answers(AuditList, *_READ))
async def audit(app: App, wanted: Annotated[AuditFilter, Query()]) -> Response:
    """Who did what to a pool, when and why: people and the system, newest first. A task's own audit is its events."""
    return answer(AuditList.of(await app.queue.audit(wanted.pool or app.pool, wanted.query()), wanted.task))


async def _command(app: App, pool: str, update: Update, fields: dict[str, Any]) -> Response:
    return answer(await command(app, pool, update, fields))


async def command(app: AppState, pool: str, update: Update, fields: dict[str, Any]) -> CommandResult:
    """Send a command to a pool's dispatcher. ProblemError: it refused."""
    wanted = OperatorCommand(request_id=secrets.token_hex(12), **fields)
    done = await app.queue.command(pool or app.pool, update, wanted)
    if not done.done:
        raise ProblemError(Kind.REFUSED, done.detail or "the dispatcher refused")
    return done
