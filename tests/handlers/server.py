"""A real HTTP server that serves what a test gives it, and misbehaves on request."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


@dataclass
class Site:
    address: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    asked: list[str] = field(default_factory=list[str])
    moved: dict[str, str] = field(default_factory=dict[str, str])
    says: dict[str, str] = field(default_factory=dict[str, str])
    """Headers of every answer."""
    stop: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"{self.address}{path}"


class Handler(BaseHTTPRequestHandler):
    """One connection; `site` is set on the server."""

    protocol_version = "HTTP/1.1"

    @property
    def site(self) -> Site:
        found = getattr(self.server, "site", None)
        assert isinstance(found, Site)
        return found

    def do_GET(self) -> None:
        self.site.asked.append(self.path)
        self.close_connection = True
        special = {"/silent": self._silent, "/broken": self._broken, "/endless": self._endless}
        if self.path.startswith("/status/"):
            self._answer(int(self.path.rpartition("/")[2]), b"no")
        elif self.path in special:
            special[self.path]()
        elif self.path in self.site.moved:
            self.send_response(302)
            self.send_header("location", self.site.moved[self.path])
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            found = self.site.files.get(self.path)
            self._answer(404 if found is None else 200, found or b"")

    def _head(self, status: int, size: int | None) -> None:
        self.send_response(status)
        if size is not None:
            self.send_header("content-length", str(size))
        for name, value in self.site.says.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, status: int, body: bytes) -> None:
        self._head(status, len(body))
        self.wfile.write(body)

    def _silent(self) -> None:
        self.site.stop.wait(20)

    def _broken(self) -> None:
        self._head(200, 1_000_000)
        self.wfile.write(b"x" * 1000)

    def _endless(self) -> None:
        self._head(200, None)
        try:
            while not self.site.stop.is_set():
                self.wfile.write(b"x" * 100_000)
        except OSError:
            return

    @override
    def log_message(self, format: str, *args: object) -> None:
        return


class Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site


@contextmanager
def serving() -> Generator[Site]:
    site = Site("")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.site = site
        site.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield site
        finally:
            site.stop.set()
            server.shutdown()
            thread.join(10)
