"""What can go wrong with a virtual emulator, switched on and off by the side channel."""

import asyncio
import re
from dataclasses import dataclass, field

from pydantic import JsonValue

NAMES = frozenset(
    {
        "auth", "black_screencap", "chatty_screencap", "cut_after", "disk_full", "drop", "empty_screencap",
        "half_pull", "half_screencap", "no_ack", "no_boot", "no_camera", "no_cnxn", "no_open", "odd_camera",
        "push_full", "refuse_open", "shell_cut", "shell_hang", "short_prologue", "slow", "stall", "sync_cut",
        "sync_drop", "sync_hang", "trickle", "turned", "ui_fail",
    }
)  # fmt: skip


class UnknownFaultError(Exception):
    """There is no such fault, or its parameters do not fit."""


@dataclass(slots=True)
class LineCut:
    """Where a line is cut: at the count-th simple command that fits."""

    match: re.Pattern[str]
    count: int
    before: bool
    stops: bool
    """Whether the line ends there; else only the connection does."""


@dataclass(slots=True)
class VirtualFault:
    times: int | None = None
    """How often it still strikes; for ever with None."""
    options: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def seconds(self, name: str, default: float) -> float:
        value = self.options.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def flag(self, name: str) -> bool:
        return self.options.get(name) is True


class VirtualFaults:
    """The active faults of one emulator."""

    def __init__(self) -> None:
        self._active: dict[str, VirtualFault] = {}
        self.cut: LineCut | None = None
        self._running = asyncio.Event()
        self._running.set()

    def set(self, name: str, times: int | None, options: dict[str, JsonValue]) -> None:
        if name not in NAMES:
            raise UnknownFaultError(f"no fault {name!r}; known: {', '.join(sorted(NAMES))}")
        if name == "cut_after":
            self.cut = _cut(options)
            return
        if name == "stall":
            self._running.clear()
        self._active[name] = VirtualFault(times, options)

    def clear(self, name: str | None) -> None:
        """One, or all."""
        for each in [name] if name else [*self._active, "cut_after"]:
            self._active.pop(each, None)
            if each == "cut_after":
                self.cut = None
        if "stall" not in self._active:
            self._running.set()

    def has(self, name: str) -> bool:
        return name in self._active

    def take(self, name: str) -> VirtualFault | None:
        """The fault if it strikes now; one that strikes a number of times is used up."""
        fault = self._active.get(name)
        if fault is None or fault.times is None:
            return fault
        fault.times -= 1
        if fault.times <= 0:
            del self._active[name]
        return fault

    def option(self, name: str, key: str) -> JsonValue:
        """Of an active fault, without using it up."""
        fault = self._active.get(name)
        return fault.options.get(key) if fault else None

    async def running(self) -> None:
        """Returns at once, or when a stall is over."""
        await self._running.wait()

    @property
    def stalled(self) -> bool:
        return not self._running.is_set()

    def cuts(self, line: str, *, before: bool) -> LineCut | None:
        """The cut that falls at this simple command, used up by it."""
        cut = self.cut
        if cut is None or cut.before != before or not cut.match.search(line):
            return None
        cut.count -= 1
        if cut.count > 0:
            return None
        self.cut = None
        return cut

    def active(self) -> list[str]:
        return sorted([*self._active, *(["cut_after"] if self.cut else [])])


def _cut(options: dict[str, JsonValue]) -> LineCut:
    match, count = options.get("match", ""), options.get("count", 1)
    when, line = options.get("when", "after"), options.get("line", "stop")
    if not isinstance(match, str) or not isinstance(count, int) or count < 1:
        raise UnknownFaultError("cut_after: `match` is a regular expression, `count` at least 1")
    if when not in {"before", "after"} or line not in {"stop", "continue"}:
        raise UnknownFaultError("cut_after: `when` is before or after, `line` is stop or continue")
    try:
        pattern = re.compile(match)
    except re.error as problem:
        raise UnknownFaultError(f"cut_after: {problem}") from problem
    return LineCut(pattern, count, when == "before", line == "stop")
