"""The artifact store as a directory: `<root>/<task id>/<name>`."""

import os
import secrets
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from droidherd.artifacts.names import checked_name, content_type_of
from droidherd.artifacts.writer import Stream, Writer
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError, FinalError
from droidherd.domain.ports import ArtifactRef
from droidherd.domain.retention import BEFORE, Folder
from droidherd.files.regular import NotRegularError, open_regular

SIZE_MAX = 64 * 1024 * 1024
COUNT_MAX = 2_000
MARK = ".droidherd"
"""A file that says that a directory is an artifact store and nothing else."""
_UNFINISHED = ".part-"
_GONE = ".gone-"


class DirectoryStore:
    """Implements `ports.Artifacts` and `retention.Shelf` for many processes on one file system.

    A file appears whole or not at all, and the same name put twice holds what was put last, so a stage that runs
    again replaces its own artifacts. The content type follows from the name: one truth, no file beside the file.
    """

    def __init__(
        self, root: Path, *, size_max: int = SIZE_MAX, count_max: int = COUNT_MAX, writer: Writer | None = None
    ) -> None:
        """`size_max` is bytes per artifact, `count_max` artifacts per task. All stores of a process share a writer."""
        self._root = root
        self._size_max = size_max
        self._count_max = count_max
        self.writer = writer or Writer()

    def put(
        self, task_id: str, name: str, content: bytes, content_type: str = "", *, synced: bool = True
    ) -> ArtifactRef:
        """Keep `content` under `name`. Not `synced`: a host that dies right now may leave an empty file."""
        path = self._path(task_id, name)
        kind = content_type_of(name)
        if content_type and content_type.partition(";")[0] != kind.partition(";")[0]:
            raise BadParametersError(f"{content_type} does not go with the name {name}", remedy=f"it means {kind}")
        with self._write(path, self._size_max, synced=synced) as stream:
            stream.write(content)
        return ArtifactRef(name, len(content), kind)

    @contextmanager
    def stream(self, task_id: str, name: str, *, size_max: int) -> Generator[Stream]:
        """Keep what is written piece by piece, in constant memory. Whoever raises inside leaves nothing."""
        with self._write(self._path(task_id, name), size_max) as stream:
            yield stream

    def get(self, task_id: str, name: str) -> bytes:
        """The whole content."""
        with self.open(task_id, name) as file:
            return file.read()

    @contextmanager
    def open(self, task_id: str, name: str) -> Generator[BinaryIO]:
        """The content as an open file, for streaming."""
        path = self._path(task_id, name)
        try:
            file = open_regular(path)
        except (FileNotFoundError, NotADirectoryError, NotRegularError, PermissionError) as error:
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
        return self._root / checked_name(ids.file_of(task_id), "artifact's task")

    def _path(self, task_id: str, name: str) -> Path:
        path = self._folder(task_id) / checked_name(name)
        if path.is_symlink() or path.parent.is_symlink():
            raise BadParametersError("leads out of the store", to=name)
        return path

    def _refuse_too_many(self, path: Path) -> None:
        if path.parent.is_dir() and not path.exists() and sum(1 for _ in path.parent.iterdir()) >= self._count_max:
            raise FinalError(f"the task has {self._count_max} artifacts already", to=path.name)

    @contextmanager
    def _write(self, path: Path, size_max: int, *, synced: bool = True) -> Generator[Stream]:
        """Appears under its name when it is whole."""
        self._refuse_too_many(path)
        unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
        try:
            with self._open_unfinished(unfinished) as file:
                stream = Stream(path, file, self.writer, size_max)
                yield stream
                if synced:
                    stream.finish()
            with self.writer.turn(path, 0):
                unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _open_unfinished(self, unfinished: Path) -> BinaryIO:
        folder = unfinished.parent
        with self.writer.turn(unfinished, 0):
            if not folder.is_dir():
                if not self._root.is_dir() or not any(self._root.iterdir()):
                    self.mark()
                folder.mkdir(exist_ok=True)
            return unfinished.open("xb")

    # --- tidying up -------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """This directory is a store and nothing else: what no task owns may be removed."""
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / MARK).touch()

    def ours(self) -> str:
        """Empty, or why nothing may be removed here that no task is known to own."""
        if not self._root.exists() or (self._root / MARK).exists():
            return ""
        return f"{self._root} may hold more than artifacts; if it does not, make an empty file {MARK} in it"

    def purge(self) -> None:
        """Finish removals that were broken off."""
        for path in self._root.glob(f"{_GONE}*"):
            shutil.rmtree(path)

    def folders(self) -> Generator[Folder]:
        """What each task left. What does not look like a task's folder is passed over."""
        try:
            entries = os.scandir(self._root)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    folder = _measure(entry.path, ids.task_of(entry.name))
                    if folder is not None:
                        yield folder

    def size(self, task_id: str) -> int:
        """Bytes that a task left."""
        folder = _measure(self._folder(task_id), task_id)
        return folder.size if folder else 0

    def remove(self, task_id: str) -> int:
        """Remove everything a task left, at one stroke for who looks; how many bytes that were."""
        folder, gone = self._folder(task_id), self._root / f"{_GONE}{secrets.token_hex(8)}"
        found = _measure(folder, task_id)
        if found is None:
            return 0
        try:
            folder.rename(gone)
        except FileNotFoundError:
            return 0
        shutil.rmtree(gone)
        return found.size

    def thin(self, task_id: str) -> int:
        """Remove everything but what a rollback needs; how many bytes that were."""
        folder, freed = self._folder(task_id), 0
        if _measure(folder, task_id) is None:
            return 0
        for path in [*folder.iterdir()]:
            if not path.name.startswith(BEFORE):
                freed += path.lstat().st_size
                path.unlink()
        return freed


class MissingArtifactError(FinalError):
    """There is no artifact of this name."""


def _measure(path: str | Path, task_id: str) -> Folder | None:
    """A folder of plain files, as the store makes them; anything else is not one of ours."""
    size, before, changed = 0, 0, 0.0
    try:
        checked_name(ids.file_of(task_id), "artifact's task")
        if os.path.islink(path):  # noqa: PTH114 (both kinds of path)
            return None
        with os.scandir(path) as entries:
            changed = os.stat(path).st_mtime  # noqa: PTH116
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    return None
                size, changed = size + about.st_size, max(changed, about.st_mtime)
                before += about.st_size if entry.name.startswith(BEFORE) else 0
    except (FileNotFoundError, NotADirectoryError, BadParametersError):
        return None
    return Folder(task_id, size, int(changed * 1000), before)
