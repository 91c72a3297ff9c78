"""Files of a task on their way out: streamed, and never able to act as a page of ours."""

import re
from collections.abc import Generator
from contextlib import ExitStack
from typing import BinaryIO

from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.domain.ports import ArtifactRef

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
"""Evidence is a page to be read: shown with its pictures and its style, and nothing in it can run, load or send."""
_FIRST = ("at", "level", "event")


class FileStream(Response):
    """One artifact, in pieces. The store's names hold nothing that could end a header's quotes."""

    def __init__(self, store: DirectoryStore, task_id: str, ref: ArtifactRef) -> None:
        """Nothing is opened before the answer begins."""
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


def log_lines(store: DirectoryStore, task_id: str, *, text: bool) -> Generator[bytes]:
    """Every log of a task in the order of its attempts and stages."""
    names = [ref.name for ref in store.list(task_id) if LOG.fullmatch(ref.name)]
    for name in sorted(names, key=_by_number):
        try:
            with store.open(task_id, name) as file:
                for line in file:
                    whole = line if line.endswith(b"\n") else line + b"\n"
                    yield _for_people(whole) if text else whole
        except MissingArtifactError:
            continue


def _by_number(name: str) -> list[tuple[int, str]]:
    """`log-10` stands behind `log-9`."""
    return [(int(part[:18]), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _for_people(line: bytes) -> bytes:
    try:
        entry = from_json(line)
    except ValueError:
        return line
    if not isinstance(entry, dict):
        return line
    head = " ".join(str(entry[name]) for name in _FIRST if name in entry)
    rest = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _FIRST)
    return f"{head} {rest}".strip().replace("\n", " ").encode("utf-8", "replace") + b"\n"
