"""Dataclasses as compact text: every field is carried, and a new one without another line of code."""

from collections import deque
from dataclasses import dataclass, field, make_dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain import columns
from droidherd.domain.columns import DERIVED
from droidherd.domain.dispatch.board import PoolEmulator
from droidherd.domain.dispatch.state import DispatcherState

T = TypeVar("T")
TEXTS = st.text(max_size=20) | st.uuids().map(str)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Small:
    name: str
    number: int = 3


@dataclass(frozen=True)
class Other:
    yes: bool = False


@dataclass
class Box(Generic[T]):
    content: list[T] = field(default_factory=list)


@dataclass
class Everything:
    text: str = ""
    number: int = 0
    share: float = 0.5
    flag: bool = True
    colour: Colour = Colour.RED
    maybe: Small | None = None
    texts: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    ordered: dict[str, None] = field(default_factory=dict[str, None])
    by_number: dict[int, Small] = field(default_factory=dict[int, Small])
    ring: deque[Small] = field(default_factory=deque[Small])
    mixed: list[Small | Other] = field(default_factory=list[Small | Other])
    box: Box[Small | Other] = field(default_factory=Box[Small | Other])
    derived: int = field(default=0, compare=False, metadata=DERIVED)


SMALL = st.builds(Small, TEXTS, st.integers())
EITHER = st.lists(SMALL | st.builds(Other, st.booleans()), max_size=5)


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.builds(
        Everything, TEXTS, st.integers(), st.floats(allow_nan=False), st.booleans(), st.sampled_from(Colour),
        st.none() | SMALL, st.lists(TEXTS).map(tuple), st.dictionaries(TEXTS, st.integers()),
        st.dictionaries(TEXTS, st.none()), st.dictionaries(st.integers(), SMALL), st.lists(SMALL).map(deque),
        EITHER, EITHER.map(Box), st.integers(),
    )
)  # fmt: skip
def test_what_is_written_is_read_and_what_is_derived_is_left_out(one: Everything) -> None:
    again = columns.load(columns.dump(one), Everything)
    assert one == again
    assert 0 == again.derived
    assert list(one.ordered) == list(again.ordered)


@pytest.mark.parametrize("kind", [DispatcherState, PoolEmulator])
def test_a_field_added_to_a_model_is_carried(kind: type) -> None:
    grown = make_dataclass("Grown", [("added", tuple[str, ...], ())], bases=(kind,))
    start: dict[str, Any] = {"emulator_id": "e1"} if kind is PoolEmulator else {}
    one = grown(**start, added=("x", "y"))
    assert ("x", "y") == columns.load(columns.dump(one), grown).added


def test_a_text_from_before_a_field_was_added_takes_its_default() -> None:
    before = make_dataclass("Small", [("name", str)])
    assert Small("x") == columns.load(columns.dump(before("x")), Small)


def test_a_field_of_an_unknown_type_is_refused_by_name() -> None:
    odd = make_dataclass("Odd", [("what", set[str])])
    with pytest.raises(TypeError, match="mark it as derived"):
        columns.dump(odd({"x"}))
