"""A pool's queue, and orders to it."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.bodies import json_body, optional, parsed
from api.engine import IllegalError
from api.errors import Kind, ProblemError
from api.house import Caller, Home, House, plain
from api.routes.answers import answer, answers, body
from api.runs import not_possible
from api.schemas import Capacity, Command, LaneOrder, QueueOut
from api.schemas import Wish as Said
from api.signing import signed
from droidherd.contracts.names import Update
from droidherd.contracts.queue import Order, Ordered, QueueQuery
from droidherd.domain import ids
from droidherd.domain.lifecycle import Wish, possible

router: Final = APIRouter(prefix="/api/queue", tags=["queue"])

Name = Annotated[str, Query(pattern=ids.OPTIONAL)]
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


@router.delete("/lanes/{lane}", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(Said))
async def reset(house: Home, lane: str, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Take back what was set on a lane by hand, a pause of its own included. Nobody in it: it is forgotten."""
    wish = signed(await optional(Said, request), caller)
    words = {**dict(wish), "lane": plain(lane, "lane")}
    return await ordered(house, pool or house.settings.host.pool, Update.RESET_LANE, words)


@router.post("/order", responses=answers(Ordered, *_READ, Kind.REFUSED), openapi_extra=body(LaneOrder, required=True))
async def order(house: Home, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Who goes first in a lane: the earlier one, or the more urgent one. Effective at once."""
    wanted = signed(parsed(LaneOrder, await json_body(request)), caller)
    return await _order(house, pool, Update.SET_ORDER, wanted)


async def _order(house: House, pool: str, update: Update, command: Command | Capacity | LaneOrder) -> Response:
    return await ordered(house, pool or house.settings.host.pool, update, dict(command))


async def preferred(house: House, task_id: str, words: dict[str, Any]) -> Ordered:
    """Give a task precedence, if it waits in line."""
    known = await house.engine.view(task_id)
    if Wish.PRIORITIZE not in possible(known.view.state, known.view.intent):
        raise IllegalError(not_possible(Wish.PRIORITIZE, known.view), known)
    order = Order(request_id=secrets.token_hex(12), task_id=task_id, **words)
    done = await house.engine.order(known.view.pool, Update.PRIORITIZE, order)
    if not done.done:  # it left the line meanwhile
        raise IllegalError(done.detail, await house.engine.view(task_id))
    return done


async def ordered(house: House, pool: str, update: Update, words: dict[str, Any]) -> Response:
    """Give a pool an order, and say what it said to that."""
    done = await house.engine.order(pool, update, Order(request_id=secrets.token_hex(12), **words))
    if not done.done:
        raise ProblemError(Kind.REFUSED, done.detail or "the dispatcher refused")
    return answer(done)
