"""One action on many tasks, chosen by filters."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.answers import answer, answers, body
from api.bodies import ActionRequest, optional, with_actor
from api.errors import Kind, invalid
from api.state import App, AppState, Caller
from api.tasks import service
from api.tasks.filters import TaskQuery
from api.tasks.schemas import BulkOut, RefusedTask
from droidherd.contracts.tasks import Control, OperatorRequest, RollbackRequest
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.task.lifecycle import TaskAction, TaskStatus
from droidherd.engine.errors import EngineError
from droidherd.engine.visibility import TaskFilters

router: Final = APIRouter(prefix="/api/bulk", tags=["tasks"])

Action: TypeAlias = Literal["cancel", "pause", "resume", "prioritize", "retry"]
MOST = 1_000
"""Tasks of one request; `more` says that there are others."""
PAGE = 200
AT_ONCE = 16
ONE_BY_ONE = 1
"""The task that is prioritized last comes first. From the newest to the oldest, one by one, they keep their order."""


@router.post(
    "/{action}",
    responses=answers(BulkOut, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE),
    openapi_extra=body(ActionRequest),
)
async def bulk(
    app: App,
    action: Action,
    *,
    wanted: TaskQuery,
    caller: Caller,
    request: Request,
    dry_run: bool = False,
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Cancel, pause, resume, prioritize or retry all tasks that match; `dry_run=true` only lists them.

    At least one filter. `retry` means tasks that failed, or the ended ones in the states that are named.
    At most `limit` at a time; `cursor` continues with the rest.
    """
    ask = with_actor(await optional(ActionRequest, request), caller).ask
    filters = _filters_for(action, wanted)
    chosen, following = await choose(app, filters, limit, cursor)
    if dry_run:
        return answer(BulkOut(action=action, dry_run=True, tasks=chosen, more=bool(following), cursor=following))
    done, refused = await apply_to_each(app, action, filters, chosen, ask)
    return answer(BulkOut(action=action, tasks=done, refused=refused, more=bool(following), cursor=following))


def _filters_for(action: Action, wanted: TaskFilters) -> TaskFilters:
    if wanted == TaskFilters():
        raise invalid("state", "name at least one of state, type, account, lane, pool, emulator, subscription, label")
    if action == "retry":
        return replace(wanted, states=wanted.states or (TaskStatus.FAILED,))
    return replace(wanted, open=True)


async def choose(app: AppState, filters: TaskFilters, limit: int = MOST, cursor: str = "") -> tuple[list[str], str]:
    """All matching tasks before any is changed, since a changed one may not match any more; and the next cursor."""
    chosen: list[str] = []
    while len(chosen) < limit:
        page = await app.tasks.page(filters, cursor, min(PAGE, limit - len(chosen)))
        chosen += [task.task_id for task in page.tasks]
        cursor = page.cursor
        if not cursor:
            break
    return chosen, cursor


async def apply_to_each(
    app: AppState, action: Action, filters: TaskFilters, chosen: list[str], ask: OperatorRequest
) -> tuple[list[str], list[RefusedTask]]:
    """The tasks that did it, and those that refused. The pool's audit has the request, each task's the outcome."""
    detail = f"{len(chosen)} tasks: {filters.describe()}"
    entry = AuditEntry(f"bulk_{action}", ask.actor, ask.reason, filters.lane, detail=detail)
    await app.queue.note(filters.pool, entry)
    at_once = ONE_BY_ONE if action == "prioritize" else AT_ONCE
    refused = [one for one in await _each(chosen, _action_on_one(app, action, ask), at_once) if one is not None]
    names = {one.task_id for one in refused}
    return [task_id for task_id in chosen if task_id not in names], refused


ActionOnOne: TypeAlias = Callable[[str], Awaitable[object]]


def _action_on_one(app: AppState, action: Action, ask: OperatorRequest) -> ActionOnOne:
    if action == "retry":
        return lambda task_id: app.tasks.again(task_id, TaskAction.RETRY, RollbackRequest(**dict(ask)))
    if action == "prioritize":
        return lambda task_id: service.prioritize(app, task_id, ask, bulk=True)
    control = Control(action=action, **dict(ask))
    return lambda task_id: app.tasks.control(task_id, control, secrets.token_hex(12))


async def _each(chosen: list[str], act: ActionOnOne, at_once: int) -> list[RefusedTask | None]:
    """In the order in which they were found, so many at once."""
    gate = asyncio.Semaphore(at_once)

    async def one(task_id: str) -> RefusedTask | None:
        async with gate:
            try:
                await act(task_id)
            except EngineError as error:
                return RefusedTask(task_id=task_id, why=str(error))
            return None

    return await asyncio.gather(*map(one, chosen))
