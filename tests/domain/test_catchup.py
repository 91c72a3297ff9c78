"""Everything that was due ran, was skipped by policy, or is reported as missed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.schedule.catchup import (
    DROPPED,
    NOT_STARTED,
    ROWS_KEPT,
    TIMES_KEPT,
    TOO_LATE,
    CatchUp,
    Missed,
    Overlap,
    Rules,
    Standing,
    Start,
    at_start,
    by_now,
    latest,
)
from droidherd.domain.schedule.timetable import Timetable

ALL = Overlap.BUFFER_ALL
NEW = CatchUp(datetime.fromtimestamp(0, UTC))


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def rules(overlap: Overlap = ALL, every_s: int = 2, catch_up_s: float = 10, jitter_s: float = 0) -> Rules:
    return Rules(Timetable(every_s=every_s), overlap, catch_up_s, jitter_s)


def rows(found: CatchUp) -> list[tuple[float, float, int, str]]:
    return [(one.first.timestamp(), one.last.timestamp(), one.count, one.why) for one in found.rows]


# --- when a run begins -------------------------------------------------------------------------------------


def test_nothing_was_missed_when_the_next_one_begins():
    found = at_start(rules(), CatchUp(at(100)), Start(at(102), at(102.1), at(100.5)))
    assert (at(102), 0, 0, ()) == (found.until, found.missed, found.skipped, found.rows)


def test_what_lies_beyond_the_window_after_an_outage_is_missed_and_named():
    """Away from 100 to 161 with a window of 10: 152 is the first that is caught up."""
    found = at_start(rules(), CatchUp(at(100)), Start(at(152), at(161), at(100.5)))
    assert [(102, 150, 25, TOO_LATE)] == rows(found)
    assert [at(102 + 2 * n) for n in range(25)] == list(found.rows[0].times)
    assert (25, 0) == (found.missed, found.skipped)


def test_what_was_caught_up_is_not_missed():
    """Away for 20 s with a window of 60: each begins after the one before, much later than it was due."""
    known = CatchUp(at(100))
    for number in range(1, 11):
        known = at_start(rules(catch_up_s=60), known, Start(at(100 + 2 * number), at(121 + number), at(120 + number)))
    assert (at(120), 0, 0) == (known.until, known.missed, known.skipped)


def test_what_was_due_within_the_window_and_never_started_is_missed_as_well():
    found = at_start(rules(catch_up_s=60), CatchUp(at(100)), Start(at(110), at(110.1), at(100.5)))
    assert [(102, 108, 4, NOT_STARTED)] == rows(found)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER])
def test_what_was_due_while_the_one_before_ran_is_skipped_not_missed(overlap: Overlap):
    found = at_start(rules(overlap), CatchUp(at(100)), Start(at(110), at(110.1), at(109)))
    assert (0, 4) == (found.missed, found.skipped)


def test_a_skip_ends_with_the_one_before():
    """It ran until 105; Temporal was away from then on until 131."""
    found = at_start(rules(Overlap.SKIP), CatchUp(at(100)), Start(at(122), at(131), at(105)))
    assert (3, [(108, 120, 7, TOO_LATE)]) == (found.skipped, rows(found))


def test_when_everything_is_buffered_nothing_is_skipped():
    found = at_start(rules(ALL), CatchUp(at(100)), Start(at(110), at(112), at(112)))
    assert (0, 4, NOT_STARTED) == (found.skipped, found.missed, found.rows[0].why)


def test_of_several_due_at_once_the_last_takes_the_place_of_the_others():
    """Away from 100 to 131: beyond the window missed, within it superseded."""
    found = at_start(rules(Overlap.CANCEL_OTHER), CatchUp(at(100)), Start(at(130), at(131), at(100.5)))
    assert ([(102, 120, 10, TOO_LATE)], 4) == (rows(found), found.skipped)


def test_a_run_by_hand_counts_up_to_itself():
    found = at_start(rules(), CatchUp(at(100)), Start(at(107), at(107.1), at(100.5), by_hand=True))
    assert ([(102, 106, 3, NOT_STARTED)], at(107)) == (rows(found), found.until)


def test_a_run_by_hand_leaves_what_jitter_may_still_bring():
    late = rules(every_s=60, jitter_s=30)
    found = at_start(late, CatchUp(at(60)), Start(at(130), at(130.1), at(70), by_hand=True))
    assert (0, at(100)) == (found.missed, found.until)
    found = at_start(late, found, Start(at(120), at(149), at(135)))
    assert (0, at(120)) == (found.missed, found.until)


def test_a_run_by_hand_during_a_pause_finds_nothing_due():
    start = Start(at(500), at(500.1), at(100.5), by_hand=True, paused_at=at(101))
    found = at_start(rules(), CatchUp(at(100)), start)
    assert (0, at(101)) == (found.missed, found.until)


def test_who_runs_by_the_timetable_is_not_paused_whatever_was_asked():
    """Somebody resumed it on the engine itself."""
    found = at_start(rules(), CatchUp(at(100)), Start(at(108), at(108), at(100.5), paused_at=at(101)))
    assert [(102, 106, 3, NOT_STARTED)] == rows(found)


def test_the_first_one_has_none_before_it():
    found = at_start(rules(Overlap.SKIP), CatchUp(at(99)), Start(at(104), at(104.1)))
    assert [(100, 102, 2, NOT_STARTED)] == rows(found)


def test_old_rows_are_forgotten_and_counts_are_not():
    known = NEW
    for number in range(1, 2 * ROWS_KEPT + 1):
        known = at_start(rules(), known, Start(at(100 * number), at(100 * number), at(0)))
    assert (ROWS_KEPT, 49 * 2 * ROWS_KEPT, TIMES_KEPT) == (
        len(known.rows),
        known.missed,
        sum(len(row.times) for row in known.rows),
    )
    assert known.rows[-1].last == known.rows[-1].times[-1]


def test_what_nobody_counts_to_the_end_says_so():
    every_minute = Rules(Timetable(cron="* * * * *"), ALL, 10)
    year = 366 * 86_400
    found = at_start(every_minute, NEW, Start(at(year), at(year), at(0)))
    assert (True, found.rows[0].count) == (found.rows[0].at_least, found.missed)


steps = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=30)


@given(st.sampled_from(list(Overlap)), st.integers(10, 60), steps)
def test_started_skipped_and_missed_are_all_that_was_due(
    overlap: Overlap, window: int, taken: list[tuple[int, int, int]]
):
    """Whatever the engine starts, and whenever: nothing is lost silently, and nothing is counted twice."""
    known, due, clock, ended = CatchUp(at(0)), 0, 0.0, None
    for ahead, late, lasts in taken:
        due += 2 * ahead
        clock = max(clock, due + late)
        known = at_start(rules(overlap, catch_up_s=window), known, Start(at(due), at(clock), ended))
        clock += lasts
        ended = at(clock)
    assert due / 2 == len(taken) + known.missed + known.skipped
    counted = [(row.first, row.last) for row in known.rows]
    assert counted == sorted(counted)
    assert all(before[1] < after[0] for before, after in pairwise(counted))


# --- between two runs ---------------------------------------------------------------------------------------


def test_what_may_still_be_caught_up_is_not_missed_yet():
    found = by_now(rules(), CatchUp(at(100)), Standing(at(113), ended_at=at(100.5)))
    assert (0, at(101)) == (found.missed, found.until)


def test_what_is_beyond_the_window_is_missed_before_the_next_one_begins():
    found = by_now(rules(), CatchUp(at(100)), Standing(at(161), ended_at=at(100.5)))
    assert [(102, 148, 24, TOO_LATE)] == rows(found)
    again = by_now(rules(), found, Standing(at(161), ended_at=at(100.5)))
    assert found == again, "asked twice, it is not missed twice"


def test_a_busy_schedule_is_left_alone():
    assert CatchUp(at(100)) == by_now(rules(), CatchUp(at(100)), Standing(at(999), busy=True))


def test_what_was_started_a_moment_ago_is_not_missed():
    begun = tuple(at(one) for one in (102, 104))
    found = by_now(rules(catch_up_s=60), CatchUp(at(100)), Standing(at(200), begun=begun, ended_at=at(100.5)))
    assert [(106, 138, 17, TOO_LATE)] == rows(found)


def test_before_the_rules_change_everything_due_so_far_is_settled():
    standing = Standing(at(109), begun=(at(102),), ended_at=at(103))
    found = by_now(rules(), CatchUp(at(100)), standing, closing=True)
    assert ([(104, 108, 3, NOT_STARTED)], at(111)) == (rows(found), found.until)


def test_what_waits_when_the_rules_change_is_not_missed():
    standing = Standing(at(109), busy=True, waiting=3, begun=(at(102),))
    found = by_now(rules(), CatchUp(at(100)), standing, closing=True)
    assert (0, at(111)) == (found.missed, found.until)


def test_a_pause_is_not_an_outage():
    paused = Standing(at(500), begun=(at(102),), ended_at=at(102.5), paused_at=at(103))
    assert (0, at(103)) == ((found := by_now(rules(), CatchUp(at(100)), paused)).missed, found.until)
    resumed = by_now(rules(), CatchUp(at(100)), paused, closing=True)
    assert (0, at(502)) == (resumed.missed, resumed.until)


def test_what_waited_when_it_was_paused_and_was_dropped_is_missed():
    paused = Standing(at(500), begun=(at(102),), ended_at=at(120), paused_at=at(109))
    assert [(104, 108, 3, DROPPED)] == rows(by_now(rules(ALL), CatchUp(at(100)), paused))


@pytest.mark.parametrize("known", [(NEW, CatchUp(at(5))), (CatchUp(at(5)), NEW)])
def test_who_knows_most_is_believed(known: Sequence[CatchUp]):
    assert at(5) == latest(*known).until


def test_a_row_of_missed_runs_is_made_of_moments():
    found = at_start(rules(), CatchUp(at(100)), Start(at(106), at(106), at(100.5)))
    expected = Missed(at(102), at(104), 2, NOT_STARTED, (at(102), at(102) + timedelta(seconds=2)))
    assert (expected,) == found.rows
