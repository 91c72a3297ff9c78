"""Writes the command journal: one line per simple command, out of the process before its reply leaves."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from droidherd.virtual.witness import JOURNAL, PREDECESSOR

SIZE_LIMIT = 64 << 20
ARGUMENT_LIMIT = 2000


class Journal:
    """Appends with one write per line, so that a kill of the process leaves whole lines (at worst one unfinished)."""

    def __init__(self, folder: Path, size_limit: int = SIZE_LIMIT) -> None:
        self._folder = folder
        self._size_limit = size_limit
        self._file = self._open()
        self.seq = self._last_seq()

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
            lines = path.read_bytes().splitlines() if path.exists() else []
            if lines:
                return int(json.loads(lines[-1])["seq"])
        return 0


def _whole_lines(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def _text(word: str) -> str:
    return word.encode(errors="surrogateescape").decode(errors="replace")[:ARGUMENT_LIMIT]
