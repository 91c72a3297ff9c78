"""A device that misbehaves, behind the real adb server: it passes everything on to a virtual emulator but one step."""

import contextlib
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from droidherd.virtual.wire import AUTH, CLSE, CNXN, OKAY, OPEN, VERSION, WRTE

HEADER = struct.Struct("<6I")
OURS = 1 << 30
"""Streams that this device serves itself have an id from here on; those of the emulator are far below."""
PIECE = 48 << 10
SLOW_S = 0.1
"""Between two bytes: whoever waits for them with a deadline sees no difference to a whole second."""
ENDLESS = 1 << 15
"""Pieces: more than any limit of ours, and no more than the disk and the memory of this machine bear."""
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e".encode()
WAIT_S = 60.0

Send: TypeAlias = Callable[[bytes], object]


def packet(command: int, arg0: int, arg1: int, payload: bytes = b"", *, length: int = -1) -> bytes:
    """As it goes over the wire; `length` lies about the payload's."""
    size = len(payload) if length < 0 else length
    return HEADER.pack(command, arg0, arg1, size, 0, command ^ 0xFFFF_FFFF) + payload


def frame(kind: int, payload: bytes, *, length: int = -1) -> bytes:
    """Of `shell,v2`."""
    return struct.pack("<BI", kind, len(payload) if length < 0 else length) + payload


def rubbish(size: int = 4096) -> bytes:
    """The same each time, with terminal escapes in it."""
    return ESCAPES + random.Random(7).randbytes(size)


@dataclass(frozen=True)
class Step:
    """Where it misbehaves: at the greeting, or in what a service answers."""

    name: str
    service: str
    """A pattern of the service that is opened; of the protocol itself: `greeting`, `auth`, `open`, `packet`."""
    before: bytes = b""
    """What it says properly first."""
    huge: bytes = b""
    """Something whose length is a lie."""
    more: bytes = b""
    """What it repeats without end."""
    last: bytes = b""
    """Behind rubbish and before the end: so that the rubbish is a complete answer."""
    wrap: Callable[[bytes], bytes] = bytes
    """Rubbish as this step would carry it."""


def nothing(step: Step, send: Send) -> bool:
    send(step.before)
    return False


def closes(step: Step, send: Send) -> bool:
    send(step.before)
    return True


def garbage(step: Step, send: Send) -> bool:
    send(step.before + step.wrap(rubbish()) + step.last)
    return True


def huge(step: Step, send: Send) -> bool:
    send(step.before + step.huge + rubbish(64))
    return False


def endless(step: Step, send: Send) -> bool:
    send(step.before)
    for _ in range(ENDLESS):
        send(step.more)
    return False


def slowly(step: Step, send: Send) -> bool:
    for byte in step.before + (step.more or step.huge)[:4096]:
        send(bytes([byte]))
        _pause(SLOW_S)
    return False


MANNERS: dict[str, Callable[[Step, Send], bool]] = {
    "nothing": nothing, "closes": closes, "garbage": garbage, "huge": huge, "endless": endless, "slowly": slowly,
}  # fmt: skip
"""Each returns whether it closes at its end; else it stays silent."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class GoneError(Exception):
    """The adb server closed this stream, or its connection."""


@dataclass
class OwnStream:
    """A service that this device serves itself."""

    session: "Session"
    own_id: int
    peer_id: int
    ready: threading.Event = field(default_factory=threading.Event)
    closed: bool = False

    def send(self, data: bytes) -> None:
        """As packets, each when the one before was acknowledged; rudely, without waiting."""
        for at in range(0, len(data), PIECE):
            if not self.session.device.rude:
                self.ready.wait(WAIT_S)
                self.ready.clear()
            if self.closed or self.session.over:
                raise GoneError
            self.session.to_host(packet(WRTE, self.own_id, self.peer_id, data[at : at + PIECE]))

    def wait_closed(self) -> None:
        while not (self.closed or self.session.over or self.session.device.over):
            _pause(0.02)


class Session:
    """One connection of the adb server, and one to the emulator behind."""

    def __init__(self, device: "HostileDevice", host: socket.socket) -> None:
        self.device = device
        self.over = False
        self._host = host
        self._behind = socket.create_connection(("127.0.0.1", device.behind), 10)
        self._lock = threading.Lock()
        self._streams: dict[int, OwnStream] = {}

    def run(self) -> None:
        back = threading.Thread(target=self._pass_back, daemon=True)
        back.start()
        try:
            while True:
                head, payload = self._receive()
                self._handle(head, payload)
        except (OSError, GoneError, ConnectionError):
            pass
        finally:
            self.end()
            back.join(WAIT_S)

    def end(self) -> None:
        self.over = True
        for sock in (self._host, self._behind):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def to_host(self, data: bytes) -> None:
        with self._lock:
            try:
                self._host.sendall(data)
            except OSError as error:
                raise GoneError from error

    def _handle(self, head: tuple[int, ...], payload: bytes) -> None:
        command, arg0, arg1 = head[:3]
        step = self.device.step
        if command in (CNXN, AUTH) and step and step.service in ("greeting", "auth"):
            self._misbehave_raw(step)
        elif command == OPEN and step and step.service in ("open", "packet"):
            if step.service == "packet":
                self.to_host(packet(OKAY, OURS, arg0))
            self._misbehave_raw(step, arg0)
        elif command == OPEN and step and re.match(step.service, payload.rstrip(b"\0").decode(errors="replace")):
            self._serve(step, arg0)
        elif arg1 >= OURS:
            self._continue(command, arg0, arg1)
        else:
            self._behind.sendall(HEADER.pack(*head) + payload)

    def _misbehave_raw(self, step: Step, peer_id: int = 0) -> None:
        """On the connection itself. Closing ends the connection."""
        self.device.struck.set()
        number = struct.pack("<I", peer_id)

        def send(data: bytes) -> None:
            self.to_host(data.replace(b"PEER", number))

        if MANNERS[self.device.manner](step, send):
            raise GoneError
        while not self.device.over:  # deaf from now on, until the host leaves
            if not self._host.recv(65_536):
                raise GoneError

    def _serve(self, step: Step, peer_id: int) -> None:
        stream = OwnStream(self, OURS + len(self._streams), peer_id)
        self._streams[stream.own_id] = stream
        stream.ready.set()
        self.to_host(packet(OKAY, stream.own_id, peer_id))
        threading.Thread(target=self._misbehave, args=(step, stream), daemon=True).start()

    def _misbehave(self, step: Step, stream: OwnStream) -> None:
        self.device.struck.set()
        with contextlib.suppress(GoneError, OSError):
            if not MANNERS[self.device.manner](step, stream.send):
                stream.wait_closed()
            self.to_host(packet(CLSE, stream.own_id, stream.peer_id))

    def _continue(self, command: int, arg0: int, arg1: int) -> None:
        stream = self._streams.get(arg1)
        if stream is None:
            return
        if command == OKAY:
            stream.ready.set()
        elif command == WRTE and not self.device.deaf:
            self.to_host(packet(OKAY, arg1, arg0))
        elif command == CLSE:
            stream.closed = True
            stream.ready.set()

    def _receive(self) -> tuple[tuple[int, ...], bytes]:
        head = HEADER.unpack(_exactly(self._host, HEADER.size))
        return head, _exactly(self._host, head[3])

    def _pass_back(self) -> None:
        with contextlib.suppress(OSError, GoneError):
            while True:
                head = _exactly(self._behind, HEADER.size)
                self.to_host(head + _exactly(self._behind, HEADER.unpack(head)[3]))
        self.end()


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = sock.recv(min(size - len(data), 1 << 20))
        if not more:
            raise GoneError
        data += more
    return bytes(data)


class HostileDevice:
    """Well-behaved until `turn` says where and how it misbehaves."""

    def __init__(self, behind: str) -> None:
        """In front of the emulator at the address `behind`."""
        self.behind = int(behind.rpartition(":")[2])
        self.step: Step | None = None
        self.manner = "nothing"
        self.rude = False
        """It sends without waiting for acknowledgements."""
        self.deaf = False
        """It acknowledges nothing that is sent to it."""
        self.over = False
        self.struck = threading.Event()
        """It was asked for the step."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sessions: list[Session] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def turn(self, step: Step, manner: str) -> None:
        self.step, self.manner = step, manner
        self.struck.clear()

    def drop(self) -> None:
        """End all connections: the host connects anew."""
        for session in self._sessions:
            session.end()
        self._sessions.clear()

    def accept(self) -> None:
        while not self.over:
            try:
                sock, _ = self._listener.accept()
                session = Session(self, sock)
            except OSError:
                continue
            self._sessions.append(session)
            threading.Thread(target=session.run, daemon=True).start()

    def end(self) -> None:
        self.over = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for session in self._sessions:
            session.end()


@contextlib.contextmanager
def hostile_device(behind: str) -> Generator[HostileDevice]:
    device = HostileDevice(behind)
    threading.Thread(target=device.accept, daemon=True).start()
    try:
        yield device
    finally:
        device.end()


# --- the steps of the protocol ---------------------------------------------------------------------------------------

TOO_LONG = 0xFFFF_FFF0
BANNER = b"device::ro.product.name=x;features=shell_v2,cmd"
SHELL = r"shell,v2,raw:"


def _shell(pattern: str, name: str, text: bytes) -> Step:
    """A tool whose whole answer is wrong: rubbish, and a return code of 0."""
    filler = frame(1, text * (PIECE // len(text)))
    lines = frame(1, rubbish()) + frame(1, text * 100)
    return Step(name, SHELL + pattern, huge=filler * 400 + frame(3, b"\0"), more=filler,
                last=frame(3, b"\0"), wrap=lambda _: lines)  # fmt: skip


def _head(word: bytes, size: int) -> bytes:
    return struct.pack("<4sI", word, size)


_SIZE = struct.pack("<4I", 1280, 720, 1, 0)
PROTOCOL = (
    Step("CNXN", "greeting", huge=packet(CNXN, VERSION, 1 << 20, BANNER, length=TOO_LONG),
         more=packet(CNXN, VERSION, 1 << 20, BANNER + b"x" * 60_000)),
    Step("AUTH", "auth", huge=packet(AUTH, 1, 0, b"x" * 20, length=TOO_LONG), more=packet(AUTH, 1, 0, b"x" * 20)),
    Step("OPEN", "open", huge=packet(OKAY, OURS, 0, length=TOO_LONG), more=packet(OKAY, 0x7777, 0x7777)),
    Step("WRTE", "packet", huge=packet(WRTE, OURS, 1, b"x", length=TOO_LONG),
         more=packet(WRTE, OURS, 0x7777, b"x" * PIECE)),
)  # fmt: skip
SHELLS = (
    Step("shell frame", SHELL, huge=b"\1" + b"\xff" * 4, more=frame(1, b"x" * 60_000), last=frame(3, b"\0")),
    Step("shell output", SHELL, before=frame(1, b"x" * 100, length=60_000), huge=frame(2, b"", length=TOO_LONG),
         more=b"x" * PIECE),
    Step("shell errors", SHELL, before=frame(2, ESCAPES), huge=frame(2, b"", length=TOO_LONG),
         more=frame(2, ESCAPES * 1000)),
    Step("exit code", SHELL, before=frame(1, b"out"), huge=frame(3, b"", length=TOO_LONG), more=frame(3, b"")),
)  # fmt: skip
SYNC = r"sync:"
STATS = (
    Step("sync STAT", SYNC, huge=b"STAT" + b"\xff" * 11, more=b"STAU" + b"\xff" * 12),
)  # fmt: skip
PULLS = (
    Step("sync RECV", SYNC, huge=_head(b"DATA", TOO_LONG), more=_head(b"DATA", 60_000) + b"x" * 60_000),
    Step("sync DATA", SYNC, before=_head(b"DATA", 60_000) + b"x" * 100, huge=b"y" * 70_000, more=b"x" * PIECE),
    Step("sync DATA of no bytes", SYNC, huge=_head(b"DATA", 0x7FFF_FFFF), more=_head(b"DATA", 0)),
    Step("sync DONE", SYNC, before=_head(b"DATA", 3) + b"abc", huge=_head(b"DONF", TOO_LONG), more=_head(b"DONF", 0)),
    Step("sync FAIL", SYNC, before=b"FAIL", huge=struct.pack("<I", TOO_LONG), more=b"\xff" * PIECE,
         wrap=lambda data: struct.pack("<I", len(data)) + data),
)  # fmt: skip
PUSHES = (
    Step("sync SEND", SYNC, huge=_head(b"FAIL", TOO_LONG), more=_head(b"OKAZ", 0)),
    Step("sync FAIL of SEND", SYNC, before=b"FAIL", huge=struct.pack("<I", TOO_LONG), more=b"\xff" * PIECE,
         wrap=lambda data: struct.pack("<I", len(data)) + data),
)  # fmt: skip
SCREENS = (
    Step("screencap size", SHELL + "screencap", huge=frame(1, b"\xff" * 16), more=frame(1, b"\xff" * 60_000),
         wrap=lambda data: frame(1, data), last=frame(3, b"\0")),
    Step("screencap pixels", SHELL + "screencap", before=frame(1, _SIZE + b"x" * 1000),
         huge=frame(1, b"", length=TOO_LONG), more=frame(1, b"xyz!" * 12_000), wrap=lambda data: frame(1, data),
         last=frame(3, b"\0")),
    Step("screencap warnings", SHELL + "screencap", huge=frame(2, b"", length=TOO_LONG),
         more=frame(2, ESCAPES * 1000), wrap=lambda data: frame(2, data), last=frame(3, b"\1")),
)  # fmt: skip
PNGS = (
    Step("screencap -p", SHELL + "screencap -p", before=frame(1, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
         huge=frame(1, b"\x7f\xff\xff\xff" * 2 + b"\x08\6\0\0\0"), more=frame(1, b"x" * 60_000),
         wrap=lambda data: frame(1, data), last=frame(3, b"\0")),
)  # fmt: skip
FRAMEBUFFERS = (
    Step("framebuffer", "framebuffer:", before=struct.pack("<I", 2), huge=b"\xff" * 52, more=b"\xff" * PIECE),
    Step("framebuffer pixels", "framebuffer:", more=b"x" * PIECE, before=struct.pack(
        "<13I", 1, 32, 1280 * 720 * 4, 1280, 720, 0, 8, 16, 8, 8, 8, 24, 8), huge=b"\xff" * 9000),
    Step("framebuffer of no bytes", "framebuffer:", more=b"x" * PIECE, before=struct.pack(
        "<13I", 1, 32, 0, 3_686_400, 1280, 0, 8, 16, 8, 8, 8, 24, 8), huge=b"\xff" * 9000),
)  # fmt: skip
NODE = b'<hierarchy rotation="0">' + b'<node text="\x1b[2J" bounds="[0,0][1,1]">' * 10
TOOLS = (
    _shell("read u x", "probe", b"dh:probe 0 \x1b[2J 9 9 \n"),
    _shell("dumpsys", "dumpsys", b"  mCurrentFocus=Window{1f u0 com.example/\x1b[2J paused=x}\n"),
    _shell("mkdir -p", "uiautomator dump", NODE),
    _shell("pm path", "pm", b"package:/data/app/\x1b[2J.apk\n"),
    _shell("getprop", "getprop", b"\x1b[2J\n"),
    _shell("settings get", "settings", b"\x1b[2J\n"),
    _shell("f=", "file facts", b"file 644 \x1b[2J\n"),
)  # fmt: skip


EVERY = (*PROTOCOL, *SHELLS, *STATS, *PULLS, *PUSHES, *SCREENS, *PNGS, *FRAMEBUFFERS, *TOOLS)
