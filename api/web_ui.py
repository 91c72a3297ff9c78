"""Serve the Temporal Web UI to this machine's own pages alone: `droidherd up --ui` starts it.

The Web UI itself looks at no name and asks nobody for a key. It listens at an address of the loopback network that no
web page can guess; who asks for it under the wrong name, or from a page of another site, is refused here.
"""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from api.auth import Guard
from api.connections import keep_logs_short, serve
from droidherd import telemetry
from droidherd.processes import children
from droidherd.settings import Api

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
ANSWER_S = 60.0
BODY_MAX_BYTES = 16 << 20
OF_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
        "proxy-connection",
    }
)
"""Headers that say nothing of what is asked or answered."""


def create_proxy(behind: str) -> Starlette:
    """Passes on to the Web UI at `behind`, host and port, what comes from this machine and from its own page."""
    client = httpx.AsyncClient(
        base_url=f"http://{behind}", timeout=ANSWER_S, trust_env=False, limits=httpx.Limits(max_connections=64)
    )

    async def pass_on(request: Request) -> Response:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_MAX_BYTES:
                return PlainTextResponse(f"at most {BODY_MAX_BYTES} bytes\n", 413, {"connection": "close"})
        # As it was written: `%2F` in the id of a workflow is no slash.
        asked_for = request.scope["raw_path"] + (b"?" + query if (query := request.scope["query_string"]) else b"")
        target = client.base_url.copy_with(raw_path=asked_for)
        headers = [(name, value) for name, value in request.headers.items() if name not in OF_ONE_CONNECTION]
        asked = client.build_request(request.method, target, headers=headers, content=bytes(body))
        try:
            answer = await client.send(asked, stream=True)
        except httpx.HTTPError as error:
            return PlainTextResponse(f"the Temporal Web UI does not answer: {type(error).__name__}\n", 502)
        found = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
        found.raw_headers = [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.lower().decode("latin-1") not in OF_ONE_CONNECTION
        ]
        return found

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with client:
            yield

    routes = [Route("/{path:path}", pass_on, methods=METHODS)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, keys={})], lifespan=lifespan)


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal comes."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m api.web_ui", description=__doc__, formatter_class=raw)
    parser.add_argument("--port", type=int, required=True, help="where it serves, on 127.0.0.1")
    parser.add_argument("--behind", required=True, help="host and port of the Web UI itself")
    chosen = parser.parse_args(argv)
    children.keep_private()
    telemetry.start_logs("INFO")
    keep_logs_short()
    return serve(create_proxy(chosen.behind), Api(port=chosen.port))


if __name__ == "__main__":
    children.end_process(main())
