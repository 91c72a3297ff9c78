"""The writer of a process: only so many writes to the disk at once, and none that leaves no room for anybody else."""

import errno
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from droidherd.domain.errors import BadParametersError, DiskFullError, WriterBusyError

AT_ONCE = 4
WAIT_S = 10.0
SYNC_EVERY = 32 * 1024 * 1024
"""Bytes after which a stream is brought to the disk: no turn is long, however large the file gets."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC})


class Writer:
    """Hands out turns to write."""

    def __init__(self, at_once: int = AT_ONCE, wait_s: float = WAIT_S, reserve_bytes: int = 0) -> None:
        """Who gets no turn within `wait_s` hears so. `reserve_bytes` stay free, whatever is to be written."""
        self._slots = threading.BoundedSemaphore(at_once)
        self._at_once = at_once
        self._wait_s = wait_s
        self._reserve_bytes = reserve_bytes

    @contextmanager
    def turn(self, path: Path, size: int) -> Generator[None]:
        """For one piece of `size` bytes."""
        if not self._slots.acquire(timeout=self._wait_s):
            raise WriterBusyError(
                f"no turn to write within {self._wait_s:g} s: {self._at_once} writes are under way",
                to=path.name,
                remedy="the disk is slow; see `limits.writes_at_once` and `limits.write_wait_s`",
            )
        try:
            if size and self._reserve_bytes:
                self._refuse_full(path, size)
            yield
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError("no space left on this host's disk", to=path.name, remedy="make room") from error
            raise
        finally:
            self._slots.release()

    @contextmanager
    def file(self, path: Path, size_max: int) -> Generator["Stream"]:
        """A new file outside of any store, in the same turns and with the same room left."""
        with self.turn(path, 0):
            file = path.open("wb")
        with file:
            stream = Stream(path, file, self, size_max)
            yield stream
            stream.finish()

    def _refuse_full(self, path: Path, size: int) -> None:
        free = shutil.disk_usage(path.parent).free
        if free - size < self._reserve_bytes:
            raise DiskFullError(
                f"{free / 1e9:.2f} GB are free, and {self._reserve_bytes / 1e9:.2f} GB stay so",
                to=path.name,
                remedy="make room, or see `limits.disk_reserve_bytes`",
            )


class Stream:
    """A file on its way to the disk, written piece by piece."""

    def __init__(self, path: Path, file: BinaryIO, writer: Writer, size_max: int) -> None:
        """`path` is what it will be called."""
        self.size = 0
        self._path = path
        self._file = file
        self._writer = writer
        self._size_max = size_max
        self._unsynced = 0

    def write(self, piece: bytes) -> None:
        """One more piece, in a turn of its own: who waits for the next piece holds nobody up."""
        if self.size + len(piece) > self._size_max:
            raise BadParametersError(
                f"{self.size + len(piece)} bytes are more than {self._size_max}", to=self._path.name
            )
        with self._writer.turn(self._path, len(piece)):
            self._file.write(piece)
            self.size += len(piece)
            self._unsynced += len(piece)
            if self._unsynced >= SYNC_EVERY:
                self._sync()

    def finish(self) -> None:
        """To the disk, all of it."""
        with self._writer.turn(self._path, 0):
            self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0
