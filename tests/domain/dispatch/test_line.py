"""Who waits: the board's lines, the parked tasks and the weight of the snapshot, kept consistent."""

from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.lane import Ordering
from tests.domain.dispatch.parts import Parts


def heads(parts: Parts, lane: str = "anonymous") -> list[str]:
    return [entry.task_id for entry in parts.line.heads(parts.board.lane(lane))]


def test_the_heads_are_one_per_bucket_and_the_longest_waiting_first():
    parts = Parts()
    parts.waits("t1", requires=("os=13",))
    parts.waits("t2")
    parts.waits("t3")
    assert ["t1", "t2"] == heads(parts)


def test_a_head_with_a_busy_key_is_parked_and_the_one_behind_it_is_seen():
    parts = Parts()
    parts.keys.take(["m:shop"], "holder")
    first = parts.waits("t1", mutex=("shop",))
    parts.waits("t2")
    assert ["t2"] == heads(parts)
    assert (EntryState.PARKED, "m:shop", 2) == (first.state, first.waits_for_key, parts.board.waiting)


def test_who_is_woken_stands_at_the_place_of_its_ticket_again():
    parts = Parts()
    parts.keys.take(["m:shop"], "holder")
    parts.waits("t1", mutex=("shop",))
    parts.waits("t2")
    heads(parts)
    parts.keys.free(["m:shop"], "holder")
    parts.line.woken = False
    parts.line.wake("m:shop")
    assert (True, ["t1"]) == (parts.line.woken, heads(parts))


def test_who_is_granted_takes_its_keys_along_and_waits_no_longer():
    parts = Parts()
    entry = parts.waits("t1", "account", account="ann", mutex=("shop",))
    parts.line.on_granted(entry)
    assert ({"a:ann": "t1", "m:shop": "t1"}, 0, {}) == (parts.keys.held, parts.board.waiting, parts.board.buckets)


def test_a_parked_task_that_leaves_is_forgotten_everywhere():
    parts = Parts()
    parts.keys.take(["m:shop"], "holder")
    entry = parts.waits("t1", "account", account="ann", mutex=("shop",))
    heads(parts, "account")
    parts.line.leave(entry)
    parts.line.drop(entry)
    assert (0, {}, {}, {}) == (parts.board.waiting, parts.keys.parked, parts.keys.queued, parts.board.entries)


def test_what_a_task_weighs_is_given_back_when_it_is_dropped():
    parts = Parts()
    before = parts.state.weight.size_bytes
    entry = parts.waits("t1", "account", account="ann", mutex=("shop",))
    assert parts.state.weight.size_bytes > before
    parts.line.leave(entry)
    parts.line.drop(entry)
    assert (before, {}) == (parts.state.weight.size_bytes, parts.state.weight.texts)


def test_a_task_that_is_moved_stands_in_front():
    parts = Parts()
    parts.waits("t1")
    second = parts.waits("t2")
    parts.line.move(second, 5, parts.board.draw_priority_ticket())
    assert ["t2"] == heads(parts)


def test_a_lane_that_is_ordered_anew_lines_up_by_priority():
    parts = Parts()
    parts.waits("t1", priority=5)
    parts.waits("t2", priority=1)
    lane = parts.board.lane("anonymous")
    assert ["t1"] == heads(parts)
    parts.line.reorder(lane, Ordering(by_priority=True))
    assert ["t2"] == heads(parts)


def test_a_lane_knows_its_buckets_as_long_as_somebody_stands_in_them():
    parts = Parts()
    first, second = parts.waits("t1", "account", account="ann"), parts.waits("t2")
    assert {"account", "anonymous"} == parts.board.by_lane.keys()
    parts.line.on_granted(first)
    assert [parts.board.bucket(second)] == [one for of in parts.board.by_lane.values() for one in of.values()]
