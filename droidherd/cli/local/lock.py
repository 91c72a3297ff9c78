"""One instance per data directory: a lock the system takes back when its holder dies, however it dies."""

import os
import sys
import time
from pathlib import Path
from typing import IO, Self

from droidherd.cli.errors import AlreadyRunningError

HOLDER_LOOKS, HOLDER_EVERY_S, HOLDER_BYTES = 50, 0.02, 100


class InstanceLock:
    """Held from `take` to `give_back`, or to the end of the process."""

    def __init__(self, path: Path) -> None:
        """`path` is the file that carries the lock; it stays when the lock is gone."""
        self._path = path
        self._file: IO[bytes] | None = None

    def take(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+b")
        if not try_lock(file):
            holder = _holder(file)
            file.close()
            raise AlreadyRunningError(
                f"the data directory {self._path.parent.parent} is in use by process {holder}",
                remedy="see it with `droidherd status`, end it with `droidherd down`, or choose another with --data",
                code=2,
            )
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        self._file = file
        return self

    def give_back(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(self, *_: object) -> None:
        self.give_back()


def _holder(file: IO[bytes]) -> str:
    """Who writes itself down right after it took the lock."""
    for _ in range(HOLDER_LOOKS):
        file.seek(0)
        if holder := file.read(HOLDER_BYTES).decode(errors="replace").strip():
            return holder
        time.sleep(HOLDER_EVERY_S)
    return "unknown"


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock now."""
    try:
        with path.open("a+b") as file:
            return not try_lock(file)
    except OSError:
        return False


def try_lock(file: IO[bytes]) -> bool:
    """Whether it is ours from now on, until it is closed."""
    try:
        if sys.platform == "win32":
            import msvcrt

            # Far behind the text, so that others can read who holds it.
            file.seek(1 << 20)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0, os.SEEK_END)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
