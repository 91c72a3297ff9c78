"""Small values that many pieces of a flow are made of: names, and durations as in `500ms`, `10s`, `2m`, `1.5h`."""

import re
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, StringConstraints, WithJsonSchema

from droidherd.flows.model.params import NAME_PATTERN

_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)", re.ASCII)
DURATION_PATTERN = r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h)$"


def parse_duration(text: str) -> float:
    """Seconds. ValueError says what to write instead."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a duration: write a number and a unit, as in 500ms, 10s, 2m or 1h")
    return float(Decimal(found[1]) * _UNITS[found[2]])


def format_duration(seconds: float) -> str:
    """The shortest way to write it, to the millisecond."""
    thousandths = round(seconds * 1000)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if thousandths >= size and thousandths % size == 0:
            return f"{thousandths // size}{unit}"
    if thousandths < 1000:  # noqa: PLR2004 -- a second
        return f"{thousandths}ms"
    return f"{thousandths // 1000}.{thousandths % 1000:03}".rstrip("0") + "s"


def _seconds(value: object) -> float:
    """From the text. A bare number is refused: nobody can see whether it means seconds or milliseconds."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"a duration needs a unit: write {value:g}s")  # noqa: TRY004 -- pydantic reports ValueError
    raise ValueError("a duration is a number and a unit, as in 500ms, 10s, 2m or 1h")


_TIME_PATTERN = rf"({DURATION_PATTERN})|\$\{{"
"""In a file, a parameter may stand in for the number."""

Seconds: TypeAlias = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": _TIME_PATTERN, "examples": ["500ms", "10s", "2m"]}),
]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
