"""The file system of one virtual emulator: two writable trees kept on the host, read-only roots, a few generated files.

Names are percent-encoded on the host, so no name on the emulator can leave its folder or meet a reserved one.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote_to_bytes

from droidherd.virtual.store import VirtualStore

WRITABLE = ("/data/local/tmp", "/sdcard")
_FURNISHED = tuple(
    f"/sdcard/{name}" for name in ("Android", "DCIM", "Documents", "Download", "Movies", "Music", "Pictures")
)
"""Folders that every Android has from its first start."""
_ALIASES = (("/storage/emulated/0", "/sdcard"), ("/mnt/sdcard", "/sdcard"), ("/storage/self/primary", "/sdcard"))
_DIRECTORIES = frozenset(
    {
        "/", "/data", "/data/local", "/data/data", "/data/app", "/system", "/system/bin", "/system/app", "/vendor",
        "/proc", "/proc/sys", "/proc/sys/kernel", "/proc/sys/kernel/random", "/dev", "/storage", "/storage/emulated",
        "/mnt", "/apex", "/product", "/cache",
    }
)  # fmt: skip
_CLOSED = ("/data", "/proc", "/dev", "/cache")
NAME_LIMIT = 240


@dataclass(frozen=True, slots=True)
class FileStat:
    mode: int
    size: int
    mtime: int


class Modes:
    """The modes that were set, by path. They go along when a file is moved."""

    def __init__(self, store: VirtualStore | None = None) -> None:
        self._store = store
        kept = store.load("modes") if store else {}
        self._modes = {path: mode for path, mode in kept.items() if isinstance(mode, int)}

    def get(self, path: str, default: int) -> int:
        return self._modes.get(path, default)

    def set(self, path: str, mode: int) -> None:
        if self._modes.get(path) != mode:
            self._modes[path] = mode
            self._save()

    def drop(self, path: str) -> None:
        """It is gone, with all that was in it."""
        gone = [each for each in self._modes if each == path or each.startswith(path + "/")]
        for each in gone:
            del self._modes[each]
        if gone:
            self._save()

    def move(self, source: str, target: str) -> None:
        inside = {path: mode for path, mode in self._modes.items() if path == source or path.startswith(source + "/")}
        self.drop(source)
        self.drop(target)
        self._modes |= {target + path[len(source) :]: mode for path, mode in inside.items()}
        if inside:
            self._save()

    def _save(self) -> None:
        if self._store:
            self._store.save("modes", self._modes)


class EmulatorFiles:
    """Failures are OSError with the errno Android gives."""

    def __init__(
        self, folder: Path, generated: Mapping[str, Callable[[], bytes]], is_process: Callable[[int], bool]
    ) -> None:
        self.folder = folder
        self.generated = generated
        self.is_process = is_process
        self.full = False
        self._lent: Callable[[str], Path | None] = lambda _path: None
        self._modes = Modes()
        for root in (*WRITABLE, *_FURNISHED):
            self._host(root).mkdir(parents=True, exist_ok=True)

    def lend(self, lent: Callable[[str], Path | None], store: VirtualStore) -> None:
        """Files that stand elsewhere on the host, to be read only; and where modes are kept over a restart."""
        self._lent = lent
        self._modes = Modes(store)

    # --- facts

    def kind(self, path: str) -> str:
        path = normal(path)
        if path in self.generated or self._lent(path):
            return "file"
        if path in _DIRECTORIES or self._is_process_folder(path):
            return "directory"
        if not _is_writable(path):
            return ""
        try:
            host = self._host(path)
        except OSError:
            return ""
        return "directory" if host.is_dir() else "file" if host.is_file() else ""

    def size(self, path: str) -> int:
        return self.stat(path).size

    def stat(self, path: str) -> FileStat:
        path = normal(path)
        if path in self.generated:
            return FileStat(stat.S_IFREG | 0o444, len(self.generated[path]()), 1_230_768_000)
        if path in _DIRECTORIES or self._is_process_folder(path):
            return FileStat(stat.S_IFDIR | 0o755, 4096, 1_230_768_000)
        if lent := self._lent(path):
            return FileStat(stat.S_IFREG | 0o644, lent.stat().st_size, int(lent.stat().st_mtime))
        host = self._existing(path)
        facts = host.stat()
        if host.is_dir():
            return FileStat(stat.S_IFDIR | self._modes.get(path, 0o775), 4096, int(facts.st_mtime))
        return FileStat(stat.S_IFREG | self._modes.get(path, 0o660), facts.st_size, int(facts.st_mtime))

    def changed_s(self, path: str) -> float:
        """When it was written last, as fine as the host tells; 0 for what is generated."""
        path = normal(path)
        return self._host(path).stat().st_mtime_ns / 1e9 if _is_writable(path) else 0.0

    def names(self, path: str) -> list[str]:
        """Sorted; none when there is no such directory or it may not be read."""
        path = normal(path)
        inside = {known for known in (*_DIRECTORIES, *self.generated, *WRITABLE) if _parent(known) == path != known}
        found = {known.rpartition("/")[2] for known in inside}
        if _is_writable(path) and self.kind(path) == "directory":
            found |= {_decode(entry.name) for entry in self._host(path).iterdir()}
        return sorted(found)

    def may_list(self, path: str) -> bool:
        return normal(path) not in {"/data", "/data/data", "/data/app"}

    # --- contents

    def read(self, path: str) -> bytes:
        path = normal(path)
        if path in self.generated:
            return self.generated[path]()
        with self.open(path) as file:
            return file.read()

    def open(self, path: str) -> BinaryIO:
        """For reading piece by piece a file that may be large."""
        path = normal(path)
        if self.kind(path) == "directory":
            raise _problem(errno.EISDIR, path)
        return (self._lent(path) or self._existing(path)).open("rb")

    def truncate(self, path: str) -> None:
        self._target(path).write_bytes(b"")

    def append(self, path: str, data: bytes) -> None:
        host = self._target(path)
        if data and self.full:
            raise _problem(errno.ENOSPC, path)
        with host.open("ab", buffering=0) as file:
            file.write(data)

    def writer(self, path: str) -> BinaryIO:
        """For writing piece by piece; the caller asks `full` before each."""
        return self._target(path).open("wb", buffering=0)

    # --- tree

    def make_directory(self, path: str, *, parents: bool) -> None:
        path = normal(path)
        if self.kind(path):
            if parents and self.kind(path) == "directory":
                return
            raise _problem(errno.EEXIST, path)
        if parents and not self.kind(_parent(path)):
            self.make_directory(_parent(path), parents=True)
        self._check_space(path)
        self._target(path).mkdir()

    def remove(self, path: str, *, recursive: bool) -> None:
        path = normal(path)
        _check_may_write(path)
        host = self._existing(path)
        if path in WRITABLE:
            raise _problem(errno.EBUSY, path)
        if not host.is_dir():
            host.unlink()
        elif recursive:
            shutil.rmtree(host)
        else:
            raise _problem(errno.EISDIR, path)
        self._modes.drop(path)

    def remove_directory(self, path: str) -> None:
        _check_may_write(normal(path))
        self._existing(normal(path)).rmdir()
        self._modes.drop(normal(path))

    def rename(self, source: str, target: str) -> None:
        _check_may_write(normal(source))
        os.replace(self._existing(normal(source)), self._target(target))  # noqa: PTH105 - both sides are paths already
        self._modes.move(normal(source), normal(target))

    def copy(self, source: str, target: str) -> None:
        data = self.read(source)
        self.truncate(target)
        self.append(target, data)

    def touch(self, path: str, mtime: int | None = None) -> None:
        host = self._target(path)
        if not host.exists():
            self._check_space(path)
        host.touch()
        if mtime is not None:
            os.utime(host, (mtime, mtime))

    def chmod(self, path: str, mode: int) -> None:
        _check_may_write(normal(path))
        _ = self._existing(normal(path))
        self._modes.set(normal(path), mode & 0o7777)

    # --- places

    def _is_process_folder(self, path: str) -> bool:
        name = path.removeprefix("/proc/")
        return name != path and name.isdecimal() and self.is_process(int(name))

    def _check_space(self, path: str) -> None:
        if self.full:
            raise _problem(errno.ENOSPC, path)

    def _target(self, path: str) -> Path:
        """The place of a file that may be written."""
        path = normal(path)
        _check_may_write(path)
        if path in WRITABLE or self.kind(path) == "directory":
            raise _problem(errno.EISDIR, path)
        if self.kind(_parent(path)) != "directory":
            raise _problem(errno.ENOENT, path)
        return self._host(path)

    def _existing(self, path: str) -> Path:
        if not _is_writable(path):
            raise _problem(errno.ENOENT, path)
        host = self._host(path)
        if not host.exists():
            raise _problem(errno.ENOENT, path)
        return host

    def _host(self, path: str) -> Path:
        parts = [_encode(part, path) for part in path.split("/") if part]
        return self.folder.joinpath(*parts)


def normal(path: str) -> str:
    """Absolute, without `.`, `..` and double slashes, under its first name."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    plain = "/" + "/".join(parts)
    for alias, target in _ALIASES:
        if plain == alias or plain.startswith(alias + "/"):
            return target + plain[len(alias) :]
    return plain


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_writable(path: str) -> bool:
    return any(path == root or path.startswith(root + "/") for root in WRITABLE)


def _check_may_write(path: str) -> None:
    if _is_writable(path):
        return
    closed = any(path == root or path.startswith(root + "/") for root in _CLOSED)
    raise _problem(errno.EACCES if closed else errno.EROFS, path)


def _encode(name: str, path: str) -> str:
    encoded = quote(name.encode(errors="surrogateescape"), safe=" ")
    if len(encoded) > NAME_LIMIT:
        raise _problem(errno.ENAMETOOLONG, path)
    return encoded


def _decode(name: str) -> str:
    return unquote_to_bytes(name).decode(errors="surrogateescape")


def _problem(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
