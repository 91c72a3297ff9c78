"""Answers: serialised straight from a model, and described in OpenAPI all the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from api.errors import MEDIA_TYPE, Kind

JSON = "application/json"


def answer(
    model: BaseModel, status: int = 200, *, without: set[str] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(model.model_dump_json(exclude=without).encode(), status, headers, JSON)


def answers(
    model: type[BaseModel] | None, *kinds: Kind, status: int = 200, also: Sequence[int] = (), files: Sequence[str] = ()
) -> dict[int | str, Any]:
    """The `responses` of a route: success by model, or files by content type, or both; errors as problem details."""
    content = {"content": {kind: {"schema": {"type": "string"}} for kind in files}} if files else {}
    good = {"model": model} if model else {"description": "the file"}
    return {code: {**good, **content} for code in (status, *also)} | problems(*kinds)


def problems(*kinds: Kind) -> dict[int | str, Any]:
    """Errors by status, as problem details."""
    found: dict[int | str, Any] = {}
    for kind in kinds:
        known = found.get(kind.status, {}).get("description")
        title = f"{known}; or: {kind.title}" if known else kind.title
        schema = {"$ref": "#/components/schemas/ProblemDetails"}
        found[kind.status] = {"description": title, "content": {MEDIA_TYPE: {"schema": schema}}}
    return found


def body(model: type[BaseModel], *, required: bool = False) -> dict[str, Any]:
    """The request body of a route that reads it itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema}}}}
