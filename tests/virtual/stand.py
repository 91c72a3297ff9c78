"""One virtual emulator without its sockets, and lines run on it."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from droidherd.virtual.frames import VirtualFrames
from droidherd.virtual.line import LineSystem
from droidherd.virtual.machine import Body, VirtualDevice
from droidherd.virtual.shell.interpreter import Shell
from droidherd.virtual.shell.streams import BufferOutput, BytesInput, LineReader, ShellStreams
from droidherd.virtual.shell.system import ShellLimits

LINE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ShellResult:
    rc: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()


@dataclass
class Stand:
    emulator: VirtualDevice
    drops: int = 0

    def run(self, line: str, stdin: bytes = b"", limits: ShellLimits | None = None) -> ShellResult:
        return asyncio.run(self.run_async(line, stdin, limits))

    async def run_async(self, line: str, stdin: bytes = b"", limits: ShellLimits | None = None) -> ShellResult:
        out, err = BufferOutput(64 << 20), BufferOutput(64 << 20)
        shell = Shell(LineSystem(self.emulator, self.emulator.next_stream(), self.dropped), limits)
        streams = ShellStreams(LineReader(BytesInput(stdin)), out, err)
        async with asyncio.timeout(LINE_TIMEOUT_S):
            rc = await shell.run(line, streams)
        return ShellResult(rc, out.value(), err.value())

    def out(self, line: str) -> str:
        """Standard output of a line that must succeed."""
        result = self.run(line)
        assert (0, b"") == (result.rc, result.err), line
        return result.text

    def dropped(self) -> None:
        self.drops += 1


@contextmanager
def stand_in(folder: Path, *, boot_s: float = 0.0) -> Generator[Stand]:
    """Switched on, and closed at the end. The same folder again is the same emulator after a crash."""

    async def build() -> VirtualDevice:
        return VirtualDevice(Body("virtual-1", "VIRT0001", 1280, 720, folder / "virtual-1"), frames)

    frames = VirtualFrames()
    emulator = asyncio.run(build())
    emulator.power_on(boot_s)
    try:
        yield Stand(emulator)
    finally:
        emulator.close()
        frames.close()
