"""`download`: fetch a file or an APK, check it, put it on the emulator or install it."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator
from typing_extensions import override

from droidherd.artifacts.apk import read_apk
from droidherd.contracts.changes import Thing
from droidherd.domain.errors import FinalError, NoAnswerError
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import State
from droidherd.handlers.base import Handler, HandlerContext, Params, Subject

FILE = "download"


class DownloadParams(Params):
    """Either `file` or `package`; an empty text is none."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    sha256: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""
    file: str = ""
    """Where to put it on the emulator."""
    package: str = ""
    """Install it: it has to hold this package."""
    max_mb: int = Field(default=2000, ge=1, le=4000)

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if bool(self.file) == bool(self.package):
            raise ValueError("exactly one of file and package is needed")
        return self

    @property
    def subject(self) -> tuple[Thing, str]:
        return (Thing.FILE, self.file) if self.file else (Thing.PACKAGE, self.package)


class DownloadHandler(Handler[DownloadParams]):
    name: ClassVar[str] = "download"
    params = DownloadParams

    @override
    def changes(self, params: DownloadParams) -> tuple[Subject, ...]:
        return (Subject(*params.subject, State(params.sha256) if params.sha256 else None),)

    @override
    def addresses(self, params: DownloadParams) -> tuple[str, ...]:
        return (params.url,)

    @override
    def is_done(self, ground: HandlerContext, params: DownloadParams) -> bool:
        """Only who was told what to expect can see that it is there."""
        return bool(params.sha256) and ground.things.read(*params.subject) == State(params.sha256)

    @override
    def prepare(self, ground: HandlerContext, params: DownloadParams) -> None:
        """To the host's disk, in constant memory, checked."""
        digest, size = _fetch(ground, params)
        ground.note(f"downloaded {size} bytes, sha256 {digest}")
        if params.sha256 and digest != params.sha256:
            raise FinalError(f"the server sent something else: its sha256 is {digest}", to=params.url[:200])
        if params.package and (held := read_apk(_place(ground)).package) != params.package:
            raise FinalError(f"the APK holds {held}, not {params.package}", to=params.url[:200])

    @override
    def execute(self, ground: HandlerContext, params: DownloadParams) -> dict[str, JsonValue]:
        place = _place(ground)
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        thing, name = params.subject
        ground.doing.make("put", Wanted(thing, name, State(digest), partial(place.open, "rb")))
        return {"sha256": digest, "bytes": place.stat().st_size, thing.value: name}

    @override
    def cleanup(self, ground: HandlerContext, params: DownloadParams) -> None:
        _place(ground).unlink(missing_ok=True)


def _place(ground: HandlerContext) -> Path:
    return ground.scratch / FILE


def _fetch(ground: HandlerContext, params: DownloadParams) -> tuple[str, int]:
    digest, size, limit = hashlib.sha256(), 0, params.max_mb * 1_000_000
    with ground.web.get(params.url) as answer:
        if answer.size is not None:
            _refuse_large(answer.size, limit, params.url)
        with ground.create(FILE, limit) as file:
            for piece in answer.pieces():
                size += len(piece)
                _refuse_large(size, limit, params.url)
                digest.update(piece)
                file.write(piece)
                ground.doing.rest(0.0)
        if answer.size is not None and size != answer.size:
            raise NoAnswerError(f"{size} of {answer.size} bytes came", to=params.url[:200])
    return digest.hexdigest(), size


def _refuse_large(size: int, limit: int, url: str) -> None:
    if size > limit:
        raise FinalError(f"more than {limit} bytes", to=url[:200], remedy="raise max_mb")
