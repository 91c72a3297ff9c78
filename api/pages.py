"""What people see in a browser: where to go from here, and the reference of this API, without the internet."""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel
from starlette.responses import FileResponse, Response

from api.answers import answer, answers
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


def _serve(name: str, media_type: str) -> None:
    @router.get(f"{DOCS}/{name}", include_in_schema=False)
    async def asset() -> Response:
        path = str(files("fastapi_offline") / "static" / name)
        return FileResponse(path, media_type=media_type, headers={"x-content-type-options": "nosniff"})


for _name, _media_type in ASSETS.items():
    _serve(_name, _media_type)
