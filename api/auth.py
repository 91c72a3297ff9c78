"""Who may come in: whoever has the key; without a key, this machine alone."""

import hashlib
import hmac
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import Kind, ProblemError, response_of
from droidherd.settings import Api

OPEN = frozenset({"/healthz", "/readyz"})
"""Asked by supervisors, which hold no key."""


class OpenDoorError(Exception):
    """The settings would let strangers in."""


def key_of(settings: Api) -> str:
    """The API key, from the environment or from its file. Empty: there is none."""
    if not settings.key_file:
        return settings.key.strip()
    try:
        key = Path(settings.key_file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OpenDoorError(f"the key file {settings.key_file} cannot be read: {error.strerror}") from error
    if not key:
        raise OpenDoorError(f"the key file {settings.key_file} is empty")
    return key


def check_address(host: str, key: str) -> None:
    """Refuse to listen where strangers can come from while there is no key."""
    if not key and not is_loopback(host):
        raise OpenDoorError(
            f"the API would be open to everyone at {host}: "
            "set DROIDHERD_API__KEY or api.key_file, or listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


class Guard:
    """ASGI middleware. Looks at the connection itself and never at what a proxy claims."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        """An empty key serves loopback only."""
        self._app = app
        self._digest = _digest(key.encode()) if key else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await response_of(problem)(scope, receive, send)

    def _problem(self, scope: Scope) -> ProblemError | None:
        headers = Headers(scope=scope)
        if not self._digest:
            reason = _stranger(scope, headers)
            return ProblemError(Kind.FORBIDDEN, reason) if reason else None
        if scope["path"] in OPEN or hmac.compare_digest(self._digest, _digest(_given(headers))):
            return None
        return ProblemError(Kind.UNAUTHORIZED, "send it as `Authorization: Bearer <key>` or as `X-API-Key: <key>`")


def _given(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return key.encode("utf-8", "surrogatepass") if key.isascii() else key.encode("latin-1", "replace")


def _digest(key: bytes) -> bytes:
    """Of equal length whatever the key: the comparison tells nothing about it."""
    return hashlib.sha256(key).digest()


def _stranger(scope: Scope, headers: Headers) -> str:
    """Empty, or why this request may come from elsewhere though it came over loopback, or did not."""
    client = scope.get("client")
    if client is not None and not is_loopback(str(client[0])):
        return "this address is not this machine's"
    if "forwarded" in headers or "x-forwarded-for" in headers:
        return "a proxy passes on what others send: set an API key"
    # A page from elsewhere may resolve its own name to this machine, or post to it.
    if len(headers.getlist("host")) != 1 or not is_loopback(_host(f"//{headers['host']}")):
        return "the Host header names another machine"
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host(origin)):
        return "a page from elsewhere sent this"
    return ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
