"""OpenAPI as the server behaves: bodies that routes read themselves, and answers that come before a route is asked."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from api.answers import problems
from api.errors import Kind, ProblemDetails

METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})
EVERYWHERE: Final = (Kind.FORBIDDEN, Kind.INVALID, Kind.UNAVAILABLE)
WITH_KEY: Final = (Kind.UNAUTHORIZED, Kind.NOT_ALLOWED, Kind.OVERLOADED)
WITH_BODY: Final = (Kind.MALFORMED, Kind.TOO_LARGE, Kind.MEDIA)
WITH_NAME: Final = (Kind.NOT_FOUND,)
SCHEMES: Final[Mapping[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
REPLACED: Final = ("HTTPValidationError", "ValidationError")
"""FastAPI's own form of a 422."""


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]], open_paths: frozenset[str], *, keys: bool) -> None:
    """Complete what FastAPI says of an application. `open_paths` need no key."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            components = document.setdefault("components", {})
            known = {name: one for name, one in components.get("schemas", {}).items() if name not in REPLACED}
            components["schemas"] = _schemas([ProblemDetails, *bodies]) | known
            if keys:
                components["securitySchemes"] = dict(SCHEMES)
            for path, operations in document["paths"].items():
                for method in METHODS & operations.keys():
                    _complete(path, operations[method], open_paths, keys=keys)
        return app.openapi_schema or {}

    app.openapi = openapi


def _schemas(models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    pairs: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in models]
    _, found = models_json_schema(pairs, ref_template="#/components/schemas/{model}")
    return found.get("$defs", {})


def _complete(path: str, operation: dict[str, Any], open_paths: frozenset[str], *, keys: bool) -> None:
    """Add what any request of this form may be answered with."""
    is_open = path in open_paths
    kinds = [*EVERYWHERE, *(() if is_open else WITH_KEY)]
    if "requestBody" in operation:
        kinds += WITH_BODY
    if "{" in path:
        kinds += WITH_NAME
    if keys and not is_open:
        operation["security"] = [{name: []} for name in SCHEMES]
    found = operation["responses"]
    refusals = problems(*kinds)
    for status, response in refusals.items():
        present = found.get(str(status))
        if present is None or any(name in str(present) for name in REPLACED):
            found[str(status)] = response
