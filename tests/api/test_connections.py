"""Clients that send half a request, or too many of them, or read nothing: others are served all the same."""

import logging
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from api.connections import FewOfEach
from tests.api.test_main import environment
from tests.api.waiting import eventually
from tests.support.adbserver import free_port

CONNECTIONS = 32
HALF = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-half: "


class Serving:
    """`python -m api` without an engine."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.port, self.log = free_port(), folder / "api.log"
        settings = {"TEMPORAL__ADDRESS": "127.0.0.1:9", "API__PORT": str(self.port), **more}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "api"],
                env=environment(**{f"DROIDHERD_{name}": value for name, value in settings.items()}),
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        eventually(self.answers)

    def answers(self) -> bool:
        """To a client that comes now."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def connect(self, *sent: bytes) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", self.port), 10)
        for piece in sent:
            line.sendall(piece)
        return line


@contextmanager
def serving(folder: Path, **more: str) -> Generator[Serving]:
    api = Serving(folder, **more)
    try:
        yield api
    finally:
        api.process.terminate()
        api.process.wait(30)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    limits = {"API__CONNECTIONS": str(CONNECTIONS), "API__HEADER_S": "1", "API__BODY_S": "1", "API__UNREAD_S": "1"}
    with serving(tmp_path_factory.mktemp("connections"), **limits) as one:
        yield one


def received(line: socket.socket) -> bytes:
    """Everything until the server closes."""
    line.settimeout(20)
    found = b""
    try:
        while piece := line.recv(65_536):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "sent",
    [
        HALF,
        b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + HALF,
    ],
    ids=["headers", "body", "second request"],
)
def test_who_does_not_finish_a_request_gets_408_and_is_cut(api: Serving, sent: bytes):
    with api.connect(sent) as line:
        assert b"HTTP/1.1 408 " in received(line)


def test_who_says_nothing_at_all_is_cut(api: Serving):
    with api.connect() as line:
        assert b"" == received(line)


POST = (
    b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
)


def test_a_body_that_is_mostly_chunk_sizes_is_cut(api: Serving):
    """Each chunk costs as much as thousand bytes of another."""
    with api.connect(POST) as line:
        with suppress(ConnectionError):
            line.sendall(b"1\r\n \r\n" * 20_000)
        assert b"HTTP/1.1 400 " in received(line)
    assert api.answers()


def test_a_body_that_comes_after_its_answer_gets_no_second_one(tmp_path: Path):
    with serving(tmp_path, API__KEYS='{"ann": "k' + "1" * 30 + '"}') as api:
        head = b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500000\r\n\r\n"
        with api.connect(head) as line:
            line.settimeout(20)
            answers = line.recv(65_536)
            with suppress(ConnectionError):
                line.sendall(b" " * 500_000)
                line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answers += received(line)
    assert (1, 0) == (answers.count(b"HTTP/1.1 401 "), answers.count(b"HTTP/1.1 400 "))


def test_a_body_in_small_chunks_is_read(api: Serving):
    with api.connect(POST + (b"100\r\n" + b" " * 256 + b"\r\n") * 3_000 + b"0\r\n\r\n") as line:
        line.settimeout(20)
        assert b"application/problem+json" in line.recv(65_536), "the application has read it"


def test_with_more_half_open_connections_than_there_may_be_others_are_served(tmp_path: Path):
    with serving(tmp_path, API__CONNECTIONS=str(CONNECTIONS)) as api, ExitStack() as stack:
        for _ in range(10 * CONNECTIONS):
            stack.enter_context(api.connect(HALF))
        assert api.answers()
        kept = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{api.port}"))
        assert 200 == kept.get("/healthz").status_code
        for _ in range(10 * CONNECTIONS):
            stack.enter_context(api.connect(HALF))
        assert api.answers()
        assert 20_000 > api.log.stat().st_size


def test_a_connection_that_was_served_stays_when_half_open_ones_come(api: Serving):
    with httpx.Client(base_url=f"http://127.0.0.1:{api.port}") as kept, ExitStack() as stack:
        first = kept.get("/healthz").extensions["network_stream"].get_extra_info("client_addr")
        for _ in range(2 * CONNECTIONS):
            stack.enter_context(api.connect(HALF))
        again = kept.get("/healthz")
        assert first == again.extensions["network_stream"].get_extra_info("client_addr")


def test_rubbish_and_broken_requests_write_a_few_lines(api: Serving):
    for _ in range(200):
        with api.connect(b"\x16\x03\x01 rubbish\r\n\r\n"):
            pass
        with api.connect(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"):
            pass
    assert api.answers()
    assert 50_000 > api.log.stat().st_size
    assert "Traceback" not in api.log.read_text()


def test_a_line_of_a_kind_is_written_a_few_times_and_then_counted():
    clock = [0.0]
    few = FewOfEach(lambda: clock[0])

    def passes(message: str) -> str:
        record = logging.LogRecord("api", logging.WARNING, "", 0, message, (), None)
        return str(record.msg) if few.filter(record) else ""

    assert FewOfEach.FEW == sum(bool(passes("again")) for _ in range(25))
    assert "another" == passes("another")
    clock[0] = FewOfEach.WINDOW_S
    assert "again (and 15 more like this since the last one)" == passes("again")
    assert "again" == passes("again")


def test_it_serves_no_more_than_there_may_be_open_files(tmp_path: Path):
    program = """
import resource
from api.connections import ConnectionLimits
from droidherd.settings import Api

resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
print(ConnectionLimits.of(Api(connections=5000)).connections)
"""
    process = [sys.executable, "-c", program]
    done = subprocess.run(
        process, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "44" == done.stdout.strip()
