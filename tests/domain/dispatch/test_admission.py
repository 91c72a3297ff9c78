"""Whether a task may wait, what it is answered, and why it still waits."""

from collections.abc import Callable

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import SWITCH_ON, EntryState
from droidherd.domain.dispatch.keys import DisabledKey
from droidherd.domain.messages import EmulatorStatus, OnBusy
from tests.domain.dispatch.parts import NOW, Parts


def refused(parts: Parts, ask: m.Enqueue, now_ms: int = NOW) -> tuple[str, str]:
    """Reason and holder; two empty texts when the task waits."""
    parts.admission.admit(ask, now_ms)
    found = [one for one in parts.sent_to(ask.key.task_id) if isinstance(one, m.Rejected)]
    assert (ask.key.task_id in parts.board.entries) is not bool(found)
    return (found[0].reason, found[0].holder) if found else ("", "")


def test_a_task_that_is_admitted_waits_with_a_ticket_of_its_own():
    parts = Parts()
    assert ("", "") == refused(parts, parts.ask("t1"))
    assert ("", "") == refused(parts, parts.ask("t2"))
    tickets = [parts.board.entries[name].ticket for name in ("t1", "t2")]
    assert (2, sorted(set(tickets))) == (parts.board.waiting, tickets)


def test_a_full_queue_takes_nobody_but_who_was_in_it_before():
    parts = Parts(limit=1)
    parts.waits("t1")
    assert ("queue_full", "") == refused(parts, parts.ask("t2"))
    assert ("", "") == refused(parts, parts.ask("t3", ticket=7))
    assert 7 == parts.board.entries["t3"].ticket


def test_a_second_task_of_an_account_is_refused_by_the_name_of_the_first():
    parts = Parts()
    parts.waits("t1", "account", account="ann")
    again = parts.ask("t2", "account", account="ann", on_busy=OnBusy.REJECT)
    assert ("duplicate", "t1") == refused(parts, again)
    assert 1 == parts.state.recent.seq("t2")
    assert ("", "") == refused(parts, parts.ask("t3", "account", account="ann"))


def test_what_nobody_can_run_is_refused_once_the_pool_has_settled():
    parts = Parts(settle_s=60.0)
    parts.state.joined_ms = NOW
    parts.emulator(labels=("os=13",))
    assert ("", "") == refused(parts, parts.ask("t1", requires=("os=14",)), NOW + 60_000)
    assert ("cannot_be_satisfied", "") == refused(parts, parts.ask("t2", requires=("os=14",)), NOW + 60_001)
    assert ("", "") == refused(parts, parts.ask("t3", requires=("os=13",)), NOW + 60_001)


def test_while_it_is_rebuilt_a_pool_does_not_say_what_it_cannot_run():
    parts = Parts()
    parts.emulator()
    parts.state.rebuild.until_ms = NOW + 1
    assert ("", "") == refused(parts, parts.ask("t1", requires=("os=14",)), NOW + 10**6)


def test_the_same_request_gets_the_same_grant():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    first = parts.sent_to("t1")
    parts.admission.repeat(entry, parts.ask("t1", seq=2), NOW)
    (again,) = parts.sent_to("t1")
    assert (first[0].lease, 2) == (again.lease, again.seq)


def test_a_request_while_its_lease_is_fenced_is_remembered_and_not_answered():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    parts.leases.fence(entry, NOW, closed=True)
    parts.sent_to("t1")
    parts.admission.repeat(entry, parts.ask("t1", seq=2), NOW)
    assert (EntryState.FENCING, True, []) == (entry.state, entry.asked_meanwhile, parts.sent_to("t1"))


def test_a_task_that_was_put_in_front_comes_back_in_front():
    parts = Parts()
    parts.waits("t1")
    entry = parts.waits("t2")
    parts.admission.repeat(entry, parts.ask("t2", seq=2, ticket=-3, priority=1), NOW)
    assert (1, 1, -4) == (
        parts.board.position(entry),
        parts.admission.answer_for(entry).priority,
        parts.board.draw_priority_ticket(),
    )


@pytest.mark.parametrize(("waiting", "expected"), [(1, 300.0), (1_000, 500.0)])
def test_the_longer_the_line_the_later_a_task_repeats_its_request(waiting: int, expected: float):
    parts = Parts(repeat_min_s=300.0, repeat_per_entry_s=0.5)
    entry = parts.waits("t1")
    parts.board.waiting = waiting
    assert expected == parts.admission.answer_for(entry).repeat_after_s


def disable(parts: Parts) -> None:
    parts.keys.disabled["a:ann"] = DisabledKey("ben", "on holiday", NOW)


def pause(parts: Parts) -> None:
    parts.board.lane("account").pause("ben", "lunch")


def lock(parts: Parts) -> None:
    parts.keys.take(["m:shop"], "t0")


def fill(parts: Parts) -> None:
    lane = parts.board.lane("account")
    lane.in_use = lane.capacity = 1


def bring_up(parts: Parts) -> None:
    parts.emulator("e1", labels=("os=13",))


def retire(parts: Parts) -> None:
    parts.emulator("e1", EmulatorStatus.RETIRED, labels=("os=13",))


def start(parts: Parts) -> None:
    parts.emulator("e1", EmulatorStatus.STOPPED, labels=("os=13",), switch=SWITCH_ON)


def leave_empty(_: Parts) -> None:
    """No emulator ever joined."""


def take_down(parts: Parts) -> None:
    parts.emulator("e1", EmulatorStatus.DOWN, labels=("os=13",), why="its screen froze")


def drain(parts: Parts) -> None:
    parts.emulator("e1", EmulatorStatus.DRAINING, labels=("os=13",), why="by ben: new image")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (disable, "account ann is disabled by ben: on holiday"),
        (pause, "lane account is paused by ben: lunch"),
        (lock, "mutex shop is busy with task t0"),
        (fill, "lane account is at its capacity of 1"),
        (leave_empty, "no emulator of pool pool has os=13"),
        (retire, "what could run it is retired: connect it again, or name another"),
        (start, "emulator e1 is being switched on for it"),
        (take_down, "the only emulator that could run it is not up: e1 is down (its screen froze)"),
        (drain, "the only emulator that could run it is not up: e1 is draining (by ben: new image)"),
        (bring_up, "0 before it, 1 emulator busy"),
    ],
)
def test_why_a_task_waits_is_one_sentence(make: Callable[[Parts], None], why: str):
    parts = Parts()
    entry = parts.waits("t1", "account", account="ann", mutex=("shop",), requires=("os=13",))
    make(parts)
    assert why == parts.admission.why(entry)


def test_what_a_person_can_change_is_named_before_all_else():
    parts = Parts()
    entry = parts.waits("t1", "account", account="ann", mutex=("shop",))
    for make in (fill, lock, pause, disable):
        make(parts)
    assert "disabled" in parts.admission.why(entry)
    del parts.keys.disabled["a:ann"]
    assert "paused" in parts.admission.why(entry)
