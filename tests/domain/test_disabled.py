"""Accounts that are disabled: nothing is granted to them, nobody else is delayed, nothing is forgotten."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import TEXT_MAX
from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.keys import DISABLED_MAX
from droidherd.domain.dispatch.state import DispatcherState
from droidherd.domain.messages import EmulatorStatus, OnBusy, RevokeReason
from tests.domain.pool import NOW, Pool


def again(pool: Pool) -> Pool:
    """After a continue-as-new, or a terminate."""
    other = Pool()
    other.d = Dispatcher(state=DispatcherState.load(pool.d.state.dump(), pool.d.state.config))
    other.now, other._seq = pool.now, pool._seq
    return other


def why(pool: Pool, task_id: str) -> str:
    return pool.d.admission.why(pool.d.board.entries[task_id])


def test_its_tasks_wait_in_line_and_say_why_while_others_go_on() -> None:
    pool = Pool()
    pool.d.disable("ann", "bob", "banned", NOW)
    pool.enqueue("hers", "account", account="ann")
    pool.enqueue("his", "account", account="ben")
    pool.emulator("e1")
    assert ("his", EntryState.PARKED) == (pool.on("e1"), pool.place("hers"))
    assert "account ann is disabled by bob: banned" == why(pool, "hers")
    pool.done("his")
    assert "" == pool.on("e1")
    assert pool.d.enable("ann", "bob", NOW)
    assert "hers" == pool.on("e1")


def test_what_runs_goes_on_and_its_next_attempt_waits() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", "account", account="ann")
    pool.d.disable("ann", "bob", "", NOW)
    assert EntryState.ACTIVE is pool.place("t")
    pool.done("t", "retry")
    pool.enqueue("t", "account", account="ann")
    assert "account ann is disabled by bob: no reason given" == why(pool, "t")


def test_who_stands_on_deck_is_taken_off() -> None:
    pool = Pool()
    pool.short_tasks()
    pool.emulator("e1")
    pool.enqueue("first")
    pool.deliver("first")
    pool.ending("first")
    pool.enqueue("t", "account", account="ann")
    assert EntryState.DECK is pool.place("t")
    pool.deliver("t")
    pool.d.disable("ann", "bob", "banned", NOW)
    assert [RevokeReason.DECK] == [one.reason for one in pool.messages_to("t", m.Revoked)]


def test_a_mutex_that_becomes_free_does_not_let_it_through() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("holder", mutex=("shop",))
    pool.enqueue("t", "account", account="ann", mutex=("shop",))
    pool.enqueue("other", mutex=("shop",))
    pool.d.disable("ann", "bob", "", NOW)
    pool.done("holder")
    assert ("other", EntryState.PARKED) == (pool.on("e1"), pool.place("t"))
    pool.d.enable("ann", "bob", NOW)
    pool.done("other")
    assert "t" == pool.on("e1")


def test_a_duplicate_is_refused_all_the_same() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.d.disable("ann", "bob", "", NOW)
    pool.enqueue("t1", "account", account="ann")
    pool.enqueue("t2", "account", account="ann", on_busy=OnBusy.REJECT)
    assert ["duplicate"] == [one.reason for one in pool.messages_to("t2", m.Rejected)]


def test_it_outlives_a_continue_as_new_with_who_is_parked() -> None:
    pool = Pool()
    pool.d.disable("ann", "bob", "banned", NOW)
    pool.enqueue("t", "account", account="ann")
    pool.emulator("e1")
    later = again(pool)
    assert (pool.d.keys, pool.d.state.weight.size_bytes) == (later.d.keys, later.d.state.weight.size_bytes)
    assert "account ann is disabled by bob: banned" == why(later, "t")
    later.d.enable("ann", "bob", NOW)
    assert "t" == later.on("e1")


def test_the_system_overrules_nobody_and_takes_back_only_its_own() -> None:
    pool = Pool()
    assert pool.d.disable("ann", "system:ban_seen", "the app said so", NOW)
    assert not pool.d.enable("ann", "system:other", NOW)
    assert pool.d.disable("ann", "bob", "looked at", NOW)
    assert not pool.d.disable("ann", "system:ban_seen", "again", NOW)
    assert not pool.d.enable("ann", "system:ban_seen", NOW)
    assert pool.d.enable("ann", "cid", NOW, "a mistake")
    assert not pool.d.enable("ann", "cid", NOW)
    kinds = [(one.kind, one.actor, one.detail) for one in pool.d.state.audit.by_people]
    assert [("account_disabled", "bob", "ann"), ("account_enabled", "cid", "ann")] == kinds


def test_there_is_an_end_to_how_many_and_to_how_much_is_written() -> None:
    pool = Pool()
    for number in range(DISABLED_MAX):
        assert "" == pool.d.accounts.refusal(f"a{number}")
        pool.d.disable(f"a{number}", "b" * 1_000, "r" * 1_000, NOW)
    assert "keeps 1000 accounts disabled" in pool.d.accounts.refusal("one-more")
    assert "" == pool.d.accounts.refusal("a7")
    bar = pool.d.keys.disabled["a:a7"]
    assert (TEXT_MAX, TEXT_MAX) == (len(bar.actor), len(bar.why))
    weight = pool.d.state.weight.size_bytes
    assert len(pool.d.state.dump()) <= weight + 20_000
    for number in range(DISABLED_MAX):
        pool.d.enable(f"a{number}", "bob", NOW)
    assert (0, {}) == (pool.d.state.weight.size_bytes, pool.d.keys.disabled)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (EmulatorStatus.RETIRED, "emulator e1, the only one that may run it, is retired: connect it again"),
        (EmulatorStatus.DOWN, "the only emulator that could run it is not up: e1 is down"),
    ],
)
def test_a_task_of_an_emulator_that_is_not_there_says_so(state: EmulatorStatus, expected: str) -> None:
    pool = Pool()
    pool.emulator("e1", EmulatorStatus.DOWN)
    pool.enqueue("t", requires=("emulator_id=e1",))
    pool.emulator("e1", state)
    assert expected in why(pool, "t")
