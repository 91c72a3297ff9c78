"""Tasks: submit, read, list, change."""

import secrets
from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from api.bodies import json_body, optional, parsed, wait_seconds
from api.engine import IllegalError, Reading
from api.errors import Kind, invalid
from api.events import audit_of, last_seen, stream
from api.house import Caller, Home, House, TaskId
from api.places import with_places
from api.routes.answers import answer, answers, body
from api.routes.filters import Wanted
from api.routes.queue import preferred
from api.schemas import Audit, Insistence, Precedence, Reply, Submission, Submit, TaskList, TaskOut, Wish
from api.signing import signed
from api.submission import answer_of, prepared
from droidherd.contracts.queue import Ordered
from droidherd.contracts.tasks import Ask, Control, Rollback
from droidherd.domain.lifecycle import FINAL

router: Final = APIRouter(prefix="/api/tasks", tags=["tasks"])

EVENT_STREAM: Final = "text/event-stream"
_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)
_CHANGE: Final = (Kind.NOT_FOUND, Kind.ILLEGAL, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY)
_SUBMIT: Final = (
    Kind.MALFORMED,
    Kind.PLACE_TAKEN,
    Kind.ID_TAKEN,
    Kind.TOO_LARGE,
    Kind.INVALID,
    Kind.KEY_REUSED,
    Kind.UNSATISFIABLE,
    Kind.QUEUE_FULL,
    Kind.AWAY,
)


@router.post(
    "",
    responses=answers(Submission, *_SUBMIT, status=201, also=(202,)),
    openapi_extra=body(Submit, required=True),
    status_code=201,
)
async def submit(
    house: Home, caller: Caller, request: Request, wait: str = "", idempotency_key: Annotated[str, Header()] = ""
) -> Response:
    """Submit a task. 201 with its place in line; 202 when the verdict is late: it is durable all the same."""
    seconds = wait_seconds(wait)
    raw = await json_body(request)
    wanted = await prepared(raw, idempotency_key, house.catalogue, house.engine, house.settings.host.pool)
    result = answer_of(await house.engine.submit(replace(wanted, spec=signed(wanted.spec, caller))))
    if seconds:
        result = result.model_copy(update={"task": TaskOut.of(await _after(house, result.id, seconds))})
    return answer(result, 201 if result.verdict else 202, headers={"location": f"/api/tasks/{result.id}"})


@router.get("", responses=answers(TaskList, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY))
async def tasks(
    house: Home,
    wanted: Wanted,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
    count: bool = False,
) -> Response:
    """Tasks, running ones first, then the newest. Lists lag behind by a fraction of a second."""
    page = await house.engine.tasks(wanted, cursor, limit)
    total = await house.engine.count(wanted) if count else None
    found = await with_places(house.engine, page.tasks)
    return answer(TaskList.model_construct(tasks=found, cursor=page.cursor, count=total))


@router.get("/{task_id}", responses=answers(TaskOut, *_READ))
async def task(house: Home, task_id: TaskId, wait: str = "") -> Response:
    """One task with its attempts and why it waits. With `?wait=30s` the answer comes when it ended."""
    reading = await _after(house, task_id, wait_seconds(wait))
    return answer(TaskOut.of(reading), without={"events"})


@router.get("/{task_id}/events", responses=answers(Audit, *_READ))
async def events(
    house: Home,
    task_id: TaskId,
    accept: Annotated[str, Header()] = "",
    last_event_id: Annotated[str, Header()] = "",
) -> Response:
    """What happened to a task, as JSON; as a stream that ends with the task for `Accept: text/event-stream`."""
    reading = await house.engine.audit(task_id)
    if EVENT_STREAM not in accept:
        return answer(audit_of(reading))
    news = stream(house.engine, task_id, last_seen(last_event_id))
    return StreamingResponse(news, headers={"cache-control": "no-store"}, media_type=EVENT_STREAM)


@router.post("/{task_id}/cancel", responses=answers(TaskOut, *_CHANGE, also=(202,)), openapi_extra=body(Insistence))
async def cancel(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Stop at the next boundary, clean up, end. With `force` at once; the emulator is fenced and brought in order."""
    wish = signed(await optional(Insistence, request), caller)
    return await _controlled(house, task_id, Control(action="cancel", ask=_ask(wish), force=wish.force))


@router.post("/{task_id}/answer", responses=answers(TaskOut, *_CHANGE), openapi_extra=body(Reply, required=True))
async def reply(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Answer what a task asks a person: one of the choices it offers. It goes on where it asked."""
    wish = signed(parsed(Reply, await json_body(request)), caller)
    known = await house.engine.view(task_id)
    question = known.view.question
    if question is not None and wish.choice not in question.choices:
        raise invalid("choice", f"one of: {', '.join(question.choices)}")
    return await _controlled(house, task_id, Control(action="answer", ask=_ask(wish), choice=wish.choice))


@router.post("/{task_id}/retry", responses=answers(TaskOut, *_CHANGE), openapi_extra=body(Wish))
async def retry(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Try a failed or cancelled task again: a new run under the same id, shown together with the one before."""
    again = await house.engine.again(task_id, _ask(signed(await optional(Wish, request), caller)), None)
    return answer(TaskOut.of(again), without={"events"})


@router.post("/{task_id}/rollback", responses=answers(TaskOut, *_CHANGE, also=(202,)), openapi_extra=body(Insistence))
async def rollback(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Take back what a task changed, the last change first; a task that runs is cancelled before."""
    wish = signed(await optional(Insistence, request), caller)
    try:
        return await _controlled(house, task_id, Control(action="rollback", ask=_ask(wish), force=wish.force))
    except IllegalError as error:
        if error.now.open and error.now.view.state not in FINAL:
            raise
    # It has ended. Looking first would not tell: it may end between the look and the question.
    again = await house.engine.again(task_id, _ask(wish), Rollback(force=wish.force, ask=_ask(wish)))
    return answer(TaskOut.of(again), without={"events"})


@router.post("/{task_id}/pause", responses=answers(TaskOut, *_CHANGE, also=(202,)), openapi_extra=body(Wish))
async def pause(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Stop at the next boundary, clean up, free the emulator, wait for `resume`."""
    return await _control(house, task_id, "pause", signed(await optional(Wish, request), caller))


@router.post("/{task_id}/resume", responses=answers(TaskOut, *_CHANGE, also=(202,)), openapi_extra=body(Wish))
async def resume(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Back into line; completed stages are not repeated."""
    return await _control(house, task_id, "resume", signed(await optional(Wish, request), caller))


@router.post(
    "/{task_id}/prioritize",
    responses=answers(Ordered, *_READ, Kind.ILLEGAL),
    openapi_extra=body(Precedence),
)
async def prioritize(house: Home, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """In front of those who wait for the same and are no more urgent; it is never made less urgent.

    The audited exception to first come, first served. The task keeps it until it ends, or begins its next round.
    """
    wish = signed(await optional(Precedence, request), caller)
    return answer(await preferred(house, task_id, dict(wish)))


async def _control(house: House, task_id: str, action: Literal["pause", "resume"], wish: Wish) -> Response:
    return await _controlled(house, task_id, Control(action=action, ask=_ask(wish)))


def _ask(wish: Wish) -> Ask:
    return Ask(actor=wish.actor, reason=wish.reason)


async def _controlled(house: House, task_id: str, control: Control) -> Response:
    done = await house.engine.control(task_id, control, secrets.token_hex(12))
    if done is not None:
        return answer(TaskOut.of(done), without={"events"})
    late = await house.engine.view(task_id)
    return answer(TaskOut.of(late), 202, without={"events"})


async def _after(house: House, task_id: str, seconds: float) -> Reading:
    """The task as it stands, or as it stands when it ended or the time is over."""
    reading = await house.engine.view(task_id)
    if not seconds or not reading.open:
        return reading
    await house.engine.wait_end(task_id, seconds)
    return await house.engine.view(task_id)
