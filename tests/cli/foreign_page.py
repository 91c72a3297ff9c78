"""A web page of somebody else: a browser of this machine sends its requests to any port, under the page's name."""

import json
import socket
from collections.abc import Iterable, Iterator

import psutil

from droidherd.processes.pidfile import PidFile

HOST = "page.example"
PATHS = ("/", "/metrics", "/docs", "/api/v1/namespaces", "/namespaces", "/cluster", "/api/tasks", "/debug/pprof/")
FINDABLE = ("127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - addresses that are looked for
"""Where a page looks for servers of this machine. Of the rest of 127.0.0.0/8 it can try a few addresses a second."""
ORDER = {"op": "kill", "emulator": "virtual-1"}
"""What the side channel of virtual emulators obeys."""
ANSWER_S = 1.0


def ports_of(family: Iterable[PidFile]) -> Iterator[tuple[str, int]]:
    """Where these processes listen: address and port."""
    for one in family:
        for connection in psutil.Process(one.pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip, connection.laddr.port


def visit(address: str, port: int, path: str) -> tuple[int, bytes]:
    """Status and content of a GET; 0: whoever listens there speaks no HTTP."""
    answer = _send(address, port, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    head, _, content = answer.partition(b"\r\n\r\n")
    words = head.split()
    return (int(words[1]), content) if answer.startswith(b"HTTP/1") and len(words) > 1 else (0, answer)


def post_order(address: str, port: int) -> None:
    """A form can be posted anywhere, and its content chosen line by line."""
    body = "\n" + json.dumps(ORDER) + "\n"
    head = f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    _send(address, port, (head + body).encode())


def _send(address: str, port: int, content: bytes) -> bytes:
    found = b""
    try:
        with socket.create_connection((address, port), timeout=ANSWER_S) as connection:
            connection.sendall(content)
            while part := connection.recv(65_536):
                found += part
    except OSError:
        return found
    return found
