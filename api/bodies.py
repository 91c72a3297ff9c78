"""Reading what a client sends: bytes, then JSON, then a model, each with an answer of its own when it fails."""

import math
from collections.abc import Iterator
from typing import TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, JsonValue, ValidationError

from api.errors import Kind, ProblemError, from_validation, invalid
from droidherd.flows.duration import parse_duration

INTEGER_MAX = 2**63 - 1
WAIT_MAX_S = 60.0

Model = TypeVar("Model", bound=BaseModel)


async def known_query(request: Request) -> None:
    """Nothing in a query is lost in silence: a misspelt `dry_run` would do what was only to be shown."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = set(_query_names(route.dependant))
    for name in request.query_params:
        if name not in known:
            said = ", ".join(sorted(known)) or "nothing"
            raise invalid(name[:60], f"is not known here; known: {said}")


def _query_names(of: Dependant) -> Iterator[str]:
    for field in of.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (one.alias or name for name, one in kind.model_fields.items())
        else:
            yield field.alias
    for part in of.dependencies:
        yield from _query_names(part)


async def json_body(request: Request) -> bytes:
    """The raw body. Only JSON is taken, so that a form on a foreign page cannot post here."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if raw and kind != "application/json" and not kind.endswith("+json"):
        raise ProblemError(Kind.MEDIA, "send `Content-Type: application/json`")
    return raw


def parsed(model: type[Model], raw: bytes) -> Model:
    """A model out of a body."""
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise from_validation(error) from error


async def optional(model: type[Model], request: Request) -> Model:
    """A model out of a body that may be left out."""
    raw = await json_body(request)
    return parsed(model, raw) if raw else model()


def refuse_odd_numbers(value: JsonValue, where: str) -> None:
    """Numbers that other programs would read as something else, or not at all."""
    if isinstance(value, dict):
        for name, inner in value.items():
            refuse_odd_numbers(inner, f"{where}.{name[:60]}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            refuse_odd_numbers(inner, f"{where}.{number}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise invalid(where, "must be a finite number")
    elif isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise invalid(where, "is too large")


def wait_seconds(text: str) -> float:
    """How long `?wait=` means, bounded."""
    if not text:
        return 0.0
    try:
        seconds = parse_duration(text if not text.isdigit() else f"{text}s")
    except ValueError as error:
        raise invalid("wait", str(error)) from error
    if seconds > WAIT_MAX_S:
        raise invalid("wait", f"at most {WAIT_MAX_S:g}s")
    return seconds
