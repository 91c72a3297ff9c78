"""Errors as RFC 9457 problem details: every kind of problem, and the one place where errors become one."""

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from droidherd.artifacts.store import MissingArtifactError
from droidherd.contracts.validation import message_of, path_of
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.engine import errors as e
from droidherd.engine.tasks import IllegalStateError

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:droidherd:problem:"
RETRY_AFTER_S: Final = 10
MESSAGE_MAX: Final = 500
FIELDS_MAX: Final = 20

log = logging.getLogger("droidherd.api")


class Kind(Enum):
    """Every kind of problem: its name in `type`, its code, its title. Names never change."""

    MALFORMED = ("malformed-body", 400, "The body is not JSON")
    UNAUTHORIZED = ("unauthorized", 401, "A valid API key is required")
    FORBIDDEN = ("forbidden", 403, "Without an API key only this machine is served")
    NOT_ALLOWED = ("not-allowed", 403, "The role of this API key does not allow this")
    NOT_FOUND = ("not-found", 404, "Not found")
    METHOD = ("method-not-allowed", 405, "Method not allowed")
    ID_TAKEN = ("id-taken", 409, "The id is already in use")
    CONFLICT = ("place-taken", 409, "Another task is in the way")
    ILLEGAL = ("illegal-transition", 409, "Not possible in this state")
    FULL = ("run-full", 409, "This run takes no more messages")
    TOO_LARGE = ("body-too-large", 413, "The body is too large")
    MEDIA = ("unsupported-media-type", 415, "The body must be JSON")
    INVALID = ("invalid-input", 422, "Invalid input")
    KEY_REUSED = ("key-reused", 422, "The idempotency key was used for another request")
    UNSATISFIABLE = ("cannot-be-satisfied", 422, "No emulator of the pool meets the requirements")
    REFUSED = ("refused", 422, "Refused")
    QUEUE_FULL = ("queue-full", 429, "The queue is full")
    OVERLOADED = ("overloaded", 429, "Too many requests")
    INTERNAL = ("internal", 500, "Internal error")
    UNAVAILABLE = ("engine-away", 503, "Temporal does not answer")
    NO_WORKER = ("no-worker", 503, "No worker answered in time")
    NO_FRAME = ("no-frame", 503, "The emulator gave no frame")
    OTHER = ("other", 400, "The request cannot be served")

    def __init__(self, slug: str, status: int, title: str) -> None:
        """The name in `type`, the status code, the title."""
        self.slug = slug
        self.status = status
        self.title = title


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str


class ProblemError(Exception):
    """Raised anywhere in the API; answered as problem details."""

    def __init__(self, kind: Kind, detail: str, *, errors: Sequence[FieldError] = (), **more: Any) -> None:
        """`more` are further members of the answer."""
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.more = more


class ProblemDetails(BaseModel):
    """RFC 9457. Further members depend on `type`: `task`, `holder`, `state`."""

    type: str
    title: str
    status: int
    detail: str = ""
    errors: list[FieldError] | None = None


def invalid(field: str, message: str) -> ProblemError:
    return _invalid([FieldError(field=field, message=message)])


def _invalid(errors: Sequence[FieldError]) -> ProblemError:
    """The detail names the fields; what is wrong with each stands in `errors`."""
    return ProblemError(Kind.INVALID, f"see {', '.join(dict.fromkeys(one.field for one in errors))}", errors=errors)


def response_of(problem: ProblemError) -> Response:
    kind = problem.kind
    return _answer(kind, kind.status, problem)


def _answer(kind: Kind, status: int, problem: ProblemError, headers: Mapping[str, str] | None = None) -> Response:
    body = ProblemDetails(
        type=URN + kind.slug,
        title=kind.title,
        status=status,
        detail=_readable(problem.detail),
        errors=list(problem.errors) or None,
    )
    members = body.model_dump(exclude_none=True) | problem.more
    return Response(to_json(members), status, {**_headers(kind), **(headers or {})}, MEDIA_TYPE)


def _headers(kind: Kind) -> Mapping[str, str]:
    if kind is Kind.UNAUTHORIZED:
        return {"www-authenticate": 'Bearer realm="droidherd"'}
    if kind.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return {"retry-after": str(RETRY_AFTER_S)}
    return {"connection": "close"} if kind is Kind.TOO_LARGE else {}


def from_validation(error: ValidationError, model: type[BaseModel]) -> ProblemError:
    """What pydantic found in a body, by field."""
    found = error.errors(include_url=False)
    if malformed := next((one for one in found if one["type"] == "json_invalid"), None):
        return ProblemError(Kind.MALFORMED, str(malformed.get("ctx", {}).get("error", "")))
    return _invalid([_field_error(one["loc"], message_of(one, model)) for one in found[:FIELDS_MAX]])


def _from_address(found: Sequence[Any]) -> ProblemError:
    """What is wrong in the path or the query. Of several values of one parameter, all have its name."""
    return _invalid([_field_error(one["loc"][1:2], message_of(one)) for one in found[:FIELDS_MAX]])


def _field_error(loc: Sequence[int | str], message: str) -> FieldError:
    return FieldError(field=_readable(path_of(loc), 120) or "body", message=_readable(message))


def _readable(text: str, limit: int = MESSAGE_MAX) -> str:
    """Text that can be shown and sent: no lone surrogates, no control characters, bounded."""
    clean = text.encode("utf-8", "replace").decode()
    shown = "".join(char if char.isprintable() else " " for char in clean)
    return shown if len(shown) <= limit else f"{shown[:limit]}…"


def problem_of(error: Exception) -> ProblemError:
    """What an error of the core or of Temporal means to a client."""
    match error:
        case ProblemError():
            return error
        case e.EngineError():
            return _of_engine(error)
        case BadParametersError():
            message = f"{error.what} ({error.remedy})" if error.remedy else error.what
            return invalid(error.to or "body", _readable(message))
        case FlowError():
            return invalid("type", f"the flow is not valid: {error}")
        case MissingArtifactError():
            return ProblemError(Kind.NOT_FOUND, str(error))
        case _:
            return ProblemError(Kind.INTERNAL, "see the log of the API")


_ENGINE: Final[Mapping[type[e.EngineError], Kind]] = {
    e.UnavailableError: Kind.UNAVAILABLE,
    e.NotFoundError: Kind.NOT_FOUND,
    e.UnreadableScheduleError: Kind.NOT_FOUND,
    e.OverloadedError: Kind.OVERLOADED,
    e.FullRunError: Kind.FULL,
    e.NoWorkerError: Kind.NO_WORKER,
    e.NoFrameError: Kind.NO_FRAME,
}


def _of_engine(error: e.EngineError) -> ProblemError:
    match error:
        case IllegalStateError():
            view = error.now.view
            return ProblemError(
                Kind.ILLEGAL, str(error), task=view.task_id, state=view.state, intent=view.intent, stale=error.now.stale
            )
        case e.IdTakenError():
            return ProblemError(Kind.ID_TAKEN, "choose another id, or read the task that has it", task=str(error))
        case e.KeyReusedError():
            return ProblemError(Kind.KEY_REUSED, "send the same body again, or another key", task=str(error))
        case e.CursorError():
            return invalid("cursor", str(error))
        case _:
            return ProblemError(_ENGINE.get(type(error), Kind.UNAVAILABLE), str(error))


def _methods(routers: Sequence[APIRouter], path: str) -> list[str]:
    """Of all routes of this path; the framework names those of one."""
    routes = (route for router in routers for route in router.routes if isinstance(route, APIRoute))
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Answer every error of this application here. `routers` are those that it serves."""

    async def known(_: Request, error: Exception) -> Response:
        return response_of(problem_of(error))

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("request failed", exc_info=error, extra={"method": request.method, "path": request.url.path})
        return response_of(problem_of(error))

    async def fields(_: Request, error: Exception) -> Response:
        found = error.errors() if isinstance(error, RequestValidationError) else ()
        return response_of(_from_address(found))

    async def http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.BAD_REQUEST
        kind = next((one for one in Kind if one.status == status), Kind.OTHER)
        headers = {"allow": ", ".join(_methods(routers, request.url.path))} if kind is Kind.METHOD else None
        return _answer(kind, status, ProblemError(kind, ""), headers)

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it

    for one in (ProblemError, BadParametersError, FlowError, MissingArtifactError, e.EngineError):
        app.add_exception_handler(one, known)
    app.add_exception_handler(RequestValidationError, fields)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, unexpected)
