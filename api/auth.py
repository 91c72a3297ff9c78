"""Who may come in: whoever has a key, under its name; without a key, this machine alone."""

import hashlib
import hmac
import ipaddress
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import Kind, ProblemError, response_of
from api.roles import Role, refusal
from droidherd.domain import ids
from droidherd.settings import Api

OPEN = frozenset({"/healthz", "/readyz"})
"""Asked by supervisors, which hold no key."""
SINGLE = "api"
"""What the one key of the setting `api.key` is called."""
CALLER = "caller"
"""Under this the name of the key stands in a request's state."""
PAIR = 2
NO_ROLES: Mapping[str, Role] = MappingProxyType({})


class OpenDoorError(Exception):
    """The settings would let strangers in."""


def keys_of(settings: Api) -> dict[str, str]:
    """Name → API key, from the settings and from their files. Empty: there is none."""
    found = [(SINGLE, key)] if (key := _single(settings)) else []
    found += [(name, key.strip()) for name, key in settings.keys.items()]
    found += _listed(settings.keys_file) if settings.keys_file else []
    keys: dict[str, str] = {}
    for name, key in found:
        if not ids.is_id(name):
            raise OpenDoorError(f"the name {name[:64]!r} of an API key {ids.RULES[ids.PATTERN]}")
        if not key:
            raise OpenDoorError(f"the API key {name!r} must not be empty")
        if name in keys or key in keys.values():
            raise OpenDoorError(f"the API key {name!r} is there twice: one name, one key")
        keys[name] = key
    return keys


def _single(settings: Api) -> str:
    if not settings.key_file:
        return settings.key.strip()
    key = _read(settings.key_file).strip()
    if not key:
        raise OpenDoorError(f"the key file {settings.key_file} is empty")
    return key


def _listed(file: str) -> list[tuple[str, str]]:
    """One `name key` per line; what begins with # is for people."""
    lines = [line.strip() for line in _read(file).splitlines()]
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    wrong = [number for number, pair in enumerate(pairs, 1) if len(pair) != PAIR]
    if wrong or not pairs:
        which = f"entry {wrong[0]} of " if wrong else ""
        raise OpenDoorError(f"{which}the file {file} is not a name and a key, with a space between")
    return [(name, key) for name, key in pairs]


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise OpenDoorError(f"the key file {file} cannot be read: {error.strerror}") from error


def roles_of(settings: Api, names: Collection[str]) -> dict[str, Role]:
    """Key name → role. A misspelt name would leave the key it is meant for with every right."""
    if strangers := sorted(settings.roles.keys() - names):
        raise OpenDoorError(f"api.roles names {strangers[0][:64]!r}, and there is no API key of that name")
    return {name: Role[role.upper()] for name, role in settings.roles.items()}


def check_address(host: str, keys: Mapping[str, str]) -> None:
    """Refuse to listen where strangers can come from while there is no key."""
    if not keys and not is_loopback(host):
        raise OpenDoorError(
            f"the API would be open to everyone at {host}: "
            "set DROIDHERD_API__KEY, api.key_file, api.keys or api.keys_file, or listen on 127.0.0.1"
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

    def __init__(self, app: ASGIApp, keys: Mapping[str, str], roles: Mapping[str, Role] = NO_ROLES) -> None:
        """Without any key only loopback is served. A key without a role may do everything."""
        self._app = app
        self._roles = roles
        self._digests = [(name, _digest(key.encode())) for name, key in keys.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the name of the key that was sent; or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = self._name(headers)
        problem = self._problem(scope, headers, name)
        if problem is None:
            scope["state"] = {**scope.get("state", {}), CALLER: name}
            await self._app(scope, receive, send)
        else:
            await response_of(problem)(scope, receive, send)

    def _name(self, headers: Headers) -> str:
        """Whose key was sent. All are looked at, so that the time it takes tells nothing."""
        given, found = _digest(_given(headers)), ""
        for name, digest in self._digests:
            found = name if hmac.compare_digest(digest, given) else found
        return found

    def _problem(self, scope: Scope, headers: Headers, name: str) -> ProblemError | None:
        if not self._digests:
            reason = _stranger(scope, headers)
            return ProblemError(Kind.FORBIDDEN, reason) if reason else None
        if scope["path"] in OPEN:
            return None
        if name:
            reason = refusal(self._roles, name, scope["method"], scope["path"])
            return ProblemError(Kind.NOT_ALLOWED, reason) if reason else None
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
