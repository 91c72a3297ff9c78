"""The command journal: what an emulator really did, in which order. Tests judge from it.

One line per simple command, out of the process before its reply leaves.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOURNAL = "commands.jsonl"
PREDECESSOR = "commands.1.jsonl"
SIZE_LIMIT = 64 << 20
ARGUMENT_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class ExecutedCommand:
    """One simple command that was executed (not one shell line)."""

    emulator: str
    seq: int
    wall_s: float
    monotonic_s: float
    """Of the host, when it ended; comparable between processes of one machine."""
    uptime_s: float
    boot: int
    stream: int
    argv: tuple[str, ...]
    rc: int
    effect: bool
    token: str
    """`debug.droidherd.token` when it ended."""

    @property
    def line(self) -> str:
        return " ".join(self.argv)


def read(state: Path, emulator: str) -> list[ExecutedCommand]:
    """All commands kept, oldest first. A last line that a kill left unfinished is left out."""
    found: list[ExecutedCommand] = []
    for name in (PREDECESSOR, JOURNAL):
        path = state / emulator / name
        text = path.read_bytes() if path.exists() else b""
        found.extend(_command(emulator, line) for line in text.split(b"\n")[:-1])
    return sorted(found, key=lambda command: command.seq)


def effects(commands: list[ExecutedCommand]) -> list[ExecutedCommand]:
    return [command for command in commands if command.effect]


def _command(emulator: str, line: bytes) -> ExecutedCommand:
    fields: dict[str, Any] = json.loads(line)
    fields["argv"] = tuple(fields["argv"])
    return ExecutedCommand(emulator=emulator, **fields)


class CommandJournal:
    """Appends with one write per line, so that a kill of the process leaves whole lines (at worst one unfinished)."""

    def __init__(self, folder: Path, size_limit: int = SIZE_LIMIT) -> None:
        self._folder = folder
        self._size_limit = size_limit
        self.seq = self._last_seq()
        self._file = self._open()

    def write(self, argv: Sequence[str], rc: int, *, effect: bool, moment: dict[str, float | int | str]) -> None:
        """`moment`: uptime_s, boot, stream, token."""
        self.seq += 1
        entry = {
            "seq": self.seq,
            "wall_s": time.time(),
            "monotonic_s": time.monotonic(),
            "argv": [_text(word) for word in argv],
            "rc": rc,
            "effect": effect,
            **moment,
        }
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        if os.fstat(self._file).st_size > self._size_limit:
            self._rotate()

    def close(self) -> None:
        os.close(self._file)

    def _open(self) -> int:
        path = self._folder / JOURNAL
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        content_end = path.read_bytes()[-1:] if path.stat().st_size else b"\n"
        if content_end != b"\n":
            # A kill left half a line: without it the next one stands alone.
            os.ftruncate(file, _whole_lines(path))
        return file

    def _rotate(self) -> None:
        os.close(self._file)
        os.replace(self._folder / JOURNAL, self._folder / PREDECESSOR)  # noqa: PTH105 - atomic, named as such
        self._file = self._open()

    def _last_seq(self) -> int:
        for name in (JOURNAL, PREDECESSOR):
            path = self._folder / name
            # A kill may have left half a line at the end.
            lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
            if lines:
                return int(json.loads(lines[-1])["seq"])
        return 0


def _whole_lines(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def _text(word: str) -> str:
    return word.encode(errors="surrogateescape").decode(errors="replace")[:ARGUMENT_LIMIT]
