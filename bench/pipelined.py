"""What a hundred requests on one connection cost the API and its other clients: memory and latency.

.venv/bin/python -m bench.pipelined http://127.0.0.1:8800 --pid PID_OF_THE_API

The client asks for the largest page that needs no key, `/openapi.json`, a hundred times in one go, and reads nothing at
first, then everything. Nothing here judges: run it on a machine that does nothing else.
"""

import argparse
import socket
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import psutil

REQUESTS = 100
SILENT_S = 5.0
"""How long the client does not read."""


def _latencies_ms(url: str, seconds: float, also: Callable[[], bool]) -> list[float]:
    """Of another client, asking one request after the other."""
    found: list[float] = []
    until = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        while also() and time.monotonic() < until:
            began = time.perf_counter()
            http.get("/healthz").raise_for_status()
            found.append(1_000 * (time.perf_counter() - began))
    return found


def _line(name: str, latencies: list[float], process: psutil.Process) -> str:
    ordered = sorted(latencies)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    return (
        f"{name}: {process.memory_info().rss / 1e6:.1f} MB; another client: {len(ordered)} requests, "
        f"median {statistics.median(ordered):.1f} ms, p99 {p99:.1f} ms, longest {ordered[-1]:.1f} ms"
    )


def main() -> None:
    """Print three lines: before, while the client does not read, while it reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    chosen = parser.parse_args()
    process, address = psutil.Process(chosen.pid), urlsplit(chosen.url)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    print(_line("before", _latencies_ms(chosen.url, 2, lambda: True), process))
    one = f"GET /openapi.json HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(one * REQUESTS)
        print(_line("unread", _latencies_ms(chosen.url, SILENT_S, lambda: True), process))
        connection.setblocking(False)
        answers, size = 0, 0

        def read_on() -> bool:
            nonlocal answers, size
            try:
                while part := connection.recv(1 << 20):
                    answers += part.count(b"HTTP/1.1 200")
                    size += len(part)
            except BlockingIOError:
                return answers < REQUESTS
            return False

        print(_line("read", _latencies_ms(chosen.url, 60, read_on) or [0.0], process))
    print(f"{answers} answers, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
