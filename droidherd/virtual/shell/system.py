"""What the shell needs from the system around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from droidherd.virtual.shell.conditions import ShellFileFacts
from droidherd.virtual.shell.streams import ShellStreams


@dataclass(frozen=True, slots=True)
class ShellCall:
    """One command to be carried out by the system."""

    argv: tuple[str, ...]
    streams: ShellStreams
    environment: Mapping[str, str]
    directory: str


class ShellFiles(ShellFileFacts, Protocol):
    """The files a line may read and write. Paths are absolute; failures are OSError."""

    def read(self, path: str) -> bytes: ...
    def truncate(self, path: str) -> None: ...
    def append(self, path: str, data: bytes) -> None: ...
    def names(self, path: str) -> list[str]: ...


class System(Protocol):
    """Carries out what is not built into the shell, and watches every command."""

    @property
    def pid(self) -> int:
        """Of the shell: `$$`."""
        ...

    @property
    def files(self) -> ShellFiles: ...

    async def before(self, argv: Sequence[str]) -> None:
        """A simple command is about to run; may end the line by an exception."""
        ...

    async def after(self, argv: Sequence[str], rc: int, *, wrote: bool) -> None:
        """It ran; `wrote`: its output went to a file."""
        ...

    def knows(self, name: str) -> bool: ...

    async def call(self, call: ShellCall) -> int: ...


@dataclass(slots=True)
class ShellLimits:
    """Nothing a line does is unbounded."""

    commands: int = 100_000
    depth: int = 40
    captured_bytes: int = 64 << 20
    substituted_bytes: int = 1 << 20
    words: int = 10_000


class LimitReachedError(Exception):
    """The line asked for more than this shell gives."""
