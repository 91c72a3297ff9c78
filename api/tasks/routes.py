"""Tasks: submit, read, list, change."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from api.answers import answer, answers, body
from api.bodies import ActionRequest, json_body, optional, require_body, wait_seconds, with_actor
from api.errors import Kind
from api.state import App, Caller, OpenWaits, TaskId
from api.tasks import service
from api.tasks.filters import TaskQuery
from api.tasks.schemas import (
    AnswerRequest,
    CancelRequest,
    PriorityRequest,
    RollbackActionRequest,
    SubmissionOut,
    SubmitRequest,
    TaskEvents,
    TaskList,
    TaskOut,
    TaskRow,
    TaskTypes,
)
from droidherd.contracts.queue import CommandResult
from droidherd.contracts.tasks import Control, OperatorRequest, RollbackRequest
from droidherd.domain.task.lifecycle import TaskAction
from droidherd.engine.tasks import TaskReading

router: Final = APIRouter(prefix="/api/tasks", tags=["tasks"])
other: Final = APIRouter(prefix="/api")
"""Task types; and the names of the request queue that droidherd replaced, where a request is a task."""

EVENT_STREAM: Final = "text/event-stream"
_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)
_CHANGE: Final = (Kind.NOT_FOUND, Kind.ILLEGAL, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE)
_SUBMIT: Final = (
    Kind.MALFORMED,
    Kind.CONFLICT,
    Kind.ID_TAKEN,
    Kind.TOO_LARGE,
    Kind.INVALID,
    Kind.KEY_REUSED,
    Kind.UNSATISFIABLE,
    Kind.QUEUE_FULL,
    Kind.UNAVAILABLE,
)


class EventStream(StreamingResponse):
    """Counts as open while it is sent."""

    def __init__(self, news: AsyncGenerator[bytes], waits: OpenWaits, caller: str) -> None:
        """`caller` is the name of the key that asked."""
        super().__init__(news, headers={"cache-control": "no-store"}, media_type=EVENT_STREAM)
        self._waits, self._caller = waits, caller

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._waits.one(self._caller):
            await super().__call__(scope, receive, send)


def _changes(also: Sequence[int] = (202,)) -> dict[int | str, Any]:
    return answers(TaskOut, *_CHANGE, also=also)


@router.post(
    "",
    responses=answers(SubmissionOut, *_SUBMIT, status=201, also=(202,)),
    openapi_extra=body(SubmitRequest, required=True),
    status_code=201,
)
async def submit(
    app: App, caller: Caller, request: Request, wait: str = "", idempotency_key: Annotated[str, Header()] = ""
) -> Response:
    """Submit a task. 201 with its position; 202 when the dispatcher did not answer in time: it is durable, too."""
    seconds = wait_seconds(wait)
    raw = await json_body(request)
    with app.waits.one(caller, seconds):
        result = await service.submit(app, raw, idempotency_key, caller)
        if seconds:
            result = result.with_task(TaskOut.of(await service.read(app, result.id, seconds)))
    status = 201 if result.admission == "accepted" else 202
    return answer(result, status, headers={"location": f"/api/tasks/{result.id}"})


@router.get("", responses=answers(TaskList, Kind.INVALID, Kind.OVERLOADED, Kind.UNAVAILABLE))
async def tasks(
    app: App,
    filters: TaskQuery,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
    count: bool = False,
) -> Response:
    """Tasks, running ones first, then the newest. Lists lag behind by a fraction of a second."""
    page = await app.tasks.page(filters, cursor, limit)
    total = await app.tasks.count(filters) if count else None
    found = await app.queue.with_positions(page.tasks)
    return answer(TaskList.model_construct(tasks=[TaskRow.row(one) for one in found], cursor=page.cursor, count=total))


@router.get("/{task_id}", responses=answers(TaskOut, *_READ))
async def task(app: App, task_id: TaskId, caller: Caller, wait: str = "") -> Response:
    """One task with its attempts and why it waits. With `?wait=30s` the answer comes when it ended."""
    seconds = wait_seconds(wait)
    with app.waits.one(caller, seconds):
        return _task(await service.read(app, task_id, seconds))


@router.get("/{task_id}/events", responses=answers(TaskEvents, *_READ, files=(EVENT_STREAM,)))
async def events(
    app: App,
    task_id: TaskId,
    caller: Caller,
    accept: Annotated[str, Header()] = "",
    last_event_id: Annotated[str, Header()] = "",
) -> Response:
    """What happened to a task, as JSON; as a stream that ends with the task for `Accept: text/event-stream`."""
    reading = await app.tasks.audit(task_id)
    if EVENT_STREAM not in accept:
        return answer(TaskEvents.of(reading))
    news = service.event_stream(app.tasks, task_id, service.last_seen(last_event_id))
    return EventStream(news, app.waits, caller)


@router.post("/{task_id}/cancel", responses=_changes(), openapi_extra=body(CancelRequest))
async def cancel(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Stop at the next boundary, clean up, end. With `force` at once: the emulator is fenced, then recovered."""
    wanted = with_actor(await optional(CancelRequest, request), caller)
    control = Control(action="cancel", **dict(wanted.ask), force=wanted.force)
    return _answer_change(*await service.control(app, task_id, control))


@router.post("/{task_id}/answer", responses=_changes(()), openapi_extra=body(AnswerRequest, required=True))
async def answer_question(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Answer the question of a task with one of its choices. The task continues where it asked."""
    wanted = with_actor(await require_body(AnswerRequest, request), caller)
    return _answer_change(*await service.answer_question(app, task_id, wanted.choice, wanted.ask, wanted.question))


@router.post("/{task_id}/retry", responses=_changes(()), openapi_extra=body(ActionRequest))
async def retry(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Try a failed or cancelled task again: a new run under the same id, shown together with the one before."""
    ask = with_actor(await optional(ActionRequest, request), caller).ask
    return _task(await app.tasks.again(task_id, TaskAction.RETRY, RollbackRequest(**dict(ask))))


@router.post("/{task_id}/rollback", responses=_changes(), openapi_extra=body(RollbackActionRequest))
async def rollback(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Take back what a task changed, the last change first; a task that runs is cancelled before."""
    wanted = with_actor(await optional(RollbackActionRequest, request), caller)
    return _answer_change(*await service.rollback(app, task_id, wanted.ask, force=wanted.force))


@router.post("/{task_id}/pause", responses=_changes(), openapi_extra=body(ActionRequest))
async def pause(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Stop at the next boundary, clean up, free the emulator, wait for `resume`."""
    return await _control(app, task_id, "pause", with_actor(await optional(ActionRequest, request), caller).ask)


@router.post("/{task_id}/resume", responses=_changes(), openapi_extra=body(ActionRequest))
async def resume(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """Back into the queue; completed stages are not repeated."""
    return await _control(app, task_id, "resume", with_actor(await optional(ActionRequest, request), caller).ask)


@router.post(
    "/{task_id}/prioritize",
    responses=answers(CommandResult, *_READ, Kind.ILLEGAL),
    openapi_extra=body(PriorityRequest),
)
async def prioritize(app: App, task_id: TaskId, caller: Caller, request: Request) -> Response:
    """In front of those that wait for the same and are no more urgent; a task is never made less urgent.

    The audited exception to first come, first served. The task keeps it until it ends, or begins its next round.
    """
    wanted = with_actor(await optional(PriorityRequest, request), caller)
    return answer(await service.prioritize(app, task_id, wanted.ask, wanted.priority))


@other.get("/task-types", tags=["task types"], responses=answers(TaskTypes))
async def task_types(app: App) -> Response:
    """What can be submitted, with which parameters, under which policy."""
    return answer(await run_in_threadpool(service.task_types, app.catalogue))


other.add_api_route(
    "/requests/{task_id}/cancel",
    cancel,
    methods=["POST"],
    tags=["tasks"],
    responses=_changes(),
    openapi_extra=body(CancelRequest),
)
other.add_api_route(
    "/requests/{task_id}/prioritize",
    prioritize,
    methods=["POST"],
    tags=["tasks"],
    responses=answers(CommandResult, *_CHANGE),
    openapi_extra=body(PriorityRequest),
)


async def _control(app: App, task_id: str, action: Literal["pause", "resume"], ask: OperatorRequest) -> Response:
    return _answer_change(*await service.control(app, task_id, Control(action=action, **dict(ask))))


def _answer_change(reading: TaskReading, answered: bool) -> Response:
    return _task(reading, 200 if answered else 202)


def _task(reading: TaskReading, status: int = 200) -> Response:
    return answer(TaskOut.of(reading), status, without={"events"})
