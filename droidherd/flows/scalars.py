"""Small values that many pieces of a flow are made of."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, StringConstraints, WithJsonSchema

from droidherd.flows.duration import DURATION_PATTERN, parse_duration
from droidherd.flows.params import NAME_PATTERN


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
