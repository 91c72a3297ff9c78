"""The HTTP client of a process: one pool of connections, bounded in every way, its errors with a verdict.

Nothing is tried again here: whether and when is the task's policy. Proxies, cookies and passwords of the environment
are not used, so that what a task may reach stands in the settings alone.
"""

import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Self

import httpx

from droidherd import __version__
from droidherd.domain.errors import (
    AddressRefusedError,
    BadParametersError,
    DroidherdError,
    FinalError,
    NoAnswerError,
    ServerBusyError,
    ServerRefusedError,
)
from droidherd.settings import WebSettings
from droidherd.web.allow import AllowedOrigin, AllowList, without_query

_LATER = frozenset({408, 425, 429})
_SERVER_ERRORS = 500
_LOCATION = "droidherd.location"


@dataclass(frozen=True, slots=True)
class WebLimits:
    """How much at once, and how long."""

    connections: int = 16
    connect_s: float = 3.0
    read_s: float = 8.0
    """Silence of a server."""
    wait_s: float = 3.0
    """For a connection, while all of them are in use."""
    redirects: int = 5
    total_s: float = 1800.0
    """For a whole answer, however steadily it drips."""


class ConnectionPool:
    """Clients with one connection each, made when they are first needed. Each is used by one thread at a time.

    httpx offers one client for many threads, but its pool may close a connection that another thread has just been
    given (encode/httpcore#1110).
    """

    def __init__(self, size: int, wait_s: float, make: Callable[[], httpx.Client]) -> None:
        """NoAnswerError when none is free within `wait_s`."""
        self._size = size
        self._wait_s = wait_s
        self._make = make
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._free: list[tuple[str, httpx.Client]] = []
        """With the origin each was last connected to; the one used last stands last."""
        self._closed = False

    @contextmanager
    def take(self, origin: str, to: str) -> Generator[httpx.Client]:
        """One of them, if possible one that is connected to this origin."""
        if not self._slots.acquire(timeout=self._wait_s):
            raise NoAnswerError(
                f"all {self._size} connections were in use for {self._wait_s:g} s",
                to=to,
                remedy="see `web.connections`",
            )
        try:
            client = self._pick(origin)
            try:
                yield client
            finally:
                self._put_back(origin, client)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Those in use are closed by who uses them."""
        with self._lock:
            self._closed, free, self._free = True, self._free, []
        for _, client in free:
            client.close()

    def _pick(self, origin: str) -> httpx.Client:
        with self._lock:
            best = next((one for one in reversed(self._free) if one[0] == origin), None)
            if best is None and self._free:
                best = self._free[0]
            if best is not None:
                self._free.remove(best)
                return best[1]
        return self._make()

    def _put_back(self, origin: str, client: httpx.Client) -> None:
        with self._lock:
            if not self._closed:
                self._free.append((origin, client))
                return
        client.close()


class StreamedResponse:
    """A good answer whose body is still on its way."""

    def __init__(self, response: httpx.Response, until_s: float) -> None:
        """`until_s` is on the monotonic clock."""
        self._response = response
        self._until_s = until_s
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        length = response.headers.get("content-length", "")
        self.size: int | None = int(length) if length.isascii() and length.isdigit() else None
        """As the server announced it."""

    def pieces(self) -> Iterator[bytes]:
        """The body, once, in constant memory. Ends only when all of it came."""
        with _translate_errors(self._response.url):
            # As it arrives: asked for pieces of a size, the client would wait for more than is there.
            for piece in self._response.iter_raw():
                if time.monotonic() > self._until_s:
                    raise NoAnswerError("the answer took too long as a whole", to=without_query(self._response.url))
                yield piece


class WebClient:
    """Safe for many threads. Close it when the process ends."""

    def __init__(self, allow: AllowList, limits: WebLimits | None = None, *, ca_file: str = "") -> None:
        """`ca_file`: whom to trust beside the well-known authorities."""
        self._allow = allow
        self.limits = chosen = limits or WebLimits()
        context = ssl.create_default_context()
        if ca_file:
            context.load_verify_locations(ca_file)

        def make() -> httpx.Client:
            return httpx.Client(
                verify=context,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
                timeout=httpx.Timeout(chosen.read_s, connect=chosen.connect_s),
                follow_redirects=False,
                trust_env=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                # A few bytes can unpack to gigabytes: what is asked for comes as it is.
                headers={"accept-encoding": "identity", "user-agent": f"droidherd/{__version__}"},
                event_hooks={"response": [_take_location]},
            )

        self._pool = ConnectionPool(chosen.connections, chosen.wait_s, make)

    @classmethod
    def of(cls, settings: WebSettings) -> Self:
        limits = WebLimits(
            settings.connections, settings.connect_s, settings.read_s, settings.wait_s, settings.redirects
        )
        return cls(AllowList.of(settings.allow), limits, ca_file=settings.ca_file)

    @contextmanager
    def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, total_s: float | None = None
    ) -> Generator[StreamedResponse]:
        """Ask, follow redirects inside the allow-list, hand out a good answer. `headers` go to this origin alone."""
        until_s = time.monotonic() + (self.limits.total_s if total_s is None else total_s)
        target = self._allow.check(url)
        first = _origin(target)
        for _ in range(self.limits.redirects + 1):
            own = dict(headers or {}) if _origin(target) == first else {}
            with self._open_response(target, own) as response:
                if _LOCATION not in response.extensions:
                    _refuse_unless_good(response)
                    yield StreamedResponse(response, until_s)
                    return
                target = self._next(response)
        raise ServerRefusedError(f"more than {self.limits.redirects} redirects", to=without_query(target))

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _open_response(self, url: httpx.URL, headers: Mapping[str, str]) -> Generator[httpx.Response]:
        with self._pool.take(f"{url.scheme}://{url.netloc.decode('ascii')}", without_query(url)) as http:
            with _translate_errors(url):
                response = http.send(http.build_request("GET", url, headers=headers), stream=True)
            try:
                yield response
            finally:
                response.close()

    def _next(self, response: httpx.Response) -> httpx.URL:
        """Where a redirect leads. Out of the allow-list it leads nowhere."""
        came_from = without_query(response.url)
        try:
            return self._allow.check(str(response.url.join(response.extensions[_LOCATION])))
        except (httpx.InvalidURL, ValueError) as error:
            raise ServerRefusedError("its redirect is not an address", to=came_from) from error
        except (AddressRefusedError, BadParametersError) as error:
            raise AddressRefusedError(f"redirects to where it may not: {error}", to=came_from) from error


def _take_location(response: httpx.Response) -> None:
    """Keep a redirect's address from httpx, which reads it even where it follows none, and raises what it likes."""
    if response.has_redirect_location:
        response.extensions[_LOCATION] = response.headers.pop("location")


def trouble(status: int) -> type[DroidherdError]:
    """What an answer that is not a good one means."""
    return ServerBusyError if status in _LATER or status >= _SERVER_ERRORS else ServerRefusedError


def _trouble(response: httpx.Response, what: str, to: str) -> DroidherdError:
    if trouble(response.status_code) is not ServerBusyError:
        return ServerRefusedError(what, to=to)
    header = response.headers.get("retry-after", "")[:40]
    asks_s = patience_s(header, response.headers.get("date", ""), time.time())
    return ServerBusyError(what, after_s=asks_s, to=to, remedy=f"it says: not before {header}" if header else "")


def _refuse_unless_good(response: httpx.Response) -> None:
    status, to = response.status_code, without_query(response.url)
    if not response.is_success:
        raise _trouble(response, f"answered {status} {response.reason_phrase}".strip(), to)
    packed = response.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise ServerRefusedError(f"sends its answer packed as {packed[:40]}, though it was asked not to", to=to)


@contextmanager
def _translate_errors(url: httpx.URL) -> Generator[None]:
    """What the client says, in our words."""
    to = without_query(url)
    try:
        yield
    except httpx.TimeoutException as error:
        raise NoAnswerError(f"no answer in time ({type(error).__name__})", to=to) from error
    except httpx.LocalProtocolError as error:
        raise BadParametersError(f"not a request that can be sent: {error}", to=to) from error
    except httpx.TransportError as error:
        if _is_untrusted(error):
            raise FinalError(f"its certificate is not trusted: {error}", to=to, remedy="see `web.ca_file`") from error
        raise NoAnswerError(f"the connection failed: {error or type(error).__name__}", to=to) from error


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _origin(url: httpx.URL) -> AllowedOrigin:
    return AllowedOrigin(url.scheme, url.host, url.port or 0)


def patience_s(retry_after: str, date: str, now_s: float) -> float:
    """How long a busy server asks to be left alone: `Retry-After` in seconds or as a moment; 0 when it is unreadable.

    A moment is of the server's own clock, which its `Date` tells; without one it is taken for ours.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    moment = _moment(text)
    if moment is None:
        return 0.0
    now = _moment(date) or datetime.fromtimestamp(now_s, UTC)
    return max((moment - now).total_seconds(), 0.0)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
