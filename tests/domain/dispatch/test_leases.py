"""Leases: granted, put on deck, revoked, fenced and freed."""

from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import Entry, EntryState
from droidherd.domain.dispatch.leases import HOLD_MAX_MS, ORPHAN
from droidherd.domain.messages import EmulatorStatus, RevokeReason
from tests.domain.dispatch.parts import NOW, Parts


def done(entry: Entry, *, clean: bool = True, token: int | None = None, abandoned: bool = False) -> m.Done:
    held = entry.lease.token if entry.lease else 0
    return m.Done(entry.key, 2, "completed", clean, 1.0, token=held if token is None else token, abandoned=abandoned)


def test_tokens_grow_with_time_and_never_repeat():
    parts = Parts()
    first, second = parts.emulator("e1"), parts.emulator("e2")
    parts.holds("t1", first, NOW)
    parts.holds("t2", second, NOW)
    tokens = [parts.lease(name).token for name in ("t1", "t2")]
    assert ([NOW, NOW + 1], {}) == (tokens, parts.board.free)


def test_a_lease_on_deck_names_the_one_before_it_and_lasts_as_much_longer():
    parts = Parts()
    emulator = parts.emulator()
    parts.holds("t1", emulator)
    entry = parts.holds("t2", emulator)
    first, second = parts.lease("t1"), parts.lease("t2")
    assert (EntryState.DECK, "t2", first.token) == (entry.state, emulator.deck, second.after)
    assert second.expires_at_ms - NOW == 2 * (first.expires_at_ms - NOW)


def test_a_lease_says_how_many_tasks_still_waited_when_it_was_granted():
    parts = Parts()
    parts.waits("t2")
    parts.holds("t1", parts.emulator())
    assert 1 == parts.lease("t1").waiting


def test_who_is_done_and_clean_leaves_a_free_emulator_and_free_keys():
    parts = Parts()
    emulator = parts.emulator()
    entry = parts.holds("t1", emulator, account="ann")
    assert parts.leases.done(entry, done(entry), NOW + 9)
    assert (["e1"], {}, NOW + 9) == (list(parts.board.free), parts.keys.held, emulator.idle_since_ms)
    assert ({}, {}, 0) == (parts.board.entries, parts.board.leases, parts.board.lane("anonymous").in_use)


@pytest.mark.parametrize("clean_but_of_another", [False, True])
def test_an_emulator_that_was_not_left_clean_is_reset_before_the_next_grant(clean_but_of_another: bool):
    parts = Parts()
    emulator = parts.emulator()
    entry = parts.holds("t1", emulator)
    token = parts.lease("t1").token
    lost = replace(done(entry, token=1), lost=token) if clean_but_of_another else done(entry, clean=False)
    parts.leases.done(entry, lost, NOW)
    assert ([m.Reset(token)], {}) == (parts.sent_to("emulator/e1"), parts.board.free)
    parts.leases.was_reset(emulator, token, NOW)
    parts.board.refresh(emulator)
    assert (0, ["e1"]) == (emulator.dirty, list(parts.board.free))


def test_who_stood_on_deck_is_active_when_the_one_before_is_done():
    parts = Parts()
    emulator = parts.emulator()
    first = parts.holds("t1", emulator)
    second = parts.holds("t2", emulator)
    parts.leases.done(first, done(first), NOW)
    assert ("t2", "", EntryState.ACTIVE, 0) == (
        emulator.active,
        emulator.deck,
        second.state,
        parts.lease("t2").after,
    )


def test_a_closed_holder_is_fenced_before_its_lease_is_freed():
    parts = Parts()
    emulator = parts.emulator()
    entry = parts.holds("t1", emulator, account="ann")
    parts.leases.closed(entry, NOW)
    token = parts.lease("t1").token
    assert (EntryState.FENCING, {"a:ann": "t1"}) == (entry.state, parts.keys.held)
    assert ([m.Reset(token)], ["fenced"]) == (parts.sent_to("emulator/e1"), parts.audited())
    parts.leases.was_reset(emulator, token, NOW)
    assert ({}, {}) == (parts.board.entries, parts.keys.held)


def test_time_fences_an_emulator_out_of_reach_when_its_holder_is_closed():
    parts = Parts(fence_s=15.0)
    entry = parts.holds("t1", parts.emulator())
    parts.leases.closed(entry, NOW)
    assert [NOW + 15_000] == list(parts.leases.due_ms())
    parts.leases.expire(NOW + 14_999)
    assert ["t1"] == list(parts.board.entries)
    parts.leases.expire(NOW + 15_000)
    assert {} == parts.board.entries


def test_time_does_not_fence_a_holder_that_lives():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    parts.leases.fence(entry, NOW, closed=False)
    parts.leases.expire(NOW + 10**9)
    assert ["t1"] == list(parts.board.entries)


def test_a_lease_that_ran_out_is_taken_back():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    parts.sent_to("t1")
    due_ms = parts.lease("t1").expires_at_ms
    assert [due_ms] == list(parts.leases.due_ms())
    parts.leases.expire(due_ms)
    assert (EntryState.FENCING, ["Revoked"], ["lease_expired"]) == (
        entry.state,
        parts.kinds("t1"),
        parts.audited(),
    )


def test_a_mutex_held_for_too_long_is_broken_after_a_fence():
    parts = Parts(mutex_hold_s=60.0)
    emulator = parts.emulator()
    parts.holds("t1", emulator, mutex=("shop",))
    parts.leases.expire(NOW + 60_000)
    assert {"m:shop": "t1"} == parts.keys.held
    parts.leases.was_reset(emulator, parts.lease("t1").token, NOW)
    assert ({}, ["mutex_overdue", "mutex_broken"]) == (parts.keys.held, parts.audited())


def test_the_mutex_of_a_subscription_has_no_limit():
    parts = Parts(mutex_hold_s=60.0)
    parts.holds("t1", parts.emulator(), mutex=("subscription.daily",))
    assert [parts.lease("t1").expires_at_ms] == list(parts.leases.due_ms())


def test_a_holder_extends_its_lease_and_not_for_ever():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    lease = parts.lease("t1")
    parts.leases.extend(entry, lease, replace(lease, expires_at_ms=NOW + 10**12), NOW)
    assert NOW + HOLD_MAX_MS == parts.lease("t1").expires_at_ms
    parts.leases.extend(entry, parts.lease("t1"), replace(lease, expires_at_ms=NOW), NOW)
    assert NOW + HOLD_MAX_MS == parts.lease("t1").expires_at_ms


def test_a_lease_of_an_older_run_is_kept_as_an_orphan_until_it_is_fenced():
    parts = Parts()
    emulator = parts.emulator()
    entry = parts.holds("t1", emulator, account="ann")
    token = parts.lease("t1").token
    orphan = f"t1{ORPHAN}{token}"
    parts.leases.supersede(entry, "r2", NOW)
    assert ([orphan], orphan, {"a:ann": orphan}) == (list(parts.board.entries), emulator.active, parts.keys.held)
    parts.leases.was_reset(emulator, token, NOW)
    assert ({}, "", {}) == (parts.board.entries, emulator.active, parts.keys.held)


def test_what_an_older_run_left_behind_takes_no_key_that_another_task_holds():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator(), account="ann")
    parts.keys.free(["a:ann"], "t1")
    parts.keys.take(["a:ann"], "t2")
    parts.leases.supersede(entry, "r2", NOW)
    assert {"a:ann": "t2"} == parts.keys.held


def test_a_holder_is_asked_to_let_go_once_for_each_reason():
    parts = Parts()
    parts.holds("t1", parts.emulator())
    parts.sent_to("t1")
    for reason in (RevokeReason.DOWN, RevokeReason.DOWN, RevokeReason.REBOOTED):
        parts.leases.revoke("t1", reason)
    assert [RevokeReason.DOWN, RevokeReason.REBOOTED] == [one.reason for one in parts.sent_to("t1")]


@pytest.mark.parametrize(
    ("state", "rebooted", "active", "deck"),
    [
        (EmulatorStatus.DOWN, False, [RevokeReason.DOWN], [RevokeReason.DECK]),
        (EmulatorStatus.UP, True, [RevokeReason.REBOOTED], [RevokeReason.DECK]),
        (EmulatorStatus.DRAINING, False, [], [RevokeReason.DECK]),
        (EmulatorStatus.UP, False, [], []),
    ],
)
def test_holders_hear_what_the_state_of_their_emulator_means_for_them(
    state: EmulatorStatus, rebooted: bool, active: list[RevokeReason], deck: list[RevokeReason]
):
    parts = Parts()
    emulator = parts.emulator()
    for task in ("t1", "t2"):
        parts.holds(task, emulator)
        parts.sent_to(task)
    emulator.state = state
    parts.leases.emulator_changed(emulator, rebooted=rebooted)
    assert (active, deck) == tuple([one.reason for one in parts.sent_to(task)] for task in ("t1", "t2"))


def test_a_holder_hears_when_its_rebooted_emulator_refuses_its_lease():
    parts = Parts()
    emulator = parts.emulator()
    parts.holds("t1", emulator)
    parts.sent_to("t1")
    emulator.incarnation = 2
    news = ((EmulatorStatus.RECOVERING, True), (EmulatorStatus.UP, False), (EmulatorStatus.UP, False))
    for emulator.state, rebooted in news:
        parts.leases.emulator_changed(emulator, rebooted=rebooted)
    assert [(RevokeReason.REBOOTED, 2, False), (RevokeReason.REBOOTED, 2, True)] == [
        (one.reason, one.incarnation, one.fenced) for one in parts.sent_to("t1")
    ]


def test_a_holder_under_an_older_worker_hears_that_its_stage_is_lost():
    parts = Parts()
    emulator = parts.emulator()
    parts.holds("t1", emulator)
    parts.sent_to("t1")
    emulator.incarnation = 2
    parts.leases.emulator_changed(emulator, rebooted=False)
    assert [(RevokeReason.RESTARTED, 2)] == [(one.reason, one.incarnation) for one in parts.sent_to("t1")]


def test_a_task_that_asked_while_it_was_fenced_is_asked_again_afterwards():
    parts = Parts()
    emulator = parts.emulator()
    entry = parts.holds("t1", emulator)
    parts.leases.closed(entry, NOW)
    entry.asked_meanwhile = True
    parts.sent_to("t1")
    parts.leases.was_reset(emulator, parts.lease("t1").token, NOW)
    assert ["Recall"] == parts.kinds("t1")


def test_who_gives_up_without_having_stopped_is_fenced():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    assert not parts.leases.done(entry, done(entry, abandoned=True), NOW)
    assert (EntryState.FENCING, True) == (entry.state, entry.fence_until_ms > NOW)
