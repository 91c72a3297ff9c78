"""A real HTTP server that behaves badly on demand; `python server.py` serves it as a process of its own."""

import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

BLOCK = bytes(range(256)) * 1024
STALL_S = 30.0


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.connections = self.open = self.most_open = 0
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.held = threading.Event()
        """`/held` answers when it is set."""

    def count(self, by: int) -> None:
        with self.lock:
            self.connections += by > 0
            self.open += by
            self.most_open = max(self.most_open, self.open)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are the point."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @override
    def setup(self) -> None:
        super().setup()
        self._of().count(1)

    @override
    def finish(self) -> None:
        self._of().count(-1)
        super().finish()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with self._of().lock:
            self._of().asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        plays: dict[str, Callable[[dict[str, str]], None]] = {
            "/bytes": self._bytes,
            "/status": self._status,
            "/to": self._redirect,
            "/stall": lambda _: time.sleep(STALL_S),
            "/cut": self._cut,
            "/drip": self._drip,
            "/packed": self._packed,
            "/held": self._hold,
            "/cookie": self._cookie,
        }
        plays[url.path](query)

    def _bytes(self, query: dict[str, str]) -> None:
        count = int(query["count"])
        self._head(200, {"Content-Length": str(count)})
        while count > 0:
            self.wfile.write(BLOCK[:count])
            count -= len(BLOCK)

    def _status(self, query: dict[str, str]) -> None:
        more = {"Retry-After": query["after"]} if "after" in query else {}
        self._head(int(query["code"]), {"Content-Length": "0", **more})

    def _redirect(self, query: dict[str, str]) -> None:
        self._head(302, {"Content-Length": "0", "Location": query["url"]})

    def _cut(self, _: dict[str, str]) -> None:
        self._head(200, {"Content-Length": "1000"})
        self.wfile.write(b"x" * 500)
        self.close_connection = True

    def _drip(self, _: dict[str, str]) -> None:
        """For as long as somebody listens."""
        self._head(200, {"Content-Length": "1000000"})
        for _number in range(1_000_000):
            self.wfile.write(b"x")
            time.sleep(0.01)

    def _packed(self, _: dict[str, str]) -> None:
        self._head(200, {"Content-Length": "2", "Content-Encoding": "gzip"})
        self.wfile.write(b"xx")

    def _hold(self, _: dict[str, str]) -> None:
        self._of().held.wait(STALL_S)
        self._bytes({"count": "1"})

    def _cookie(self, _: dict[str, str]) -> None:
        self._head(200, {"Content-Length": "0", "Set-Cookie": "who=me; Path=/"})

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _of(self) -> Server:
        return cast("Server", self.server)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Generator[tuple[str, Server]]:
    with Server() as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", server
        finally:
            server.held.set()
            server.shutdown()
            thread.join(timeout=10)


if __name__ == "__main__":
    with Server() as alone:
        sys.stdout.write(json.dumps({"port": alone.server_port, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        alone.serve_forever()
