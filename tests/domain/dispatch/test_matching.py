"""Heads of buckets and emulators are brought together, lane by lane in turn."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import EntryState, PoolEmulator
from droidherd.domain.dispatch.deck import STEAL_AFTER_MS
from droidherd.domain.dispatch.stats import AttemptStats
from tests.domain.dispatch.parts import NOW, Parts


def granted(parts: Parts, now_ms: int = NOW) -> dict[str, str]:
    """Who holds which emulator after all was granted that can be."""
    parts.matching.grant_all(now_ms)
    return {entry.task_id: entry.lease.emulator_id for entry in parts.board.held() if entry.lease}


def test_who_waits_longest_gets_the_emulator_that_is_idle_longest():
    parts = Parts()
    for name in ("e1", "e2"):
        parts.emulator(name)
    for task in ("t1", "t2", "t3"):
        parts.waits(task)
    assert {"t1": "e1", "t2": "e2"} == granted(parts)


def test_a_task_that_nobody_can_run_does_not_delay_the_next_one():
    parts = Parts()
    parts.emulator()
    parts.waits("t1", requires=("os=14",))
    parts.waits("t2")
    assert {"t2": "e1"} == granted(parts)


def test_lanes_take_turns():
    parts = Parts()
    for name in ("e1", "e2", "e3", "e4"):
        parts.emulator(name)
    for task in ("a1", "a2", "a3"):
        parts.waits(task, "account")
    for task in ("b1", "b2"):
        parts.waits(task, "games")
    assert ["a1", "a2", "b1", "b2"] == sorted(granted(parts))


def test_a_lane_at_capacity_does_not_delay_its_neighbour():
    parts = Parts()
    for name in ("e1", "e2"):
        parts.emulator(name)
    parts.waits("a1", "account")
    parts.waits("a2", "account")
    parts.waits("b1", "games")
    parts.board.lane("account").capacity = 1
    assert ["a1", "b1"] == sorted(granted(parts))


def test_of_two_tasks_of_one_account_only_one_runs():
    parts = Parts()
    for name in ("e1", "e2"):
        parts.emulator(name)
    for task in ("t1", "t2"):
        parts.waits(task, "account", account="ann")
    assert ["t1"] == list(granted(parts))
    assert EntryState.PARKED is parts.board.entries["t2"].state


def test_a_task_that_was_woken_on_the_way_is_granted_in_the_same_round():
    """`t1` waits for both mutexes; when it is parked on the busy one, the other is nobody's."""
    parts = Parts()
    parts.emulator()
    parts.keys.take(["m:busy"], "holder")
    parts.keys.park("m:idle", ("anonymous", ()), (0, 2), "t2")
    parts.waits("t1", mutex=("idle", "busy"))
    second = parts.waits("t2", mutex=("idle",))
    parts.board.step_out(second)
    second.state, second.parked_on = EntryState.PARKED, 1
    assert {"t2": "e1"} == granted(parts)


def test_when_no_emulator_is_free_the_next_task_goes_on_deck():
    parts = Parts()
    parts.state.stats.by_type["check"] = AttemptStats.from_sums(1, 1, 1.0)
    parts.holds("t1", parts.emulator()).ending = True
    parts.waits("t2")
    parts.waits("t3")
    assert {"t1": "e1", "t2": "e1"} == granted(parts)
    assert EntryState.DECK is parts.board.entries["t2"].state


def test_a_task_on_deck_is_called_back_for_an_emulator_that_is_free():
    parts = Parts()
    first = parts.emulator("e1")
    parts.holds("t1", first)
    parts.holds("t2", first)
    parts.emulator("e2")
    parts.sent_to("t2")
    granted(parts, NOW + STEAL_AFTER_MS)
    assert [m.RevokeReason.DECK] == [one.reason for one in parts.sent_to("t2")]


def test_who_waits_for_a_busy_emulator_by_its_name_costs_nothing(monkeypatch: pytest.MonkeyPatch):
    """Neither each free emulator is looked at for each of them, nor each of them after each grant."""
    parts, looks = Parts(), 0
    offers = PoolEmulator.offers

    def counted(emulator: PoolEmulator, requires: tuple[str, ...]) -> bool:
        nonlocal looks
        looks += 1
        return offers(emulator, requires)

    for number in range(100):
        emulator = parts.emulator(f"e{number}")
        if number % 2:
            parts.holds(f"b{number}", emulator)
    for number in range(100):
        parts.waits(f"t{number}", requires=(f"emulator_id=e{number}",))
    monkeypatch.setattr(PoolEmulator, "offers", counted)
    before = len(parts.board.leases)
    assert (50, 100) == (before, len(granted(parts)))
    assert looks <= 200, "once for each of them that finds one free"


def test_a_label_is_no_name():
    parts = Parts()
    parts.emulator("e1", labels=("emulator_id=e2",))
    parts.waits("t1", requires=("emulator_id=e2",))
    assert {} == granted(parts)
