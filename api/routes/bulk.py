"""One wish for many tasks, chosen by filter."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.bodies import optional
from api.engine import EngineError, Filters
from api.errors import Kind, invalid
from api.house import Caller, Home, House
from api.routes.answers import answer, answers, body
from api.routes.filters import Wanted
from api.routes.queue import preferred
from api.schemas import Bulk, Refused, Wish
from api.signing import signed
from droidherd.contracts.tasks import Ask, Control
from droidherd.domain.audit import Deed
from droidherd.domain.lifecycle import TaskState

router: Final = APIRouter(prefix="/api/bulk", tags=["tasks"])

Action: TypeAlias = Literal["cancel", "pause", "resume", "prioritize", "retry"]
MOST = 1_000
"""Tasks of one request; `more` says that there are others."""
PAGE = 200
AT_ONCE = 16
IN_TURN = 1
"""Who is put in front last stands first. From the newest to the oldest, one after the other, they keep their order."""


@router.post(
    "/{action}",
    responses=answers(Bulk, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY),
    openapi_extra=body(Wish),
)
async def bulk(
    house: Home,
    action: Action,
    *,
    wanted: Wanted,
    caller: Caller,
    request: Request,
    dry_run: bool = False,
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Cancel, pause, resume, prioritize or retry all tasks that fit; `dry_run=true` only says which they are.

    At least one filter. `retry` means tasks that failed, or the ended ones in the states that are named.
    At most `limit` at a time; `cursor` goes on with the rest.
    """
    if wanted == Filters():
        raise invalid("state", "name at least one of state, type, account, lane, pool, emulator, subscription, label")
    wish = signed(await optional(Wish, request), caller)
    filters = _fitting(action, wanted)
    chosen, following = await chosen_of(house, filters, limit, cursor)
    if dry_run:
        return answer(Bulk(action=action, dry_run=True, tasks=chosen, more=bool(following), cursor=following))
    done, refused = await carried_out(house, action, filters, chosen, Ask(**dict(wish)))
    return answer(Bulk(action=action, tasks=done, refused=refused, more=bool(following), cursor=following))


def _fitting(action: Action, wanted: Filters) -> Filters:
    if action == "retry":
        return replace(wanted, states=wanted.states or (TaskState.FAILED,))
    return replace(wanted, open=True)


async def chosen_of(house: House, filters: Filters, limit: int = MOST, cursor: str = "") -> tuple[list[str], str]:
    """All of them before any is touched, since who is changed may not fit any more; and where the rest begins."""
    chosen: list[str] = []
    while len(chosen) < limit:
        page = await house.engine.tasks(filters, cursor, min(PAGE, limit - len(chosen)))
        chosen += [task.task_id for task in page.tasks]
        cursor = page.cursor
        if not cursor:
            break
    return chosen, cursor


async def carried_out(
    house: House, action: Action, filters: Filters, chosen: list[str], ask: Ask
) -> tuple[list[str], list[Refused]]:
    """To whom it was done, and who refused. The order stands in the pool's audit before; what came of it in each's."""
    detail = f"{len(chosen)} tasks: {filters.said()}"
    await house.book.note(filters.pool, Deed(f"bulk_{action}", ask.actor, ask.reason, filters.lane, detail=detail))
    at_once = IN_TURN if action == "prioritize" else AT_ONCE
    refused = [one for one in await all_of(chosen, deed_of(house, action, ask), at_once) if one is not None]
    names = {one.task_id for one in refused}
    return [task_id for task_id in chosen if task_id not in names], refused


Done: TypeAlias = Callable[[str], Awaitable[object]]


def deed_of(house: House, action: Action, ask: Ask) -> Done:
    """What is done to each."""
    if action == "retry":
        return lambda task_id: house.engine.again(task_id, ask, None)
    if action == "prioritize":
        return lambda task_id: preferred(house, task_id, {**dict(ask), "bulk": True})
    control = Control(action=action, ask=ask)
    return lambda task_id: house.engine.control(task_id, control, secrets.token_hex(12))


async def all_of(chosen: list[str], deed: Done, at_once: int) -> list[Refused | None]:
    """In the order in which they were found, so many at once."""
    gate = asyncio.Semaphore(at_once)

    async def one(task_id: str) -> Refused | None:
        async with gate:
            try:
                await deed(task_id)
            except EngineError as error:
                return Refused(task_id=task_id, why=str(error))
            return None

    return await asyncio.gather(*map(one, chosen))
