"""After an outage of the engine every run that was due was caught up, or is reported as missed."""

from pathlib import Path

import pytest

from droidherd.domain.schedule.catchup import TOO_LATE
from tests.api.outage import Outcome, Recurs, rehearse_outage

EVERY_S = 2


def check_all_caught_up(found: Outcome) -> None:
    """One after the other, and nothing was reported that ran."""
    assert found.due == found.started
    assert (0, 0, 0) == (found.missed_count, found.skipped, found.overlaps)


def check_the_missed_are_reported(found: Outcome) -> None:
    """Exactly those beyond the window, one by one, with the reason."""
    unstarted = tuple(one for one in found.due if one not in found.started)
    assert unstarted == found.missed
    assert (len(unstarted), {TOO_LATE}, 0) == (found.missed_count, set(found.reasons), found.overlaps)
    late = [one for one in found.due_while_away() if one < found.away[1] - found.recurs.catch_up_s - EVERY_S]
    assert late
    assert set(late) <= set(unstarted)
    in_time = [one for one in found.due_while_away() if one > found.away[1] - found.recurs.catch_up_s + 5 * EVERY_S]
    assert set(in_time) <= set(found.started)


def test_an_outage_is_caught_up_within_the_window_and_reported_beyond_it(tmp_path: Path):
    """Reduced: both in one outage, the shortest window there is."""
    wide, narrow = Recurs("wide", EVERY_S, "buffer_all", 60), Recurs("narrow", EVERY_S, "buffer_all", 10)
    found = rehearse_outage(tmp_path, 16.0, wide, narrow)
    check_all_caught_up(found["wide"])
    check_the_missed_are_reported(found["narrow"])


@pytest.mark.long
def test_an_outage_of_20_s_is_caught_up(tmp_path: Path):
    found = rehearse_outage(tmp_path, 20.0, Recurs("wide", EVERY_S, "buffer_all", 60))["wide"]
    check_all_caught_up(found)
    assert len(found.due_while_away()) >= 8


@pytest.mark.long
def test_an_outage_of_60_s_beyond_the_window_is_reported(tmp_path: Path):
    found = rehearse_outage(tmp_path, 60.0, Recurs("narrow", EVERY_S, "buffer_all", 10))["narrow"]
    check_the_missed_are_reported(found)
    assert found.missed_count >= 20
