"""Reads an emulator's command journal: what it really did, in which order. Tests judge from this."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOURNAL = "commands.jsonl"
PREDECESSOR = "commands.1.jsonl"


@dataclass(frozen=True, slots=True)
class Command:
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


def read(state: Path, emulator: str) -> list[Command]:
    """All commands kept, oldest first. A last line that a kill left unfinished is left out."""
    found: list[Command] = []
    for name in (PREDECESSOR, JOURNAL):
        path = state / emulator / name
        text = path.read_bytes() if path.exists() else b""
        found.extend(_command(emulator, line) for line in text.split(b"\n")[:-1])
    return sorted(found, key=lambda command: command.seq)


def effects(commands: list[Command]) -> list[Command]:
    return [command for command in commands if command.effect]


def _command(emulator: str, line: bytes) -> Command:
    fields: dict[str, Any] = json.loads(line)
    fields["argv"] = tuple(fields["argv"])
    return Command(emulator=emulator, **fields)
