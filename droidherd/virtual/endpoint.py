"""The network side of a virtual emulator: its port, its listener, its connections."""

import asyncio
import contextlib
import errno
import secrets
import socket
from collections.abc import Coroutine
from typing import Any

from droidherd.virtual import app
from droidherd.virtual.machine import REBOOT_S, VirtualDevice
from droidherd.virtual.services import open_service
from droidherd.virtual.session import VirtualSession

_BACKLOG = 64
_ACCEPT_AGAIN_S = 0.1
_FIRST_PORT, _PORTS = 16_000, 16_000
"""Below what systems give to outgoing connections, so that an emulator that was away finds its port free again."""
_TRIES = 1000


class EmulatorEndpoint:
    def __init__(self, emulator: VirtualDevice, port: int) -> None:
        self.emulator = emulator
        self.port = port
        self.sessions: dict[VirtualSession, asyncio.Task[None]] = {}
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        emulator.on_reboot = lambda: self._later(self.reboot(REBOOT_S))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def listening(self) -> bool:
        return self._listener is not None

    async def start(self, boot_s: float) -> None:
        """Switch the emulator on and listen."""
        if self.listening:
            return
        self.emulator.power_on(boot_s)
        self.listen()

    def listen(self) -> None:
        self._listener = bind(self.port)
        self.port = int(self._listener.getsockname()[1])
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._listener))

    async def kill(self) -> None:
        """The emulator dies: nobody listens, connections break, lines stop where they are."""
        await self.deafen()
        await self._end_sessions()
        self.emulator.act(app.reboot(self.emulator.app))

    async def deafen(self) -> None:
        """Stop listening; connections stay."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        self._listener = self._accepting = None

    async def reboot(self, boot_s: float) -> None:
        """Connections break, what is not stored is lost, the port is open again at once."""
        await self._end_sessions()
        self.emulator.faults.clear("stall")
        self.emulator.power_on(boot_s)

    async def drop(self) -> None:
        """Break the connections; the emulator lives on."""
        for session in list(self.sessions):
            session.drop()

    async def close(self) -> None:
        await self.kill()
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self.emulator.close()

    async def _end_sessions(self) -> None:
        for session, task in list(self.sessions.items()):
            session.drop()
            await session.settle(kill=True)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:
                # No file descriptor is free, or the peer is gone already: the next one may do better.
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            session = VirtualSession(self.emulator, sock, open_service)
            self.sessions[session] = loop.create_task(self._host(session))

    async def _host(self, session: VirtualSession) -> None:
        try:
            await session.run()
            await session.settle(kill=False)
        finally:
            self.sessions.pop(session, None)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback; port 0 means any even one that no outgoing connection will take."""
    if port:
        return _listen(port)
    for _ in range(_TRIES):
        try:
            return _listen(_FIRST_PORT + 2 * secrets.randbelow(_PORTS // 2))
        except OSError as problem:
            if problem.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
    raise OSError(errno.EADDRINUSE, "no free port")


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        if hasattr(socket, "SO_REUSEPORT"):
            # A restart takes its old port back at once. On Windows the same option would share a port, so not there.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        undo.pop_all()
    return listener
