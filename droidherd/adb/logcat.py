"""Lines of `logcat -v threadtime`, with what its variants add. Pure."""

import re
from dataclasses import dataclass

LEVELS = "VDIWEFS"
_LINE = re.compile(
    r"^(?P<at>(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}(?: [+-]\d{4})?)|\d{1,12}\.\d{3,6})"
    r"\s+(?:(?P<uid>[A-Za-z_][\w-]*|\d+)\s+(?=\d+\s+\d+\s+[VDIWEFS]\s))?(?P<pid>\d+)\s+(?P<tid>\d+)"
    r"\s(?P<level>[VDIWEFS])\s(?P<tag>.*?)\s*:(?: (?P<text>.*))?$"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that an app or the system wrote."""

    at: str
    """As it stands there: by the emulator's own clock, with or without a year, or in seconds."""
    pid: int
    tid: int
    level: str
    tag: str
    text: str


def line(text: str) -> LogLine | None:
    """None: where a buffer begins, and what is no line of a log."""
    one = _LINE.match(text)
    if one is None:
        return None
    return LogLine(one["at"], int(one["pid"]), int(one["tid"]), one["level"], one["tag"], one["text"] or "")


def lines(text: str) -> tuple[LogLine, ...]:
    """All of them."""
    return tuple(one for raw in text.replace("\r\n", "\n").split("\n") if (one := line(raw)))
