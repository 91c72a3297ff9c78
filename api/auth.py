"""Who may use the API: holders of a key, by its name and role; without any key, this machine alone."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Kind, ProblemError, response_of
from droidherd.domain import ids
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular
from droidherd.settings import Api, Settings

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ADMINISTERING: Final = (
    ("PUT", "/api/accounts/"),
    ("DELETE", "/api/accounts/"),
    ("POST", "/api/maintenance/"),
    ("POST", "/codec/"),
)
"""What decides whom tasks act for and with which credentials, deletes for good, or decrypts."""
CODEC: Final = "/codec/decode"
PREFLIGHT: Final = {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "authorization, content-type, x-api-key, x-namespace",
    "access-control-max-age": "600",
}
OPEN = frozenset(
    {"/healthz", "/readyz", "/", "/openapi.json", "/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"}
)
"""Routes for supervisors and browsers, which have no key. None of them says anything of the pool."""
SINGLE = "api"
"""The name of the key in the setting `api.key`."""
CALLER = "caller"
"""Where a request's state holds the name of its key."""
OPERATES: Final = "operates"
"""Whether the key of a request may do more than read."""
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?", re.ASCII)
PAIR = 2


class Role(IntEnum):
    """What a key may do: read; work with tasks and emulators; everything. Each role includes the ones before it."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


NO_ROLES: Mapping[str, Role] = MappingProxyType({})


class UnsafeSettingsError(Exception):
    """The settings of the API are unsafe or wrong."""


def keys_of(settings: Api) -> dict[str, str]:
    """Name → API key, from the settings and their files. Empty: there is no key."""
    found = [(SINGLE, key)] if (key := _single(settings)) else []
    found += [(name, key.strip()) for name, key in settings.keys.items()]
    found += _parse_keys(settings.keys_file) if settings.keys_file else []
    keys: dict[str, str] = {}
    for name, key in found:
        if not ids.is_id(name):
            raise UnsafeSettingsError(f"the name {name[:64]!r} of an API key {ids.RULES[ids.PATTERN]}")
        if not key:
            raise UnsafeSettingsError(f"the API key {name!r} must not be empty")
        if name in keys or key in keys.values():
            raise UnsafeSettingsError(f"the API key {name!r} is there twice: one name, one key")
        keys[name] = key
    return keys


def _single(settings: Api) -> str:
    if not settings.key_file:
        return settings.key.strip()
    key = _read(settings.key_file).strip()
    if not key:
        raise UnsafeSettingsError(f"the key file {settings.key_file} is empty")
    return key


def _parse_keys(file: str) -> list[tuple[str, str]]:
    """One `name key` per line; lines that begin with # are comments."""
    lines = [line.strip() for line in _read(file).splitlines()]
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    wrong = [number for number, pair in enumerate(pairs, 1) if len(pair) != PAIR]
    if wrong or not pairs:
        which = f"entry {wrong[0]} of " if wrong else ""
        raise UnsafeSettingsError(f"{which}the file {file} must be a name and a key, with a space between")
    return [(name, key) for name, key in pairs]


def _read(file: str) -> str:
    try:
        return read_regular(Path(file), TEXT_BYTES_MAX).decode()
    except OSError as error:
        raise UnsafeSettingsError(f"the key file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnsafeSettingsError(f"the key file {file} is not UTF-8") from error


def roles_of(settings: Api, names: Collection[str]) -> dict[str, Role]:
    """Key name → role. Unknown names are refused: a misspelt one would leave its key with every right."""
    if strangers := sorted(settings.roles.keys() - names):
        raise UnsafeSettingsError(f"api.roles names {strangers[0][:64]!r}, but there is no API key of that name")
    return {name: Role[role.upper()] for name, role in settings.roles.items()}


def check_address(host: str, keys: Mapping[str, str]) -> None:
    """Refuse to listen on anything but loopback without a key."""
    if not keys and not is_loopback(host):
        raise UnsafeSettingsError(
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


def web_uis_of(settings: Settings) -> frozenset[str]:
    """The origins of Temporal Web UIs whose pages may use the codec endpoint: our own, and those that were named."""
    own = {f"http://{host}:{settings.temporal.ui_port}" for host in ("127.0.0.1", "localhost")}
    return frozenset({*settings.encryption.origins, *(own if settings.temporal.ui else ())})


class Guard:
    """ASGI middleware. Judges the connection itself, never what a proxy claims."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Mapping[str, str],
        roles: Mapping[str, Role] = NO_ROLES,
        web_uis: frozenset[str] = frozenset(),
    ) -> None:
        """Without any key only loopback is served. A key without a role may do everything.

        Pages of `web_uis` may use the codec endpoint and nothing else.
        """
        self._app = app
        self._roles = roles
        self._web_uis = web_uis
        self._digests = [(name, _digest(key.encode())) for name, key in keys.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the name of its key, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = self._name(headers)
        web_ui = self._web_ui(scope, headers)
        send = _readable_for(web_ui, send) if web_ui else send
        problem = self._problem(scope, headers, name, web_ui)
        if web_ui and scope["method"] == "OPTIONS" and (problem is None or self._digests):
            # The browser asks before it posts, and sends no key with that.
            await Response(status_code=204, headers=dict(PREFLIGHT))(scope, receive, send)
        elif problem is None:
            operates = not self._digests or self._roles.get(name, Role.ADMIN) >= Role.OPERATOR
            scope["state"] = {**scope.get("state", {}), CALLER: name, OPERATES: operates}
            await self._app(scope, receive, send)
        else:
            await response_of(problem)(scope, receive, send)

    def _web_ui(self, scope: Scope, headers: Headers) -> str:
        """The origin of a Web UI that asks the codec endpoint; empty: it is something else."""
        origins = headers.getlist("origin")
        known = scope["path"] == CODEC and len(origins) == 1 and origins[0] in self._web_uis
        return origins[0] if known else ""

    def _name(self, headers: Headers) -> str:
        """The name of the key that was sent. All keys are compared, so that the time reveals nothing."""
        given, found = _digest(_sent_key(headers)), ""
        for name, digest in self._digests:
            found = name if hmac.compare_digest(digest, given) else found
        return found

    def _problem(self, scope: Scope, headers: Headers, name: str, web_ui: str) -> ProblemError | None:
        if not self._digests:
            reason = _foreign(scope, headers, web_ui)
            return ProblemError(Kind.FORBIDDEN, reason) if reason else None
        if scope["path"] in OPEN:
            return None
        if name:
            reason = refusal(self._roles, name, scope["method"], scope["path"])
            return ProblemError(Kind.NOT_ALLOWED, reason) if reason else None
        return ProblemError(Kind.UNAUTHORIZED, "send it as `Authorization: Bearer <key>` or as `X-API-Key: <key>`")


def refusal(roles: Mapping[str, Role], name: str, method: str, path: str) -> str:
    """Empty, or why this key is not enough."""
    needed, role = _required_role(method, path), roles.get(name, Role.ADMIN)
    if role >= needed:
        return ""
    return f"the key {name!r} has the role {role.name.lower()}; this needs the role {needed.name.lower()}"


def _required_role(method: str, path: str) -> Role:
    if method in READING:
        return Role.VIEWER
    administers = any(method == verb and path.startswith(prefix) for verb, prefix in ADMINISTERING)
    return Role.ADMIN if administers else Role.OPERATOR


def _readable_for(origin: str, send: Send) -> Send:
    """Let a page of this origin read the answer."""

    async def allowed(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return allowed


def _sent_key(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return key.encode("utf-8", "surrogatepass") if key.isascii() else key.encode("latin-1", "replace")


def _digest(key: bytes) -> bytes:
    """Of equal length whatever the key, so that the comparison reveals nothing."""
    return hashlib.sha256(key).digest()


def _foreign(scope: Scope, headers: Headers, web_ui: str = "") -> str:
    """Empty, or why this request may come from another machine, even if it came over loopback.

    A page of `web_ui` may ask, although it is of another origin.
    """
    client = scope.get("client")
    if client is not None and not is_loopback(str(client[0])):
        return "the request comes from another machine: set an API key"
    if "forwarded" in headers or "x-forwarded-for" in headers:
        return "the request came through a proxy: set an API key"
    # A foreign web page may resolve its own name to this machine, or post to it.
    if len(headers.getlist("host")) != 1 or not is_loopback(_host(headers["host"])):
        return "the Host header names another machine"
    ours = f"{scope.get('scheme', 'http')}://{headers['host']}".lower()
    if any(origin.lower() not in (ours, web_ui) for origin in headers.getlist("origin")):
        return "a web page of another origin sent this"
    if not web_ui and not _is_ours_or_opened_by_a_person(scope["method"], headers):
        return "a web page of another site sent this"
    return ""


def _is_ours_or_opened_by_a_person(method: str, headers: Headers) -> bool:
    """What the browser says of the page that sent this. Programs, and browsers before 2023, say nothing.

    A link on any page may lead here: the page that it opens is not readable for the page with the link.
    """
    if headers.get("sec-fetch-site", "none") in {"none", "same-origin"}:
        return True
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return opened and method in READING


def _host(header: str) -> str:
    """The name or address in a Host header; empty: it is none. Nothing stands beside it but a port."""
    found = _HOST.fullmatch(header)
    return found[1] if found else ""
