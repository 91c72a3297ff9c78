"""How a dispatcher that took over comes to know who waits and who holds what."""

from typing import Any

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.rebuild import LATE_MS
from tests.domain.dispatch.parts import NOW, Parts


def begins(parts: Parts, *tasks: str, blind: bool = True, emulators: tuple[str, ...] = ()) -> None:
    parts.rebuild.begin(dict.fromkeys(tasks, "r1"), NOW, 30.0, blind=blind, emulators=emulators)


def claims(parts: Parts, task_id: str, token: int, emulator: str = "e1", *, after: int = 0, **more: Any) -> None:
    lease = m.Lease(token, emulator, "h", NOW + 10**6, after)
    parts.rebuild.adopt(parts.ask(task_id, lease=lease, ticket=3, **more), lease, NOW)


def test_everybody_is_asked_what_they_want_or_hold():
    parts = Parts()
    begins(parts, "t1", emulators=("e1",))
    assert [m.Recall(NOW, m.Key("t1", "r1", 0))] == parts.sent_to("t1")
    assert [m.Recall(NOW, voids=NOW)] == parts.sent_to("emulator/e1")


def test_who_is_known_to_wait_is_not_asked_again():
    parts = Parts()
    parts.waits("t1")
    begins(parts, "t1", "t2", blind=False)
    assert ([], ["Recall"]) == (parts.sent_to("t1"), parts.kinds("t2"))


def test_with_its_predecessors_memory_a_dispatcher_grants_at_once():
    parts = Parts()
    begins(parts, "t1", blind=False, emulators=("e1",))
    assert (True, []) == (parts.rebuild.is_over(NOW), list(parts.rebuild.due_ms()))


def test_a_pool_that_begins_waits_for_nobody():
    parts = Parts()
    begins(parts)
    assert parts.rebuild.is_over(NOW)


def test_a_blind_one_waits_for_every_answer_and_for_the_guards_to_run_out():
    parts = Parts(fence_s=15.0)
    begins(parts, "t1", "t2")
    parts.rebuild.on_answered("t1", "r1", NOW)
    parts.rebuild.on_answered("t2", "another run", NOW)
    assert (False, [NOW + 30_000]) == (parts.rebuild.is_over(NOW + 20_000), list(parts.rebuild.due_ms()))
    parts.rebuild.forget("t2")
    assert ([NOW + 15_000], False, True) == (
        list(parts.rebuild.due_ms()),
        parts.rebuild.is_over(NOW + 14_999),
        parts.rebuild.is_over(NOW + 15_000),
    )


def test_what_a_task_sent_before_it_was_asked_is_no_answer():
    parts = Parts()
    begins(parts, "t1")
    parts.rebuild.on_answered("t1", "r1", NOW - 1)
    assert {"t1": "r1"} == parts.state.rebuild.unanswered
    parts.rebuild.on_closed("t1", "r1")
    assert {} == parts.state.rebuild.unanswered


def test_who_does_not_answer_is_not_waited_for_any_longer():
    parts = Parts()
    begins(parts, "t1")
    parts.rebuild.lose_patience(NOW + 29_999)
    assert not parts.rebuild.is_over(NOW + 29_999)
    parts.rebuild.lose_patience(NOW + 30_000)
    assert parts.rebuild.is_over(NOW + 30_000)


def test_emulators_nobody_claims_are_swept_at_the_end():
    parts = Parts()
    begins(parts, emulators=("e1", "e2"))
    for name in ("e1", "e2"):
        parts.emulator(name)
    claims(parts, "t1", 7)
    parts.sent_to("emulator/e1")
    parts.sent_to("emulator/e2")
    assert parts.rebuild.is_over(NOW + 10**6)
    assert ([], ["Reset"], {}) == (parts.sent_to("emulator/e1"), parts.kinds("emulator/e2"), parts.board.free)


@pytest.mark.parametrize(("after_ms", "kinds"), [(LATE_MS - 1, ["Reset"]), (LATE_MS, [])])
def test_an_emulator_that_joins_soon_after_is_swept(after_ms: int, kinds: list[str]):
    parts = Parts()
    begins(parts, "t1")
    parts.rebuild.forget("t1")
    assert parts.rebuild.is_over(NOW + 10**6)
    parts.rebuild.on_joined(parts.emulator(), NOW + after_ms)
    assert kinds == parts.kinds("emulator/e1")


def test_a_holder_is_believed():
    parts = Parts()
    emulator = parts.emulator()
    claims(parts, "t1", NOW + 5, account="ann")
    assert ("t1", EntryState.ACTIVE, {"a:ann": "t1"}, {}) == (
        emulator.active,
        parts.board.entries["t1"].state,
        parts.keys.held,
        parts.board.free,
    )
    assert NOW + 6 == parts.board.draw_token(NOW)


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_of_two_holders_of_one_emulator_the_newer_lease_is_true(order: tuple[int, int]):
    parts = Parts()
    emulator = parts.emulator()
    for token in order:
        claims(parts, f"t{token}", token)
    states = {name: entry.state for name, entry in parts.board.entries.items()}
    assert ("t8", {"t7": EntryState.FENCING, "t8": EntryState.ACTIVE}) == (emulator.active, states)
    assert ["Revoked"] == parts.kinds("t7")


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_a_lease_on_deck_stands_behind_the_other_whoever_answers_first(order: tuple[int, int]):
    parts = Parts()
    emulator = parts.emulator()
    for token in order:
        claims(parts, f"t{token}", token, after=7 if token == 8 else 0)
    assert ("t7", "t8", EntryState.DECK) == (emulator.active, emulator.deck, parts.board.entries["t8"].state)


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_of_two_holders_of_one_account_the_newer_lease_is_true(order: tuple[int, int]):
    parts = Parts()
    for token in order:
        claims(parts, f"t{token}", token, emulator=f"e{token}", account="ann")
    assert ({"a:ann": "t8"}, EntryState.FENCING) == (parts.keys.held, parts.board.entries["t7"].state)


def test_the_lease_before_a_holder_is_reset_when_nobody_claims_it():
    parts = Parts()
    emulator = parts.emulator()
    begins(parts, "t8", emulators=("e1",))
    claims(parts, "t8", 8, after=7)
    parts.rebuild.on_answered("t8", "r1", NOW)
    parts.sent_to("emulator/e1")
    assert parts.rebuild.is_over(NOW + 10**6)
    assert (7, [m.Reset(7)]) == (emulator.dirty, parts.sent_to("emulator/e1"))
