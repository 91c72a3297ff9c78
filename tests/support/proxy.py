"""Connections between the processes of a farm that a test can cut, hold, and let go on.

As a program it is an adb server behind such a proxy: `proxy.py FOLDER ADB -P PORT nodaemon server`.
"""

import asyncio
import contextlib
import ctypes
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

CHUNK = 1 << 16
POLL_S = 0.02
RESET = struct.pack("ii", 1, 0)
"""Closed so, a connection ends with a reset."""
PR_SET_PDEATHSIG = 1
MODE = "adb-link"
"""The file that tells the proxy of the adb server what to do."""


class Mode(StrEnum):
    OPEN = "open"
    CUT = "cut"
    """Every connection is reset, and so is every new one."""
    HELD = "held"
    """Nothing passes. What was sent meanwhile arrives late."""


class TcpProxy:
    """Forwards connections to one port of this machine. It runs in a thread of its own."""

    def __init__(self, target: int, port: int = 0) -> None:
        """Nothing listens yet. Port 0: a free one."""
        self._target = target
        self.port = port
        self._mode = Mode.OPEN
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._run(self._listen())

    def stop(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def set(self, mode: Mode) -> None:
        self._run(self._set(mode))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._opened = asyncio.Event()
        self._opened.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        self._reset_all()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _set(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.HELD:
            self._opened.clear()
        else:
            self._opened.set()
        if mode is Mode.CUT:
            self._reset_all()

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.CUT:
            _reset(writer)
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        pumps = [asyncio.ensure_future(self._pump(reader, back)), asyncio.ensure_future(self._pump(there, writer))]
        self._pumps.update(pumps)
        self._writers.update((writer, back))
        await asyncio.wait(pumps)
        self._pumps.difference_update(pumps)
        self._writers.difference_update((writer, back))
        for one in (writer, back):
            one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, to its end: the other one may go on."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._opened.wait()
                writer.write(data)
                await writer.drain()
            await self._opened.wait()
            writer.write_eof()
            return
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@dataclass(frozen=True)
class Links:
    """The connections of a farm."""

    worker: TcpProxy
    """From the worker to Temporal."""
    api: TcpProxy
    """From the API to Temporal."""
    emulators: Mapping[str, TcpProxy]
    """From the adb server to each emulator."""
    data: Path

    @property
    def adb_program(self) -> Path:
        """An adb whose server stands behind a proxy."""
        return self.data / "adb-behind-proxy"

    def set_adb(self, mode: Mode) -> None:
        """From the worker to its adb server."""
        beside = self.data / f"{MODE}.tmp"
        beside.write_text(mode)
        beside.replace(self.data / MODE)

    def write_adb_program(self, adb: str) -> None:
        self.set_adb(Mode.OPEN)
        self.adb_program.write_text(f'#!/bin/sh\nexec {sys.executable} -SP {__file__} {self.data} {adb} "$@"\n')
        self.adb_program.chmod(0o700)

    def stop(self) -> None:
        for one in (self.worker, self.api, *self.emulators.values()):
            one.stop()


def serve_adb(folder: Path, adb: str, words: list[str]) -> int:
    """Start the server on another port, which dies with this process, and forward to it as the file says."""
    at = words.index("-P") + 1
    port = int(words[at])
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        target = int(sock.getsockname()[1])
    line = [adb, *words[:at], str(target), *words[at + 1 :]]
    libc = ctypes.CDLL(None)
    server = subprocess.Popen(line, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))  # noqa: PLW1509

    def end(_number: int, _frame: FrameType | None) -> None:
        server.terminate()

    signal.signal(signal.SIGTERM, end)
    proxy = TcpProxy(target, port)
    proxy.start()
    mode = Mode.OPEN
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return server.wait(POLL_S)
        now = Mode((folder / MODE).read_text())
        if now is not mode:
            proxy.set(now)
            mode = now


if __name__ == "__main__":
    sys.exit(serve_adb(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
