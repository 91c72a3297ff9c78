"""When a task runs again, by the word of its flow. Pure."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from droidherd.flows.course import AGAIN_MAX_S, TIME_PATTERN, Again
from droidherd.flows.duration import format_duration, parse_duration

_MINUTES = re.compile(r"\d{1,9}", re.ASCII)
_SHORT = re.compile(r"\d:[0-5]\d", re.ASCII)
_COUNTDOWN = re.compile(r"(\d{1,3}):([0-5]\d):([0-5]\d)", re.ASCII)
"""What a screen shows as time that is left."""


def due(again: Again, value: str, now: datetime) -> datetime:
    """The time that is meant; `value` is that of the variable. ValueError says what is wrong with it."""
    if again.in_ is not None:
        return now + timedelta(seconds=again.in_)
    wanted = again.at or value.strip()
    if _SHORT.fullmatch(wanted):
        wanted = f"0{wanted}"  # as a screen shows it
    if re.fullmatch(TIME_PATTERN, wanted):
        return _next(wanted, ZoneInfo(again.zone), now)
    return now + timedelta(seconds=seconds_of(wanted))


def seconds_of(value: str) -> float:
    """Minutes, a duration with its unit, or a clock that counts down. ValueError says what is wrong."""
    left = _COUNTDOWN.fullmatch(value)
    if left:
        seconds = int(left[1]) * 3600.0 + int(left[2]) * 60 + int(left[3])
    else:
        seconds = int(value) * 60.0 if _MINUTES.fullmatch(value) else _duration(value)
    if not 0 < seconds <= AGAIN_MAX_S:
        raise ValueError(f"{value[:40]!r} is not more than nothing and at most {format_duration(AGAIN_MAX_S)}")
    return seconds


def _duration(value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(
            f"{value[:40]!r} is neither minutes, nor a duration as in 90m, nor a time as in 14:05"
        ) from error


def _next(time: str, zone: ZoneInfo, now: datetime) -> datetime:
    """On the clock of the zone, so that a day that is shorter or longer moves nothing."""
    hour, minute = (int(part) for part in time.split(":"))
    then = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    if then.astimezone(now.tzinfo) <= now:
        then += timedelta(days=1)
    return then.astimezone(now.tzinfo)
