"""A pool's queue, and orders to it."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.bodies import json_body, optional, parsed
from api.errors import Kind, ProblemError
from api.house import Caller, Home, House
from api.routes.answers import answer, answers, body
from api.schemas import Capacity, Command, LaneOrder, QueueOut
from api.signing import signed
from droidherd.contracts.names import Update
from droidherd.contracts.queue import Order, Ordered, QueueQuery

router: Final = APIRouter(prefix="/api/queue", tags=["queue"])

Name = Annotated[str, Query(pattern=r"^[A-Za-z0-9._-]{0,64}$")]
_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)


@router.get("", responses=answers(QueueOut, *_READ))
async def queue(
    house: Home,
    pool: Name = "",
    lane: Name = "",
    after: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Who waits for what, who runs where. `next_after` is `after` of the next page."""
    wanted = QueueQuery(after=after, limit=limit, lane=lane)
    return answer(QueueOut.of(await house.engine.queue(pool or house.settings.host.pool, wanted)))


@router.post("/pause", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(Command))
async def pause(house: Home, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant nothing any more on a lane, or on all of them, those to come included. What runs goes on."""
    return await _order(house, pool, Update.PAUSE_LANE, signed(await optional(Command, request), caller))


@router.post("/resume", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(Command))
async def resume(house: Home, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant again."""
    return await _order(house, pool, Update.RESUME_LANE, signed(await optional(Command, request), caller))


@router.post("/capacity", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(Capacity, required=True))
async def capacity(house: Home, caller: Caller, request: Request, pool: Name = "") -> Response:
    """How many tasks of a lane may hold an emulator at once. Effective at once; nothing that runs is stopped."""
    wanted = signed(parsed(Capacity, await json_body(request)), caller)
    return await _order(house, pool, Update.SET_CAPACITY, wanted)


@router.post("/order", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(LaneOrder, required=True))
async def order(house: Home, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Who goes first in a lane: the earlier one, or the more urgent one. Effective at once."""
    wanted = signed(parsed(LaneOrder, await json_body(request)), caller)
    return await _order(house, pool, Update.SET_ORDER, wanted)


async def _order(house: House, pool: str, update: Update, command: Command | Capacity | LaneOrder) -> Response:
    return await ordered(house, pool or house.settings.host.pool, update, dict(command))


async def ordered(house: House, pool: str, update: Update, words: dict[str, Any]) -> Response:
    """Give a pool an order, and say what it said to that."""
    done = await house.engine.order(pool, update, Order(request_id=secrets.token_hex(12), **words))
    if not done.done:
        raise ProblemError(Kind.REFUSED, done.detail or "the dispatcher refused")
    return answer(done)
