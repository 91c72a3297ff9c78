"""Reads what anybody may send to a workflow: bytes, then JSON, then a model. What is wrong is said in one sentence.

The limits here hold for every message. Fields that are kept have narrower ones in their models.
"""

import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from droidherd.contracts.base import YEARS, Request
from droidherd.contracts.validation import FREE, explain, message_of, path_of
from droidherd.domain import ids
from droidherd.domain.messages import AHEAD_MS

JSON = "json/plain"
NULL = "binary/null"
ENCRYPTED = "binary/encrypted"
KEY_ID = "encryption-key-id"
START_BYTES = 1_000_000
MESSAGE_BYTES = 65_536
DEPTH = 40
"""Levels of nesting. Temporal, its Web UI and other SDKs all have limits of their own, above this."""
ENTRIES = 2_000
"""Of one list or object."""
TEXT = 1_000
"""Characters of one text."""
WHOLE = 2**53
"""Beyond this, JSON's numbers are not exact in every language."""
DURATION_S = 10 * 366 * 86_400
NAMES = frozenset({"task_id", "emulator_id", "host_id", "account", "lane", "pool", "emulator"})
"""Fields that hold a name. They become workflow ids, so that a wrong one would be tried again and again."""
COUNTERS = frozenset({
    "token", "ticket", "seq", "lost", "incarnation", "generation", "recall", "voids", "reset_up_to", "switched",
})  # fmt: skip
"""Numbers that only grow, by one or to the milliseconds of the present. Whoever hears one goes on behind it."""
SHORT = {"run": 64, "task_type": 64, "sticky": 64, "avoid": 64, "outcome": 64, "kind": 64}
"""Characters of fields that are kept, where they are not names."""
FEW = {"requires": 100, "labels": 100, "mutex": 16}
FEW_TEXT = 200
"""Entries of lists that are kept, and characters of each."""


class UnreadableError(ValueError):
    """What was sent is not what the receiver takes."""


def key_of(metadata: Mapping[str, bytes]) -> str | None:
    """The id of the key that a payload is encrypted with. None: it is not encrypted."""
    if metadata.get("encoding") != ENCRYPTED.encode():
        return None
    return metadata.get(KEY_ID, b"").decode(errors="replace")[:TEXT]


def locked(key: str) -> str:
    """Why something encrypted cannot be read."""
    return (
        f"it is encrypted with the key {key!r}, which this process does not have, or which does not open it: "
        "put that key back into `encryption.keys_file` (docs/security.md)"
    )


@dataclass(slots=True)
class MissingKeys:
    """Keys that are not here, while a worker plays a run: of one life of that run in its cache."""

    dropped: set[str] = field(default_factory=set[str])
    """Of messages that were dropped or refused."""
    needed: str = ""
    """What the run cannot go on without, and its key. Empty: nothing is missing."""


MISSING: ContextVar[MissingKeys | None] = ContextVar("MISSING", default=None)
"""Set while a workflow is played. The guard fails a workflow task that needs a key, whoever swallows the error."""


def need_key(what: str, key: str) -> str:
    """Whatever is played now waits for that key. Returns why."""
    why = f"{what} cannot be read: {locked(key)}"
    if (missing := MISSING.get()) is not None:
        missing.needed = missing.needed or why
    return why


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What holds for one message."""

    bytes: int = MESSAGE_BYTES
    now_ms: int = WHOLE
    """Counters are at most a little ahead of this."""


def read(
    kind: Any, encoding: str, data: bytes, limits: MessageLimits = MessageLimits(), *, strict: bool = False
) -> Any:
    """The value that was sent. `strict`: fields that a `Request` does not have are refused, too.

    Raises UnreadableError.
    """
    if encoding != JSON:
        raise UnreadableError(f"the argument must be JSON ({JSON}), not {encoding[:TEXT]!r}")
    if len(data) > limits.bytes:
        raise UnreadableError(f"the argument has {len(data)} bytes; at most {limits.bytes} are taken")
    try:
        problem = next(_beyond(_adapter(Any).validate_json(data), _Place(), min(limits.now_ms + AHEAD_MS, WHOLE)), "")
    except ValidationError as error:
        why = error.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error", "")
        raise UnreadableError(f"the argument is not JSON: {why}") from error
    if problem:
        raise UnreadableError(problem)
    try:
        value = checked(_adapter(kind).validate_json(data))
    except ValidationError as error:
        raise UnreadableError(explain(error, kind)) from error
    if strict and (unknown := _unknown(kind, data)):
        raise UnreadableError(unknown)
    return value


def read_result(kind: Any, encoding: str, data: bytes, most: int = START_BYTES) -> Any:
    """What an activity or a child workflow returned: mostly ours, and then long texts may stand in it.

    Raises UnreadableError.
    """
    if encoding != JSON:
        raise UnreadableError(f"it must be JSON ({JSON}), not {encoding[:TEXT]!r}")
    if len(data) > most:
        raise UnreadableError(f"it has {len(data)} bytes; at most {most} are taken")
    try:
        value = checked(_adapter(kind).validate_json(data))
    except ValidationError as error:
        raise UnreadableError(explain(error, kind)) from error
    if not _is_known(value, data):
        raise UnreadableError(f"no field of it belongs to {kind.__name__}")
    return value


def check(kind: Any, value: Any) -> Any:
    """The same of what stands in JSON that was read already. Raises UnreadableError."""
    try:
        return checked(_adapter(kind).validate_python(value))
    except ValidationError as error:
        raise UnreadableError(explain(error, kind)) from error


def read_own(kind: Any, data: bytes) -> Any:
    """What a workflow of ours left for its next run: without limits, since nobody else wrote it."""
    return _adapter(kind).validate_json(data)


def has_defaults(kind: Any) -> bool:
    """Whether everything of it may be left out."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return False
    return not any(one.is_required() for one in kind.model_fields.values())


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    return TypeAdapter(kind)


# --- limits of every message --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Place:
    """Where in a message a value stands."""

    path: str = ""
    name: str = ""
    """Of the field it is the value of, or a part of."""
    depth: int = 1
    free: bool = False

    def __str__(self) -> str:
        return self.path or "the argument"

    def inside(self, key: str | int) -> "_Place":
        """Of an entry. What stands in a list belongs to the field of the list."""
        path = f"{self.path}.{key}" if self.path else str(key)
        name = key if isinstance(key, str) else self.name
        return _Place(path, name, self.depth + 1, self.free or key in FREE)


def _beyond(value: Any, place: _Place, latest: int) -> Iterator[str]:
    """What is beyond the limits. `latest`: no counter is greater."""
    if place.depth > DEPTH:
        yield f"the argument is nested deeper than {DEPTH} levels"
    elif isinstance(value, dict):
        yield from _too_many(value, place, ENTRIES)
        for key, one in value.items():
            if not place.free and len(key) > TEXT:
                yield f"{place} has a field whose name is longer than {TEXT} characters"
            yield from _beyond(one, place.inside(key), latest)
    elif isinstance(value, list):
        yield from _too_many(value, place, FEW.get(place.name, ENTRIES))
        for at, one in enumerate(value):
            yield from _beyond(one, place.inside(at), latest)
    elif isinstance(value, str) and not place.free:
        yield from _beyond_text(value, place)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _beyond_number(value, place, latest)


def _too_many(value: "dict[str, Any] | list[Any]", place: _Place, most: int) -> Iterator[str]:
    if not place.free and len(value) > most:
        yield f"{place} has {len(value)} entries; at most {most} are taken"


def _beyond_text(value: str, place: _Place) -> Iterator[str]:
    most = SHORT.get(place.name, FEW_TEXT if place.name in FEW else TEXT)
    if len(value) > most:
        yield f"{place} has {len(value)} characters; at most {most} are taken"
    elif place.name in NAMES and value and not (ids.is_task_id if place.name == "task_id" else ids.is_id)(value):
        yield f"{place} {ids.RULES[ids.OPTIONAL_TASK if place.name == 'task_id' else ids.OPTIONAL]}"


def _beyond_number(value: float, place: _Place, latest: int) -> Iterator[str]:
    if abs(value) > WHOLE or not math.isfinite(value):  # in this order: isfinite cannot take every whole number
        yield f"{place} must be a number between -2^53 and 2^53"
    elif place.name.endswith("_s") and not place.free and not 0 <= value <= DURATION_S:
        yield f"{place} must be a number of seconds between 0 and {DURATION_S}"
    elif place.name in COUNTERS and not place.free and abs(value) > latest:
        yield f"{place} is {value:g}; it must lie at most a day ahead of the present, in milliseconds: {latest}"


def checked(value: Any) -> Any:
    """The value, if nobody stumbles over a number or a time in it. Raises UnreadableError."""
    if problem := next(_impossible(value, ""), ""):
        raise UnreadableError(problem)
    return value


def _is_known(value: Any, data: bytes) -> bool:
    """Whether something of it was read. A model of which all may be left out reads anything."""
    names = set(type(value).model_fields) if isinstance(value, BaseModel) else set[str]()
    if is_dataclass(value):
        names = {one.name for one in fields(value)}
    if not names or (isinstance(value, BaseModel) and value.model_fields_set):
        return True
    given = _adapter(Any).validate_json(data)
    return not given or not names.isdisjoint(given)


def _impossible(value: Any, path: str) -> Iterator[str]:
    """Numbers and times in the fields of a model that no workflow can go on with. JSON in it is not looked at."""
    if isinstance(value, BaseModel):
        yield from _impossible_fields(dict(value), path)
    elif is_dataclass(value):
        yield from _impossible_fields({one.name: getattr(value, one.name) for one in fields(value)}, path)
    elif isinstance(value, datetime) and (value.tzinfo is None or not YEARS[0] <= value.year <= YEARS[1]):
        yield f"{path or 'it'} must be a time with a time zone, between the years {YEARS[0]} and {YEARS[1]}"


def _impossible_fields(found: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, one in found.items():
        place = f"{path}.{name}" if path else name
        if isinstance(one, int | float) and not isinstance(one, bool):
            yield from _beyond_number(one, _Place(place, name), WHOLE)
        elif isinstance(one, tuple | list):
            for at, part in enumerate(one):
                yield from _impossible(part, f"{place}.{at}")
        elif isinstance(one, dict):
            for key, part in one.items():
                yield from _impossible(part, f"{place}.{key}")
        else:
            yield from _impossible(one, place)


def _unknown(kind: Any, data: bytes) -> str:
    """Fields that the receiver does not know; for one that looks like a known field, which that is."""
    if not (isinstance(kind, type) and issubclass(kind, Request)):
        return ""
    try:
        _adapter(kind).validate_json(data, extra="forbid")
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            if one["type"] == "extra_forbidden" and not FREE.intersection(one["loc"]):
                return f"{path_of(one['loc'])} {message_of(one, kind)}"
    return ""
