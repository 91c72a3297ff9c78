"""Subscriptions: tasks that recur."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from api.bodies import json_body, optional
from api.by_hand import run_by_hand
from api.engine import Filters, TakenError
from api.errors import Kind, ProblemError
from api.house import Caller, Home, House, plain
from api.places import with_places
from api.routes.answers import JSON, answer, answers, body
from api.routes.filters import Name
from api.schedules import Edit, Found, RowFilters
from api.schemas import TaskList, Wish
from api.signing import signed
from api.subscribing import (
    Wanted,
    amended,
    changed,
    created,
    ending,
    named,
    note,
    paused,
    resumed,
    wanted_of,
)
from api.subscription_view import LAST_TASKS, Ran, Removed, SubscriptionList, running_task, view_of
from droidherd.contracts.subscriptions import SYSTEM, SubscriptionView
from droidherd.contracts.tasks import Ask
from droidherd.domain.lifecycle import TaskState

router: Final = APIRouter(prefix="/api/subscriptions", tags=["subscriptions"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)
_WRITE: Final = (Kind.MALFORMED, Kind.TOO_LARGE, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY)
_REFUSED: Final = (Kind.PLACE_TAKEN, Kind.UNSATISFIABLE, Kind.REFUSED, Kind.QUEUE_FULL)
_RUN: Final = (Kind.NOT_FOUND, *_REFUSED, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY)


_SOME: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object", "title": "Some of Wanted"}}}}
}


async def _known(id: str) -> str:  # noqa: A002 (the name in the path)
    return plain(id, "subscription")


Id = Annotated[str, Depends(_known)]


@router.post(
    "",
    responses=answers(SubscriptionView, *_WRITE, Kind.ID_TAKEN, Kind.KEY_REUSED, status=201),
    openapi_extra=body(Wanted, required=True),
    status_code=201,
)
async def create(
    house: Home, caller: Caller, request: Request, idempotency_key: Annotated[str, Header()] = ""
) -> Response:
    """Let a task recur, by `cron` or every so many seconds."""
    wanted = signed(await wanted_of(await json_body(request), house), caller)
    subscription_id, digest = named(wanted, idempotency_key)
    edited = created(wanted, subscription_id, digest, house.settings.host.region)
    try:
        await house.schedules.create(edited)
    except TakenError as error:
        await _refuse_another(house, subscription_id, digest, error)
    found = await house.schedules.read(subscription_id)
    first = found.subscription.changes[0]
    await note(house, replace(found, made=first if first.what == "created" else None))
    return answer(await _view(house, found), 201, headers={"location": f"/api/subscriptions/{subscription_id}"})


@router.get("", responses=answers(SubscriptionList, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY))
async def subscriptions(  # noqa: PLR0917 (a query)
    house: Home,
    type: Name = "",  # noqa: A002 (the name in the query)
    account: Name = "",
    paused: Annotated[bool | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """The newest first. The list lags behind by a fraction of a second."""
    rows, following = await house.schedules.page(RowFilters(type, account, paused), cursor, limit)
    return answer(SubscriptionList(subscriptions=rows, cursor=following))


@router.get("/{id}", responses=answers(SubscriptionView, *_READ))
async def subscription(house: Home, subscription_id: Id) -> Response:
    """When it is due next, what it did last, what it missed, whether it is paused and why."""
    return answer(await _view(house, await house.schedules.read(subscription_id)))


@router.put(
    "/{id}", responses=answers(SubscriptionView, Kind.NOT_FOUND, *_WRITE), openapi_extra=body(Wanted, required=True)
)
async def put(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Other times, another policy, another task: what is left out gets its default. A pause stays a pause."""
    wanted = signed(await wanted_of(await json_body(request), house), caller)
    return await _change(house, subscription_id, partial(changed, wanted=wanted))


@router.patch("/{id}", responses=answers(SubscriptionView, Kind.NOT_FOUND, *_WRITE), openapi_extra=_SOME)
async def amend(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Like PUT, but what is left out stays. A `task` is replaced as a whole."""
    edit = partial(amended, raw=await json_body(request), house=house, sign=lambda wanted: signed(wanted, caller))
    return await _change(house, subscription_id, edit)


@router.delete("/{id}", responses=answers(Removed, *_READ, Kind.OVERLOADED), openapi_extra=body(Wish))
async def remove(
    house: Home, subscription_id: Id, caller: Caller, request: Request, tasks: Literal["cancel", "finish"] = "finish"
) -> Response:
    """Nothing starts any more. The task that runs is cancelled, or finishes."""
    wish = signed(await optional(Wish, request), caller)
    found = await house.schedules.change(subscription_id, partial(ending, wish=wish))
    why = f"subscription {subscription_id} was deleted by {wish.actor}" + (f": {wish.reason}" if wish.reason else "")
    await note(house, found)
    await house.schedules.delete(found, Ask(actor=SYSTEM, reason=why) if tasks == "cancel" else None)
    return answer(Removed(id=subscription_id, tasks=tasks, running=running_task(found)))


@router.get("/{id}/tasks", responses=answers(TaskList, *_READ, Kind.OVERLOADED))
async def tasks(
    house: Home,
    subscription_id: Id,
    state: Annotated[list[TaskState], Query()] = [],  # noqa: B006 (FastAPI copies it)
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Its tasks, the one that runs first, then the newest; also those of a subscription that is gone."""
    every = Filters(subscription=subscription_id)
    page = await house.engine.tasks(replace(every, states=tuple(state)), cursor, limit)
    if not page.tasks and not (await house.engine.tasks(every, "", 1)).tasks:
        await house.schedules.read(subscription_id)
    found = await with_places(house.engine, page.tasks)
    return answer(TaskList.model_construct(tasks=found, cursor=page.cursor))


@router.post("/{id}/run", responses=answers(Ran, *_RUN, status=202), openapi_extra=body(Wish), status_code=202)
async def run(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Run now, once, also while it is paused. While a run goes on, `overlap` decides."""
    return await _run(house, subscription_id, signed(await optional(Wish, request), caller))


@router.post("/{id}/download", responses=answers(Ran, *_RUN, status=202), openapi_extra=body(Wish), status_code=202)
async def download(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """The same as `run`, under the name it has where subscriptions download."""
    return await _run(house, subscription_id, signed(await optional(Wish, request), caller))


@router.post("/{id}/pause", responses=answers(SubscriptionView, *_READ, Kind.OVERLOADED), openapi_extra=body(Wish))
async def pause(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Nothing is due any more. The task that runs goes on."""
    return await _change(house, subscription_id, partial(paused, wish=signed(await optional(Wish, request), caller)))


@router.post(
    "/{id}/resume", responses=answers(SubscriptionView, *_READ, Kind.ILLEGAL, Kind.OVERLOADED), openapi_extra=body(Wish)
)
async def resume(house: Home, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Due again from now on. What was due meanwhile is not made up for."""
    return await _change(house, subscription_id, partial(resumed, wish=signed(await optional(Wish, request), caller)))


async def _change(house: House, subscription_id: str, edit: Edit) -> Response:
    found = await house.schedules.change(subscription_id, edit)
    await note(house, found)
    return answer(await _view(house, found))


async def _view(house: House, found: Found) -> SubscriptionView:
    filters = Filters(subscription=found.subscription.id)
    return view_of(found, await house.engine.tasks(filters, "", LAST_TASKS))


async def _run(house: House, subscription_id: str, wish: Wish) -> Response:
    ran = await run_by_hand(house, subscription_id, wish)
    return answer(ran, 202, headers={"location": f"/api/tasks/{ran.task_id}"})


async def _refuse_another(house: House, subscription_id: str, digest: str, error: TakenError) -> None:
    """A repeat of the same request is answered like the first one."""
    there = await house.schedules.read(subscription_id)
    if digest and there.subscription.request == digest:
        return
    if digest and there.subscription.request:
        raise ProblemError(Kind.KEY_REUSED, "send the same body again, or another key", subscription=subscription_id)
    raise ProblemError(
        Kind.ID_TAKEN, "choose another one, or change what is there", subscription=subscription_id
    ) from error
