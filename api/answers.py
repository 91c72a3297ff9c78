"""Answers: serialised straight from a model, and described in OpenAPI all the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from api.errors import MEDIA_TYPE, Kind, ProblemDetails

JSON = "application/json"


def answer(
    model: BaseModel, status: int = 200, *, without: set[str] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(model.model_dump_json(exclude=without).encode(), status, headers, JSON)


def answers(model: type[BaseModel], *kinds: Kind, status: int = 200, also: Sequence[int] = ()) -> dict[int | str, Any]:
    """The `responses` of a route: success by model, errors as problem details."""
    good: dict[int | str, Any] = {code: {"model": model} for code in (status, *also)}
    problems: dict[int | str, Any] = {}
    for kind in kinds:
        known = problems.get(kind.status, {}).get("description")
        title = f"{known}; or: {kind.title}" if known else kind.title
        schema = {"$ref": "#/components/schemas/ProblemDetails"}
        problems[kind.status] = {"description": title, "content": {MEDIA_TYPE: {"schema": schema}}}
    return good | problems


def body(model: type[BaseModel], *, required: bool = False) -> dict[str, Any]:
    """The request body of a route that reads it itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema}}}}


SCHEMAS: Sequence[type[BaseModel]] = (ProblemDetails,)
"""Models that no route names by type."""
