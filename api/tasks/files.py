"""Artifacts and logs of a task: streamed, and never able to act as a page of this server."""

import re
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Annotated, Any, BinaryIO, Final

from fastapi import APIRouter, Header
from pydantic_core import from_json, to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from api.answers import answer, answers
from api.errors import Kind
from api.state import App, AppState, TaskId
from api.tasks.schemas import ArtifactList
from droidherd.artifacts.names import CONTENT_TYPES
from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain import ids
from droidherd.domain.ports import ArtifactRef
from droidherd.engine.errors import EngineError, NotFoundError

router: Final = APIRouter(prefix="/api/tasks/{task_id}", tags=["artifacts"])

PLAIN: Final = "text/plain; charset=utf-8"
LINES: Final = "application/x-ndjson"
CHUNK = 256 * 1024
LOG = re.compile(r"log-[A-Za-z0-9._-]*\.jsonl")
SHOWN_INLINE = ("image/png", "image/jpeg", "application/json", "application/x-ndjson", "text/plain")
GUARDED = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox; default-src 'none'"}
PAGE = re.compile(r"[A-Za-z0-9._-]+\.evidence\.html")
PAGE_TYPE = "text/html; charset=utf-8"
PAGE_GUARDED = {
    **GUARDED,
    "content-security-policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
}
"""An evidence page is shown with its pictures and its style, but nothing in it can run, load or send."""
_FIRST = ("at", "level", "event", "text")
_FAR = 1e11
"""Seconds behind the year 5000: no time of a log."""


@router.get("/log", responses=answers(None, Kind.NOT_FOUND, files=(LINES, PLAIN)), response_class=Response)
async def log(app: App, task_id: TaskId, accept: Annotated[str, Header()] = "") -> Response:
    """The task's events and the log of every attempt, one JSON object per line; for `Accept: text/plain` as text."""
    await _files(app, task_id)
    text = "text/plain" in accept
    lines = log_lines(app.store, task_id, text=text, story=await _story(app, task_id))
    return StreamingResponse(lines, headers=GUARDED, media_type=PLAIN if text else LINES)


@router.get("/artifacts", responses=answers(ArtifactList, Kind.NOT_FOUND, Kind.UNAVAILABLE))
async def artifacts(app: App, task_id: TaskId) -> Response:
    """Names, sizes and types."""
    found = [
        ArtifactView(name=one.name, size=one.size, content_type=one.content_type) for one in await _files(app, task_id)
    ]
    return answer(ArtifactList(id=task_id, task_id=task_id, artifacts=found))


@router.get(
    "/artifacts/{name:path}", response_class=Response, responses=answers(None, Kind.NOT_FOUND, files=CONTENT_TYPES)
)
async def artifact(app: App, task_id: TaskId, name: str) -> Response:
    """One file."""
    ref = next((one for one in await _files(app, task_id) if one.name == name), None)
    if ref is None:
        raise NotFoundError(f"no artifact `{name}` of task `{task_id}`")
    return FileStream(app.store, task_id, ref)


async def _files(app: AppState, task_id: str) -> list[ArtifactRef]:
    """Empty for a task that left nothing. NotFoundError: there is no such task."""
    if ids.id_problem(task_id):
        raise NotFoundError(f"no task `{task_id}`")
    found = await run_in_threadpool(app.store.list, task_id)
    if not found:
        await app.tasks.view(task_id)
    return list(found)


class FileStream(Response):
    """One artifact, in pieces. No name in the store can end the quotes of a header."""

    def __init__(self, store: DirectoryStore, task_id: str, ref: ArtifactRef) -> None:
        """The file is opened when the answer begins."""
        page = PAGE.fullmatch(ref.name) is not None
        plain = ref.content_type.partition(";")[0]
        place = "inline" if page or plain in SHOWN_INLINE else "attachment"
        headers = {**(PAGE_GUARDED if page else GUARDED), "content-disposition": f'{place}; filename="{ref.name}"'}
        super().__init__(None, headers=headers, media_type=PAGE_TYPE if page else ref.content_type)
        del self.headers["content-length"]
        self._store, self._task_id, self._name = store, task_id, ref.name

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as stack:
            file: BinaryIO = await run_in_threadpool(stack.enter_context, self._store.open(self._task_id, self._name))
            size = file.seek(0, 2)
            file.seek(0)
            self.headers["content-length"] = str(size)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while scope["method"] != "HEAD" and (piece := await run_in_threadpool(file.read, CHUNK)):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def _story(app: AppState, task_id: str) -> list[dict[str, Any]]:
    """What happened to the task, as lines of its log. What is not known says so: the logs of attempts are there."""
    try:
        reading = await app.tasks.audit(task_id)
    except EngineError as error:
        return [{"at": 0.0, "level": "warning", "event": "events_unknown", "text": str(error)}]
    if reading.stale:
        text = "no worker answers, so the events of this task are not known now"
        return [{"at": 0.0, "level": "warning", "event": "events_unknown", "text": text}]
    return [
        {"at": one.at.timestamp(), "event": one.event, "state": one.after, "by": one.actor, "text": one.reason}
        for one in reading.view.events
    ]


def log_lines(
    store: DirectoryStore, task_id: str, *, text: bool, story: Sequence[dict[str, Any]] = ()
) -> Generator[bytes]:
    """What attempts wrote, and between it what happened to the task, by time."""
    rest = deque(story)
    if rest:
        yield _whole(to_json(rest.popleft()), text=text)
    for line in _attempt_lines(store, task_id):
        at = _time_of(line) if rest else 0.0
        while rest and rest[0]["at"] <= at:
            yield _whole(to_json(rest.popleft()), text=text)
        yield _whole(line, text=text)
    for one in rest:
        yield _whole(to_json(one), text=text)


def _whole(line: bytes, *, text: bool) -> bytes:
    return as_text(line) if text else with_moment(line).rstrip(b"\n") + b"\n"


def with_moment(line: bytes) -> bytes:
    """The line with its `at` as RFC 3339. Files keep seconds since 1970; 0: nobody knows when, and null."""
    at = _time_of(line)
    entry = from_json(line) if at else {}
    if 0 < at < _FAR:
        return to_json({**entry, "at": datetime.fromtimestamp(at, UTC)})
    return line.replace(b'"at":0.0', b'"at":null', 1)


def _time_of(line: bytes) -> float:
    """When it was written. A line that does not say so stands behind the first event."""
    try:
        entry = from_json(line)
    except ValueError:
        return 0.0
    at = entry.get("at") if isinstance(entry, dict) else None
    return float(at) if isinstance(at, int | float) else 0.0


def _attempt_lines(store: DirectoryStore, task_id: str) -> Generator[bytes]:
    """Every log of a task, in the order of its attempts and stages."""
    names = [ref.name for ref in store.list(task_id) if LOG.fullmatch(ref.name)]
    for name in sorted(names, key=_by_number):
        try:
            with store.open(task_id, name) as file:
                yield from file
        except MissingArtifactError:
            continue


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts `log-10` behind `log-9`."""
    return [(int(part[:18]), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def as_text(line: bytes) -> bytes:
    """One line of a log for people."""
    try:
        entry = from_json(line)
    except ValueError:
        entry = line.decode("utf-8", "replace")
    if not isinstance(entry, dict):
        return _shown(str(entry).strip()).encode() + b"\n"
    known = [name for name in _FIRST if entry.get(name, "") != ""]
    head = " ".join(_moment(entry[name]) if name == "at" else str(entry[name]) for name in known)
    rest = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _FIRST and value != "")
    return _shown(f"{head} {rest}".strip().replace("\n", " ")).encode() + b"\n"


def _moment(at: object) -> str:
    """Seconds since 1970 as a time of day that people read."""
    if not isinstance(at, int | float) or not 0 <= at < _FAR:
        return str(at)
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _shown(text: str) -> str:
    """A terminal shows it and obeys nothing in it: what cannot be printed stands there as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
