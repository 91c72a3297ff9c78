"""What operators and settings change while a pool runs."""

from droidherd.domain.dispatch.control import AccountCommands, LaneCommands, Priorities
from droidherd.domain.dispatch.keys import DISABLED_MAX, DisabledKey
from droidherd.domain.dispatch.lane import KEPT_BY_HAND, LaneRules, Ordering
from droidherd.domain.dispatch.state import PoolConfig
from droidherd.domain.messages import RevokeReason
from tests.domain.dispatch.parts import NOW, Parts


def lanes(parts: Parts) -> LaneCommands:
    return LaneCommands(parts.state, parts.line, parts.audit_recorder)


def accounts(parts: Parts) -> AccountCommands:
    return AccountCommands(parts.state, parts.line, parts.leases, parts.audit_recorder)


def priorities(parts: Parts) -> Priorities:
    return Priorities(parts.state, parts.line, parts.admission, parts.audit_recorder)


def test_a_pool_that_is_paused_pauses_lanes_to_come():
    parts = Parts()
    assert lanes(parts).pause("", "ann", "lunch", NOW)
    assert "ann" == parts.board.lane("new").paused_by
    assert (True, True) == (lanes(parts).resume("", "ann", NOW), parts.board.lane("newer").open())


def test_what_changes_nothing_is_not_audited():
    parts = Parts()
    for _ in range(2):
        lanes(parts).pause("games", "ann", "lunch", NOW)
        lanes(parts).set_capacity("games", 7, "ann", NOW)
    assert ["lane_paused", "lane_capacity"] == parts.audited()


def test_a_capacity_set_by_hand_outlives_the_settings_until_it_is_given_back():
    parts = Parts()
    lanes(parts).set_capacity("games", 7, "ann", NOW)
    assert lanes(parts).configure(PoolConfig(rules=LaneRules({"games": 3})), NOW)
    assert 7 == parts.board.lane("games").capacity
    assert (True, 3) == (lanes(parts).reset("games", "ann", NOW), parts.board.lane("games").capacity)


def test_an_order_set_by_hand_outlives_the_settings():
    parts = Parts()
    lanes(parts).set_ordering("games", Ordering(by_priority=True), "ann", NOW)
    parts.waits("t1", "games", priority=5)
    urgent = parts.waits("t2", "games", priority=1)
    lanes(parts).configure(PoolConfig(limit=5), NOW)
    assert (Ordering(by_priority=True), 1) == (parts.board.lane("games").ordering, parts.board.position(urgent))


def test_the_same_settings_again_are_no_news():
    parts = Parts()
    config = PoolConfig(limit=5)
    assert [True, False] == [lanes(parts).configure(config, NOW), lanes(parts).configure(config, NOW)]
    assert (5, ["configured"]) == (parts.state.config.limit, parts.audited())


def test_an_order_by_priority_moves_who_waits():
    parts = Parts()
    parts.waits("t1", priority=5)
    urgent = parts.waits("t2", priority=1)
    lanes(parts).set_ordering("anonymous", Ordering(by_priority=True), "ann", NOW)
    assert 1 == parts.board.position(urgent)


def test_only_so_many_lanes_are_kept_for_what_was_set_by_hand():
    parts = Parts()
    for number in range(KEPT_BY_HAND):
        lanes(parts).set_capacity(f"lane{number}", 7, "ann", NOW)
    refused = lanes(parts).refusal("one-more")
    assert (True, "", "") == ("no more" in refused, lanes(parts).refusal("lane0"), lanes(parts).refusal(""))


def test_a_prioritized_task_goes_first_and_hears_of_it():
    parts = Parts()
    parts.waits("t1")
    entry = parts.waits("t2")
    assert priorities(parts).prioritize("t2", 1, "ann", NOW)
    assert (1, ["Admitted"], ["prioritized"]) == (parts.board.position(entry), parts.kinds("t2"), parts.audited())


def test_a_priority_never_makes_a_task_less_urgent():
    parts = Parts()
    entry = parts.waits("t1", priority=2)
    assert (True, 2) == (priorities(parts).prioritize("t1", 9, "ann", NOW), entry.ask.priority)


def test_one_of_many_is_no_audit_entry_of_its_own():
    parts = Parts()
    parts.waits("t1")
    assert priorities(parts).prioritize_in_bulk("t1", 1, "ann", NOW)
    assert ([], ["prioritized"]) == (parts.audited(), [one.kind for one in parts.state.events.events])


def test_who_holds_an_emulator_or_is_not_there_cannot_be_put_in_front():
    parts = Parts()
    parts.holds("t1", parts.emulator())
    assert [False, False] == [priorities(parts).prioritize(name, 1, "ann", NOW) for name in ("t1", "t2")]


def test_a_disabled_account_leaves_the_deck_and_keeps_what_runs():
    parts = Parts()
    emulator = parts.emulator()
    parts.holds("t1", emulator)
    parts.holds("t2", emulator, account="ben")
    parts.sent_to("t2")
    assert accounts(parts).disable("ben", "ann", "on holiday", NOW)
    assert ([RevokeReason.DECK], True) == (
        [one.reason for one in parts.sent_to("t2")],
        accounts(parts).is_disabled("ben"),
    )
    parts.holds("t3", parts.emulator("e2"), account="cid")
    parts.sent_to("t3")
    accounts(parts).disable("cid", "ann", "", NOW)
    assert [] == parts.sent_to("t3")


def test_an_account_that_is_enabled_comes_back_at_its_place():
    parts = Parts()
    accounts(parts).disable("ben", "ann", "", NOW)
    parts.waits("t1", account="ben")
    lane = parts.board.lane("anonymous")
    assert [] == parts.line.heads(lane)
    assert accounts(parts).enable("ben", "ann", NOW)
    assert (["t1"], 0) == ([one.task_id for one in parts.line.heads(lane)], len(parts.keys.disabled))
    assert ["account_disabled", "account_enabled"] == parts.audited()


def test_the_system_takes_back_only_what_it_disabled_itself():
    parts = Parts()
    accounts(parts).disable("ben", "ann", "", NOW)
    assert (False, False) == (
        accounts(parts).disable("ben", "system:x", "", NOW),
        accounts(parts).enable("ben", "system:x", NOW),
    )


def test_only_so_many_accounts_can_be_disabled():
    parts = Parts()
    parts.keys.disabled |= {f"a:n{number}": DisabledKey("ann", "", NOW) for number in range(DISABLED_MAX)}
    assert ("", True) == (accounts(parts).refusal("n0"), "no more" in accounts(parts).refusal("another"))
