"""Where a command reads from and writes to."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Chunk: TypeAlias = bytes | memoryview


class PipeClosedError(Exception):
    """Nobody reads what is written: the line ends, as by SIGPIPE."""


class OutputLimitError(Exception):
    """A command wrote more than a buffer of this shell may hold."""


class ShellInput(Protocol):
    """Standard input."""

    async def read(self) -> bytes:
        """Some bytes; none at the end."""
        ...


class ShellOutput(Protocol):
    """Standard output or standard error."""

    def write(self, data: Chunk) -> None: ...

    async def flush(self) -> None:
        """Let the reader see what was written so far."""
        ...

    def closed(self) -> bool:
        """Whether the reader is gone."""
        ...


@dataclass(slots=True)
class BytesInput:
    data: bytes = b""

    async def read(self) -> bytes:
        data, self.data = self.data, b""
        return data


@dataclass(slots=True)
class BufferOutput:
    """Keeps what is written, up to a limit."""

    limit: int
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    size: int = 0

    def write(self, data: Chunk) -> None:
        self.size += len(data)
        if self.size > self.limit:
            raise OutputLimitError
        self.chunks.append(data)

    async def flush(self) -> None:
        """Nobody waits for it."""

    def closed(self) -> bool:
        return False

    def value(self) -> bytes:
        return b"".join(self.chunks)


class NullOutput:
    def write(self, data: Chunk) -> None:
        """Into nothing."""

    async def flush(self) -> None:
        """Nobody waits for it."""

    def closed(self) -> bool:
        return False


@dataclass(slots=True)
class FileOutput:
    """Appends to a file at once, so that what was written is there when the line is cut."""

    append: Callable[[bytes], None]

    def write(self, data: Chunk) -> None:
        self.append(bytes(data))

    async def flush(self) -> None:
        """It is written already."""

    def closed(self) -> bool:
        return False


class LineReader:
    """Lines from an input that comes in pieces; shared by all readers of one standard input."""

    def __init__(self, source: ShellInput) -> None:
        self.source = source
        self.rest = b""
        self.ended = False

    async def read(self) -> bytes:
        """Whatever is at hand, then what comes."""
        if self.rest:
            data, self.rest = self.rest, b""
            return data
        return await self._more()

    async def line(self) -> bytes:
        """Up to and with the next line end; without one at the end of the input; empty when nothing is left."""
        while b"\n" not in self.rest:
            more = await self._more()
            if not more:
                line, self.rest = self.rest, b""
                return line
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n"

    async def all(self, limit: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > limit:
                raise OutputLimitError
            chunks.append(data)
        return b"".join(chunks)

    async def _more(self) -> bytes:
        if self.ended:
            return b""
        data = await self.source.read()
        self.ended = not data
        return data


@dataclass(frozen=True, slots=True)
class ShellStreams:
    """The three descriptors of a command."""

    stdin: LineReader
    stdout: ShellOutput
    stderr: ShellOutput

    def say(self, text: str) -> None:
        self.stdout.write(text.encode(errors="surrogateescape"))

    def complain(self, text: str) -> None:
        self.stderr.write(text.encode(errors="surrogateescape"))


async def pause(seconds: float, output: ShellOutput) -> None:
    """Sleep, but end the line when its reader hangs up meanwhile."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0:
        if output.closed():
            raise PipeClosedError
        await asyncio.sleep(min(left, 0.05))
