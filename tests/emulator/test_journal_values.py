"""Values kept in the journal on the emulator: the same for whoever comes later, and never half of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.errors import BadParametersError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Recalled
from droidherd.emulator import lines
from droidherd.emulator.hands import read_journal, values
from tests.emulator.farm import One

HOSTILE = "a'b\"c`$(reboot)`\\ \N{SNOWMAN}"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=lines.VALUE_MAX)


@given(TEXT)
def test_a_value_comes_back_from_its_word(value: str):
    assert value == lines.value_of(lines.word_of(value))


@given(TEXT.filter(bool), st.data())
def test_a_word_that_broke_off_keeps_nothing(value: str, data: st.DataObject):
    word = lines.word_of(value)
    assert None is lines.value_of(word[: data.draw(st.integers(1, len(word) - 1))])


@given(st.text(max_size=40))
def test_any_word_keeps_a_value_or_none(word: str):
    assert isinstance(lines.value_of(word), str | None)


def test_a_value_that_is_too_long_is_refused():
    with pytest.raises(BadParametersError, match="too long for a journal"):
        lines.word_of("x" * (lines.VALUE_MAX + 1))


def test_no_other_word_gets_into_the_line_of_an_effect(one: One):
    entry = lines.JournalEntry("k", "1/1", one.token(), 1)
    with pytest.raises(BadParametersError, match="one word"):
        lines.effect(entry, "true", value="$(reboot)")


def test_a_journal_holds_values_beside_what_became_of_effects():
    word = lines.word_of("50")
    journal = f"7/1 begin x\n7/1 done 0 {word}\n7/2 begin x\n7/2 done 0 =NT\n17/3 done 0 {word}\n7/4 done 0\n"
    assert {"1": "50", "4": ""} == values(journal, 7)
    expected = {"1": Recalled.DONE, "2": Recalled.UNKNOWN, "4": Recalled.DONE}
    assert expected == read_journal(journal, 7)


@pytest.mark.parametrize("value", ["50", HOSTILE, "", "x" * lines.VALUE_MAX])
def test_what_one_try_marked_the_next_one_finds(one: One, value: str):
    first = one.hands()
    assert (Acted.DONE, value) == (first.mark("1", value), first.marked("1"))
    second = one.hands(attempt=2)
    assert None is second.marked("1")
    assert ({"1": Recalled.DONE}, value) == (dict(second.recall()), second.marked("1"))


def test_a_mark_that_is_made_again_keeps_its_first_value(one: One):
    one.hands().mark("1", "50")
    late = one.hands(attempt=2)
    assert (Acted.AGAIN, "50") == (late.mark("1", "10"), late.marked("1"))


def test_a_mark_cut_off_before_its_result_is_unknown_and_can_be_made_anew(one: One):
    one.control.cut_after(one.name, "^true", when="after")
    with pytest.raises(UnknownOutcomeError):
        one.hands().mark("1", "50")
    again = one.hands(attempt=2)
    assert {"1": Recalled.UNKNOWN} == again.recall()
    again.forget("1")
    assert (Acted.DONE, "10") == (again.mark("1", "10"), again.marked("1"))
