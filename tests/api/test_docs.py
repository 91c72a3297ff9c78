"""docs/http.md names every route and every kind of problem."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.errors import URN, Kind
from droidherd.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
UNSAID = {Kind.INTERNAL, Kind.OTHER}


def test_every_route_is_on_the_page(http: httpx.Client):
    paths = http.get("/openapi.json").json()["paths"]
    for path in paths:
        ending = re.sub(r"^/api/(tasks|queue|emulators)(/\{[a-z_]+\})?/", "/", path)
        assert path in PAGE or ending.replace("{emulator_id}", "{id}").replace("{task_id}", "{id}") in PAGE, path


async def test_the_schema_is_rendered_once_and_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = create_app(Settings(data=tmp_path))
    rendered: list[tuple[dict[str, Any], int]] = []
    make = app.openapi
    monkeypatch.setattr(app, "openapi", lambda: rendered.append((make(), threading.get_ident())) or rendered[-1][0])
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        first, second = await asyncio.gather(*(client.get("/openapi.json") for _ in range(2)))
    ((document, thread),) = rendered
    assert thread != threading.get_ident(), "the event loop serves others meanwhile"
    assert first.content == second.content
    assert document == first.json()


def test_every_kind_of_problem_is_on_the_page_with_its_code():
    for kind in set(Kind) - UNSAID:
        row = next((line for line in PAGE.splitlines() if line.startswith("|") and f"`{kind.slug}`" in line), "")
        assert str(kind.status) in row, kind.slug


def test_every_problem_on_the_page_exists():
    for slug in re.findall(re.escape(URN) + r"([a-z-]+)", PAGE):
        assert slug in {kind.slug for kind in Kind}
