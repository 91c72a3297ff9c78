"""A lane in which every task waits for a key is still a lane; and what is off keeps its order."""

import copy

import pytest

from droidherd.contracts.queue import QueueQuery
from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.lane import LaneRules
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.messages import EmulatorStatus, OnBusy
from workflows.dispatcher import views

BY_PRIORITY = PoolConfig(rules=LaneRules(by_priority=("*",)))


def ask(task_id: str, lane: str, account: str = "") -> m.Enqueue:
    return m.Enqueue(m.Key(task_id, "r", 1), 1, lane, "tap", account=account, priority=2, on_busy=OnBusy.QUEUE)


def done(d: Dispatcher, task_id: str) -> None:
    lease = d.board.entries[task_id].lease
    token = lease.token if lease else 0
    d.on_done(m.Done(m.Key(task_id, "r", 1), 2, "completed" if token else "", token=token), 9)


@pytest.fixture
def parked() -> Dispatcher:
    """`first` holds the account of `second`, the only task left in lane `b`."""
    d = Dispatcher("p")
    for emulator_id in ("e1", "e2"):
        d.on_announce(m.Announce(emulator_id, "h", 1, 1, EmulatorStatus.UP), 1)
    d.on_enqueue(ask("first", "a", "ann"), 2)
    d.on_enqueue(ask("second", "b", "ann"), 3)
    d.on_enqueue(ask("third", "b"), 4)
    done(d, "third")
    return d


def test_a_lane_is_kept_while_a_task_in_it_waits_for_a_key(parked: Dispatcher) -> None:
    assert ["a", "b"] == list(parked.board.lanes)


def test_a_lane_is_forgotten_when_its_parked_task_left(parked: Dispatcher) -> None:
    done(parked, "second")
    assert ["a"] == list(parked.board.lanes)


def test_a_parked_task_can_leave_after_its_lane_changed_order(parked: Dispatcher) -> None:
    parked.configure(BY_PRIORITY, 5)
    done(parked, "second")
    done(parked, "first")
    assert not parked.board.entries
    assert not parked.keys.parked


def test_a_parked_task_is_prioritized_once_after_its_lane_changed_order(parked: Dispatcher) -> None:
    parked.configure(BY_PRIORITY, 5)
    parked.prioritize("second", 1, "ann", 6)
    (line,) = parked.keys.parked["a:ann"].values()
    assert ["second"] == [task_id for _, task_id in line]


def test_a_query_changes_nothing(parked: Dispatcher) -> None:
    before = copy.deepcopy(parked.state)
    views.queue(parked, QueueQuery(), 5)
    views.place(parked, "second")
    assert before == parked.state
    assert list(before.board.lanes) == list(parked.board.lanes)


def test_a_restored_dispatcher_knows_the_same_lanes(parked: Dispatcher) -> None:
    restored = DispatcherState.load(parked.state.dump(), PoolConfig())
    assert parked.state == restored
    assert list(parked.board.lanes) == list(restored.board.lanes)


def test_a_restored_dispatcher_switches_on_the_same_emulator() -> None:
    d = Dispatcher("p")
    for seq, emulator_id in ((1, "e1"), (1, "e2"), (2, "e2"), (2, "e1")):
        state = EmulatorStatus.STOPPED if seq == 2 else EmulatorStatus.UP
        d.on_announce(m.Announce(emulator_id, "h", 1, seq, state, startable=True), seq)
    restored = Dispatcher(state=DispatcherState.load(d.state.dump(), PoolConfig()))
    for one in (d, restored):
        one.on_enqueue(ask("first", "a"), 3)
    assert ["emulator/e2"] == [target for target in d.outbox.lines if target.startswith("emulator/")]
    assert d.outbox.lines == restored.outbox.lines
