"""Durations as people write them: `500ms`, `10s`, `2m`, `1.5h`."""

import re
from decimal import Decimal

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
