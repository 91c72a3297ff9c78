"""What every piece of a flow has in common."""

from collections.abc import Iterator
from typing import ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Frozen and strict about its keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Where: TypeAlias = tuple[str | int, ...]


def parts(value: object, place: Where = ()) -> Iterator[tuple[Where, Part]]:
    """Every piece inside a piece, itself included, with its place in the document."""
    if isinstance(value, Part):
        yield place, value
        for name, field in type(value).model_fields.items():
            yield from parts(getattr(value, name), (*place, field.alias or name))
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from parts(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from parts(item, (*place, str(key)))  # pyright: ignore[reportUnknownArgumentType]
