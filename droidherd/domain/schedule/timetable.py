"""When a subscription is due: by cron or by interval, in a time zone. Pure; whole seconds, as on the engine.

The hour that clocks repeat once a year is left out: what the engine does in it depends on the zone, and on nothing
anybody would expect. So nothing in it counts as due, whether it was started or not.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from droidherd.domain.errors import BadParametersError

CRON_MOST = 10_000
"""Times of a cron that are told apart at once. An interval knows all of its own without counting them."""

MACROS: Mapping[str, str] = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
    }
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_NO_ZONE = re.compile(r"(right|posix)/|(Factory|localtime|posixrules)$")
"""Files beside those of time zones: with leap seconds, a placeholder, whatever this machine or none has."""
_ITEM = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields of a cron."""

    name: str
    low: int
    high: int
    words: Sequence[str] = ()
    """Names of the values, from `low` on."""


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 7, WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron, read: the values of each field, in order. Sunday is 0."""

    minutes: Sequence[int]
    hours: Sequence[int]
    days: Sequence[int]
    months: Sequence[int]
    weekdays: Sequence[int]
    either: bool
    """Both kinds of days are named: one of them is enough."""

    def on(self, day: date) -> bool:
        """Whether it is due on this day at all."""
        named = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (any(named) if self.either else all(named))


@dataclass(frozen=True, slots=True)
class Due:
    """Times at which something is due, in seconds since 1970, in order."""

    times: Sequence[int] = ()
    more: bool = False
    """There are others behind the last one."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """Either a cron in a time zone, or an interval counted from 1970 on, shifted by an offset."""

    cron: str = ""
    every_s: int = 0
    offset_s: int = 0
    zone: str = "UTC"

    def due(self, after: float, until: float) -> Due:
        """What is due later than `after` and not later than `until`."""
        if self.every_s:
            first = (int(after // 1) - self.offset_s) // self.every_s * self.every_s + self.every_s + self.offset_s
            return Due(range(first, int(until // 1) + 1, self.every_s))
        return _due(read_cron(self.cron), read_zone(self.zone), after, until)

    def at(self, moment: int) -> bool:
        """Whether it is due at this very second."""
        return bool(self.due(moment - 1, moment).times)


# --- reading -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def read_cron(text: str) -> Cron:
    """BadParametersError says which field is wrong, and how."""
    words = MACROS.get(text.strip().lower(), text).split()
    if len(words) != len(FIELDS):
        raise _wrong("it has five fields: minute, hour, day of month, month, day of week", "for example 0 5 * * 1-5")
    minutes, hours, days, months, weekdays = map(_values, FIELDS, words)
    either = not words[2].startswith("*") and not words[4].startswith("*")
    if not either and not any(day <= LONGEST[month - 1] for month in months for day in days):
        raise _wrong("it is never due: no such month has such a day", "for example 0 5 28 2 *")
    return Cron(minutes, hours, days, months, tuple(sorted({day % 7 for day in weekdays})), either)


@lru_cache(maxsize=256)
def read_zone(name: str) -> tzinfo:
    """BadParametersError for a name nobody knows."""
    if name == "UTC":
        return UTC
    try:
        if _NO_ZONE.match(name):
            raise ValueError("it names no place")
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"there is no time zone {name[:60]!r}"
        raise BadParametersError(message, to="time_zone", remedy="an IANA name, for example Europe/Berlin") from error


def _values(field: Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for item in text.split(","):
        found.update(_range(field, item))
    return tuple(sorted(found))


def _range(field: Field, item: str) -> range:
    """`*`, `a`, `a-b`, each with `/step`; `a/step` goes on to the end."""
    parts = _ITEM.fullmatch(item)
    if parts is None or (parts["first"] == "*" and parts["last"]):
        raise _wrong(f"{item[:20]!r} is no {field.name}", "write a number, a-b, */n, or several with commas")
    low = field.low if parts["first"] == "*" else _value(field, parts["first"])
    high = field.high if parts["first"] == "*" or (parts["step"] and not parts["last"]) else low
    high = _value(field, parts["last"]) if parts["last"] else high
    step = int(parts["step"] or 1)
    if high < low or step < 1:
        raise _wrong(
            f"{item[:20]!r} names no {field.name}", "the first is not later than the last, the step at least 1"
        )
    return range(low, high + 1, step)


def _value(field: Field, text: str) -> int:
    if text[:3].lower() in field.words and len(text) == 3:  # noqa: PLR2004 (jan, mon)
        return field.words.index(text[:3].lower()) + field.low
    if not text.isdecimal() or not field.low <= int(text[:5]) <= field.high or len(text) > 5:  # noqa: PLR2004
        raise _wrong(f"{text[:20]!r} is no {field.name}", f"from {field.low} to {field.high}")
    return int(text)


def _wrong(what: str, remedy: str) -> BadParametersError:
    return BadParametersError(what, to="cron", remedy=remedy)


# --- counting ----------------------------------------------------------------------------------------------------


def _due(cron: Cron, zone: tzinfo, after: float, until: float) -> Due:
    found: list[int] = []
    for moment in _moments(cron, zone, after, until):
        if len(found) == CRON_MOST:
            return Due(found, more=True)
        found.append(moment)
    return Due(found)


def _moments(cron: Cron, zone: tzinfo, after: float, until: float) -> Iterator[int]:
    if until <= after:
        return
    day = datetime.fromtimestamp(after, zone).date()
    last = datetime.fromtimestamp(until, zone).date()
    while day <= last:
        if cron.on(day):
            yield from (moment for moment in _of_day(cron, zone, day) if after < moment <= until)
        day += timedelta(days=1)


def _of_day(cron: Cron, zone: tzinfo, day: date) -> list[int]:
    """The seconds of one day, without the hours that a change of clocks leaves out or repeats."""
    begin = datetime(day.year, day.month, day.day, tzinfo=zone)
    after = day + timedelta(days=1)
    if begin.utcoffset() == datetime(after.year, after.month, after.day, fold=1, tzinfo=zone).utcoffset():
        start = int(begin.timestamp())
        return [start + 3600 * hour + 60 * minute for hour in cron.hours for minute in cron.minutes]
    walls = (begin.replace(hour=hour, minute=minute) for hour in cron.hours for minute in cron.minutes)
    return [int(wall.timestamp()) for wall in walls if wall.utcoffset() == wall.replace(fold=1).utcoffset()]
