"""A small HTTP client: one request at a time, in constant memory, to origins that the settings allow."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx

from droidherd.domain.errors import (
    AddressRefusedError,
    BadParametersError,
    NoAnswerError,
    ServerBusyError,
    ServerRefusedError,
)

CONNECT_S, READ_S = 5.0, 8.0
"""Together less than a stage may be silent."""
REDIRECTS_MAX = 5
_LATER = frozenset({408, 425, 429})
_SERVER_ERRORS = 500


class PlainAnswer:
    """A good answer whose body is still on its way."""

    def __init__(self, response: httpx.Response) -> None:
        """Its head has come."""
        self._response = response
        length = response.headers.get("content-length", "")
        self.size: int | None = int(length) if length.isascii() and length.isdigit() else None

    def pieces(self) -> Iterator[bytes]:
        with _translated(self._response.url):
            yield from self._response.iter_raw()


class PlainWeb:
    """Implements `handlers.base.Web`. Nothing is tried again here: whether and when is the task's policy."""

    def __init__(self, allow: tuple[str, ...], read_s: float = READ_S) -> None:
        """`allow`: origins as in `https://files.example.com`; none: nobody is asked. `read_s`: silence of a server."""
        self._allow = frozenset(_origin(_parsed(text)) for text in allow)
        self._read_s = read_s

    @contextmanager
    def get(self, url: str) -> Generator[PlainAnswer]:
        """Ask, follow redirects inside the allow-list, hand out a good answer."""
        target = self._checked(url)
        limits = httpx.Timeout(self._read_s, connect=CONNECT_S)
        with httpx.Client(timeout=limits, trust_env=False, headers={"accept-encoding": "identity"}) as client:
            for _ in range(REDIRECTS_MAX + 1):
                with _translated(target):
                    response = client.send(client.build_request("GET", target), stream=True)
                try:
                    if not response.has_redirect_location:
                        _refuse_unless_good(response)
                        yield PlainAnswer(response)
                        return
                    target = self._checked(str(response.url.join(response.headers["location"])))
                finally:
                    response.close()
        raise ServerRefusedError(f"more than {REDIRECTS_MAX} redirects", to=_shown(target))

    def _checked(self, url: str) -> httpx.URL:
        parsed = _parsed(url)
        if _origin(parsed) not in self._allow:
            raise AddressRefusedError("is not in `web.allow`", to=_shown(parsed), remedy="add its origin there")
        return parsed


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise BadParametersError(f"not an address: {error}", to="url") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.userinfo:
        raise BadParametersError("an address is http:// or https:// and a host, without a user", to="url")
    return parsed


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]


def _shown(url: httpx.URL) -> str:
    """For people and logs: without the query, which may hold secrets."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"[:200]


def _refuse_unless_good(response: httpx.Response) -> None:
    status = response.status_code
    if response.is_success:
        return
    what = f"answered {status} {response.reason_phrase}".strip()
    if status in _LATER or status >= _SERVER_ERRORS:
        raise ServerBusyError(what, to=_shown(response.url))
    raise ServerRefusedError(what, to=_shown(response.url))


@contextmanager
def _translated(url: httpx.URL) -> Generator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise NoAnswerError(f"{type(error).__name__}: {error}".rstrip(": "), to=_shown(url)) from error
