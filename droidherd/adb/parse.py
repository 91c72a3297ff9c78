"""Pure parsers of what the adb server and Android's tools print. Tolerant of CRLF and of warnings around the answer."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from droidherd.domain.errors import InfrastructureError
from droidherd.domain.fleet.facts import InstalledPackage, Storage

_PROPERTY = re.compile(r"^\[([^\]]+)\]: \[(.*)$")
_SIZE = re.compile(r"^\s*(Physical|Override) size:\s*(\d{1,6})x(\d{1,6})\s*$")
_DENSITY = re.compile(r"^\s*(Physical|Override) density:\s*(\d{1,6})\s*$")
TEXT_MAX, LINES_MAX = 4 << 20, 100_000
"""Of an answer in characters and in lines: a whole `dumpsys activity` has a tenth of either."""
_LINE_MAX = 2_000
"""Of a line about a window or an activity: what is longer is none, and searching it could take minutes."""
_FOCUS = re.compile(r"mCurrentFocus=Window\{[0-9a-f]+(?: u\d+)? (.+?)(?: EXITING| paused=\w+)*\}\s*$")
_DISPLAY = re.compile(r"\bDisplay: mDisplayId=(\d+)")
_FOCUSED_DISPLAY = re.compile(r"\bmTopFocusedDisplayId=(\d+)")
_RESUMED = re.compile(
    r"\b(topResumedActivity|mResumedActivity|ResumedActivity|mFocusedActivity)[=:] ?"
    r"ActivityRecord\{[0-9a-f]+(?: u\d+)? ([^\s/]+/[^\s/]+?)(?: t-?\d+)?(?: d\d+)?(?: f)?\}"
)
_RESUMED_BY_RANK = ("topResumedActivity", "ResumedActivity", "mResumedActivity", "mFocusedActivity")
_SETTING = re.compile(r"^([A-Za-z0-9_][A-Za-z0-9_.:@/-]*)=(.*)$")
_COMPONENT = re.compile(r"^[A-Za-z0-9_.$]+/[A-Za-z0-9_.$]+$")
_PACKAGE = re.compile(r"^package:(?:.*=)?([A-Za-z0-9_.]+)\s*$")
_INSTALLED = re.compile(r"^package:(/.*)=([A-Za-z0-9_.]+)(?: versionCode:(\d{1,20}))?(?: uid:[\d,]+)?\s*$")
_STORAGE = re.compile(r"\s(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s+\d{1,3}%\s")
_UPTIME = re.compile(r"^\s*(\d{1,12}\.\d{1,6})\s+\d+(?:\.\d+)?\s*$")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_LISTED = re.compile(r"^(\S+)\s+(no permissions|\S+)(?:\s+(.*))?$")


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the adb server's list."""

    serial: str
    state: str
    details: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ready(self) -> bool:
        return self.state == "device"


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Focus:
    """The window in front."""

    window: str
    """`package/activity`, or the title of a window that is none (a dialog of the system)."""

    @property
    def component(self) -> str:
        return self.window if _COMPONENT.match(self.window) else ""

    @property
    def not_responding(self) -> bool:
        return "Application Not Responding" in self.window or "Application Error" in self.window


def _lines(text: str) -> list[str]:
    return _bounded(text).replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _bounded(text: str) -> str:
    """The answer, unless nothing of Android prints so much."""
    if len(text) > TEXT_MAX or text.count("\n") + text.count("\r") > LINES_MAX:
        raise InfrastructureError(
            f"answered with {len(text)} characters, more than any command of Android prints",
            remedy="see what the emulator itself answers, and restart it",
        )
    return text


def properties(text: str) -> dict[str, str]:
    """`getprop` without arguments. A value may have several lines; one that never ends is none."""
    found: dict[str, str] = {}
    name, parts = "", list[str]()
    for line in _lines(text):
        if one := _PROPERTY.match(line):
            name, parts = one[1], [one[2]]
        elif name:
            parts.append(line)
        if name and parts[-1].endswith("]"):
            found[name] = "\n".join(parts).removesuffix("]")
            name = ""
    return found


def settings(text: str) -> dict[str, str]:
    """`settings list`. What is no `name=value` belongs to the value before."""
    found: dict[str, list[str]] = {}
    last: list[str] = []
    for line in _lines(text)[:-1] if text.endswith("\n") else _lines(text):
        if one := _SETTING.match(line):
            last = found[one[1]] = [one[2]]
        elif last:
            last.append(line)
    return {name: "\n".join(parts) for name, parts in found.items()}


def window_size(text: str) -> Size | None:
    """`wm size`: an override wins over what the panel has."""
    found = {one[1]: Size(int(one[2]), int(one[3])) for line in _lines(text) if (one := _SIZE.match(line))}
    return found.get("Override", found.get("Physical"))


def density(text: str) -> int | None:
    """`wm density`: an override wins."""
    found = {one[1]: int(one[2]) for line in _lines(text) if (one := _DENSITY.match(line))}
    return found.get("Override", found.get("Physical"))


def focus(text: str) -> Focus | None:
    """`dumpsys window`: of the display that has the focus; where that is not said, of the last one with a window.

    A window of another display is not in front, though the display with the focus may have none just now.
    """
    found: dict[str, str] = {}
    display, focused = "", ""
    for line in _lines(text):
        if one := _DISPLAY.search(line):
            display = one[1]
        if one := _FOCUSED_DISPLAY.search(line):
            focused = one[1]
        if one := _FOCUS.search(line[:_LINE_MAX]):
            found.pop(display, None)
            found[display] = one[1]
    if focused:
        window = found.get(focused, found.get(""))
        return Focus(window) if window else None
    return Focus([*found.values()][-1]) if found else None


def resumed_activity(text: str) -> str:
    """`dumpsys activity activities`: the `package/activity` that is at work in front; empty while there is none."""
    found: dict[str, str] = {}
    for line in _lines(text):
        for one in _RESUMED.finditer(line[:_LINE_MAX]):
            found.setdefault(one[1], one[2])
    return next((found[name] for name in _RESUMED_BY_RANK if name in found), "")


def number(text: str) -> int | None:
    """A whole number as programs print it, and nothing else that Python would take for one."""
    return int(text) if _NUMBER.fullmatch(text) else None


def seconds(text: str) -> float | None:
    """The same of seconds, with or without a fraction."""
    return float(text) if _SECONDS.fullmatch(text) else None


def uptime_s(text: str) -> float | None:
    """`/proc/uptime`."""
    found = [float(one[1]) for line in _lines(text) if (one := _UPTIME.match(line))]
    return found[0] if found else None


def packages(text: str) -> tuple[str, ...]:
    """`pm list packages`, with or without `-f`."""
    return tuple(one[1] for line in _lines(text) if (one := _PACKAGE.match(line)))


def devices(text: str) -> tuple[Listed, ...]:
    """`devices`, `devices -l` and each message of `track-devices[-l]`."""
    found: list[Listed] = []
    for line in _lines(text):
        if not line.strip() or line.startswith(("*", "List of")):
            continue
        if one := _LISTED.match(line.strip()):
            words = (word.partition(":") for word in (one[3] or "").split() if ":" in word)
            found.append(Listed(one[1], one[2], {name: value for name, _, value in words}))
    return tuple(found)


def override_of(what: str, text: str) -> str | None:
    """The override that `wm size` or `wm density` tells of, empty without one; None when it tells nothing."""
    pattern = _SIZE if what == "size" else _DENSITY
    found = {one[1]: "x".join(one.groups()[1:]) for line in _lines(text) if (one := pattern.match(line))}
    return found.get("Override", "") if "Physical" in found else None


def installed_packages(text: str) -> tuple[InstalledPackage, ...]:
    """`pm list packages -f --show-versioncode`. A path may hold `=`, a name holds none."""
    found = (_INSTALLED.match(line) for line in _lines(text))
    return tuple(InstalledPackage(one[2], one[1], int(one[3]) if one[3] else None) for one in found if one)


def storage(text: str) -> Storage | None:
    """`df -k`: the last file system it names. A long name may stand on a line of its own."""
    found = _STORAGE.findall(_bounded(text).replace("\r\n", "\n"))
    return Storage(int(found[-1][0]), int(found[-1][2])) if found else None


_LOG_LINE = re.compile(
    r"^(?P<at>(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}(?: [+-]\d{4})?)|\d{1,12}\.\d{3,6})"
    r"\s+(?:(?P<uid>[A-Za-z_][\w-]*|\d+)\s+(?=\d+\s+\d+\s+[VDIWEFS]\s))?(?P<pid>\d{1,10})\s+(?P<tid>\d{1,10})"
    r"\s(?P<level>[VDIWEFS])\s"
)
_LOG_LINE_MAX = 8_192
"""The log keeps lines of half that length."""


@dataclass(frozen=True, slots=True)
class LogcatLine:
    """One line that an app or the system wrote."""

    at: str
    """As it stands there: by the emulator's own clock, with or without a year, or in seconds."""
    pid: int
    tid: int
    level: str
    tag: str
    text: str


def log_line(text: str) -> LogcatLine | None:
    """None: where a buffer begins, and what is no line of a log."""
    one = _LOG_LINE.match(text) if len(text) <= _LOG_LINE_MAX else None
    if one is None:
        return None
    tag, colon, message = f"{text[one.end() :]} ".partition(": ")
    if not colon:
        return None
    return LogcatLine(one["at"], int(one["pid"]), int(one["tid"]), one["level"], tag.rstrip(), message[:-1])


def log_moment(at: str, now: datetime | None = None) -> datetime | None:
    """The time of a line, by the emulator's own clock. One without a year is of the last twelve months before `now`."""
    stamp = at.partition(".")[0]
    year = f"{now.year}-" if now and re.fullmatch(r"\d\d-\d\d .*", stamp) else ""
    try:
        moment = datetime.fromisoformat(f"{year}{stamp}")
        if moment.tzinfo is not None or not 1970 <= moment.year < 10_000 - 1:  # noqa: PLR2004 - no Android is elsewhere
            return None
        is_ahead = year and now and moment - now > timedelta(days=1)
        return moment.replace(year=moment.year - 1) if is_ahead else moment
    except ValueError:
        return None


def log_lines(text: str) -> tuple[LogcatLine, ...]:
    """All of them."""
    return tuple(one for raw in _bounded(text).replace("\r\n", "\n").split("\n") if (one := log_line(raw)))
