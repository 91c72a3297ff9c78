"""The server's connections: bounded in number, in time, and in what they may write into the log."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from droidherd.settings import Api

GRACE_S: Final = 5
"""Streams and waits that are open when the process ends are cut after this."""
KEEP_ALIVE_S: Final = 75
"""Longer than clients and proxies keep an idle connection (5 to 60 s), so that the server never closes first.

Otherwise a request now and then meets a connection that is just closing, and may or may not have been served.
"""
OTHER_FILES: Final = 256
"""Files that the process opens beside its connections."""
CONNECTIONS_MIN: Final = 16
TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_MANY_CHUNKS: Final = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 10\r\ncontent-length: 0\r\n\r\n"
PIECE_BYTES: Final = 4_096
"""Parsed at once. A read may hold a quarter of a megabyte: as chunks of one byte, a second of work."""
CHUNKING_BYTES: Final = 16_384
"""What a body's chunks may take beside its content, and a sixteenth of that content more."""
LOGGERS: Final = ("uvicorn.error", "asyncio", "droidherd.api")
"""What clients can make write: their requests choose how often."""

log = logging.getLogger("droidherd.api")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long a client may take."""

    connections: int = 512
    header_s: float = 10.0
    body_s: float = 30.0
    unread_s: float = 60.0

    @classmethod
    def of(cls, settings: Api) -> "ConnectionLimits":
        fitting = _fitting_open_files(settings.connections)
        return cls(fitting, settings.header_s, settings.body_s, settings.unread_s)


class LimitedProtocol(H11Protocol):
    """A connection that has to send its headers, then its body, then to read its answer, each within a time.

    When there are too many, the one that is missed least goes: first those that never sent a whole request.
    """

    HALF_OPEN, IDLE, SENDING, UNREAD, SERVED = range(5)
    """What it does, from what is missed least. What is being answered never goes."""

    def __init__(self, limits: ConnectionLimits, *args: Any, **kwargs: Any) -> None:
        """The rest is uvicorn's."""
        super().__init__(*args, **kwargs)
        self._limits = limits
        self.since_s = time.monotonic()
        self._deadline: asyncio.TimerHandle | None = None
        self._awaited = self.SERVED
        self._unread: asyncio.TimerHandle | None = None
        self._chunking = 0.0
        """Bytes of this body that were not its content, less what they may be."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._limits.connections:
            self._close_one()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self._take(data[start : start + PIECE_BYTES])
            if self._chunking > CHUNKING_BYTES:
                request = self._request
                self.close_with(b"" if request is None or request.response_complete else TOO_MANY_CHUNKS)
            if self.transport.is_closing():
                break
        self._watch()

    def _take(self, piece: bytes) -> None:
        """Parse it, and count what of it was no content. The first piece of a request is not counted."""
        request = self._request if self.activity == self.SENDING and self._is_chunked() else None
        before = len(request.body) if request is not None else 0
        super().data_received(piece)
        if request is None or request is not self._request:
            self._chunking = 0.0
            return
        content = len(request.body) - before
        self._chunking += len(piece) - content - content / 16

    def _is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.headers)

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread_s, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The last request; None: its headers have not come yet."""
        return cast("RequestResponseCycle | None", self.cycle)

    @property
    def activity(self) -> int:
        """What this connection does now."""
        request = self._request
        if request is None:
            return self.HALF_OPEN
        if self.conn.their_state is h11.SEND_BODY:
            return self.SENDING
        if not request.response_complete:
            return self.UNREAD if self.flow.write_paused else self.SERVED
        return self.HALF_OPEN if self.conn.trailing_data[0] else self.IDLE

    def close_with(self, answer: bytes) -> None:
        """Close it, with an answer unless one has begun."""
        self._stop_timers()
        if self.flow.write_paused:
            self.transport.abort()
        elif not self.transport.is_closing():
            request = self._request
            if request is None or request.response_complete or not request.response_started:
                self.transport.write(answer)
            self.transport.close()

    def _watch(self) -> None:
        """Begin a deadline when something else is awaited from the client than before."""
        activity = self.activity
        if activity == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = activity
        allowed_s = {self.HALF_OPEN: self._limits.header_s, self.SENDING: self._limits.body_s}.get(activity)
        if allowed_s is not None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(allowed_s, self._give_up)

    def _give_up(self) -> None:
        """It took too long. Who sent nothing has asked for nothing."""
        silent = self._request is None and not self.conn.trailing_data[0]
        self.close_with(b"" if silent else TOO_SLOW)

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        self._deadline = self._unread = None

    def _close_one(self) -> None:
        """Close the oldest of those that are missed least; this one, when all others are being answered."""
        others = [one for one in self.connections if isinstance(one, LimitedProtocol) and one is not self]
        victim = min(others, key=attrgetter("activity", "since_s"), default=self)
        (self if victim.activity == self.SERVED else victim).leave()

    def leave(self) -> None:
        """Make room for another connection."""
        self.connections.discard(self)
        self.close_with(FULL)


class FewOfEach(logging.Filter):
    """Lets a few lines of one kind pass in a minute, and then says how many it held back."""

    FEW: ClassVar[int] = 10
    WINDOW_S: ClassVar[float] = 60.0
    KINDS_MAX: ClassVar[int] = 500

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s` is a clock."""
        super().__init__()
        self._now_s = now_s
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        kind, now_s = (record.name, record.levelno, str(record.msg)[:80]), self._now_s()
        since_s, count = self._seen.get(kind, (now_s, 0))
        held_back = count - self.FEW
        if now_s - since_s >= self.WINDOW_S:
            since_s, count = now_s, 0
            if held_back > 0:
                record.msg = f"{record.msg} (and {held_back} more like this since the last one)"
        if len(self._seen) >= self.KINDS_MAX:
            self._seen.clear()
        self._seen[kind] = (since_s, count + 1)
        return count < self.FEW


def server_options(settings: Api) -> dict[str, Any]:
    """How uvicorn serves the API."""
    return {
        "host": settings.host,
        "port": settings.port,
        "http": partial(LimitedProtocol, ConnectionLimits.of(settings)),
        "ws": "none",
        "log_config": None,
        "access_log": False,
        # A proxy header may claim any address.
        "proxy_headers": False,
        "server_header": False,
        "timeout_keep_alive": KEEP_ALIVE_S,
    }


def serve(app: ASGIApp, settings: Api) -> int:
    """Serve until a signal comes. The exit code."""
    try:
        uvicorn.run(app, timeout_graceful_shutdown=GRACE_S, **server_options(settings))
    except SystemExit as ended:  # the port is taken, say
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def keep_logs_short() -> None:
    """Bound what clients can make this process log."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(FewOfEach())


def _fitting_open_files(connections: int) -> int:
    """So many connections as the process may have open files for. It asks for more files first."""
    if sys.platform == "win32":
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            fitting = max(CONNECTIONS_MIN, allowed - OTHER_FILES)
            log.warning("api.connections is %d, but %d open files allow only %d", connections, allowed, fitting)
            return fitting
    return connections
