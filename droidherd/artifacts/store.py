"""The artifact store as a directory: `<root>/<task id>/<name>`."""

import errno
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from droidherd.artifacts.names import checked_name, content_type_of
from droidherd.domain.errors import BadParametersError, DiskFullError, FinalError
from droidherd.domain.ports import ArtifactRef

SIZE_MAX = 64 * 1024 * 1024
COUNT_MAX = 2_000
_UNFINISHED = ".part-"
_FULL = {errno.ENOSPC, errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC}


class DirectoryStore:
    """Implements `ports.Artifacts` for many processes on one file system.

    A file appears whole or not at all, and the same name put twice holds what was put last, so a stage that runs
    again replaces its own artifacts. The content type follows from the name: one truth, no file beside the file.
    """

    def __init__(self, root: Path, *, size_max: int = SIZE_MAX, count_max: int = COUNT_MAX) -> None:
        """`size_max` is bytes per artifact, `count_max` artifacts per task."""
        self._root = root
        self._size_max = size_max
        self._count_max = count_max

    def put(self, task_id: str, name: str, content: bytes, content_type: str = "") -> ArtifactRef:
        """Keep `content` under `name`."""
        path = self._path(task_id, name)
        kind = content_type_of(name)
        if content_type and content_type.partition(";")[0] != kind.partition(";")[0]:
            raise BadParametersError(f"{content_type} does not go with the name {name}", remedy=f"it means {kind}")
        if len(content) > self._size_max:
            raise BadParametersError(f"{len(content)} bytes are more than {self._size_max}", to=name)
        self._refuse_too_many(path)
        self._write(path, content)
        return ArtifactRef(name, len(content), kind)

    @contextmanager
    def writer(self, task_id: str, name: str) -> Generator[BinaryIO]:
        """For a content of any size; the caller bounds it. It appears, whole, when the block ends well."""
        path = self._path(task_id, name)
        self._refuse_too_many(path)
        with self._unfinished(path) as file:
            yield file

    def get(self, task_id: str, name: str) -> bytes:
        """The whole content."""
        with self.open(task_id, name) as file:
            return file.read()

    @contextmanager
    def open(self, task_id: str, name: str) -> Generator[BinaryIO]:
        """The content as an open file, for streaming."""
        path = self._path(task_id, name)
        try:
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise MissingArtifactError(f"task {task_id} has no artifact {name}") from error
        with file:
            yield file

    def list(self, task_id: str) -> Sequence[ArtifactRef]:
        """What a task left behind, by name."""
        folder = self._folder(task_id)
        found: list[ArtifactRef] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                        size = entry.stat(follow_symlinks=False).st_size
                        found.append(ArtifactRef(entry.name, size, content_type_of(entry.name)))
        except FileNotFoundError:
            return ()
        return tuple(sorted(found, key=lambda ref: ref.name))

    def _folder(self, task_id: str) -> Path:
        return self._root / checked_name(task_id, "artifact's task")

    def _path(self, task_id: str, name: str) -> Path:
        path = self._folder(task_id) / checked_name(name)
        if path.is_symlink() or path.parent.is_symlink():
            raise BadParametersError("leads out of the store", to=name)
        return path

    def _refuse_too_many(self, path: Path) -> None:
        if path.parent.is_dir() and not path.exists() and sum(1 for _ in path.parent.iterdir()) >= self._count_max:
            raise FinalError(f"the task has {self._count_max} artifacts already", to=path.name)

    def _write(self, path: Path, content: bytes) -> None:
        with self._unfinished(path) as file:
            file.write(content)

    @contextmanager
    def _unfinished(self, path: Path) -> Generator[BinaryIO]:
        """A file beside `path` that takes its place when the block ends well, and is gone when it does not."""
        unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            _refuse_full(error, path)
        finally:
            unfinished.unlink(missing_ok=True)


class MissingArtifactError(FinalError):
    """There is no artifact of this name."""


def _refuse_full(error: OSError, path: Path) -> NoReturn:
    if error.errno in _FULL:
        raise DiskFullError("no space left in the artifact store", to=path.name) from error
    raise error
