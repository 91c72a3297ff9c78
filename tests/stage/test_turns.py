"""One stage at a time on each emulator."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from activities.stage import Turns

SOON_S = 0.01


def quiet() -> None:
    """A beat nobody hears."""


def never() -> None:
    """For a turn that is free: nobody waits."""
    pytest.fail("it waited")


def test_never_two_at_once_on_one_emulator_and_everybody_gets_a_turn() -> None:
    turns, inside, most = Turns(), [0], [0]

    def take_turn(_: int) -> None:
        with turns.take("e1", SOON_S, lambda: True, quiet) as taken:
            assert taken
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            threading.Event().wait(0.001)
            inside[0] -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(take_turn, range(100)))
    assert (0, 1) == (inside[0], most[0])


def test_another_emulator_has_a_turn_of_its_own() -> None:
    turns = Turns()
    with turns.take("e1", SOON_S, lambda: True, quiet) as one, turns.take("e2", SOON_S, lambda: True, never) as other:
        assert (True, True) == (one, other)


def test_who_is_not_wanted_any_more_leaves_without_a_turn_and_takes_none() -> None:
    turns = Turns()
    with turns.take("e1", SOON_S, lambda: True, quiet), turns.take("e1", SOON_S, lambda: False, quiet) as taken:
        assert not taken
    with turns.take("e1", SOON_S, lambda: True, never) as taken:
        assert taken


def test_whose_turn_comes_too_late_does_not_begin() -> None:
    turns = Turns()
    with turns.take("e1", SOON_S, lambda: False, never) as taken:
        assert not taken
    with turns.take("e1", SOON_S, lambda: True, never) as taken:
        assert taken


def test_it_beats_and_asks_again_and_again_whether_it_is_still_wanted() -> None:
    turns, asked, beats = Turns(), [], []

    def wanted() -> bool:
        asked.append(1)
        return len(asked) < 3

    with (
        turns.take("e1", SOON_S, lambda: True, quiet),
        turns.take("e1", SOON_S, wanted, lambda: beats.append(1)) as taken,
    ):
        assert (False, 3, 3) == (taken, len(asked), len(beats))


def test_a_stage_that_fails_lets_the_next_one_in() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="boom"), turns.take("e1", SOON_S, lambda: True, quiet):
        raise ValueError("boom")
    with turns.take("e1", SOON_S, lambda: True, never) as taken:
        assert taken


def test_a_wait_that_ends_in_an_error_takes_no_turn() -> None:
    turns = Turns()

    def gone() -> None:
        raise ValueError("the engine gave it up")

    with (
        turns.take("e1", SOON_S, lambda: True, quiet),
        pytest.raises(ValueError, match="gave it up"),
        turns.take("e1", SOON_S, lambda: True, gone),
    ):
        pytest.fail("it got a turn")
    with turns.take("e1", SOON_S, lambda: True, never) as taken:
        assert taken
