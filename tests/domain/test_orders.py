"""What people, the system and the settings may order: effective at once, by hand or by the settings, audited."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AUDIT_ENTRIES, TEXT_MAX
from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.lane import KEPT_BY_HAND, LaneRules, Ordering
from droidherd.domain.dispatch.state import PoolConfig
from tests.domain.pool import NOW, Pool, again

PRIORITY = Ordering(by_priority=True)


def rules(**given: Any) -> PoolConfig:
    return PoolConfig(rules=LaneRules(**given))


def pauses(pool: Pool) -> dict[str, str]:
    return {name: lane.paused_by for name, lane in pool.d.board.lanes.items()}


# --- pauses ---------------------------------------------------------------------------------------------------


def test_a_pool_that_is_paused_pauses_lanes_to_come_and_opens_one_by_one() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("a", "account")
    pool.done("a")
    pool.d.pause("", "ann", "holiday", NOW)
    pool.enqueue("b", "later")
    assert {"account": "ann", "later": "ann"} == pauses(pool)
    assert "lane later is paused by ann: holiday" == pool.d.admission.why(pool.d.board.entries["b"])
    pool = again(pool)
    pool.enqueue("c", "latest")
    assert "ann" == pauses(pool)["latest"]
    pool.d.resume("later", "ben", NOW)
    assert EntryState.ACTIVE is pool.place("b")
    pool.d.resume("", "ben", NOW)
    pool.done("b")
    assert EntryState.ACTIVE is pool.place("c")


def test_the_system_overrules_nobody_and_takes_back_only_its_own() -> None:
    pool = Pool()
    for lane in ("account", "anonymous"):
        pool.d.board.lane(lane)
    pool.d.pause("account", "ann", "release", NOW)
    pool.d.pause("", "system:disk_full", "h1", NOW)
    assert {"account": "ann", "anonymous": "system:disk_full"} == pauses(pool)
    assert not pool.d.pause("account", "system:disk_full", "h1", NOW)
    assert not pool.d.resume("", "system:other", NOW)
    pool.d.resume("", "system:disk_full", NOW)
    assert {"account": "ann", "anonymous": ""} == pauses(pool)
    pool.d.pause("anonymous", "system:disk_full", "h1", NOW)
    pool.d.resume("", "ben", NOW)
    assert {"account": "", "anonymous": ""} == pauses(pool)


def test_an_unused_lane_is_kept_while_it_is_paused_and_forgotten_afterwards() -> None:
    pool = Pool()
    pool.d.pause("fresh", "ann", "", NOW)
    assert {"fresh": "ann"} == pauses(again(pool))
    pool.d.resume("fresh", "ann", NOW)
    assert {} == pauses(pool)


def test_lanes_set_by_hand_have_an_end() -> None:
    pool = Pool()
    for number in range(KEPT_BY_HAND):
        assert "" == pool.d.lanes.refusal(f"made-up-{number}")
        pool.d.set_capacity(f"made-up-{number}", 1, "ann", NOW)
    refused = pool.d.lanes.refusal("one-more")
    assert (True, True) == ("keeps 100 lanes set by hand" in refused, "droidherd queue lanes LANE --reset" in refused)
    assert ["", "", ""] == [pool.d.lanes.refusal(name) for name in ("", "made-up-7", "made-up-99")]
    assert pool.d.reset_lane("made-up-7", "ann", NOW, "a slip of the pen")
    assert ("", False) == (pool.d.lanes.refusal("one-more"), "made-up-7" in pool.d.board.lanes)


def test_a_pool_that_is_paused_has_not_set_its_lanes_by_hand() -> None:
    pool = Pool()
    for number in range(KEPT_BY_HAND):
        pool.enqueue(f"t{number}", lane=f"made-up-{number}")
    pool.d.pause("", "ann", "holiday", NOW)
    assert "" == pool.d.lanes.refusal("one-more")


def test_a_lane_that_is_reset_is_as_the_settings_and_the_pool_say() -> None:
    pool = Pool()
    pool.d.configure(rules(capacities={"account": 9}, by_priority=("account",)), NOW)
    for number, priority in enumerate((9, 1)):
        pool.enqueue(f"t{number}", "account", priority=priority)
    pool.d.set_capacity("account", 4, "ann", NOW)
    pool.d.set_ordering("account", Ordering(), "ann", NOW)
    pool.d.pause("account", "ann", "release", NOW)
    assert pool.d.reset_lane("account", "ben", NOW, "over")
    lane = pool.d.board.lane("account")
    assert (9, "", "", "") == (lane.capacity, lane.capacity_by, lane.ordering_by, lane.paused_by)
    pool.emulator("e1")
    assert ["t1", "t0"] == pool.order()
    entries = [(one.kind, one.actor, one.reason, one.lane) for one in pool.d.state.audit.by_people]
    assert ("lane_reset", "ben", "over", "account") == entries[-1]
    assert not pool.d.reset_lane("account", "ben", NOW)
    assert len(entries) == len(pool.d.state.audit.by_people)


def test_a_lane_that_is_reset_in_a_paused_pool_is_paused_like_the_pool() -> None:
    pool = Pool()
    pool.enqueue("t", "fresh")
    pool.d.pause("fresh", "ann", "mine", NOW)
    pool.d.pause("", "ben", "all", NOW)
    pool.d.pause("fresh", "ann", "mine", NOW)
    assert pool.d.reset_lane("fresh", "ann", NOW)
    assert "ben" == pauses(pool)["fresh"]


def test_lanes_that_submitters_make_up_in_a_paused_pool_are_forgotten_too() -> None:
    pool = Pool()
    pool.d.pause("", "ann", "", NOW)
    for number in range(50):
        pool.enqueue("t", lane=f"made-up-{number}")
        pool.done("t")
    assert {} == pauses(pool)


# --- order ----------------------------------------------------------------------------------------------------


def test_an_order_that_changes_is_effective_for_those_who_wait() -> None:
    pool = Pool()
    for number, priority in enumerate((9, 5, 1)):
        pool.enqueue(f"t{number}", priority=priority)
    pool.d.set_ordering("anonymous", PRIORITY, "ann", NOW)
    pool = again(pool)
    pool.emulator("e1")
    assert "t2" == pool.on("e1")
    pool.d.set_ordering("anonymous", Ordering(), "ann", NOW)
    pool.done("t2")
    assert ["t0", "t1"] == pool.order()


def test_who_is_parked_while_the_order_changes_is_not_forgotten() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("holder", mutex=("shop",))
    pool.enqueue("late", mutex=("shop",), priority=9)
    pool.enqueue("urgent", mutex=("shop",), priority=1)
    pool.d.assign(NOW)
    pool.d.set_ordering("anonymous", PRIORITY, "ann", NOW)
    pool.done("holder")
    assert ["urgent", "late"] == pool.order()


def test_ageing_bounds_how_many_may_overtake_a_task() -> None:
    pool = Pool()
    pool.d.set_ordering("anonymous", Ordering(by_priority=True, ageing=2), "ann", NOW)
    pool.enqueue("patient", priority=3)
    for number in range(8):
        pool.enqueue(f"pushy-{number}", priority=1)
    pool.emulator("e1")
    assert 4 == pool.order().index("patient"), "two steps of priority, two each"


def test_a_task_that_lost_its_emulator_comes_back_with_its_age() -> None:
    pool = Pool()
    pool.d.set_ordering("anonymous", Ordering(by_priority=True, ageing=1), "ann", NOW)
    pool.emulator("e1")
    pool.enqueue("old", priority=2)
    ticket = pool.d.board.entries["old"].ticket
    for number in range(4):
        pool.enqueue(f"new-{number}", priority=1)
    pool.done("old", "")
    pool.enqueue("old", priority=2, ticket=ticket)
    pool.done("new-0")
    assert "old" == pool.on("e1"), "one of them overtook it, which is all that may"


# --- settings -------------------------------------------------------------------------------------------------


def test_settings_that_changed_are_effective_and_what_was_set_by_hand_stays() -> None:
    pool = Pool()
    pool.d.configure(rules(capacities={"account": 9, "anonymous": 9}), NOW)
    pool.d.set_capacity("account", 4, "ann", NOW)
    pool.d.set_ordering("account", PRIORITY, "ann", NOW)
    pool.d.configure(rules(capacities={"account": 7, "anonymous": 7}, by_priority=("anonymous",)), NOW)
    pool = again(pool)
    found = {lane.name: (lane.capacity, lane.ordering.by_priority) for lane in pool.d.board.lanes.values()}
    assert {"account": (4, True), "anonymous": (7, True)} == found


def test_what_is_set_by_hand_as_the_settings_say_follows_them_again() -> None:
    pool = Pool()
    pool.d.configure(rules(capacities={"account": 9}), NOW)
    pool.d.set_capacity("account", 4, "ann", NOW)
    pool.d.set_capacity("account", 9, "ann", NOW)
    pool.d.configure(rules(capacities={"account": 7}), NOW)
    assert (7, "") == (pool.d.board.lane("account").capacity, pool.d.board.lane("account").capacity_by)


def test_a_successor_begins_with_the_settings_of_its_day() -> None:
    pool = Pool()
    pool.d.configure(rules(capacities={"account": 9, "anonymous": 9}), NOW)
    pool.d.set_capacity("account", 4, "ann", NOW)
    for number, priority in enumerate((9, 1)):
        pool.enqueue(f"t{number}", priority=priority)
    other = again(pool, rules(capacities={"account": 1, "anonymous": 1}, by_priority=("*",)))
    assert {"account": 4, "anonymous": 1} == {one.name: one.capacity for one in other.d.board.lanes.values()}
    other.emulator("e1")
    assert ["t1", "t0"] == other.order()


def test_settings_that_say_nothing_new_leave_no_trace() -> None:
    pool = Pool()
    assert pool.d.configure(rules(capacities={"account": 9}), NOW)
    assert not pool.d.configure(rules(capacities={"account": 9}), NOW)
    assert [("configured", "system:settings")] == [(one.kind, one.actor) for one in pool.d.state.audit.by_system]
    assert "capacity of account 100 → 9" == pool.d.state.audit.by_system[0].detail


def test_a_larger_capacity_of_the_settings_grants_at_once() -> None:
    pool = Pool()
    pool.d.configure(rules(capacities={"anonymous": 1}), NOW)
    for name in ("e1", "e2"):
        pool.emulator(name)
    for number in range(2):
        pool.enqueue(f"t{number}")
    assert EntryState.WAITING is pool.place("t1")
    pool.d.configure(rules(capacities={"anonymous": 2}), NOW)
    assert EntryState.ACTIVE is pool.place("t1")


# --- mutexes --------------------------------------------------------------------------------------------------


def held_for_too_long() -> tuple[Pool, int]:
    """`holder` has held the mutex for ten seconds, `other` waits for it."""
    pool = Pool(mutex_hold_s=10.0)
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("holder", mutex=("shop",))
    pool.enqueue("other", mutex=("shop",))
    token = pool.lease("holder").token
    assert NOW + 10_000 == pool.d.next_due_ms()
    pool.d.tick(NOW + 9_999)
    assert [] == pool.messages_to("holder", m.Revoked)
    pool.now = NOW + 10_000
    pool.d.tick(pool.now)
    return pool, token


def kinds(pool: Pool) -> list[str]:
    return [one.kind for one in pool.d.state.audit.by_system]


def test_a_mutex_held_for_too_long_is_fenced_first_and_then_broken() -> None:
    pool, token = held_for_too_long()
    assert [m.RevokeReason.EXPIRED] == [one.reason for one in pool.messages_to("holder", m.Revoked)]
    assert ([token], EntryState.PARKED) == (
        [one.token for one in pool.messages_to("emulator/e1", m.Reset)],
        pool.place("other"),
    )
    pool.d.tick(NOW + 10_000_000)
    assert (EntryState.PARKED, ["mutex_overdue"]) == (pool.place("other"), kinds(pool)), "time alone breaks nothing"
    pool.emulator("e1", reset_to=token)
    assert (EntryState.ACTIVE, ["mutex_overdue", "mutex_broken"]) == (pool.place("other"), kinds(pool))
    broken = pool.d.state.audit.by_system[-1]
    assert ("system:mutex_hold", "holder", "e1", "shop") == (
        broken.actor, broken.task_id, broken.emulator_id, broken.detail,
    )  # fmt: skip


def test_a_holder_that_lets_go_when_asked_has_its_mutex_not_broken() -> None:
    pool, _ = held_for_too_long()
    pool.done("holder", "", clean=False)
    assert (EntryState.ACTIVE, ["mutex_overdue"]) == (pool.place("other"), kinds(pool))


def test_the_hold_survives_continue_as_new_and_no_mutex_means_no_hold() -> None:
    pool = Pool(mutex_hold_s=10.0)
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("holder", mutex=("shop",))
    pool.enqueue("free", hold_s=60.0)
    pool.now += 9_000
    pool = again(pool)
    pool.d.tick(NOW + 10_000)
    assert (EntryState.FENCING, EntryState.ACTIVE) == (pool.place("holder"), pool.place("free"))
    unlimited = Pool(mutex_hold_s=0.0)
    unlimited.emulator("e1")
    unlimited.enqueue("holder", mutex=("shop",), hold_s=10**6)
    unlimited.d.tick(NOW + 10**8)
    assert EntryState.ACTIVE is unlimited.place("holder")


def test_a_task_of_a_subscription_may_outlast_the_hold_of_a_mutex() -> None:
    pool = Pool(mutex_hold_s=10.0)
    pool.emulator("e1")
    pool.emulator("e2")
    pool.enqueue("alone", mutex=("subscription.daily",))
    pool.enqueue("shops", mutex=("shop", "subscription.weekly"))
    pool.d.tick(NOW + 10_000)
    assert (EntryState.ACTIVE, EntryState.FENCING) == (pool.place("alone"), pool.place("shops"))


def test_who_asks_while_an_unknown_lease_is_fenced_is_asked_again_afterwards() -> None:
    pool, token = held_for_too_long()
    pool.enqueue("holder", mutex=("shop",))
    assert [] == pool.messages_to("holder", m.Recall)
    pool.emulator("e1", reset_to=token)
    assert 1 == len(pool.messages_to("holder", m.Recall))


# --- counting -------------------------------------------------------------------------------------------------


def test_a_lease_that_comes_back_after_it_was_counted_is_not_counted_again() -> None:
    """A worker died after its last word was carried, and before the engine wrote down that it was said."""
    pool = Pool()
    pool.emulator("e1")
    ask = pool.enqueue("t")
    lease = pool.lease("t")
    pool.done("t")
    pool.d.on_enqueue(replace(ask, seq=pool.seq(), lease=lease), NOW)
    assert pool.d.board.entries["t"].counted
    pool.done("t")
    assert 1 == pool.d.stats.of("check").completed


def test_a_lease_that_was_fenced_without_a_word_is_counted_when_word_comes() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t", hold_s=10.0)
    lease = pool.lease("t")
    pool.d.tick(NOW + 10_000)
    pool.emulator("e1", reset_to=lease.token)
    assert (None, 0) == (pool.place("t"), pool.d.stats.total().count)
    pool = again(pool)
    for _ in range(2):
        pool.d.on_done(m.Done(m.Key("t", "r1", 1), pool.seq(), "completed", seconds=2.0, token=lease.token), NOW)
    assert (1, 2.0) == (pool.d.stats.of("check").completed, pool.d.stats.of("check").run.seconds)


def test_a_lease_from_before_our_memory_counts_once_and_without_its_wait() -> None:
    pool = Pool(fence_s=0.0)
    pool.d.take_over({"t": "r1"}, NOW, 60.0, blind=True)
    lease = m.Lease(7, "e1", "h", NOW + 9_000)
    for _ in range(2):
        ask = pool.enqueue("t", lease=lease)
        pool.d.on_done(m.Done(ask.key, pool.seq(), "completed", seconds=2.0, token=7), NOW)
    counts = pool.d.stats.of("check")
    assert (1, 1, 0) == (counts.completed, counts.run.count, counts.wait.count)


def test_an_unclean_end_is_not_believed_clean_by_a_later_clean_withdrawal() -> None:
    """Both the unclean `done` and the next request were lost with a terminated dispatcher."""
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t")
    token = pool.lease("t").token
    pool.d.on_done(m.Done(m.Key("t", "r1", 1), pool.seq(), lost=token), NOW)
    assert token == pool.d.board.emulators["e1"].dirty


def test_a_grant_its_task_never_knew_of_leaves_nothing_behind() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t")
    pool.d.on_done(m.Done(m.Key("t", "r1", 1), pool.seq(), lost=pool.lease("t").token - 1), NOW)
    assert 0 == pool.d.board.emulators["e1"].dirty


# --- audit ----------------------------------------------------------------------------------------------------


def test_every_order_is_audited_with_its_actor_and_reason() -> None:
    pool = Pool()
    pool.enqueue("t")
    pool.d.pause("account", "ann", "release", NOW)
    pool.d.resume("account", "ann", NOW, "done")
    pool.d.set_capacity("account", 4, "ann", NOW, "slow")
    pool.d.set_ordering("account", PRIORITY, "ann", NOW, "event")
    pool.d.prioritize("t", 1, "ann", NOW, reason="late")
    entries = [(one.kind, one.actor, one.reason, one.at_ms) for one in pool.d.state.audit.by_people]
    kinds_ = ("lane_paused", "lane_resumed", "lane_capacity", "lane_ordering", "prioritized")
    reasons = ("release", "done", "slow", "event", "late")
    assert [(kind, "ann", reason, NOW) for kind, reason in zip(kinds_, reasons, strict=True)] == entries
    assert list(pool.d.state.audit.by_people) == list(again(pool).d.state.audit.by_people)


REPEATED: dict[str, Callable[[Dispatcher], object]] = {
    "pause": lambda d: d.pause("account", "ann", "release", NOW),
    "pause the pool": lambda d: d.pause("", "ann", "release", NOW),
    "resume": lambda d: d.resume("anonymous", "ann", NOW, "done"),
    "capacity": lambda d: d.set_capacity("account", 4, "ann", NOW),
    "order": lambda d: d.set_ordering("account", PRIORITY, "ann", NOW),
    "reset": lambda d: d.reset_lane("shop", "ann", NOW),
    "prioritize": lambda d: d.prioritize("t", 1, "ann", NOW),
    "disable": lambda d: d.disable("ann", "ann", "banned", NOW),
    "enable": lambda d: d.enable("ben", "ann", NOW),
}


@pytest.mark.parametrize("order", REPEATED.values(), ids=REPEATED.keys())
def test_a_repeat_that_changes_nothing_leaves_no_second_line(order: Callable[[Dispatcher], object]) -> None:
    pool = Pool()
    pool.enqueue("t")
    pool.d.pause("anonymous", "ann", "before", NOW)
    pool.d.set_capacity("shop", 4, "ann", NOW)
    pool.d.disable("ben", "ann", "before", NOW)
    lines = len(pool.d.state.audit.by_people)
    order(pool.d)
    assert lines + 1 == len(pool.d.state.audit.by_people)
    order(pool.d)
    assert lines + 1 == len(pool.d.state.audit.by_people)


def test_what_the_system_does_never_pushes_out_what_people_did() -> None:
    pool = Pool()
    pool.d.pause("account", "ann", "x" * 5_000, NOW)
    for number in range(3 * AUDIT_ENTRIES):
        pool.d.configure(rules(capacities={"account": number + 1}), NOW)
    assert (1, AUDIT_ENTRIES) == (len(pool.d.state.audit.by_people), len(pool.d.state.audit.by_system))
    assert TEXT_MAX == len(pool.d.state.audit.by_people[0].reason)


@pytest.mark.parametrize("action", ["drain", "undrain"])
def test_a_drain_is_audited_by_the_word_of_the_emulator(action: str) -> None:
    pool = Pool()
    news = m.Announce("e1", "h", 1, 1, m.EmulatorStatus.UP, action=action, actor="ann", reason="new image")
    pool.d.on_announce(news, NOW)
    pool.d.on_announce(news, NOW)
    entries = [(one.kind, one.actor, one.reason, one.emulator_id) for one in pool.d.state.audit.by_people]
    assert [(f"emulator_{action}", "ann", "new image", "e1")] == entries


def test_a_successor_says_whether_it_remembers() -> None:
    pool = Pool()
    pool.d.take_over({}, NOW, 60.0, blind=False)
    assert [] == list(pool.d.state.audit.by_system), "the first one of a pool takes over from nobody"
    pool = again(pool)
    pool.d.take_over({}, NOW, 60.0, blind=False)
    blind = Pool()
    blind.d.take_over({}, NOW, 60.0, blind=True)
    assert ["with what its predecessor knew"] == [one.reason for one in pool.d.state.audit.by_system]
    assert ["without any memory of what was before"] == [one.reason for one in blind.d.state.audit.by_system]
