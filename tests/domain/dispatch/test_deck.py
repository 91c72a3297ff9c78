"""On deck: which emulators take a next task, and from which a free one takes it over."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import SWITCH_OFF, EntryState
from droidherd.domain.dispatch.deck import STEAL_AFTER_MS
from droidherd.domain.dispatch.stats import AttemptStats
from droidherd.domain.messages import EmulatorStatus, RevokeReason
from tests.domain.dispatch.parts import NOW, Parts


def short(seconds: float = 1.0) -> Parts:
    """Tasks of the type `check` took so long until now."""
    parts = Parts()
    parts.state.stats.by_type["check"] = AttemptStats.from_sums(1, 1, seconds)
    return parts


def open_names(parts: Parts) -> list[str]:
    return [one.emulator_id for one in parts.deck.open_emulators()]


@pytest.mark.parametrize(("seconds", "ending", "expected"), [(1.0, True, ["e1"]), (1.0, False, []), (60.0, True, [])])
def test_the_deck_opens_behind_the_last_stage_of_a_short_kind_of_task(
    seconds: float, ending: bool, expected: list[str]
):
    parts = short(seconds)
    parts.holds("t1", parts.emulator()).ending = ending
    assert expected == open_names(parts)


def test_behind_a_kind_of_task_nobody_knows_the_deck_stays_closed():
    parts = Parts()
    parts.holds("t1", parts.emulator()).ending = True
    assert [] == open_names(parts)


def test_behind_a_task_of_one_stage_the_deck_opens_once_its_grant_arrived():
    parts = short()
    parts.holds("t1", parts.emulator(), single=True)
    assert [] == open_names(parts)
    parts.sent_to("t1")
    assert ["e1"] == open_names(parts)


@pytest.mark.parametrize(
    ("field", "value"),
    [("state", EmulatorStatus.DRAINING), ("deck", "t0"), ("switch", SWITCH_OFF), ("dirty", 5)],
)
def test_the_deck_of_an_emulator_that_takes_nobody_is_closed(field: str, value: object):
    parts = short()
    emulator = parts.emulator()
    parts.holds("t1", emulator).ending = True
    setattr(emulator, field, value)
    assert [] == open_names(parts)


def test_nobody_lines_up_behind_a_task_that_must_let_go():
    parts = short()
    parts.holds("t1", parts.emulator()).ending = True
    parts.leases.revoke("t1", RevokeReason.DOWN)
    assert [] == open_names(parts)


def test_the_emulator_that_a_task_just_lost_is_its_last_choice():
    parts = short()
    decks = [parts.emulator("e1"), parts.emulator("e2")]
    assert "e2" == getattr(parts.deck.choose(parts.waits("t1", avoid="e1"), decks), "emulator_id", "")
    assert "e1" == getattr(parts.deck.choose(parts.waits("t2", avoid="e1"), decks[:1]), "emulator_id", "")
    assert parts.deck.choose(parts.waits("t3", requires=("os=13",)), decks) is None


def test_a_free_emulator_takes_over_from_behind_a_slow_task_after_a_moment():
    parts = short()
    first = parts.emulator("e1")
    parts.holds("t1", first)
    parts.holds("t2", first)
    assert (EntryState.DECK, []) == (parts.board.entries["t2"].state, list(parts.deck.due_ms()))
    parts.emulator("e2")
    assert [NOW + STEAL_AFTER_MS] == list(parts.deck.due_ms())
    assert parts.deck.to_steal(NOW + STEAL_AFTER_MS - 1) is None
    assert first is parts.deck.to_steal(NOW + STEAL_AFTER_MS)


def test_who_was_asked_to_leave_the_deck_is_not_asked_again():
    parts = short()
    first = parts.emulator("e1")
    parts.holds("t1", first)
    parts.holds("t2", first)
    parts.emulator("e2")
    parts.leases.revoke("t2", RevokeReason.DECK)
    assert [m.Revoked] == [type(one) for one in parts.sent_to("t2")[1:]]
    assert parts.deck.to_steal(NOW + STEAL_AFTER_MS) is None
