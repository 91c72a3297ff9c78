"""TCP through ADB: `tcp:` connects from the emulator, `reverse:` listens on it. Both live on the host's loopback."""

import asyncio
import re

from droidherd.virtual.session import Session, Stream
from droidherd.virtual.shell.streams import PipeClosedError

_CHUNK = 1 << 16
_FORWARD = re.compile(r"forward:(?:norebind:)?tcp:(\d+);(tcp:\d+)")


async def connect(argument: str, stream: Stream) -> None:
    """Join the stream with a connection to a port of the emulator."""
    port = argument.partition(":")[0]
    if not port.isdecimal():
        return
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    except OSError:
        return
    await _join(stream, reader, writer)


async def reverse(session: Session, argument: str, stream: Stream) -> None:
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


async def _listen(session: Session, port: int, target: str) -> bytes:
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


async def _join(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
