"""Which emulators are switched off, and on again, seen from the part that decides it."""

from typing import Any

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import SWITCH_OFF, SWITCH_ON, PoolEmulator
from droidherd.domain.dispatch.power import EXPECTED_MAX, LATE_MS
from droidherd.domain.messages import EmulatorStatus
from tests.domain.dispatch.parts import NOW, Parts


def off(parts: Parts, name: str, **fields: Any) -> PoolEmulator:
    return parts.emulator(name, EmulatorStatus.STOPPED, startable=True, **fields)


def idle(parts: Parts, name: str, since_ms: int = NOW, **fields: Any) -> PoolEmulator:
    return parts.emulator(name, startable=True, idle_since_ms=since_ms, **fields)


def switched(parts: Parts) -> dict[str, str]:
    return {name: one.switch for name, one in parts.board.emulators.items() if one.switch}


def soon(task_id: str, *requires: str, at_ms: int = NOW + 30_000, lane: str = "") -> m.Soon:
    return m.Soon(m.Key(task_id, "r1", 1), 1, at_ms, requires, lane)


def test_as_many_are_switched_on_as_tasks_wait():
    parts = Parts()
    for name in ("e1", "e2", "e3"):
        off(parts, name)
    for task in ("t1", "t2"):
        parts.waits(task)
    parts.power.switch_on(NOW)
    assert {"e1": SWITCH_ON, "e2": SWITCH_ON} == switched(parts)
    parts.power.switch_on(NOW)
    assert (["Switch"], [], 2) == (parts.kinds("emulator/e1"), parts.sent_to("emulator/e3"), len(parts.audited()))


def test_who_is_on_its_way_up_is_counted():
    parts = Parts()
    off(parts, "e1")
    parts.emulator("e2", EmulatorStatus.RECOVERING)
    parts.waits("t1")
    parts.power.switch_on(NOW)
    assert {} == switched(parts)


def test_only_what_a_task_can_use_is_switched_on():
    parts = Parts()
    off(parts, "e1", labels=("os=13",))
    off(parts, "e2", labels=("os=14",))
    parts.waits("t1", requires=("os=14",))
    parts.power.switch_on(NOW)
    assert {"e2": SWITCH_ON} == switched(parts)


def test_a_lane_at_capacity_switches_nothing_on():
    parts = Parts()
    off(parts, "e1")
    parts.waits("t1")
    parts.board.lane("anonymous").capacity = 0
    parts.power.switch_on(NOW)
    assert {} == switched(parts)


def test_an_emulator_is_started_for_a_task_whose_time_is_near():
    parts = Parts()
    off(parts, "e1")
    parts.power.expect(soon("t1"))
    parts.power.switch_on(NOW)
    assert {"e1": SWITCH_ON} == switched(parts)


def test_for_a_task_that_will_not_come_nothing_is_started():
    parts = Parts()
    off(parts, "e1")
    parts.power.expect(soon("t1"))
    parts.power.on_arrived("t1")
    parts.power.switch_on(NOW)
    assert {} == switched(parts)


def test_only_so_many_tasks_are_remembered():
    parts = Parts()
    for number in range(EXPECTED_MAX + 5):
        parts.power.expect(soon(f"t{number}"))
    assert EXPECTED_MAX == len(parts.state.expected)


def test_what_was_idle_for_long_enough_is_switched_off():
    parts = Parts(idle_stop_s=60.0)
    idle(parts, "e1")
    parts.emulator("e2", idle_since_ms=NOW)
    assert [NOW + 60_000] == list(parts.power.due_ms())
    parts.power.switch_off(NOW + 59_999)
    assert {} == switched(parts)
    parts.power.switch_off(NOW + 60_000)
    assert ({"e1": SWITCH_OFF}, ["e2"]) == (switched(parts), list(parts.board.free))


def test_without_a_limit_nothing_is_switched_off():
    parts = Parts(idle_stop_s=0.0)
    idle(parts, "e1")
    parts.power.switch_off(NOW + 10**9)
    assert ({}, []) == (switched(parts), list(parts.power.due_ms()))


def test_the_last_ones_are_kept():
    parts = Parts(idle_stop_s=60.0, idle_keep=1)
    idle(parts, "e1", NOW + 5)
    idle(parts, "e2", NOW)
    parts.power.switch_off(NOW + 10**6)
    assert {"e2": SWITCH_OFF} == switched(parts)


def test_an_emulator_is_kept_for_a_task_whose_time_is_near_until_it_is_late():
    parts = Parts(idle_stop_s=60.0)
    idle(parts, "e1")
    parts.power.expect(soon("t1", at_ms=NOW + 90_000))
    parts.power.switch_off(NOW + 90_000)
    assert ({}, [NOW + 90_000 + LATE_MS + 1]) == (switched(parts), list(parts.power.due_ms()))
    parts.power.switch_off(NOW + 90_000 + LATE_MS + 1)
    assert {"e1": SWITCH_OFF} == switched(parts)


@pytest.mark.parametrize(
    ("switch", "switched_seq", "startable", "left"),
    [
        (SWITCH_ON, 5, True, ""),
        (SWITCH_ON, 4, True, SWITCH_ON),
        (SWITCH_ON, 4, False, ""),
        (SWITCH_OFF, 4, False, SWITCH_OFF),
        (SWITCH_OFF, 5, True, ""),
    ],
)
def test_what_an_emulator_says_settles_what_was_asked_of_it(switch: str, switched_seq: int, startable: bool, left: str):
    parts = Parts()
    emulator = parts.emulator(startable=True, switch=switch, switch_seq=5)
    news = m.Announce("e1", "h", 1, 9, EmulatorStatus.UP, (), "b1", startable=startable, switched=switched_seq)
    parts.power.on_announced(emulator, news, NOW)
    assert (left, startable) == (emulator.switch, emulator.startable)


def test_a_new_worker_gets_again_what_the_one_before_may_have_lost():
    parts = Parts()
    emulator = parts.emulator(startable=True, switch=SWITCH_ON, switch_seq=5)
    news = m.Announce("e1", "h", 2, 9, EmulatorStatus.STOPPED, (), "b1", startable=True, switched=4)
    parts.power.on_announced(emulator, news, NOW)
    assert [m.Switch(on=True, seq=5)] == parts.sent_to("emulator/e1")


def test_who_is_on_its_way_up_for_one_task_is_not_counted_for_another():
    parts = Parts()
    off(parts, "e1")
    parts.emulator("e2", EmulatorStatus.RECOVERING)
    parts.waits("t1")
    parts.waits("t2", "games")
    parts.power.switch_on(NOW)
    assert {"e1": SWITCH_ON} == switched(parts)


def test_an_emulator_that_came_up_is_idle_from_now_on():
    parts = Parts()
    emulator = parts.emulator(state=EmulatorStatus.STOPPED, startable=True, idle_since_ms=1)
    parts.power.on_announced(emulator, m.Announce("e1", "h", 1, 9, EmulatorStatus.UP, (), "b1", startable=True), NOW)
    assert NOW == emulator.idle_since_ms
