"""What people write behind options and arguments. Typer reads it with these before a command begins to do anything."""

import json
import math
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from droidherd.contracts.base import Moment
from droidherd.contracts.validation import message_of
from droidherd.domain.errors import BadParametersError
from droidherd.domain.schedule.timetable import read_cron, read_zone

_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?")
_UNITS = {"ms": 0.001, "s": 1, None: 1, "m": 60, "min": 60, "h": 3600}


def duration_s(text: str) -> float:
    """`60s`, `2m`, `1.5h`, or a plain number of seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration; write for example 60s, 2m or 1.5h")
    seconds = float(found[1]) * _UNITS[found[2]]
    if not math.isfinite(seconds):
        raise ValueError("is longer than can be counted; write for example 60s, 2m or 1.5h")
    return seconds


def whole_seconds(text: str) -> int:
    seconds = duration_s(text)
    if seconds != int(seconds):
        raise ValueError(f"{text!r} is not in whole seconds")
    return int(seconds)


def moment(text: str) -> str:
    """As it was written, once it is known to be a time."""
    try:
        _MOMENT.validate_python(text)
    except ValidationError as error:
        raise ValueError(message_of(error.errors(include_url=False)[0])) from error
    return text


def folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("must not be empty; name a folder")
    return Path(text)


def pair(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError(f"{text!r} is not name=value")
    return name, value


def requirement(text: str) -> str:
    name, value = pair(text)
    return f"{name}={value}"


def parameter(text: str) -> tuple[str, Any]:
    """`name=value`. A value that is JSON is taken as JSON."""
    name, value = pair(text)
    return name, _as_json(value)


def json_object(text: str) -> dict[str, Any]:
    try:
        found = _read_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - pydantic hands on what a ValueError says
    return found


def policy(text: str) -> dict[str, Any]:
    """A JSON object, or one `name=value`."""
    return json_object(text) if text.startswith("{") else dict([parameter(text)])


def link(text: str) -> dict[str, Any]:
    """A task type, or an object with `type`, `params`, `policy`, `critical`, `on_failure`."""
    return json_object(text) if text.startswith("{") else {"type": text}


def cron(text: str) -> str:
    try:
        read_cron(text)
    except BadParametersError as error:
        raise ValueError(str(error)) from error
    return text


def time_zone(text: str) -> str:
    try:
        read_zone(text)
    except BadParametersError as error:
        raise ValueError(str(error)) from error
    return text


def new_file(text: str) -> Path:
    """A file that can be written; folders that it lies in are made when it is."""
    path = Path(text)
    try:
        if path.is_dir() or not text:
            raise ValueError(f"{text!r} is a folder, not a file")
        folder = next(one for one in path.absolute().parents if one.exists())
        writable = folder.is_dir() and os.access(path if path.exists() else folder, os.W_OK)
    except OSError as error:
        raise ValueError(f"{text!r} cannot be written: {error.strerror}") from error
    if not writable:
        raise ValueError(f"{text!r} cannot be written")
    return path


def _as_json(text: str) -> Any:
    try:
        return _read_json(text)
    except (ValueError, RecursionError):
        return text


def _read_json(text: str) -> Any:
    """As others read it, too: Python alone takes NaN and numbers without bounds, and the last of two equal keys."""
    return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_each_once)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands there twice")
    return found
