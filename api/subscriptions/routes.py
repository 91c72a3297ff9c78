"""Subscriptions: tasks that recur."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from api.answers import JSON, answer, answers, body
from api.bodies import ActionRequest, json_body, optional, with_actor
from api.errors import Kind
from api.state import App, AppState, Caller, path_id
from api.subscriptions import service
from api.subscriptions.schemas import (
    ManualRunOut,
    RemovedSubscription,
    SubscriptionList,
    SubscriptionRequest,
    running_task,
)
from api.tasks.filters import Name, States
from api.tasks.schemas import TaskList, TaskRow
from droidherd.contracts.subscriptions import SubscriptionView
from droidherd.engine.schedules import EditFunction, SubscriptionFilters
from droidherd.engine.visibility import TaskFilters

router: Final = APIRouter(prefix="/api/subscriptions", tags=["subscriptions"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)
_WRITE: Final = (Kind.MALFORMED, Kind.TOO_LARGE, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE)
_REFUSED: Final = (Kind.CONFLICT, Kind.UNSATISFIABLE, Kind.REFUSED, Kind.QUEUE_FULL)
_RUN: Final = (Kind.NOT_FOUND, *_REFUSED, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE)


_PARTIAL: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"type": "object", "title": "Some fields of SubscriptionRequest"}}},
    }
}


async def _id(id: str) -> str:  # noqa: A002 (the name in the path)
    return path_id(id, "subscription")


Id = Annotated[str, Depends(_id)]


@router.post(
    "",
    responses=answers(SubscriptionView, *_WRITE, Kind.ID_TAKEN, Kind.KEY_REUSED, status=201),
    openapi_extra=body(SubscriptionRequest, required=True),
    status_code=201,
)
async def create(
    app: App, caller: Caller, request: Request, idempotency_key: Annotated[str, Header()] = ""
) -> Response:
    """Let a task recur, by `cron` or every so many seconds."""
    wanted = with_actor(await service.check_body(await json_body(request), app), caller)
    found = await service.create(app, wanted, idempotency_key)
    location = f"/api/subscriptions/{found.subscription.id}"
    return answer(await service.view(app, found), 201, headers={"location": location})


@router.get("", responses=answers(SubscriptionList, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE))
async def subscriptions(  # noqa: PLR0917 (a query)
    app: App,
    type: Name = "",  # noqa: A002 (the name in the query)
    account: Name = "",
    paused: Annotated[bool | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """The newest first. The list lags behind by a fraction of a second."""
    rows, following = await service.rows(app, SubscriptionFilters(type, account, paused), cursor, limit)
    return answer(SubscriptionList(subscriptions=rows, cursor=following))


@router.get("/{id}", responses=answers(SubscriptionView, *_READ))
async def subscription(app: App, subscription_id: Id) -> Response:
    """When it is due next, what it did last, what it missed, whether it is paused and why."""
    return answer(await service.view(app, await app.subscriptions.read(subscription_id)))


@router.put(
    "/{id}",
    responses=answers(SubscriptionView, Kind.NOT_FOUND, *_WRITE),
    openapi_extra=body(SubscriptionRequest, required=True),
)
async def put(app: App, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Replace times, policy and task: a field that is left out gets its default. A pause stays."""
    edit = partial(service.replace_rules, raw=await json_body(request), app=app, caller=caller)
    return await _change(app, subscription_id, edit)


@router.patch("/{id}", responses=answers(SubscriptionView, Kind.NOT_FOUND, *_WRITE), openapi_extra=_PARTIAL)
async def amend(app: App, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Like PUT, but a field that is left out stays. A `task` is replaced as a whole."""
    edit = partial(service.amend, raw=await json_body(request), app=app, caller=caller)
    return await _change(app, subscription_id, edit)


@router.delete(
    "/{id}", responses=answers(RemovedSubscription, *_READ, Kind.OVERLOADED), openapi_extra=body(ActionRequest)
)
async def remove(
    app: App, subscription_id: Id, caller: Caller, request: Request, tasks: Literal["cancel", "finish"] = "finish"
) -> Response:
    """Delete it. The task that runs is cancelled, or finishes."""
    wanted = with_actor(await optional(ActionRequest, request), caller)
    found = await service.delete(app, subscription_id, wanted, cancel=tasks == "cancel")
    return answer(RemovedSubscription(id=subscription_id, tasks=tasks, running=running_task(found) if found else ""))


@router.get("/{id}/tasks", responses=answers(TaskList, *_READ, Kind.OVERLOADED))
async def tasks(
    app: App,
    subscription_id: Id,
    state: States = [],  # noqa: B006 (FastAPI copies it)
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Its tasks, the one that runs first, then the newest; also those of a subscription that was deleted."""
    every = TaskFilters(subscription=subscription_id)
    page = await app.tasks.page(replace(every, states=tuple(state)), cursor, limit)
    if not page.tasks and not (await app.tasks.page(every, "", 1)).tasks:
        await app.subscriptions.read(subscription_id)
    found = await app.queue.with_positions(page.tasks)
    return answer(TaskList.model_construct(tasks=[TaskRow.row(one) for one in found], cursor=page.cursor))


@router.post(
    "/{id}/run", responses=answers(ManualRunOut, *_RUN, status=202), openapi_extra=body(ActionRequest), status_code=202
)
@router.post(
    "/{id}/download",
    responses=answers(ManualRunOut, *_RUN, status=202),
    openapi_extra=body(ActionRequest),
    status_code=202,
)
async def run(app: App, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Run now, once, also while it is paused. While another run is under way, `overlap` decides.

    `download` is the name of the same action where subscriptions download.
    """
    wanted = with_actor(await optional(ActionRequest, request), caller)
    done = await service.run_by_hand(app, subscription_id, wanted)
    return answer(done, 202, headers={"location": f"/api/tasks/{done.task_id}"})


@router.post(
    "/{id}/pause", responses=answers(SubscriptionView, *_READ, Kind.OVERLOADED), openapi_extra=body(ActionRequest)
)
async def pause(app: App, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Start no more runs. The task that runs continues."""
    wanted = with_actor(await optional(ActionRequest, request), caller)
    return await _change(app, subscription_id, partial(service.pause, wanted=wanted))


@router.post(
    "/{id}/resume",
    responses=answers(SubscriptionView, *_READ, Kind.ILLEGAL, Kind.OVERLOADED),
    openapi_extra=body(ActionRequest),
)
async def resume(app: App, subscription_id: Id, caller: Caller, request: Request) -> Response:
    """Start runs again from now on. Runs that were due meanwhile are not started."""
    wanted = with_actor(await optional(ActionRequest, request), caller)
    return await _change(app, subscription_id, partial(service.resume, wanted=wanted))


async def _change(app: AppState, subscription_id: str, edit: EditFunction) -> Response:
    found = await app.subscriptions.change(subscription_id, edit)
    await service.note(app, found)
    return answer(await service.view(app, found))
