"""One connection of an adb server (or of a direct client) to a virtual emulator."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from droidherd.virtual.line import CutError
from droidherd.virtual.machine import VirtualDevice
from droidherd.virtual.shell.streams import OutputLimitError, PipeClosedError
from droidherd.virtual.wire import (
    AUTH,
    CLSE,
    CNXN,
    MAX_PAYLOAD,
    OKAY,
    OPEN,
    VERSION,
    WRTE,
    Buffer,
    Packet,
    PacketSocket,
    ProtocolError,
)

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir,sendrecv_v2"
_TOKEN, _RSA_KEY = 1, 3
_UNREAD_LIMIT = 1 << 20
_STREAM_LIMIT = 1000
TRICKLE_S = 0.05


class VirtualStream:
    """One service that was opened. Writing waits for the acknowledgement of what was written before."""

    def __init__(self, session: "VirtualSession", own_id: int, peer_id: int, number: int) -> None:
        self.session = session
        self.own_id = own_id
        self.peer_id = peer_id
        self.number = number
        self.closed = False
        self.writable = asyncio.Event()
        self._incoming: deque[Buffer] = deque()
        self._unread = 0
        self._owed = 0
        """Packets taken in but not acknowledged: too much lies here unread."""
        self._news = asyncio.Event()
        self._finished = False
        self.trickles_every_s = 0.0
        """Between two bytes; 0: what is written leaves as it is."""

    async def write(self, *parts: Buffer) -> None:
        """As few packets as the largest payload allows; small parts travel together."""
        small = sum(len(part) for part in parts)
        if small <= self.session.max_payload:
            await self._packet(b"".join(parts))
            return
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), self.session.max_payload):
                await self._packet(view[at : at + self.session.max_payload])

    async def write_packet(self, *parts: Buffer) -> None:
        """One packet, made of parts that are not joined."""
        await self._packet(*parts)

    async def read(self) -> bytes:
        """What came next; nothing at the end."""
        while not self._incoming:
            if self.closed:
                return b""
            self._news.clear()
            await self._news.wait()
        data = self._incoming.popleft()
        self._unread -= len(data)
        if self._owed and not self.closed:
            self._owed -= 1
            await self.session.acknowledge(self)
        return bytes(data)

    @property
    def waiting(self) -> bool:
        """Whether something lies here to be read."""
        return bool(self._incoming)

    def take_in(self, data: Buffer) -> bool:
        """True when it may be acknowledged at once."""
        self._incoming.append(data)
        self._unread += len(data)
        self._news.set()
        if self._unread > _UNREAD_LIMIT:
            self._owed += 1
            return False
        return True

    def hang_up(self) -> None:
        """The other side is gone."""
        self.closed = True
        self._news.set()
        self.writable.set()

    async def finish(self) -> None:
        """Say that this side has ended, once."""
        if self._finished:
            return
        self._finished = True
        self.session.forget(self)
        if not self.session.lost:
            await self.session.send(CLSE, self.own_id, self.peer_id)
        self.hang_up()

    async def _packet(self, *parts: Buffer) -> None:
        if not self.trickles_every_s:
            await self._at_once(*parts)
            return
        for part in parts:
            for byte in memoryview(part).cast("B"):
                await self._at_once(bytes([byte]))
                await asyncio.sleep(self.trickles_every_s)

    async def _at_once(self, *parts: Buffer) -> None:
        await self.writable.wait()
        if self.closed:
            raise PipeClosedError
        self.writable.clear()
        await self.session.send(WRTE, self.own_id, self.peer_id, *parts)


Service: TypeAlias = Callable[[VirtualStream], Awaitable[None]]
Opener: TypeAlias = Callable[["VirtualSession", str], Service | None]


class VirtualSession:
    def __init__(self, emulator: VirtualDevice, sock: socket.socket, opener: Opener) -> None:
        self.emulator = emulator
        self.wire = PacketSocket(sock)
        self.opener = opener
        self.max_payload = MAX_PAYLOAD
        self.lost = False
        self.streams: dict[int, VirtualStream] = {}
        self._next_id = 1
        self.reverses: dict[int, tuple[str, asyncio.Server]] = {}
        """Ports of the emulator that are carried to the host, with their targets."""
        self._services: set[asyncio.Task[None]] = set()
        self._online = False
        self._keys_offered = 0

    async def run(self) -> None:
        """Until the connection ends. Services that still run go on to the end of their line."""
        try:
            while True:
                packet = await self.wire.receive()
                await self.emulator.faults.running()
                await self._handle(packet)
        except (ConnectionError, OSError, ProtocolError):
            pass
        finally:
            self.lost = True
            for stream in list(self.streams.values()):
                stream.hang_up()
            self.close_reverses()
            self.wire.close()

    def close_reverse(self, port: int) -> bool:
        found = self.reverses.pop(port, None)
        if found:
            found[1].close()
        return found is not None

    def close_reverses(self) -> None:
        for port in list(self.reverses):
            self.close_reverse(port)

    async def settle(self, *, kill: bool) -> None:
        """Wait for the services; with `kill` they end where they are, as at a loss of power."""
        for task in list(self._services):
            if kill:
                task.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)

    def drop(self) -> None:
        self.lost = True
        self.wire.drop()
        for stream in list(self.streams.values()):
            stream.hang_up()

    async def send(self, command: int, arg0: int, arg1: int, *payload: Buffer) -> None:
        await self.emulator.faults.running()
        if self.lost:
            raise PipeClosedError
        try:
            await self.wire.send(command, arg0, arg1, *payload)
        except OSError as problem:
            raise PipeClosedError from problem

    async def acknowledge(self, stream: VirtualStream) -> None:
        if not self.emulator.faults.take("no_ack"):
            await self.send(OKAY, stream.own_id, stream.peer_id)

    def forget(self, stream: VirtualStream) -> None:
        self.streams.pop(stream.own_id, None)

    async def connect_back(self, name: str) -> VirtualStream:
        """Open a stream to a service of the host (reverse forwarding)."""
        stream = self._stream(peer_id=0)
        await self.send(OPEN, stream.own_id, 0, name.encode() + b"\0")
        return stream

    async def _handle(self, packet: Packet) -> None:
        try:
            if packet.command == CNXN:
                await self._connect(packet)
            elif packet.command == AUTH:
                await self._authenticate(packet)
            elif not self._online:
                raise ProtocolError("not connected")
            elif packet.command == OPEN:
                await self._open(packet)
            else:
                await self._continue(packet)
        except PipeClosedError as problem:
            raise ConnectionError("closed") from problem

    async def _connect(self, packet: Packet) -> None:
        self.max_payload = min(MAX_PAYLOAD, packet.arg1)
        self.wire.checked = packet.arg0 < VERSION
        if fault := self.emulator.faults.take("no_cnxn"):
            late_s = fault.seconds("delay_s", 0.0)
            if not late_s:
                return
            await asyncio.sleep(late_s)
        if self.emulator.faults.has("auth"):
            await self.send(AUTH, _TOKEN, 0, os.urandom(20))
            return
        await self._welcome()

    async def _authenticate(self, packet: Packet) -> None:
        """Every signature is unknown; the key that follows is taken only if the fault says `accept`."""
        fault = self.emulator.faults.take("auth")
        if fault is None or (packet.arg0 == _RSA_KEY and fault.flag("accept")):
            await self._welcome()
        elif packet.arg0 != _RSA_KEY:
            await self.send(AUTH, _TOKEN, 0, os.urandom(20))

    async def _welcome(self) -> None:
        self._online = True
        names = ("ro.product.name", "ro.product.model", "ro.product.device")
        facts = "".join(f"{name}={self.emulator.prop(name)};" for name in names)
        await self.send(CNXN, VERSION, self.max_payload, f"device::{facts}features={FEATURES}".encode())

    async def _open(self, packet: Packet) -> None:
        faults = self.emulator.faults
        if faults.take("no_open"):
            return
        name = bytes(packet.payload).rstrip(b"\0").decode(errors="surrogateescape")
        refused = faults.take("refuse_open") or len(self.streams) >= _STREAM_LIMIT
        service = None if refused else self.opener(self, name)
        if service is None:
            await self.send(CLSE, 0, packet.arg0)
            return
        stream = self._stream(packet.arg0)
        if trickle := faults.take("trickle"):
            stream.trickles_every_s = trickle.seconds("every_s", TRICKLE_S)
        stream.writable.set()
        try:
            await self.send(OKAY, stream.own_id, stream.peer_id)
        except PipeClosedError:
            # What a host asked for before it went away is carried out all the same, as by a process that was stopped.
            stream.hang_up()
            self.start(service, stream)
            raise
        self.start(service, stream)

    def start(self, service: Service, stream: VirtualStream) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(service, stream))
        self._services.add(task)
        task.add_done_callback(self._services.discard)

    async def _serve(self, service: Service, stream: VirtualStream) -> None:
        try:
            await service(stream)
        except CutError:
            self.drop()
        except (PipeClosedError, OutputLimitError, ConnectionError):
            pass
        finally:
            await self._finish_quietly(stream)

    async def _finish_quietly(self, stream: VirtualStream) -> None:
        try:
            await stream.finish()
        except PipeClosedError:
            return

    async def _continue(self, packet: Packet) -> None:
        stream = self.streams.get(packet.arg1)
        if stream is None:
            if packet.command != CLSE:
                await self.send(CLSE, packet.arg1, packet.arg0)
            return
        if packet.command == OKAY:
            stream.peer_id = packet.arg0
            stream.writable.set()
        elif packet.command == WRTE:
            if stream.take_in(packet.payload):
                await self.acknowledge(stream)
        elif packet.command == CLSE:
            stream.hang_up()

    def _stream(self, peer_id: int) -> VirtualStream:
        stream = VirtualStream(self, self._next_id, peer_id, self.emulator.next_stream())
        self.streams[self._next_id] = stream
        self._next_id += 1
        return stream
