"""What stands in front of the Temporal Web UI: its own page passes, and no page of anybody else."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from api.web_ui import BODY_MAX_BYTES, create_proxy
from droidherd.cli.local import ports
from tests.api.waiting import eventually


@contextmanager
def served(app: Starlette) -> Generator[str]:
    """Host and port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert eventually(lambda: server.started)
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


async def _echo(request: Request) -> Response:
    body = (await request.body()).decode()
    target = f"{request.scope['raw_path'].decode()}?{request.url.query} for {request.headers['host']}"
    cookies = {"set-cookie": "_csrf=1; Path=/"}
    return JSONResponse({"method": request.method, "target": target, "body": body}, headers=cookies)


@pytest.fixture(scope="module")
def page() -> Iterator[httpx.Client]:
    """A browser on the right page."""
    behind = Starlette(routes=[Route("/{path:path}", _echo, methods=["GET", "POST"])])
    with served(behind) as inner, served(create_proxy(inner)) as outer, httpx.Client(base_url=f"http://{outer}") as one:
        yield one


def test_the_web_uis_own_page_gets_what_it_asks_for(page: httpx.Client):
    answer = page.post("/api/v1/a%2Fb?x=1&x=2", content="{}", headers={"origin": str(page.base_url)})
    target = f"/api/v1/a%2Fb?x=1&x=2 for {page.base_url.netloc.decode()}"
    assert {"method": "POST", "target": target, "body": "{}"} == answer.json()
    assert "_csrf=1; Path=/" == answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "page.example"},
        {"host": "page.example:8243"},
        {"origin": "http://page.example"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"x-forwarded-for": "10.0.0.1"},
    ],
    ids=str,
)
def test_a_page_of_somebody_else_gets_nothing(page: httpx.Client, headers: dict[str, str]):
    for method in ("GET", "POST"):
        answer = page.request(method, "/api/v1/namespaces", headers=headers)
        assert (403, "application/problem+json") == (answer.status_code, answer.headers["content-type"])


def test_a_link_leads_to_the_web_ui_from_anywhere(page: httpx.Client):
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert 200 == page.get("/namespaces", headers=link).status_code


def test_a_body_without_end_is_cut(page: httpx.Client):
    assert 413 == page.post("/api/v1/x", content=b"x" * (BODY_MAX_BYTES + 1)).status_code


def test_a_web_ui_that_is_away_is_a_502():
    with served(create_proxy("127.0.0.1:9")) as outer:
        assert 502 == httpx.get(f"http://{outer}").status_code


def test_the_web_ui_itself_is_where_no_page_can_guess_it():
    found = {ports.hidden() for _ in range(5)}
    assert 5 == len({one.host for one in found} - {"127.0.0.1"})
