"""The file service of ADB (`adb push`, `pull`, `ls`), versions 1 and 2."""

import errno
import io
import os
import stat
import struct
from collections.abc import Awaitable, Callable
from typing import BinaryIO

from droidherd.virtual.files import FileStat, normal
from droidherd.virtual.line import CutError
from droidherd.virtual.machine import VirtualDevice
from droidherd.virtual.session import VirtualStream
from droidherd.virtual.shell.streams import PipeClosedError
from droidherd.virtual.wire import Buffer

CHUNK = 64 << 10
_PATH_LIMIT = 4096
_HEAD = struct.Struct("<4sI")
_STAT2 = struct.Struct("<4sIQQIIIIQqqq")
_CHUNKS_PER_WRITE = 15


class SyncService:
    """One opened `sync:` stream: requests one after the other until QUIT."""

    def __init__(self, emulator: VirtualDevice, stream: VirtualStream) -> None:
        self.emulator = emulator
        self.files = emulator.files
        self._stream = stream
        self._pending = bytearray()
        self._replies: list[Buffer] = []

    async def serve(self) -> None:
        requests: dict[bytes, Callable[[str], Awaitable[None]]] = {
            b"STAT": self._stat,
            b"STA2": lambda path: self._stat2(b"STA2", path),
            b"LST2": lambda path: self._stat2(b"LST2", path),
            b"LIST": self._list,
            b"LIS2": self._list2,
            b"SEND": self._send,
            b"SND2": self._send2,
            b"RECV": self._receive,
            b"RCV2": self._receive2,
        }
        while True:
            name, length = _HEAD.unpack(await self._take(_HEAD.size))
            if name == b"QUIT":
                return
            if name not in requests or length > _PATH_LIMIT:
                self._fail("unknown command" if name not in requests else "path too long")
                await self._flush()
                return
            path = (await self._take(length)).decode(errors="surrogateescape")
            await self.emulator.breathe()
            if await self._fails():
                return
            await requests[name](path)
            if not self._stream.waiting:
                await self._flush()

    async def _fails(self) -> bool:
        """Whether a fault ends the stream before the request is carried out."""
        faults = self.emulator.faults
        if faults.take("sync_drop"):
            raise CutError
        if faults.take("sync_hang"):
            while await self._stream.read():
                pass
            return True
        return faults.take("sync_cut") is not None

    # --- the stream

    async def _take(self, count: int) -> bytes:
        while len(self._pending) < count:
            if not self._stream.waiting:
                await self._flush()
            more = await self._stream.read()
            if not more:
                raise PipeClosedError
            self._pending += more
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def _reply(self, *parts: Buffer) -> None:
        self._replies.extend(parts)

    async def _flush(self) -> None:
        replies, self._replies = self._replies, []
        if replies:
            await self._stream.write(b"".join(replies))

    def _fail(self, text: str) -> None:
        message = text.encode(errors="surrogateescape")
        self._reply(_HEAD.pack(b"FAIL", len(message)), message)

    # --- facts

    async def _stat(self, path: str) -> None:
        facts = self._facts(path) or FileStat(0, 0, 0)
        self._reply(struct.pack("<4sIII", b"STAT", facts.mode, facts.size & 0xFFFF_FFFF, facts.mtime))

    async def _stat2(self, name: bytes, path: str) -> None:
        self._reply(_pack(name, self._facts(path)))

    def _facts(self, path: str) -> FileStat | None:
        try:
            return self.files.stat(path)
        except OSError:
            return None

    def _entries(self, path: str) -> list[tuple[bytes, FileStat]]:
        """With `.` and `..`, as a directory has them."""
        if self.files.kind(path) != "directory" or not self.files.may_list(path):
            return []
        names = [".", "..", *self.files.names(path)]
        return [(name.encode(errors="surrogateescape"), self.files.stat(f"{path}/{name}")) for name in names]

    async def _list(self, path: str) -> None:
        for name, facts in self._entries(path):
            size = facts.size & 0xFFFF_FFFF
            self._reply(struct.pack("<4sIIII", b"DENT", facts.mode, size, facts.mtime, len(name)), name)
        self._reply(b"DONE" + bytes(16))

    async def _list2(self, path: str) -> None:
        for name, facts in self._entries(path):
            self._reply(_pack(b"DNT2", facts), struct.pack("<I", len(name)), name)
        self._reply(b"DONE" + bytes(72))

    # --- contents

    async def _receive2(self, path: str) -> None:
        await self._take(_HEAD.size)  # flags: no compression was offered, so none is asked for
        await self._receive(path)

    async def _receive(self, path: str) -> None:
        try:
            source = self._source(path)
        except OSError as problem:
            self._fail(f"open failed: {os.strerror(problem.errno or errno.EIO)}")
            self.emulator.record(self._stream.number, ["sync:pull", path], 1, effect=False)
            return
        half = self.emulator.faults.take("half_pull") is not None
        size = self.files.size(path)
        left = size // 2 if half else size
        with source:
            await self._chunks(source, left)
        self.emulator.record(self._stream.number, ["sync:pull", path], int(half), effect=False)
        if half:
            await self._flush()
            raise PipeClosedError
        self._reply(_HEAD.pack(b"DONE", 0))

    async def _chunks(self, source: BinaryIO, left: int) -> None:
        while left > 0:
            chunk = source.read(min(CHUNK, left))
            if not chunk:
                return
            left -= len(chunk)
            self._reply(_HEAD.pack(b"DATA", len(chunk)), chunk)
            if len(self._replies) >= 2 * _CHUNKS_PER_WRITE:
                await self._flush()

    def _source(self, path: str) -> BinaryIO:
        if normal(path) in self.files.generated:
            return io.BytesIO(self.files.read(path))
        return self.files.open(path)

    async def _send2(self, path: str) -> None:
        _, mode, _ = struct.unpack("<4sII", await self._take(12))
        await self._store(path, mode)

    async def _send(self, argument: str) -> None:
        path, comma, mode = argument.rpartition(",")
        await self._store(path if comma else argument, int(mode) if mode.isdecimal() else 0o644)

    async def _store(self, path: str, mode: int) -> None:
        """Whatever goes wrong, the data is read to its end before the answer."""
        problem = ""
        target: BinaryIO | None = None
        try:
            target = self._target(path)
        except OSError as error:
            problem = _problem_of(error)
        try:
            mtime, late = await self._drain(target, broken=bool(problem))
        finally:
            if target is not None:
                target.close()
        problem = problem or late
        if problem:
            self._fail(problem)
        else:
            self.files.chmod(path, stat.S_IMODE(mode))
            self.files.touch(path, mtime)
            self._reply(_HEAD.pack(b"OKAY", 0))
        self.emulator.record(self._stream.number, ["sync:push", path], int(bool(problem)), effect=True)

    def _target(self, path: str) -> BinaryIO:
        parent = normal(path).rpartition("/")[0]
        if not self.files.kind(parent):
            self.files.make_directory(parent, parents=True)
        return self.files.writer(path)

    async def _drain(self, target: BinaryIO | None, *, broken: bool) -> tuple[int, str]:
        problem = ""
        full = self.emulator.faults.take("push_full") is not None
        while True:
            name, length = _HEAD.unpack(await self._take(_HEAD.size))
            if name == b"DONE":
                return length, problem
            if name != b"DATA" or length > CHUNK:
                self._fail("oversize data message" if name == b"DATA" else "unexpected message")
                await self._flush()
                raise PipeClosedError
            data = await self._take(length)
            if full or self.files.full:
                problem = f"write failed: {os.strerror(errno.ENOSPC)}"
            elif target is not None and not broken and not problem:
                target.write(data)


def _pack(name: bytes, facts: FileStat | None) -> bytes:
    if facts is None:
        return _STAT2.pack(name, errno.ENOENT, *([0] * 10))
    nodes = (64768, 1, facts.mode, 1, 2000, 2000, facts.size, facts.mtime, facts.mtime, facts.mtime)
    return _STAT2.pack(name, 0, *nodes)


def _problem_of(problem: OSError) -> str:
    return f"couldn't create file: {os.strerror(problem.errno or errno.EIO)}"
