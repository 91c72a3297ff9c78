"""The services a stream can be opened to.

`tcp:` connects from the emulator, `reverse:` listens on it: both live on the loopback of the host.
"""

import asyncio
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from droidherd.virtual.frames import HEADER_BYTES
from droidherd.virtual.line import CutError, LineSystem
from droidherd.virtual.screenshots import FRAMEBUFFER, NoPictureError, raw_of
from droidherd.virtual.session import Service, VirtualSession, VirtualStream
from droidherd.virtual.shell.interpreter import Shell
from droidherd.virtual.shell.streams import (
    Chunk,
    LineReader,
    OutputLimitError,
    PipeClosedError,
    ShellInput,
    ShellStreams,
)
from droidherd.virtual.sync import SyncService

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = 0, 1, 2, 3, 4
_CHANNEL_LIMIT = 128 << 20
_BLOCK = struct.Struct("<BI")
_CHUNK = 1 << 16
_FORWARD = re.compile(r"forward:(?:norebind:)?tcp:(\d+);(tcp:\d+)")


def open_service(session: VirtualSession, name: str) -> Service | None:
    """What answers to this name; nothing when no such service exists."""
    kind, _, argument = name.partition(":")
    options = kind.split(",")
    makers: dict[str, Callable[[], Service]] = {
        "shell": lambda: partial(_shell, session, argument, framed="v2" in options),
        "exec": lambda: partial(_shell, session, argument, framed=False),
        "sync": lambda: lambda stream: SyncService(session.emulator, stream).serve(),
        "framebuffer": lambda: partial(_framebuffer, session),
        "reboot": lambda: partial(_reboot, session, argument),
        "root": lambda: partial(_say, "adbd cannot run as root in production builds\n"),
        "unroot": lambda: partial(_say, "adbd not running as root\n"),
        "remount": lambda: partial(_say, 'Not running as root. Try "adb root" first.\n'),
        "tcp": lambda: partial(connect, argument),
        "reverse": lambda: partial(reverse, session, argument),
    }
    maker = makers.get(options[0])
    return maker() if maker else None


@dataclass(slots=True)
class Channel:
    """Both outputs of a shell on one stream. It stays here until `flush`, so small replies are one packet."""

    stream: VirtualStream
    framed: bool
    blocks: list[tuple[int, Chunk]] = field(default_factory=list[tuple[int, Chunk]])
    size: int = 0
    mute: bool = False
    """The shell hangs: nothing leaves."""

    def write(self, kind: int, data: Chunk) -> None:
        if self.stream.closed:
            raise PipeClosedError
        self.size += len(data)
        if self.size > _CHANNEL_LIMIT:
            raise OutputLimitError
        if data:
            self.blocks.append((kind, data))

    async def flush(self, last: bytes = b"") -> None:
        blocks, self.blocks, self.size = self.blocks, [], 0
        if self.mute:
            return
        if not self.framed:
            parts = [data for _, data in blocks]
            if parts:
                await self.stream.write(*parts)
            return
        await self._frames(_merge(blocks), last)

    async def _frames(self, blocks: list[tuple[int, Chunk]], last: bytes) -> None:
        space = self.stream.session.max_payload - _BLOCK.size
        small: list[Chunk] = []
        used = 0
        for kind, data in blocks:
            view = memoryview(data)
            for at in range(0, len(view), space):
                piece = view[at : at + space]
                if used + len(piece) + _BLOCK.size > space:
                    await self._emit(small)
                    small, used = [], 0
                small += [_BLOCK.pack(kind, len(piece)), piece]
                used += len(piece) + _BLOCK.size
        if last:
            small.append(last)
        await self._emit(small)

    async def _emit(self, parts: list[Chunk]) -> None:
        if parts:
            await self.stream.write_packet(*parts)


def _merge(blocks: list[tuple[int, Chunk]]) -> list[tuple[int, Chunk]]:
    """Neighbours of one kind become one block, unless they are large."""
    merged: list[tuple[int, Chunk]] = []
    for kind, data in blocks:
        if merged and merged[-1][0] == kind and len(merged[-1][1]) + len(data) < 1 << 16:
            merged[-1] = (kind, bytes(merged[-1][1]) + bytes(data))
        else:
            merged.append((kind, data))
    return merged


@dataclass(frozen=True, slots=True)
class ChannelOutput:
    channel: Channel
    kind: int

    def write(self, data: Chunk) -> None:
        self.channel.write(self.kind, data)

    async def flush(self) -> None:
        await self.channel.flush()

    def closed(self) -> bool:
        return self.channel.stream.closed


@dataclass(slots=True)
class FramedInput:
    """Standard input inside the blocks of shell v2."""

    stream: VirtualStream
    pending: bytes = b""
    ended: bool = False

    async def read(self) -> bytes:
        while not self.ended:
            while len(self.pending) < _BLOCK.size or len(self.pending) < _BLOCK.size + self._length():
                more = await self.stream.read()
                if not more:
                    self.ended = True
                    return b""
                self.pending += more
            kind, end = self.pending[0], _BLOCK.size + self._length()
            data, self.pending = self.pending[_BLOCK.size : end], self.pending[end:]
            if kind == _CLOSE_STDIN:
                self.ended = True
            elif kind == _STDIN and data:
                return data
        return b""

    def _length(self) -> int:
        return int(_BLOCK.unpack_from(self.pending)[1])


async def _shell(session: VirtualSession, text: str, stream: VirtualStream, *, framed: bool) -> None:
    faults = session.emulator.faults
    channel = Channel(stream, framed, mute=bool(faults.take("shell_hang")))
    source: ShellInput = FramedInput(stream) if framed else stream
    out = ChannelOutput(channel, _STDOUT)
    streams = ShellStreams(LineReader(source), out, ChannelOutput(channel, _STDERR) if framed else out)
    rc = await _run(LineSystem(session.emulator, stream.number, session.drop), text, streams)
    if channel.mute:
        await _until_closed(stream)
        raise PipeClosedError
    if faults.take("drop"):
        await _half(channel)
        raise CutError
    if faults.take("shell_cut"):
        await _half(channel)
        return
    await channel.flush(_BLOCK.pack(_EXIT, 1) + bytes([rc & 255]))


async def _run(system: LineSystem, text: str, streams: ShellStreams) -> int:
    """As a process that others can see while it is at work."""
    lines = system.emulator.lines
    lines.add(system.pid)
    try:
        shell = Shell(system)
        return await (shell.run(text, streams) if text else _interactive(shell, streams))
    finally:
        lines.discard(system.pid)


async def _interactive(shell: Shell, streams: ShellStreams) -> int:
    """A shell without a command reads its lines from standard input."""
    rc = 0
    while line := await streams.stdin.line():
        rc = await shell.run(line.decode(errors="surrogateescape"), streams)
        await streams.stdout.flush()
        if line.split()[:1] == [b"exit"]:
            break
    return rc


async def _half(channel: Channel) -> None:
    """Send the first half of what was to be sent, without an exit code."""
    whole = [(kind, memoryview(data)) for kind, data in channel.blocks]
    left = sum(len(data) for _, data in whole) // 2
    channel.blocks = []
    for kind, data in whole:
        channel.blocks.append((kind, data[:left]))
        left -= min(left, len(data))
    channel.blocks = [(kind, data) for kind, data in channel.blocks if len(data)]
    await channel.flush()


async def _until_closed(stream: VirtualStream) -> None:
    while not stream.closed:
        await stream.read()


async def _say(text: str, stream: VirtualStream) -> None:
    await stream.write(text.encode())


async def _reboot(session: VirtualSession, argument: str, _stream: VirtualStream) -> None:
    session.emulator.record(_stream.number, ["reboot", argument], 0, effect=True)
    asyncio.get_running_loop().call_soon(session.emulator.on_reboot)
    await asyncio.sleep(0)


async def _framebuffer(session: VirtualSession, stream: VirtualStream) -> None:
    emulator = session.emulator
    try:
        raw = await raw_of(emulator, FRAMEBUFFER)
    except NoPictureError:
        return
    emulator.record(stream.number, ["framebuffer"], 0, effect=False)
    width, height = struct.unpack_from("<2I", raw)
    # Version, depth, size, then offset and length of red, BLUE, green, alpha.
    head = struct.pack("<13I", 1, 32, width * height * 4, width, height, 0, 8, 16, 8, 8, 8, 24, 8)
    await stream.write(head, raw[HEADER_BYTES:])


async def connect(argument: str, stream: VirtualStream) -> None:
    """Join the stream with a connection to a port of the emulator."""
    port = argument.partition(":")[0]
    if not port.isdecimal():
        return
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    except OSError:
        return
    await _join(stream, reader, writer)


async def reverse(session: VirtualSession, argument: str, stream: VirtualStream) -> None:
    """Answers inside the stream, as adbd does: OKAY or FAIL with a text."""
    listeners = session.reverses
    if argument == "list-forward":
        lines = "".join(f"UsbFfs tcp:{port} {target}\n" for port, (target, _) in sorted(listeners.items()))
        await stream.write(f"{len(lines):04x}{lines}".encode())
        return
    if argument == "killforward-all":
        session.close_reverses()
        await stream.write(b"OKAY")
        return
    if argument.startswith("killforward:tcp:"):
        port = argument.rpartition(":")[2]
        known = session.close_reverse(int(port)) if port.isdecimal() else False
        await stream.write(b"OKAY" if known else _fail(f"listener 'tcp:{port}' not found"))
        return
    found = _FORWARD.fullmatch(argument)
    await stream.write(await _listen(session, int(found.group(1)), found.group(2)) if found else _fail("bad forward"))


async def _listen(session: VirtualSession, port: int, target: str) -> bytes:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = await session.connect_back(target)
            await _join(stream, reader, writer)
            await stream.finish()
        except PipeClosedError:
            writer.close()

    session.close_reverse(port)
    try:
        server = await asyncio.start_server(accept, "127.0.0.1", port)
    except OSError as problem:
        return _fail(f"cannot bind listener: {problem.strerror}")
    bound = int(server.sockets[0].getsockname()[1])
    session.reverses[bound] = (target, server)
    shown = str(bound)
    return b"OKAY" + (f"{len(shown):04x}{shown}".encode() if port == 0 else b"")


def _fail(text: str) -> bytes:
    return f"FAIL{len(text):04x}{text}".encode()


async def _join(stream: VirtualStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes both ways until either side ends."""

    async def inwards() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    async def outwards() -> None:
        while data := await reader.read(_CHUNK):
            await stream.write(data)

    into = asyncio.ensure_future(inwards())
    try:
        await outwards()
    finally:
        into.cancel()
        await asyncio.gather(into, return_exceptions=True)
        writer.close()
