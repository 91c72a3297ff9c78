"""ASGI middleware: one span and one measurement per request, and a limit on what a client may send."""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Kind, ProblemError, response_of
from droidherd import telemetry

_TRACE_HEADERS = ("traceparent", "tracestate")
DRAIN_BYTES = 32_000_000
DRAIN_S = 10.0


class Observed:
    """Traces and times each request; the trace continues in the workflow. The outermost of ours."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Trace and time one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        headers = Headers(scope=scope)
        carrier = {name: headers[name] for name in _TRACE_HEADERS if name in headers}
        started = time.perf_counter()
        with telemetry.extracted(carrier), telemetry.span(scope["method"]) as span:
            try:
                await self._app(scope, receive, noted)
            finally:
                route = route_of(scope)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.response.status_code", status)
                telemetry.metrics.http_seconds.labels(
                    method=_method(scope["method"]), route=route, status=str(status)
                ).observe(time.perf_counter() - started)


def route_of(scope: Scope) -> str:
    """The route's pattern, never the path: a metric must have few label values."""
    return str(getattr(scope.get("route"), "path", "") or "none")


def _method(method: str) -> str:
    return method if method in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} else "other"


class BodyLimit:
    """Refuses a body that is too large without ever holding it, whether its size is announced or not."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """`most` bytes."""
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse by the announced size, or else count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        size = headers.get("content-length", "")
        if size.isascii() and size.isdigit() and int(size[:18]) > self._most:
            if headers.get("expect", "").lower() != "100-continue":
                await _drain(receive, DRAIN_BYTES)
            await response_of(self._problem())(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                await _drain(receive, DRAIN_BYTES)
                raise self._problem()
            return message

        return counted

    def _problem(self) -> ProblemError:
        return ProblemError(Kind.TOO_LARGE, f"at most {self._most} bytes")


async def _drain(receive: Receive, most: int) -> None:
    """Read and discard, within bounds: many clients look at the answer only after they have sent everything."""
    seen = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            while seen < most:
                message = await receive()
                seen += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
