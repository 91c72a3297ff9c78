"""What the dispatcher promises, one sentence each."""

from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.dispatcher import RETIRED_KEPT, Dispatcher
from droidherd.domain.dispatch.keys import account_key
from droidherd.domain.dispatch.lane import Ordering
from droidherd.domain.dispatch.leases import HOLD_MAX_MS
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig, emulator_bytes
from droidherd.domain.messages import EmulatorStatus, OnBusy, RevokeReason
from tests.domain.pool import NOW, Pool, again


def test_a_bucket_is_served_in_the_order_of_admission() -> None:
    pool = Pool()
    for i in range(5):
        pool.enqueue(f"t{i}")
    pool.emulator("e1")
    assert [f"t{i}" for i in range(5)] == pool.order()


def test_a_lane_at_capacity_does_not_delay_its_neighbour() -> None:
    pool = Pool()
    pool.d.set_capacity("account", 1, "op", NOW)
    for name in ("e1", "e2"):
        pool.emulator(name)
    for i in range(3):
        pool.enqueue(f"a{i}", "account")
    pool.enqueue("b", "anonymous")
    assert {"a0", "b"} == {pool.on("e1"), pool.on("e2")}


def test_a_paused_lane_delays_no_neighbour_and_goes_on_where_it_stopped() -> None:
    pool = Pool()
    pool.enqueue("a", "account")
    pool.d.pause("account", "ann", "holiday", NOW)
    pool.enqueue("b", "anonymous")
    pool.emulator("e1")
    assert "b" == pool.on("e1")
    assert "lane account is paused by ann: holiday" == pool.d.admission.why(pool.d.board.entries["a"])
    pool.d.resume("account", "ann", NOW)
    pool.done("b")
    assert "a" == pool.on("e1")


def test_a_blocked_bucket_does_not_delay_another() -> None:
    pool = Pool()
    pool.enqueue("picky", requires=("app=x",))
    pool.enqueue("modest")
    pool.emulator("e1")
    assert "modest" == pool.on("e1")


def test_task_whose_account_is_busy_is_parked_and_comes_back_with_its_ticket() -> None:
    pool = Pool()
    for name, account in (("first", "ann"), ("second", "ann"), ("third", "bob")):
        pool.enqueue(name, account=account)
    ticket = pool.d.board.entries["second"].ticket
    pool.emulator("e1")
    pool.emulator("e2")
    assert ("first", "third") == (pool.on("e1"), pool.on("e2"))
    pool.enqueue("fourth", account="carl")
    pool.done("first")
    assert "second" == pool.on("e1")
    assert ticket == pool.d.board.entries["second"].ticket


def test_a_parked_task_of_a_paused_lane_keeps_no_account_from_another_lane() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("holder", "one", account="ann")
    pool.enqueue("early", "one", account="ann")
    pool.enqueue("late", "two", account="ann")
    assert (EntryState.PARKED, EntryState.PARKED) == (pool.place("early"), pool.place("late"))
    pool.d.pause("one", "op", "", NOW)
    pool.done("holder")
    assert EntryState.ACTIVE is pool.place("late")


def test_a_key_that_its_first_waiter_cannot_use_goes_to_the_next_at_once() -> None:
    pool = Pool()
    for name in ("e1", "e2", "e3"):
        pool.emulator(name)
    pool.enqueue("ann", account="ann")
    pool.enqueue("shop", mutex=("shop",))
    pool.enqueue("both", account="ann", mutex=("shop",))
    pool.enqueue("next", account="ann")
    pool.done("ann")
    assert EntryState.PARKED is pool.place("both")
    assert EntryState.ACTIVE is pool.place("next")


def test_a_mutex_is_held_by_one_task() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("a", mutex=("shop",))
    pool.enqueue("b", mutex=("shop",))
    assert (EntryState.ACTIVE, EntryState.PARKED) == (pool.place("a"), pool.place("b"))
    assert "mutex shop is busy with task a" == pool.d.admission.why(pool.d.board.entries["b"])


def test_lanes_take_turns_by_weight() -> None:
    pool = Pool()
    pool.d.board.lane("account").weight = 2
    pool.d.board.lane("anonymous").weight = 1
    for i in range(6):
        pool.enqueue(f"a{i}", "account")
        pool.enqueue(f"b{i}", "anonymous")
    pool.emulator("e1")
    assert ["a", "a", "b", "a", "a", "b", "a", "a", "b"] == [name[0] for name in pool.order()[:9]]


def test_within_a_lane_the_smaller_priority_goes_first_and_equals_by_ticket() -> None:
    pool = Pool()
    pool.d.set_ordering("anonymous", Ordering(by_priority=True), "op", NOW)
    for name, priority in (("late", 9), ("first", 1), ("usual", 5), ("second", 1)):
        pool.enqueue(name, priority=priority)
    pool.emulator("e1")
    assert ["first", "second", "usual", "late"] == pool.order()


def test_prioritize_is_the_audited_exception() -> None:
    pool = Pool()
    for i in range(3):
        pool.enqueue(f"t{i}")
    assert pool.d.prioritize("t2", 1, "ann", NOW)
    assert not pool.d.prioritize("nobody", 1, "ann", NOW)
    assert ["prioritized"] == [e.kind for e in pool.d.state.events.events if "ann" in e.detail]
    pool.emulator("e1")
    assert ["t2", "t0", "t1"] == pool.order()


def test_a_sticky_emulator_is_preferred_and_a_lost_one_avoided() -> None:
    pool = Pool()
    for name in ("e1", "e2", "e3"):
        pool.emulator(name)
    pool.enqueue("loyal", sticky="e3")
    pool.enqueue("burnt", avoid="e1")
    assert ("loyal", "burnt") == (pool.on("e3"), pool.on("e2"))


def test_a_full_queue_refuses() -> None:
    pool = Pool(limit=2)
    for i in range(3):
        pool.enqueue(f"t{i}")
    assert ["queue_full"] == [one.reason for one in pool.messages_to("t2", m.Rejected)]
    assert 2 == pool.d.board.waiting


def test_who_comes_back_with_a_ticket_is_never_refused() -> None:
    pool = Pool(limit=1)
    pool.emulator("e1")
    ticket = pool.enqueue("t0") and pool.d.board.entries["t0"].ticket
    pool.enqueue("t1")
    pool.done("t0", "", clean=False)
    pool.enqueue("t0", ticket=ticket)
    assert {"t0", "t1"} == set(pool.d.board.entries)
    assert pool.d.board.entries["t0"].ticket < pool.d.board.entries["t1"].ticket


def test_a_duplicate_is_refused_with_the_name_of_the_holder() -> None:
    pool = Pool()
    pool.enqueue("first", account="ann")
    pool.enqueue("again", account="ann", on_busy=OnBusy.REJECT)
    pool.emulator("e1")
    pool.enqueue("third", account="ann", on_busy=OnBusy.REJECT)
    assert [("duplicate", "first")] == [(one.reason, one.holder) for one in pool.messages_to("again", m.Rejected)]
    assert [("account_running", "first")] == [(one.reason, one.holder) for one in pool.messages_to("third", m.Rejected)]


def test_what_no_emulator_can_do_is_refused_only_after_the_pool_settled() -> None:
    pool = Pool()
    pool.emulator("e1", labels=("app=x",))
    pool.enqueue("early", requires=("app=y",))
    pool.now += 61_000
    pool.enqueue("late", requires=("app=y",))
    assert EntryState.WAITING is pool.place("early")
    assert ["cannot_be_satisfied"] == [one.reason for one in pool.messages_to("late", m.Rejected)]


def test_the_next_task_is_on_deck_once_last_stage_of_a_short_one_is_queued() -> None:
    pool = Pool()
    pool.short_tasks()
    pool.emulator("e1")
    pool.enqueue("first")
    pool.enqueue("second")
    assert EntryState.WAITING is pool.place("second")
    pool.ending("first")
    assert EntryState.DECK is pool.place("second")
    assert pool.lease("first").token == pool.lease("second").after
    pool.done("first")
    assert ("second", EntryState.ACTIVE, 0) == (pool.on("e1"), pool.place("second"), pool.lease("second").after)


def test_who_has_one_stage_is_followed_on_deck_only_after_its_grant_arrived() -> None:
    pool = Pool()
    pool.short_tasks()
    pool.emulator("e1")
    pool.enqueue("first", single=True)
    pool.enqueue("second", single=True)
    assert EntryState.WAITING is pool.place("second")
    pool.deliver("first")
    assert EntryState.DECK is pool.place("second")


def test_nobody_stands_on_deck_behind_a_long_task_or_on_a_draining_emulator() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("first", single=True)
    pool.enqueue("second")
    assert EntryState.WAITING is pool.place("second")
    pool.short_tasks()
    pool.emulator("e1", EmulatorStatus.DRAINING)
    pool.d.assign(pool.now)
    assert EntryState.WAITING is pool.place("second")


def test_an_idle_emulator_steals_from_the_deck_of_a_slow_one() -> None:
    pool = Pool()
    pool.short_tasks()
    pool.emulator("e1")
    pool.enqueue("slow")
    pool.ending("slow")
    pool.enqueue("next")
    pool.emulator("e2")
    due = pool.d.next_due_ms()
    assert due is not None
    pool.d.tick(due - 1)
    assert [] == pool.messages_to("next", m.Revoked)
    pool.d.tick(due)
    assert [RevokeReason.DECK] == [one.reason for one in pool.messages_to("next", m.Revoked)]


def test_down_never_frees_a_lease() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", account="ann")
    pool.emulator("e1", EmulatorStatus.DOWN)
    assert [RevokeReason.DOWN] == [one.reason for one in pool.messages_to("t", m.Revoked)]
    assert ("t", {"a:ann": "t"}) == (pool.on("e1"), pool.d.keys.held)


def test_an_unclean_end_has_the_emulator_reset_before_the_next_grant() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("first")
    token = pool.lease("first").token
    pool.done("first", "", clean=False)
    pool.enqueue("second")
    assert EntryState.WAITING is pool.place("second")
    assert [token] == [one.token for one in pool.messages_to("emulator/e1", m.Reset)]
    pool.emulator("e1", reset_to=token)
    assert "second" == pool.on("e1")


def test_a_closed_holder_is_fenced_before_its_lease_is_freed() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", account="ann")
    token = pool.lease("t").token
    pool.d.on_closed("t", "r0", NOW)
    assert EntryState.ACTIVE is pool.place("t"), "another run of it was closed"
    pool.d.on_closed("t", "r1", NOW)
    assert (EntryState.FENCING, {"a:ann": "t"}) == (pool.place("t"), pool.d.keys.held)
    pool.emulator("e1", reset_to=token)
    assert (None, {}) == (pool.place("t"), pool.d.keys.held)


def test_a_successor_with_an_older_run_on_its_board_recalls_the_open_one() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t")
    pool.deliver("t")
    pool.d.take_over({"t": "r2"}, NOW, 600.0, blind=False)  # what r2 asked was lost with the predecessor
    pool.d.on_closed("t", "r1", NOW)
    assert [m.Key("t", "r2", 0)] == [one.key for one in pool.messages_to("t", m.Recall)]


def test_the_lease_of_a_closed_holder_out_of_reach_is_freed_after_its_guards() -> None:
    pool = Pool(fence_s=15.0)
    pool.emulator("e1")
    pool.enqueue("t", account="ann")
    pool.d.on_closed("t", "r1", NOW)
    pool.d.tick(NOW + 14_999)
    assert EntryState.FENCING is pool.place("t")
    pool.d.tick(NOW + 15_000)
    assert ({}, True) == (pool.d.keys.held, bool(pool.d.board.emulators["e1"].dirty))


def test_who_leaves_without_stopping_keeps_its_keys_until_it_is_fenced() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("t", account="ann")
    token = pool.lease("t").token
    pool.d.on_done(m.Done(m.Key("t", "r1", 1), pool.seq(), "cancelled", clean=False, abandoned=True), NOW)
    pool.enqueue("next", account="ann")
    assert (EntryState.FENCING, EntryState.PARKED) == (pool.place("t"), pool.place("next"))
    assert [token] == [one.token for one in pool.messages_to("emulator/e1", m.Reset)]
    pool.emulator("e1", reset_to=token)
    assert (None, EntryState.ACTIVE) == (pool.place("t"), pool.place("next"))


def test_what_was_abandoned_out_of_reach_is_free_after_its_guards() -> None:
    pool = Pool(fence_s=15.0)
    pool.emulator("e1")
    pool.enqueue("t", account="ann")
    pool.d.on_done(m.Done(m.Key("t", "r1", 1), pool.seq(), "cancelled", clean=False, abandoned=True), NOW)
    pool.d.tick(NOW + 14_999)
    assert EntryState.FENCING is pool.place("t")
    pool.d.tick(NOW + 15_000)
    assert (None, {}) == (pool.place("t"), pool.d.keys.held)


def test_an_expired_lease_is_fenced_but_time_alone_frees_no_living_holder() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", hold_s=10.0)
    pool.d.tick(NOW + 10_000)
    assert [RevokeReason.EXPIRED] == [one.reason for one in pool.messages_to("t", m.Revoked)]
    pool.d.tick(NOW + 1_000_000)
    assert EntryState.FENCING is pool.place("t")
    pool.done("t", "", clean=False)
    assert pool.place("t") is None


def test_who_asks_a_person_holds_its_lease_for_longer_and_not_for_ever() -> None:
    pool = Pool()
    pool.emulator("e1")
    ask = pool.enqueue("t", hold_s=10.0)
    longer = replace(pool.lease("t"), expires_at_ms=NOW + 60_000)
    pool.d.on_enqueue(replace(ask, seq=pool.seq(), lease=longer), NOW)
    pool.d.tick(NOW + 10_000)
    assert (EntryState.ACTIVE, NOW + 60_000) == (pool.place("t"), pool.lease("t").expires_at_ms)
    for_ever = replace(pool.lease("t"), expires_at_ms=NOW + 10 * HOLD_MAX_MS)
    pool.d.on_enqueue(replace(ask, seq=pool.seq(), lease=for_ever), NOW)
    assert NOW + HOLD_MAX_MS == pool.lease("t").expires_at_ms
    shorter = replace(pool.lease("t"), expires_at_ms=NOW)
    pool.d.on_enqueue(replace(ask, seq=pool.seq(), lease=shorter), NOW)
    assert NOW + HOLD_MAX_MS == pool.lease("t").expires_at_ms


def test_a_manual_retry_waits_until_what_its_older_run_left_behind_is_fenced() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("t", account="ann")
    token = pool.lease("t").token
    pool.enqueue("t", account="ann", key=m.Key("t", "r2", 1), on_busy=OnBusy.REJECT)
    assert (f"t~{token}", EntryState.PARKED) == (pool.d.keys.held["a:ann"], pool.place("t"))
    pool.emulator("e1", reset_to=token)
    assert EntryState.ACTIVE is pool.place("t")


def test_repeating_a_request_gives_the_same_grant() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t")
    pool.enqueue("t")
    first, second = pool.messages_to("t", m.Grant)
    assert first.lease == second.lease
    assert first.seq < second.seq


def test_what_is_older_than_the_last_word_changes_nothing() -> None:
    pool = Pool()
    old = pool.enqueue("t")
    pool.done("t")
    pool.d.on_enqueue(old, NOW)
    assert {} == pool.d.board.entries


def test_the_holder_hears_of_a_restarted_worker_once_the_emulator_is_up() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t")
    pool.emulator("e1", EmulatorStatus.SUSPECT, incarnation=2)
    assert [] == pool.messages_to("t", m.Revoked)
    pool.emulator("e1", incarnation=2)
    pool.emulator("e1", incarnation=2)
    assert [(RevokeReason.RESTARTED, 2)] == [(one.reason, one.incarnation) for one in pool.messages_to("t", m.Revoked)]


@pytest.mark.parametrize("first_to_answer", ["active", "deck"])
def test_without_memory_active_and_the_one_on_deck_are_known_in_any_order(first_to_answer: str) -> None:
    pool = Pool(fence_s=1.0)
    leases = {"active": m.Lease(7, "e1", "h", NOW + 9_000), "deck": m.Lease(8, "e1", "h", NOW + 9_000, after=7)}
    pool.d.take_over({"active": "r1", "deck": "r1"}, NOW, 60.0, blind=True)
    names = [first_to_answer, *({"active", "deck"} - {first_to_answer})]
    for name in names:
        pool.enqueue(name, lease=leases[name], ticket=5, recall=NOW)
    assert (EntryState.ACTIVE, EntryState.DECK) == (pool.place("active"), pool.place("deck"))
    assert ("active", "deck") == (pool.d.board.emulators["e1"].active, pool.d.board.emulators["e1"].deck)


def test_without_memory_nothing_is_granted_before_answers_or_guards_ran_out() -> None:
    pool = Pool(fence_s=15.0)
    pool.d.take_over({"t": "r1"}, NOW, 60.0, blind=True, emulators=["e1"])
    pool.emulator("e1")
    pool.enqueue("new")
    pool.enqueue("t", ticket=3, recall=NOW)
    pool.d.tick(NOW + 14_999)
    assert "" == pool.on("e1")
    pool.d.tick(NOW + 15_000)
    sweep = pool.messages_to("emulator/e1", m.Reset)
    assert 1 == len(sweep)
    pool.emulator("e1", reset_to=sweep[0].token)
    assert "t" == pool.on("e1"), "its ticket is older than any drawn since"


def test_without_memory_what_was_sent_before_the_question_is_no_answer() -> None:
    pool = Pool(fence_s=15.0)
    pool.d.take_over({"t": "r1"}, NOW, 600.0, blind=True, emulators=["e1", "e2"])
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("t", ticket=3, account="ann")  # on its way since before its grant
    pool.enqueue("rival", account="ann", ticket=4)
    pool.now = NOW + 20_000
    pool.d.tick(pool.now)
    assert [EntryState.WAITING, EntryState.WAITING] == [pool.place("t"), pool.place("rival")]
    pool.enqueue("t", account="ann", ticket=3, lease=m.Lease(7, "e1", "h", NOW + 90_000), recall=NOW)
    for number, sweep in enumerate(pool.messages_to("emulator/e2", m.Reset)):
        pool.emulator("e2", incarnation=2 + number, reset_to=sweep.token)
    assert ("t", "") == (pool.on("e1"), pool.on("e2"))
    pool.done("t")
    assert pool.d.board.entries["rival"].lease is not None


def test_a_successor_asks_again_who_had_not_answered_its_predecessor() -> None:
    pool = Pool()
    pool.d.take_over({"t": "r1"}, NOW, 600.0, blind=True)
    pool.enqueue("t")  # on its way since before it was asked
    successor = again(pool)
    successor.deliver("t")
    successor.d.take_over({"t": "r1"}, NOW + 1, 600.0, blind=False)
    assert [NOW + 1] == [one.generation for one in successor.messages_to("t", m.Recall)]


def test_a_retired_emulator_is_remembered_while_somebody_holds_it() -> None:
    pool = Pool()
    pool.emulator("held")
    pool.enqueue("t")
    pool.emulator("held", EmulatorStatus.RETIRED)
    for number in range(RETIRED_KEPT + 10):
        pool.emulator(f"e{number}", EmulatorStatus.RETIRED)
    assert ["held"] == [name for name in ("held", "e0") if name in pool.d.board.emulators]
    pool.done("t")
    assert pool.place("t") is None


def test_an_operators_pause_survives_the_dispatcher() -> None:
    pool = Pool()
    pool.d.pause("account", "ann", "holiday", NOW)
    again = Dispatcher(state=DispatcherState.load(pool.d.state.dump(), PoolConfig()))
    assert ("ann", "holiday") == (again.board.lane("account").paused_by, again.board.lane("account").paused_why)


def test_while_it_hands_over_to_the_next_run_nothing_is_granted() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.d.held_back = True
    pool.enqueue("t")
    assert "" == pool.on("e1")
    again = Dispatcher(state=DispatcherState.load(pool.d.state.dump(), PoolConfig()))
    again.tick(NOW)
    assert "t" == again.board.emulators["e1"].active


def test_lanes_that_submitters_make_up_are_forgotten_when_nobody_uses_them() -> None:
    pool = Pool()
    pool.emulator("e1")
    for number in range(50):
        pool.enqueue("t", lane=f"made-up-{number}")
        pool.done("t")
    assert set() == {name for name in pool.d.board.lanes if name.startswith("made-up")}


def test_a_lane_somebody_paused_is_kept_though_it_is_empty() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", lane="mine")
    pool.d.pause("mine", "anna", "maintenance", pool.now)
    pool.done("t")
    assert "anna" == pool.d.board.lanes["mine"].paused_by


def test_a_person_takes_over_a_pause_of_the_system_and_keeps_it() -> None:
    pool = Pool()
    pool.d.pause("account", "system:disk_full", "host h: full", pool.now)
    pool.d.pause("account", "ann", "holiday", pool.now)
    pool.d.resume("account", "system:disk_full", pool.now)
    assert "ann" == pool.d.board.lane("account").paused_by


def test_a_person_lifts_a_pause_of_the_system() -> None:
    pool = Pool()
    pool.d.pause("account", "system:disk_full", "host h: full", pool.now)
    pool.enqueue("a", "account")
    pool.emulator("e1")
    assert "" == pool.on("e1")
    pool.d.resume("account", "ann", pool.now)
    assert "a" == pool.on("e1")


def test_what_an_older_run_held_no_longer_is_not_taken_from_who_holds_it_now() -> None:
    """Its lease was fenced and freed before; it did not hear of that, said that it holds it, and was tried again."""
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("new", "account", account="ann")
    lost = m.Lease(NOW - 1_000, "e2", "h", NOW + 60_000)
    pool.enqueue("old", "account", account="ann", lease=lost)
    pool.enqueue("old", "account", key=m.Key("old", "r2", 1), account="ann")
    assert {account_key("ann"): "new"} == pool.d.keys.held
    pool.now += 1_000 * 60
    pool.d.tick(pool.now)
    assert ("new", EntryState.PARKED) == (pool.d.keys.held[account_key("ann")], pool.place("old"))


def test_a_late_announcement_is_answered_with_the_newest() -> None:
    pool = Pool()
    pool.emulator("e1")
    forged = m.Announce("e1", "h", NOW + 80_000_000, NOW, EmulatorStatus.DOWN)
    pool.d.on_announce(forged, NOW)
    pool.d.outbox.lines.clear()
    pool.emulator("e1")
    [recall] = pool.messages_to("emulator/e1", m.Recall)
    assert (NOW + 80_000_000, NOW) == (recall.incarnation, recall.seq)


def test_counters_that_leap_are_doubted_and_those_that_grow_are_not() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.emulator("e1", EmulatorStatus.SUSPECT, incarnation=NOW + m.SKEW_MS)
    assert [] == pool.messages_to("emulator/e1", m.Recall)
    pool.emulator("e1", EmulatorStatus.DOWN, incarnation=NOW + 2 * m.SKEW_MS + 1)
    assert [m.Recall] == [type(one) for one in pool.messages_to("emulator/e1", m.Recall)]


def test_an_emulator_whose_stages_nobody_takes_is_granted_no_more() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t1")
    pool.d.on_done(m.Done(m.Key("t1", "r1", 1), pool.seq(), token=pool.lease("t1").token, unserved=True), NOW)
    pool.enqueue("t2")
    emulator = pool.d.board.emulators["e1"]
    assert EmulatorStatus.SUSPECT is emulator.state
    assert emulator_bytes(emulator) == pool.d.state.weight.emulator_bytes
    assert "" == pool.on("e1")
    pool.emulator("e1")
    assert "t2" == pool.on("e1")


def test_tokens_go_beyond_one_that_a_task_or_an_emulator_has_heard_of() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t1", lost=NOW + 5_000)
    assert NOW + 5_001 == pool.lease("t1").token
    pool.d.on_announce(m.Announce("e1", "h", 1, 50, EmulatorStatus.UP, boot="b1", token=NOW + 9_000), NOW)
    pool.d.on_done(m.Done(m.Key("t1", "r1", 1), 60, token=pool.lease("t1").token, lost=NOW + 5_001), NOW)
    [order] = pool.messages_to("emulator/e1", m.Reset)
    assert NOW + 9_001 == order.token, "what holds it there is fenced before the next task gets it"


def test_a_new_run_under_the_same_incarnation_gets_its_reset_again() -> None:
    """Its host's counter lies ahead of the clock, so the run that was terminated had the same one."""
    pool = Pool()
    pool.emulator("e1", incarnation=NOW + 3_600_000)
    pool.enqueue("t1")
    token = pool.lease("t1").token
    pool.done("t1", clean=False)
    pool.deliver("emulator/e1")
    pool.emulator("e1", EmulatorStatus.RECOVERING, incarnation=NOW + 3_600_000)
    assert [m.Reset(token)] == pool.messages_to("emulator/e1", m.Reset)


def found_by_its_gate(pool: Pool, token: int) -> tuple[list[m.Reset], list[str]]:
    """A new run of an emulator's workflow passes a full gate and tells what it found: what is ordered and noted."""
    news = m.Announce("e1", "h", NOW, NOW, EmulatorStatus.UP, boot="b1", token=token)
    pool.d.on_announce(news, NOW + 10)
    return pool.messages_to("emulator/e1", m.Reset), [one.kind for one in pool.d.state.events.events]


def test_the_token_of_a_lease_that_ended_cleanly_is_nothing_to_be_swept() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t1")
    token = pool.lease("t1").token
    pool.done("t1")
    orders, events = found_by_its_gate(pool, token)
    assert [] == orders
    assert "emulator_ahead" not in events


def test_a_token_that_is_to_be_reset_already_is_not_swept_as_well() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t1")
    token = pool.lease("t1").token
    pool.done("t1", clean=False)
    orders, events = found_by_its_gate(pool, token)
    assert {m.Reset(token)} == set(orders)
    assert "emulator_ahead" not in events


def test_a_rebuild_does_not_fence_a_holder_that_has_yet_to_answer() -> None:
    pool = Pool()
    pool.d.take_over({"t1": "r1"}, NOW, 60.0, blind=True, emulators=["e1"])
    orders, events = found_by_its_gate(pool, NOW - 5_000)
    assert [] == orders
    assert "emulator_ahead" not in events
