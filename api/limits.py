"""How much a client may send."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Kind, ProblemError, response_of

DRAIN_BYTES = 32_000_000
DRAIN_S = 10.0


class BodyLimit:
    """ASGI middleware: refuses a body that is too large without ever holding it, whether its size is told or not."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """`most` bytes."""
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse by the announced size, else count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        told = headers.get("content-length", "")
        if told.isascii() and told.isdigit() and int(told[:18]) > self._most:
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
    """Read on and forget, within bounds: many clients only look at the answer once they have sent everything."""
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
