"""What stands in a flow's file and is read as something else than its author meant. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from droidherd.flows.coherence import Complaint, Walk
from droidherd.flows.model import Handle, Use
from droidherd.flows.part import Part, parts
from droidherd.flows.problems import value_at

BY_THE_PLAN: Mapping[type[Part], str] = {Handle: "undo", Use: "do"}
"""Keys that stand in no file: the plan writes them."""


def misread(flow: Part, data: JsonValue) -> Walk:
    """`data` is what the flow was made of."""
    for place, one in parts(flow):
        said = value_at(data, place)
        if isinstance(said, dict):
            for key, what, fix in (*_keys(one, said), *_numbers(one, said)):
                yield Complaint((*place, key), what, fix)


def _keys(one: Part, said: Mapping[str, JsonValue]) -> Iterator[tuple[str, str, str]]:
    for name, field in type(one).model_fields.items():
        if field.alias and field.alias != name and name in said:
            yield name, f"unknown key {name!r}", f"did you mean {field.alias}?"
    key = BY_THE_PLAN.get(type(one), "")
    if key in said:
        yield key, f"unknown key {key!r}", "remove it: the plan writes it"


def _numbers(one: Part, said: Mapping[str, JsonValue]) -> Iterator[tuple[str, str, str]]:
    for name, field in type(one).model_fields.items():
        key = field.alias or name
        if any(_is_truth(raw) and _is_number(read) for raw, read in _pairs(said.get(key), getattr(one, name))):
            yield key, f"{key}: must be a number", "YAML reads yes, no, on and off as true and false"


def _pairs(raw: JsonValue, read: object) -> Iterator[tuple[JsonValue, object]]:
    if isinstance(raw, list) and isinstance(read, tuple):
        yield from zip(raw, read, strict=False)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield raw, read


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
