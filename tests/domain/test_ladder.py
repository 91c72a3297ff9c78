"""What is tried for an emulator in trouble, in which order, how often and when."""

import pytest

from droidherd.domain.ladder import Ladder, Rung, Trouble
from droidherd.domain.messages import Care

CARE = Care(controller="mumu", reconnect_s=15, restarts=3, backoff_s=10, backoff_max_s=25, forgive_s=100)
NOBODY = Care(restarts=3)
MIDDLE = 0.5
"""Of the dice: the pause is what the settings say."""


def climbs(ladder: Ladder, trouble: Trouble, care: Care = CARE, times: int = 9, now_ms: int = 0) -> list[str]:
    """Every rung until there is none, each carried out at once."""
    rungs: list[str] = []
    for _ in range(times):
        ladder.lapse(care, now_ms)
        measure = ladder.climb(trouble, care, MIDDLE)
        if measure is None:
            break
        rungs.append(f"{measure.rung} {measure.after_s:g}")
        if measure.rung is Rung.RESTART:
            ladder.restarted(now_ms)
    return rungs


def test_one_that_answers_and_is_unfit_is_reconnected_then_its_app_is_restarted_then_the_emulator():
    expected = ["reconnect 0", "restart_app 0", "restart 0", "restart 10", "restart 20"]
    assert expected == climbs(Ladder(), Trouble.UNFIT)


def test_a_silent_one_is_left_to_its_reconnecting_patrol_for_a_while_and_restarted_with_growing_pauses():
    assert ["restart 15", "restart 15", "restart 20"] == climbs(Ladder(), Trouble.SILENT)


def test_pauses_grow_no_further_than_they_may():
    many = Care(controller="mumu", reconnect_s=0, restarts=5, backoff_s=10, backoff_max_s=25)
    pauses = ["restart 0", "restart 10", "restart 20", "restart 25", "restart 25"]
    assert pauses == climbs(Ladder(), Trouble.SILENT, many)


def test_without_a_controller_nothing_is_restarted():
    ladder = Ladder()
    assert [] == climbs(ladder, Trouble.SILENT, NOBODY)
    assert ["reconnect 0", "restart_app 0"] == climbs(ladder, Trouble.UNFIT, NOBODY)


def test_the_lower_rungs_are_tried_again_once_it_was_well_and_restarts_count_on():
    ladder = Ladder()
    climbs(ladder, Trouble.UNFIT)
    ladder.well(0)
    assert ["reconnect 0", "restart_app 0"] == climbs(ladder, Trouble.UNFIT, now_ms=50_000)


def test_restarts_are_forgiven_when_it_was_up_for_so_long_or_a_person_says_so():
    ladder = Ladder()
    climbs(ladder, Trouble.SILENT)
    assert [] == climbs(ladder, Trouble.SILENT, now_ms=900_000)
    ladder.well(900_000)
    assert [] == climbs(ladder, Trouble.SILENT, now_ms=999_999)
    assert 3 == len(climbs(ladder, Trouble.SILENT, now_ms=1_000_000))
    ladder.forgive()
    assert 3 == len(climbs(ladder, Trouble.SILENT, now_ms=1_000_000))


def test_the_later_rungs_of_one_trouble_forgive_nothing_however_long_they_take():
    ladder = Ladder()
    climbs(ladder, Trouble.SILENT)
    ladder.well(1)
    assert ["reconnect 0"] == climbs(ladder, Trouble.UNFIT, times=1, now_ms=50_000)
    assert ["restart_app 0"] == climbs(ladder, Trouble.UNFIT, now_ms=900_000)


def test_in_a_run_that_began_before_restarts_are_forgiven_where_they_were_then_by_time_alone_when_one_is_due():
    ladder = Ladder()
    ladder.restarted(0)
    ladder.restarted(0)
    forgiven: list[int] = []
    for _ in range(3):
        ladder.lapse_unproven(Trouble.UNFIT, CARE, 900_000)
        ladder.climb(Trouble.UNFIT, CARE, MIDDLE)
        forgiven.append(ladder.restarts)
    assert [2, 2, 0] == forgiven


@pytest.mark.parametrize(("dice", "expected"), [(0.0, 7.5), (0.5, 15.0), (1.0, 22.5)])
def test_emulators_of_one_host_do_not_move_in_step(dice: float, expected: float):
    measure = Ladder().climb(Trouble.SILENT, CARE, dice)
    assert measure is not None
    assert expected == measure.after_s


def test_no_two_measures_are_the_same():
    ladder = Ladder()
    assert ladder.take(Rung.STOP) != ladder.take(Rung.STOP)
