"""Answers that say no: RFC 9457 problem details, and the one place where every error becomes one."""

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, to_json
from starlette.exceptions import HTTPException

from api import engine as e
from droidherd.artifacts.store import MissingArtifactError
from droidherd.contracts.base import readable
from droidherd.domain.errors import BadParametersError, FlowError

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:droidherd:problem:"
RETRY_AFTER_S: Final = 10
MESSAGE_MAX: Final = 500
FIELDS_MAX: Final = 20

log = logging.getLogger("droidherd.api")


class Kind(Enum):
    """Every kind of problem: its name in `type`, its code, its title. Names never change."""

    MALFORMED = ("malformed-body", 400, "The body is not JSON")
    UNAUTHORIZED = ("unauthorized", 401, "A valid API key is needed")
    FORBIDDEN = ("forbidden", 403, "Only this machine is served without an API key")
    NOT_ALLOWED = ("not-allowed", 403, "This API key does not reach that far")
    NOT_FOUND = ("not-found", 404, "There is nothing of this name")
    METHOD = ("method-not-allowed", 405, "Not with this method")
    ID_TAKEN = ("id-taken", 409, "The id is taken")
    PLACE_TAKEN = ("place-taken", 409, "Another task holds the place")
    ILLEGAL = ("illegal-transition", 409, "Not possible in this state")
    TOO_LARGE = ("body-too-large", 413, "The body is too large")
    MEDIA = ("unsupported-media-type", 415, "The body has to be JSON")
    INVALID = ("invalid-input", 422, "The input does not fit")
    KEY_REUSED = ("key-reused", 422, "The idempotency key came with another request before")
    UNSATISFIABLE = ("cannot-be-satisfied", 422, "No emulator of this pool can do this")
    REFUSED = ("refused", 422, "It was refused")
    QUEUE_FULL = ("queue-full", 429, "The queue is full")
    OVERLOADED = ("overloaded", 429, "Too much at once")
    INTERNAL = ("internal", 500, "Something nobody foresaw")
    AWAY = ("engine-away", 503, "The engine does not answer")
    SILENT = ("no-worker", 503, "No worker answered in time")
    NO_FRAME = ("no-frame", 503, "The emulator gave no frame")
    OTHER = ("other", 400, "The request cannot be served")

    def __init__(self, slug: str, status: int, title: str) -> None:
        """Named parts of the value."""
        self.slug = slug
        self.status = status
        self.title = title


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str


class ProblemError(Exception):
    """Raised anywhere in the door; answered as problem details."""

    def __init__(self, kind: Kind, detail: str, *, errors: Sequence[FieldError] = (), **more: Any) -> None:
        """`more` are further members of the answer."""
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.more = more


class Problem(BaseModel):
    """RFC 9457. Further members depend on `type`: `task`, `holder`, `state`."""

    type: str
    title: str
    status: int
    detail: str = ""
    errors: list[FieldError] | None = None


def invalid(field: str, message: str) -> ProblemError:
    return _misfits([FieldError(field=field, message=message)])


def _misfits(errors: Sequence[FieldError]) -> ProblemError:
    """What is wrong with each field stands in `errors` alone."""
    return ProblemError(Kind.INVALID, f"see {', '.join(dict.fromkeys(one.field for one in errors))}", errors=errors)


def response_of(problem: ProblemError) -> Response:
    kind = problem.kind
    return _answer(kind, kind.status, problem)


def _answer(kind: Kind, status: int, problem: ProblemError) -> Response:
    body = Problem(
        type=URN + kind.slug,
        title=kind.title,
        status=status,
        detail=_readable(problem.detail),
        errors=list(problem.errors) or None,
    )
    members = body.model_dump(exclude_none=True) | problem.more
    return Response(to_json(members), status, _headers(kind), MEDIA_TYPE)


def _headers(kind: Kind) -> Mapping[str, str]:
    if kind is Kind.UNAUTHORIZED:
        return {"www-authenticate": 'Bearer realm="droidherd"'}
    if kind.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return {"retry-after": str(RETRY_AFTER_S)}
    return {"connection": "close"} if kind is Kind.TOO_LARGE else {}


def from_validation(error: ValidationError) -> ProblemError:
    """What pydantic found, by field. Values are never repeated: they may be secret, or 10 MB."""
    found = error.errors(include_url=False, include_input=False)
    if any(one["type"] == "json_invalid" for one in found):
        return ProblemError(Kind.MALFORMED, found[0]["msg"])
    return _by_field(found)


def _by_field(found: Sequence[ErrorDetails] | Sequence[Any], skip: int = 0) -> ProblemError:
    errors = [FieldError(field=_field(one["loc"][skip:]), message=_readable(_told(one))) for one in found[:FIELDS_MAX]]
    return _misfits(errors)


def _told(one: ErrorDetails | Any) -> str:
    """In words for whoever wrote the request."""
    if one["type"] == "extra_forbidden":
        return "there is no such field"
    return readable(one).removeprefix("Value error, ")


def _field(loc: Sequence[int | str]) -> str:
    return _readable(".".join(str(part) for part in loc), 120) or "body"


def _readable(text: str, limit: int = MESSAGE_MAX) -> str:
    """Text that can be shown and sent: no lone surrogates, no control characters, bounded."""
    clean = text.encode("utf-8", "replace").decode()
    shown = "".join(char if char.isprintable() else " " for char in clean)
    return shown if len(shown) <= limit else f"{shown[:limit]}…"


def translated(error: Exception) -> ProblemError:
    """What an error of the core or of the engine means to a client."""
    match error:
        case ProblemError():
            return error
        case e.EngineError():
            return _of_engine(error)
        case BadParametersError():
            message = f"{error.what} ({error.remedy})" if error.remedy else error.what
            return invalid(error.to or "body", _readable(message))
        case FlowError():
            return invalid("type", f"the flow is not sound: {error}")
        case MissingArtifactError():
            return ProblemError(Kind.NOT_FOUND, str(error))
        case _:
            return ProblemError(Kind.INTERNAL, "the log of the API says more")


_ENGINE: Final[Mapping[type[e.EngineError], Kind]] = {
    e.AwayError: Kind.AWAY,
    e.MissingError: Kind.NOT_FOUND,
    e.OverloadedError: Kind.OVERLOADED,
    e.SilentError: Kind.SILENT,
    e.NoFrameError: Kind.NO_FRAME,
}


def _of_engine(error: e.EngineError) -> ProblemError:
    match error:
        case e.IllegalError():
            view = error.now.view
            return ProblemError(
                Kind.ILLEGAL, str(error), task=view.task_id, state=view.state, intent=view.intent, stale=error.now.stale
            )
        case e.TakenError():
            return ProblemError(Kind.ID_TAKEN, "choose another one, or read the task that has it", task=str(error))
        case e.KeyReusedError():
            return ProblemError(Kind.KEY_REUSED, "send the same body again, or another key", task=str(error))
        case e.CursorError():
            return invalid("cursor", str(error))
        case _:
            return ProblemError(_ENGINE.get(type(error), Kind.AWAY), str(error))


def install(app: FastAPI) -> None:
    """Let every error of this application be answered here."""

    async def known(_: Request, error: Exception) -> Response:
        return response_of(translated(error))

    async def unforeseen(request: Request, error: Exception) -> Response:
        log.error("request failed", exc_info=error, extra={"method": request.method, "path": request.url.path})
        return response_of(translated(error))

    async def fields(_: Request, error: Exception) -> Response:
        found = error.errors() if isinstance(error, RequestValidationError) else ()
        return response_of(_by_field(found, skip=1))

    async def http(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.BAD_REQUEST
        kind = next((one for one in Kind if one.status == status), Kind.OTHER)
        return _answer(kind, status, ProblemError(kind, ""))

    for one in (ProblemError, BadParametersError, FlowError, MissingArtifactError, e.EngineError):
        app.add_exception_handler(one, known)
    app.add_exception_handler(RequestValidationError, fields)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unforeseen)
