"""The connections of a process: each is used by one thread at a time, and there are only so many.

httpx offers one client for many threads, but its pool may close a connection that another thread has just been given
(encode/httpcore#1110). So there is a client per connection here, and whoever has a request takes one of them for it.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx

from droidherd.domain.errors import NoAnswerError


class Pool:
    """Clients with one connection each, made when they are first needed."""

    def __init__(self, size: int, wait_s: float, make: Callable[[], httpx.Client]) -> None:
        """Who gets none within `wait_s` hears so."""
        self._size = size
        self._wait_s = wait_s
        self._make = make
        self._seats = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._free: list[tuple[str, httpx.Client]] = []
        """With the origin each was last connected to; the one used last stands last."""
        self._closed = False

    @contextmanager
    def taken(self, origin: str, to: str) -> Generator[httpx.Client]:
        """One of them, if possible one that is connected to this origin."""
        if not self._seats.acquire(timeout=self._wait_s):
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
            self._seats.release()

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
