"""What every piece of a flow has in common, and what is said of a piece that cannot be right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict

Place: TypeAlias = tuple[str | int, ...]
"""Where a value stands inside a document: keys and positions from the top."""


class FlowPart(BaseModel):
    """Frozen and strict about its keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong with a flow, and how to fix it."""

    place: Place
    what: str
    fix: str = ""
    fatal: bool = True


def parts(value: object, place: Place = ()) -> Iterator[tuple[Place, FlowPart]]:
    """Every piece inside a piece, itself included, with its place in the document."""
    if isinstance(value, FlowPart):
        word = getattr(value, "word", "")  # a step stands under its word
        place = (*place, word) if word else place
        yield place, value
        for name, field in type(value).model_fields.items():
            yield from parts(getattr(value, name), (*place, field.alias or name))
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from parts(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from parts(item, (*place, str(key)))  # pyright: ignore[reportUnknownArgumentType]
