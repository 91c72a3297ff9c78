"""What every command of a virtual emulator is given."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from droidherd.virtual.machine import VirtualDevice
from droidherd.virtual.shell.streams import ShellStreams
from droidherd.virtual.shell.system import System

INPUT_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class CommandContext:
    """One run of one command."""

    emulator: VirtualDevice
    system: System
    argv: tuple[str, ...]
    streams: ShellStreams
    environment: Mapping[str, str]
    directory: str

    @property
    def name(self) -> str:
        return self.argv[0].rpartition("/")[2]

    @property
    def words(self) -> list[str]:
        return list(self.argv[1:])

    def say(self, text: str) -> None:
        self.streams.say(text)

    def complain(self, text: str) -> None:
        self.streams.complain(text)

    def fail(self, text: str, rc: int = 1) -> int:
        self.complain(f"{self.name}: {text}\n")
        return rc

    def path(self, name: str) -> str:
        return name if name.startswith("/") else f"{self.directory.rstrip('/')}/{name}"

    async def stdin(self) -> bytes:
        return await self.streams.stdin.all(INPUT_LIMIT)

    async def inputs(self, names: list[str]) -> tuple[list[tuple[str, bytes]], int]:
        """The contents of the files named (standard input when none or `-`), and 1 when one could not be read."""
        found: list[tuple[str, bytes]] = []
        rc = 0
        for name in names or ["-"]:
            if name == "-":
                found.append((name, await self.stdin()))
                continue
            try:
                found.append((name, self.emulator.files.read(self.path(name))))
            except OSError as problem:
                rc = self.fail(f"{name}: {os.strerror(problem.errno or 0)}")
        return found, rc


Command: TypeAlias = Callable[[CommandContext], Awaitable[int]]


def options(words: list[str], known: str, valued: str = "") -> tuple[dict[str, str], list[str]]:
    """Short options anywhere before `--`: letters of `known` are switches, those of `valued` take a value."""
    found: dict[str, str] = {}
    rest: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            return found, rest + queue
        if len(word) < 2 or word[0] != "-":  # noqa: PLR2004 - a dash alone is a name
            rest.append(word)
            continue
        letters = word[1:]
        while letters:
            flag, letters = letters[0], letters[1:]
            if flag in valued:
                if not letters and not queue:
                    raise ValueError(f"missing argument to -{flag}")
                found[flag] = letters or queue.pop(0)
                letters = ""
            elif flag in known:
                found[flag] = ""
            else:
                raise ValueError(f"Unknown option '{flag}'")
    return found, rest
