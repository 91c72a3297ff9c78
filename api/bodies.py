"""Reading what a client sends: bytes, then JSON, then a model, each with its own error; and who sent it."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, ValidationError

from api.errors import Kind, ProblemError, from_validation, invalid
from droidherd.contracts.tasks import OperatorRequest, Text
from droidherd.contracts.validation import meant
from droidherd.flows.model.scalars import parse_duration

INTEGER_MAX = 2**63 - 1
WAIT_MAX_S = 60.0
ACTOR_MAX = 1000
SOMEBODY = "somebody"
"""The actor when neither a key nor the body names one. The name of a key stands before what the body says."""


class HasActor(Protocol):
    """A body that may name its actor."""

    @property
    def actor(self) -> str: ...
    @property
    def model_fields_set(self) -> set[str]: ...
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self: ...


_SCALARS = frozenset({"bool_type", "int_type", "float_type", "string_type"})

Model = TypeVar("Model", bound=BaseModel)
WithActor = TypeVar("WithActor", bound=HasActor)


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of readable characters")
    return text


Line = Annotated[Text, AfterValidator(_one_line)]


class ActionRequest(OperatorRequest):
    """The body of an action: who wants it, and why. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""

    @property
    def ask(self) -> OperatorRequest:
        return OperatorRequest(actor=self.actor, reason=self.reason)


def with_actor(body: WithActor, caller: str) -> WithActor:
    """The body with the name of the caller's key as its actor. Without keys, the body may name anybody."""
    if not caller:
        return body
    claimed = body.actor if "actor" in body.model_fields_set else ""
    actor = f"{caller} for {claimed}" if claimed not in ("", caller) else caller
    return body.model_copy(update={"actor": actor[:ACTOR_MAX]})


async def known_query(request: Request) -> None:
    """Refuse query parameters that the route does not know: a misspelt `dry_run` must not be ignored."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = set(_query_names(route.dependant))
    for name in request.query_params:
        if name not in known:
            raise invalid(name[:60], f"is not known here{meant(name, sorted(known))}")


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
    """The raw body. Only JSON is accepted, so that a form on a foreign page cannot post here."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if raw and kind != "application/json" and not kind.endswith("+json"):
        raise ProblemError(Kind.MEDIA, "send `Content-Type: application/json`")
    return raw


def parse_body(model: type[Model], raw: bytes) -> Model:
    """A model out of a body. A number or a truth value is never read from something else."""
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        # Strict also refuses what JSON has no type for, such as a time, where a validator was asked before.
        if any(one["type"] in _SCALARS for one in error.errors(include_url=False, include_input=False)):
            raise from_validation(error, model) from error
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise from_validation(error, model) from error


async def optional(model: type[Model], request: Request) -> Model:
    """A model out of a body that may be left out."""
    raw = await json_body(request)
    return parse_body(model, raw) if raw else model()


async def require_body(model: type[Model], request: Request) -> Model:
    """A model out of a body that must be there."""
    return parse_body(model, await json_body(request))


def refuse_odd_numbers(value: JsonValue, where: str) -> None:
    """Refuse numbers that other programs would read as something else, or not at all."""
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
    """The seconds of `?wait=`, bounded."""
    if not text:
        return 0.0
    try:
        seconds = parse_duration(text if not text.isdigit() else f"{text}s")
    except ValueError as error:
        raise invalid("wait", str(error)) from error
    if seconds > WAIT_MAX_S:
        raise invalid("wait", f"at most {WAIT_MAX_S:g}s")
    return seconds
