"""One wish for many tasks, chosen by filter."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from fastapi import APIRouter, Request
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
from droidherd.domain.lifecycle import TaskState

router: Final = APIRouter(prefix="/api/bulk", tags=["tasks"])

Action: TypeAlias = Literal["cancel", "pause", "resume", "prioritize", "retry"]
MOST = 1_000
"""Tasks of one request; `more` says that there are others."""
PAGE = 200
AT_ONCE = 16


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
) -> Response:
    """Cancel, pause, resume, prioritize or retry all tasks that fit; `dry_run=true` only says which they are.

    At least one filter. `retry` means tasks that failed, or the ended ones in the states that are named.
    """
    if wanted == Filters():
        raise invalid("state", "name at least one of state, type, account, lane, pool, emulator, subscription, label")
    wish = signed(await optional(Wish, request), caller)
    if action == "retry":
        filters = replace(wanted, states=wanted.states or (TaskState.FAILED,))
    else:
        filters = replace(wanted, open=True)
    chosen, more = await chosen_of(house, filters)
    if dry_run:
        return answer(Bulk(action=action, dry_run=True, tasks=chosen, more=more))
    refused = [one for one in await all_of(chosen, deed_of(house, action, Ask(**dict(wish)))) if one is not None]
    names = {one.task_id for one in refused}
    done = [task_id for task_id in chosen if task_id not in names]
    return answer(Bulk(action=action, tasks=done, refused=refused, more=more))


async def chosen_of(house: House, filters: Filters) -> tuple[list[str], bool]:
    """All of them before any is touched: who is changed may not fit any more."""
    chosen: list[str] = []
    cursor = ""
    while len(chosen) < MOST:
        page = await house.engine.tasks(filters, cursor, min(PAGE, MOST - len(chosen)))
        chosen += [task.task_id for task in page.tasks]
        cursor = page.cursor
        if not cursor:
            break
    return chosen, bool(cursor)


Deed: TypeAlias = Callable[[str], Awaitable[object]]


def deed_of(house: House, action: Action, ask: Ask) -> Deed:
    """What is done to each."""
    if action == "retry":
        return lambda task_id: house.engine.again(task_id, ask, None)
    if action == "prioritize":
        return lambda task_id: preferred(house, task_id, dict(ask))
    control = Control(action=action, ask=ask)
    return lambda task_id: house.engine.control(task_id, control, secrets.token_hex(12))


async def all_of(chosen: list[str], deed: Deed) -> list[Refused | None]:
    """In the order in which they were found, so many at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(task_id: str) -> Refused | None:
        async with gate:
            try:
                await deed(task_id)
            except EngineError as error:
                return Refused(task_id=task_id, why=str(error))
            return None

    return await asyncio.gather(*map(one, chosen))
