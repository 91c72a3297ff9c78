"""The host side of the ADB protocol, packet by packet, as an old host speaks it."""

import socket
import struct


def packet(name: bytes, arg0: int, arg1: int, payload: bytes = b"") -> bytes:
    command = int.from_bytes(name, "little")
    return struct.pack("<6I", command, arg0, arg1, len(payload), sum(payload), command ^ 0xFFFFFFFF) + payload


def received(sock: socket.socket) -> tuple[bytes, int, int, bytes]:
    """One packet, its checksum verified as an old host would."""
    command, arg0, arg1, length, check, magic = struct.unpack("<6I", exactly(sock, 24))
    payload = exactly(sock, length)
    assert (command ^ 0xFFFFFFFF, sum(payload)) == (magic, check)
    return command.to_bytes(4, "little"), arg0, arg1, payload


def exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        assert more, "closed"
        data += more
    return data
