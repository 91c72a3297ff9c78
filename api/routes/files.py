"""What a task left behind."""

from typing import Annotated, Final

from fastapi import APIRouter, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from api.engine import MissingError
from api.errors import Kind
from api.files import GUARDED, FileStream, log_lines
from api.house import Home, House, TaskId
from api.routes.answers import answer, answers
from api.schemas import ArtifactList
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.ports import ArtifactRef

router: Final = APIRouter(prefix="/api/tasks/{task_id}", tags=["artifacts"])

PLAIN: Final = "text/plain; charset=utf-8"
LINES: Final = "application/x-ndjson"


@router.get("/log", responses={200: {"content": {LINES: {}, PLAIN: {}}}, **answers(ArtifactList, Kind.NOT_FOUND)})
async def log(house: Home, task_id: TaskId, accept: Annotated[str, Header()] = "") -> Response:
    """The log of every attempt, one JSON object per line; one line of text each for `Accept: text/plain`."""
    await _files(house, task_id)
    text = "text/plain" in accept
    lines = log_lines(house.store, task_id, text=text)
    return StreamingResponse(lines, headers=GUARDED, media_type=PLAIN if text else LINES)


@router.get("/artifacts", responses=answers(ArtifactList, Kind.NOT_FOUND, Kind.AWAY))
async def artifacts(house: Home, task_id: TaskId) -> Response:
    """Names, sizes and types."""
    found = [
        ArtifactView(name=one.name, size=one.size, content_type=one.content_type)
        for one in await _files(house, task_id)
    ]
    return answer(ArtifactList(task_id=task_id, artifacts=found))


@router.get("/artifacts/{name:path}", response_class=Response, responses=answers(ArtifactList, Kind.NOT_FOUND))
async def artifact(house: Home, task_id: TaskId, name: str) -> Response:
    """One file."""
    ref = next((one for one in await _files(house, task_id) if one.name == name), None)
    if ref is None:
        raise MissingError(f"task {task_id} has no such artifact")
    return FileStream(house.store, task_id, ref)


async def _files(house: House, task_id: str) -> list[ArtifactRef]:
    """None is an answer for a task that left nothing, but not for a task that never was."""
    if task_id.startswith((".", "-")) or task_id.endswith("."):
        raise MissingError("there is no such task")
    found = await run_in_threadpool(house.store.list, task_id)
    if not found:
        await house.engine.view(task_id)
    return list(found)
