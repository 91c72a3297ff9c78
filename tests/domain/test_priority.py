"""Who was put in front of the others by a person: to which place, and for how long."""

from typing import Any

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.lane import Ordering
from droidherd.domain.messages import EmulatorStatus
from tests.domain.pool import NOW, Pool, again


def waits(pool: Pool, count: int = 3, **more: Any) -> list[str]:
    names = [f"t{number}" for number in range(count)]
    for name in names:
        pool.enqueue(name, **more)
    return names


def line(pool: Pool) -> list[str]:
    entries = pool.d.board.entries
    return sorted(entries, key=lambda name: pool.d.board.rank(entries[name]))


def test_who_is_prioritized_last_goes_first() -> None:
    pool = Pool()
    waits(pool)
    for name in ("t1", "t2"):
        pool.d.prioritize(name, 1, "ann", NOW)
    assert ["t2", "t1", "t0"] == line(again(pool))


@pytest.mark.parametrize(("asked", "stands", "order"), [(1, 1, "t2 t0 t1"), (5, 3, "t0 t2 t1"), (9, 3, "t0 t2 t1")])
def test_prioritizing_never_moves_a_task_back(asked: int, stands: int, order: str) -> None:
    pool = Pool()
    pool.d.set_ordering("anonymous", Ordering(by_priority=True), "ann", NOW)
    for name, priority in (("t0", 2), ("t1", 3), ("t2", 3)):
        pool.enqueue(name, priority=priority)
    pool.d.prioritize("t2", asked, "ann", NOW)
    assert (stands, order.split()) == (pool.d.board.entries["t2"].ask.priority, line(pool))


def test_a_task_learns_its_priority_and_comes_back_with_it() -> None:
    pool = Pool()
    waits(pool)
    pool.deliver("t2")
    pool.d.prioritize("t2", 1, "ann", NOW)
    (admitted,) = pool.messages_to("t2", m.Admitted)
    assert (1, 1, True) == (admitted.position, admitted.priority, admitted.ticket < 0)
    pool.done("t2", "")
    pool.enqueue("late", ticket=0)
    pool.enqueue("t2", ticket=admitted.ticket, priority=admitted.priority)
    assert "t2" == line(pool)[0]


def test_a_task_hears_of_its_priority_though_it_left_the_line_and_came_back() -> None:
    pool = Pool()
    waits(pool)
    pool.d.prioritize("t1", 1, "ann", NOW)
    for _ in range(2):
        pool.done("t1", "")
        pool.enqueue("t1")
    assert [-1, 5] == [one.ticket - 1_000_000 * (one.ticket > 0) for one in pool.messages_to("t1", m.Admitted)]


def test_a_successor_without_memory_prioritizes_before_what_comes_back() -> None:
    pool = Pool(fence_s=0.0)
    pool.d.take_over({"old": "r1"}, NOW, 60.0, blind=True)
    pool.enqueue("new")
    pool.d.prioritize("new", 1, "ann", NOW)
    pool.enqueue("old", ticket=-3)
    assert ["new", "old"] == line(pool)


def test_priority_that_is_sent_after_an_older_request_arrived_counts() -> None:
    """The request was on its way when a person prioritized it, and reached a successor that knows nothing of that."""
    pool = Pool(fence_s=0.0)
    pool.d.set_ordering("anonymous", Ordering(by_priority=True), "ann", NOW)
    pool.d.take_over({"first": "r1", "t": "r1", "more": "r1"}, NOW, 60.0, blind=True)
    pool.enqueue("first", priority=2)
    pool.enqueue("t", priority=9)
    assert ["first", "t"] == line(pool)
    pool.enqueue("t", ticket=-3, priority=1)
    pool.enqueue("new", priority=1)
    pool.d.prioritize("new", 1, "ann", NOW)
    assert ["new", "t", "first"] == line(again(pool))
    assert (1, -3) == (pool.messages_to("t", m.Admitted)[-1].priority, pool.messages_to("t", m.Admitted)[-1].ticket)


def test_a_repeated_message_takes_no_priority_back() -> None:
    pool = Pool()
    waits(pool)
    pool.d.prioritize("t1", 1, "ann", NOW)
    pool.d.prioritize("t2", 1, "ann", NOW)
    stood = line(pool)
    for ticket in (0, 7, -1):
        pool.enqueue("t2", ticket=ticket, priority=9)
    assert ["t2", "t1", "t0"] == stood == line(pool)


def test_a_parked_task_that_says_its_priority_again_is_first_for_its_key() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("holder", mutex=("shop",))
    for name in ("t1", "t2"):
        pool.enqueue(name, mutex=("shop",))
    pool.emulator("e2")
    pool.enqueue("t2", mutex=("shop",), ticket=-1)
    pool.emulator("e2", EmulatorStatus.DOWN)
    assert ["holder", "t2", "t1"] == pool.order()


def test_a_thousand_put_in_front_at_once_push_no_entry_out_of_the_audit() -> None:
    pool = Pool()
    for name in waits(pool, 1_000):
        pool.d.prioritize_in_bulk(name, 1, "ann", NOW)
    pool.d.prioritize("t0", 1, "ben", NOW)
    assert ["ben"] == [one.actor for one in pool.d.state.audit.by_people]
    assert 1_001 == sum(one.kind == "prioritized" for one in pool.d.state.events.events)
    assert ["t0", "t999"] == line(pool)[:2]
