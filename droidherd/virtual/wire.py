"""The frame of the ADB protocol: a header of 24 bytes, then a payload."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Buffer: TypeAlias = bytes | bytearray | memoryview

CNXN = 0x4E584E43
AUTH = 0x48545541
OPEN = 0x4E45504F
OKAY = 0x59414B4F
CLSE = 0x45534C43
WRTE = 0x45545257

VERSION = 0x01000001
"""From this version on the checksum is not used."""
MAX_PAYLOAD = 1 << 20
_HEADER = struct.Struct("<6I")
_RECEIVE_BYTES = 1 << 16
_JOIN_BELOW = 1 << 14
_PAYLOAD_LIMIT = 4 << 20


class ProtocolError(Exception):
    """What came is not ADB."""


@dataclass(frozen=True, slots=True)
class Packet:
    command: int
    arg0: int
    arg1: int
    payload: Buffer


class PacketSocket:
    """One TCP connection, without copies for large payloads. A closed peer is ConnectionError."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._sending = asyncio.Lock()
        self.checked = False
        """Whether the peer is old and wants checksums."""

    async def receive(self) -> Packet:
        header = await self._exactly(_HEADER.size)
        command, arg0, arg1, length, _, magic = _HEADER.unpack(header)
        if magic != command ^ 0xFFFF_FFFF or length > _PAYLOAD_LIMIT:
            raise ProtocolError("bad header")
        return Packet(command, arg0, arg1, await self._exactly(length) if length else b"")

    async def send(self, command: int, arg0: int, arg1: int, *payload: Buffer) -> None:
        length = sum(len(part) for part in payload)
        check = sum(_checksum(part) for part in payload) & 0xFFFF_FFFF if self.checked else 0
        head = _HEADER.pack(command, arg0, arg1, length, check, command ^ 0xFFFF_FFFF)
        async with self._sending:
            if length <= _JOIN_BELOW:
                await self._loop.sock_sendall(self._sock, b"".join((head, *payload)))
                return
            await self._loop.sock_sendall(
                self._sock, head + bytes(payload[0] if len(payload[0]) < _JOIN_BELOW else b"")
            )
            for part in payload[1:] if len(payload[0]) < _JOIN_BELOW else payload:
                await self._loop.sock_sendall(self._sock, part)

    def drop(self) -> None:
        """End the connection for both sides, now; whoever waits on it gets ConnectionError."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._sock.close()

    async def _exactly(self, count: int) -> bytearray:
        taken = bytearray(self._pending[:count])
        del self._pending[:count]
        if len(taken) == count:
            return taken
        if count < _RECEIVE_BYTES:
            while len(taken) < count:
                more = await self._some()
                missing = count - len(taken)
                taken += more[:missing]
                self._pending += more[missing:]
            return taken
        whole = bytearray(count)
        whole[: len(taken)] = taken
        at = len(taken)
        view = memoryview(whole)
        while at < count:
            got = await self._loop.sock_recv_into(self._sock, view[at:])
            if not got:
                raise ConnectionError("closed by the host")
            at += got
        return whole

    async def _some(self) -> bytes:
        data = await self._loop.sock_recv(self._sock, _RECEIVE_BYTES)
        if not data:
            raise ConnectionError("closed by the host")
        return data


def _checksum(part: Buffer) -> int:
    return int(np.frombuffer(part, np.uint8).sum(dtype=np.uint64))
