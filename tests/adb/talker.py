"""A server that says what a test tells it to, for what no real adb server can be made to say."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from droidherd.adb.shell import HEADER

TRANSPORT = b"host:transport:"
WAIT_S = 60.0
DEADLINES_S = (0.15, 1.5, 5.0, 25.0)
"""Of a call that nothing else ends; a longer one where the machine was too busy for it to get so far."""


@dataclass
class Talk:
    """One connection."""

    sock: socket.socket
    stop: threading.Event

    def hear(self) -> bytes:
        size = int(self._exactly(4), 16)
        return self._exactly(size)

    def say(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def transport(self) -> None:
        assert self.hear().startswith(TRANSPORT)
        self.say(b"OKAY")

    def service(self) -> bytes:
        self.transport()
        asked = self.hear()
        self.say(b"OKAY")
        return asked

    def silence(self) -> None:
        """Until the client leaves, or the test ends."""
        with contextlib.suppress(OSError):
            self.sock.settimeout(WAIT_S)
            while not self.stop.is_set() and self.sock.recv(4096):
                pass

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise ConnectionError("the client left")
            data += more
        return data


@dataclass
class Talker:
    port: int
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextlib.contextmanager
def talking(script: Callable[[Talk], object]) -> Generator[Talker]:
    """Serve each connection with `script` on a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    talker = Talker(listener.getsockname()[1])
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def serve(sock: socket.socket) -> None:
        with talker.lock:
            talker.connections += 1
            talker.at_once += 1
            talker.most_at_once = max(talker.most_at_once, talker.at_once)
        with sock:
            with contextlib.suppress(ConnectionError):
                sock.settimeout(WAIT_S)
                script(Talk(sock, stop))
            with talker.lock:  # before the client sees the end: somebody else connects then
                talker.at_once -= 1

    def accept() -> None:
        while not stop.is_set():
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(sock,))
            thread.start()
            threads.append(thread)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield talker
    finally:
        stop.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)


def frame(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def exit_frame(rc: int = 0) -> bytes:
    return frame(3, bytes([rc]))


def frames(pieces: Sequence[bytes], rc: int = 0) -> bytes:
    return b"".join(frame(1, piece) for piece in pieces) + exit_frame(rc)
