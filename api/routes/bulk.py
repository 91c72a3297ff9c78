"""One wish for many tasks, chosen by filter."""

import asyncio
import secrets
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.bodies import optional
from api.engine import EngineError, Filters
from api.errors import Kind, invalid
from api.house import Home, House
from api.routes.answers import answer, answers, body
from api.routes.filters import Wanted
from api.schemas import Bulk, Refused, Wish
from droidherd.contracts.tasks import Ask, Control

router: Final = APIRouter(prefix="/api/bulk", tags=["tasks"])

Action: TypeAlias = Literal["cancel", "pause", "resume"]
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
    wanted: Wanted,
    request: Request,
    dry_run: bool = False,
) -> Response:
    """Cancel, pause or resume all tasks that fit. At least one filter; `dry_run=true` only says which they are."""
    if wanted == Filters():
        raise invalid(
            "state", "name at least one filter: state, type, account, lane, pool, emulator, subscription, label"
        )
    wish = await optional(Wish, request)
    chosen, more = await _chosen(house, replace(wanted, open=True))
    if dry_run:
        return answer(Bulk(action=action, dry_run=True, tasks=chosen, more=more))
    control = Control(action=action, ask=Ask(**dict(wish)))
    refused = [one for one in await _all(house, chosen, control) if one is not None]
    names = {one.task_id for one in refused}
    done = [task_id for task_id in chosen if task_id not in names]
    return answer(Bulk(action=action, tasks=done, refused=refused, more=more))


async def _chosen(house: House, filters: Filters) -> tuple[list[str], bool]:
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


async def _all(house: House, chosen: list[str], control: Control) -> list[Refused | None]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(task_id: str) -> Refused | None:
        async with gate:
            try:
                await house.engine.control(task_id, control, secrets.token_hex(12))
            except EngineError as error:
                return Refused(task_id=task_id, why=str(error))
            return None

    return await asyncio.gather(*map(one, chosen))
