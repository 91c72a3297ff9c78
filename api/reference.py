"""What the API says of itself: OpenAPI as the server behaves, its reference for browsers, and where to go from here."""

import asyncio
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from api.answers import JSON, answer, answers, problems
from api.errors import Kind, ProblemDetails
from droidherd import __version__

router: Final = APIRouter()

DOCS: Final = "/docs"
OPENAPI: Final = "/openapi.json"
ASSETS: Final[Mapping[str, str]] = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
"""Of Swagger UI, by name in the package that brings it."""
HTML: Final = "text/html; charset=utf-8"
ABOUT: Final = "Durable tasks for fleets of Android emulators."
GUARDED: Final[Mapping[str, str]] = {
    "x-content-type-options": "nosniff",
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>droidherd</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}</style></head>
<body><h1>droidherd</h1><p>%s This is its HTTP API, version %s.</p><ul>%s</ul></body></html>
"""


class WelcomeOut(BaseModel):
    """What this is, and where to go."""

    name: str = "droidherd"
    about: str = ABOUT
    version: str = __version__
    links: dict[str, str] = {
        "docs": DOCS,
        "openapi": OPENAPI,
        "tasks": "/api/tasks",
        "task_types": "/api/task-types",
        "queue": "/api/queue",
        "emulators": "/api/emulators",
        "ready": "/readyz",
        "metrics": "/metrics",
    }


@router.get("/", tags=["pages"], responses=answers(WelcomeOut, files=(HTML,)))
async def welcome(request: Request) -> Response:
    """What this is, and where to go: JSON, and a page for browsers."""
    found = WelcomeOut()
    if "text/html" not in request.headers.get("accept", ""):
        return answer(found)
    links = "".join(f'<li><a href="{escape(to)}">{escape(name)}</a></li>' for name, to in found.links.items())
    return Response(PAGE % (escape(ABOUT), escape(__version__), links), headers=GUARDED, media_type=HTML)


@router.get(DOCS, include_in_schema=False)
async def docs(request: Request) -> Response:
    """Every route with its fields."""
    app: FastAPI = request.app
    page = get_swagger_ui_html(
        openapi_url=OPENAPI,
        title=f"{app.title} {app.version}",
        swagger_js_url=f"{DOCS}/swagger-ui-bundle.js",
        swagger_css_url=f"{DOCS}/swagger-ui.css",
        swagger_favicon_url="data:,",
    )
    page.headers.update(GUARDED)
    return page


@router.api_route(OPENAPI, methods=["GET", "HEAD"], include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The schema, rendered once and in a thread: it takes up to a second, in which all others would wait."""
    app: FastAPI = request.app
    if not hasattr(app.state, "openapi"):
        app.state.openapi = asyncio.ensure_future(run_in_threadpool(lambda: to_json(app.openapi())))
    return Response(await asyncio.shield(app.state.openapi), media_type=JSON)


def _serve(name: str, media_type: str) -> None:
    @router.get(f"{DOCS}/{name}", include_in_schema=False)
    async def asset() -> Response:
        path = str(files("fastapi_offline") / "static" / name)
        return FileResponse(path, media_type=media_type, headers={"x-content-type-options": "nosniff"})


for _name, _media_type in ASSETS.items():
    _serve(_name, _media_type)


# --- OpenAPI -------------------------------------------------------------------------------------------------------

METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})
EVERYWHERE: Final = (Kind.FORBIDDEN, Kind.INVALID, Kind.UNAVAILABLE)
WITH_KEY: Final = (Kind.UNAUTHORIZED, Kind.NOT_ALLOWED, Kind.OVERLOADED)
WITH_BODY: Final = (Kind.MALFORMED, Kind.TOO_LARGE, Kind.MEDIA)
WITH_NAME: Final = (Kind.NOT_FOUND,)
SCHEMES: Final[Mapping[str, Any]] = {"bearer": {"type": "http", "scheme": "bearer"}}
"""`X-API-Key` is another place for the same key. It is looked at only where no bearer token is sent."""
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
