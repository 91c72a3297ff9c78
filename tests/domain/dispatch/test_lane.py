"""One lane: its capacity, its order, its pause switch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.dispatch.lane import Lane, LaneRules, Ordering


def test_a_lane_is_open_until_it_is_full_or_paused():
    lane = Lane("games", capacity=2, in_use=1)
    assert lane.open()
    lane.in_use = 2
    assert not lane.open()
    lane.in_use = 0
    lane.pause("ann", "lunch")
    assert not lane.open()


def test_a_lane_follows_the_settings_but_for_what_was_set_by_hand():
    rules = LaneRules({"games": 3}, by_priority=("*",), ageing=10)
    free, set_by_hand = Lane("games"), Lane("games", capacity=7, capacity_by="ann")
    for lane in (free, set_by_hand):
        lane.obey(rules)
    assert (3, 7) == (free.capacity, set_by_hand.capacity)
    assert Ordering(by_priority=True, ageing=10) == free.ordering == set_by_hand.ordering


def test_to_pause_twice_is_to_pause_once():
    lane = Lane("games")
    assert [True, False] == [lane.pause("ann", "lunch"), lane.pause("ann", "lunch")]
    assert lane.pause("ann", "a longer lunch")
    assert "a longer lunch" == lane.paused_why


@pytest.mark.parametrize(("by", "resumed"), [("system:disk_full", True), ("system:other", False), ("ann", True)])
def test_the_system_resumes_only_what_it_paused_itself(by: str, resumed: bool):
    lane = Lane("games")
    lane.pause("system:disk_full", "no room")
    assert (resumed, not resumed) == (lane.resume(by), bool(lane.paused_by))


def test_the_system_does_not_overrule_a_person_who_paused():
    lane = Lane("games")
    lane.pause("ann", "lunch")
    assert (False, False) == (lane.pause("system:disk_full", "no room"), lane.resume("system:disk_full"))
    assert "ann" == lane.paused_by


def test_a_lane_by_arrival_knows_no_priorities():
    assert 1 == len({Ordering().rank(priority, ticket) for priority in (1, 9) for ticket in (5, 6)})


@given(st.integers(1, 10), st.integers(0, 10_000), st.integers(1, 50))
def test_with_ageing_no_more_later_ones_overtake_than_are_allowed(priority: int, ticket: int, ageing: int):
    ordering = Ordering(by_priority=True, ageing=ageing)
    mine = ordering.rank(priority, ticket)
    overtaking = [later for later in range(ticket + 1, ticket + 11 * ageing) if ordering.rank(1, later) < mine]
    assert len(overtaking) <= (priority - 1) * ageing
