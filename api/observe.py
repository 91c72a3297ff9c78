"""One span and one measurement per request; the trace goes on in the workflow."""

import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from droidherd import telemetry

_CARRIED = ("traceparent", "tracestate")


class Observed:
    """ASGI middleware, the outermost of ours."""

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
        carrier = {name: headers[name] for name in _CARRIED if name in headers}
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
    """The route's pattern, never the path: a metric has few label values."""
    return str(getattr(scope.get("route"), "path", "") or "none")


def _method(method: str) -> str:
    return method if method in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} else "other"
