"""Which emulators a pool switches off, and on again."""

from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState, ExpectedTask, PoolConfig
from droidherd.domain.messages import EmulatorStatus

LAZY = PoolConfig(idle_stop_s=60.0, repeat_min_s=300.0)


class Pool:
    """A dispatcher, its clock, and emulators that do what they are told."""

    def __init__(self, *emulators: str, config: PoolConfig = LAZY, startable: bool = True) -> None:
        self.d = Dispatcher("pool", config)
        self.d.state.joined_ms = 0
        self.now_ms, self.seq = 1_000_000, 0
        self.switched: dict[str, int] = {}
        for name in emulators:
            self.says(name, EmulatorStatus.UP, startable=startable)

    def says(self, name: str, state: EmulatorStatus, *, startable: bool = True) -> None:
        self.seq += 1
        labels = (f"emulator_id={name}", f"kind={name[0]}")
        news = m.Announce(name, "h", 1, self.seq, state, labels, "b", startable=startable)
        self.d.on_announce(replace(news, switched=self.switched.get(name, 0)), self.now_ms)

    def passes(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)
        self.d.tick(self.now_ms)

    def submit(self, task: str, *requires: str, lane: str = "account") -> None:
        self.seq += 1
        self.d.on_enqueue(m.Enqueue(m.Key(task, "run", 1), self.seq, lane, "scan", requires), self.now_ms)

    def expects(self, task: str, *requires: str, within_s: float = 45.0, lane: str = "") -> None:
        """Its time is near."""
        self.seq += 1
        at_ms = self.now_ms + int(within_s * 1000)
        self.d.on_soon(m.Soon(m.Key(task, "run", 1), self.seq, at_ms, requires, lane), self.now_ms)

    def ends(self, task: str) -> None:
        self.seq += 1
        token = next(e.lease.token for e in self.d.board.held() if e.task_id == task and e.lease)
        self.d.on_done(m.Done(m.Key(task, "run", 1), self.seq, "completed", token=token), self.now_ms)

    def take_switches(self) -> dict[str, str]:
        """What emulators were told since last asked."""
        found: dict[str, str] = {}
        for target in [one for one in self.d.outbox.lines if one.startswith("emulator/")]:
            for message in self.d.outbox.lines.pop(target):
                if isinstance(message, m.Switch):
                    name = target.partition("/")[2]
                    self.switched[name] = message.seq
                    found[name] = "on" if message.on else "off"
        return found

    def stopped(self, *names: str) -> "Pool":
        """After nobody needed them for long enough."""
        self.passes(60)
        assert dict.fromkeys(names, "off") == self.take_switches()
        for name in names:
            self.says(name, EmulatorStatus.STOPPED)
        return self


def test_an_emulator_idle_for_long_enough_is_switched_off_and_not_before():
    pool = Pool("a1")
    assert pool.now_ms + 60_000 == pool.d.next_due_ms()
    pool.passes(59.9)
    assert {} == pool.take_switches()
    pool.passes(0.1)
    assert {"a1": "off"} == pool.take_switches()
    pool.submit("t1")
    assert [] == list(pool.d.board.held())


def test_without_a_policy_or_without_a_controller_nothing_is_switched_off():
    for pool in (Pool("a1", config=PoolConfig()), Pool("a1", startable=False)):
        pool.passes(86_400)
        assert ({}, None) == (pool.take_switches(), pool.d.next_due_ms())


def test_the_last_ones_are_kept():
    pool = Pool("a1", "a2", "a3", config=replace(LAZY, idle_keep=2))
    pool.passes(600)
    assert {"a1": "off"} == pool.take_switches()
    pool.says("a1", EmulatorStatus.STOPPED)
    pool.passes(600)
    assert {} == pool.take_switches()


def test_one_that_works_is_idle_only_from_the_end_of_its_task():
    pool = Pool("a1")
    pool.submit("t1")
    pool.passes(300)
    pool.ends("t1")
    pool.passes(59)
    assert {} == pool.take_switches()
    pool.passes(1)
    assert {"a1": "off"} == pool.take_switches()


def test_who_waits_is_started_for_and_gets_the_emulator_when_it_is_up():
    pool = Pool("a1").stopped("a1")
    pool.submit("t1")
    assert {"a1": "on"} == pool.take_switches()
    assert "emulator a1 is being switched on for it" == pool.d.admission.why(pool.d.board.entries["t1"])
    for state in (EmulatorStatus.RECOVERING, EmulatorStatus.UP):
        pool.says("a1", state)
    assert ["t1"] == [one.task_id for one in pool.d.board.held()]


def test_as_many_are_started_as_wait_and_could_run_and_no_more():
    pool = Pool("a1", "a2", "a3", "b1").stopped("a1", "a2", "a3", "b1")
    pool.submit("t1", "kind=a")
    pool.submit("t2", "kind=a")
    pool.submit("t3", "kind=c")
    assert {"a1": "on", "a2": "on"} == pool.take_switches()
    pool.says("a1", EmulatorStatus.RECOVERING)
    pool.passes(1)
    assert {} == pool.take_switches()
    pool.submit("t4")
    assert {"a3": "on"} == pool.take_switches()


def test_a_lane_that_is_paused_or_full_starts_nothing():
    pool = Pool("a1", "a2").stopped("a1", "a2")
    pool.d.pause("account", "ann", "", pool.now_ms)
    pool.submit("t1")
    assert {} == pool.take_switches()
    pool.d.set_capacity("account", 1, "ann", pool.now_ms)
    pool.d.resume("account", "ann", pool.now_ms)
    pool.submit("t2")
    assert {"a1": "on"} == pool.take_switches()


def test_when_one_does_not_start_another_one_is_started():
    pool = Pool("a1", "a2").stopped("a1", "a2")
    pool.submit("t1")
    assert {"a1": "on"} == pool.take_switches()
    pool.says("a1", EmulatorStatus.DOWN)
    assert {"a2": "on"} == pool.take_switches()


def test_one_that_could_not_be_stopped_is_granted_again_and_tried_later():
    pool = Pool("a1")
    pool.passes(60)
    assert {"a1": "off"} == pool.take_switches()
    pool.says("a1", EmulatorStatus.UP)
    pool.submit("t1")
    assert ["t1"] == [one.task_id for one in pool.d.board.held()]


def test_a_task_due_soon_has_one_started_and_keeps_one_from_being_stopped():
    pool = Pool("a1", "b1").stopped("a1", "b1")
    pool.expects("t1", "kind=b")
    assert {"b1": "on"} == pool.take_switches()
    pool.says("b1", EmulatorStatus.UP)
    pool.passes(61)
    assert {} == pool.take_switches()
    pool.passes(60)
    pool.passes(1)
    assert {"b1": "off"} == pool.take_switches()


def test_for_tasks_due_soon_no_more_are_started_than_their_lane_can_take():
    pool = Pool("a1", "a2", "a3").stopped("a1", "a2", "a3")
    pool.d.set_capacity("account", 2, "ann", pool.now_ms)
    pool.submit("t0")
    assert {"a1": "on"} == pool.take_switches()
    for task in ("t1", "t2", "t3"):
        pool.expects(task, lane="account")
    assert {"a2": "on"} == pool.take_switches()
    pool.d.pause("", "ann", "", pool.now_ms)
    pool.expects("t4", lane="new")
    assert {} == pool.take_switches()
    pool.d.resume("", "ann", pool.now_ms)
    pool.expects("t5", lane="new")
    assert {"a3": "on"} == pool.take_switches()


def test_a_task_that_asks_or_ends_is_not_expected_any_more():
    pool = Pool("a1").stopped("a1")
    for task in ("t1", "t2"):
        pool.expects(task)
    assert ["t1", "t2"] == [*pool.d.state.expected]
    pool.submit("t1")
    pool.seq += 1
    pool.d.on_done(m.Done(m.Key("t2", "run", 1), pool.seq), pool.now_ms)
    assert [] == [*pool.d.state.expected]


def test_every_switch_is_audited():
    pool = Pool("a1").stopped("a1")
    pool.submit("t1")
    pool.take_switches()
    assert [("emulator_rest", "idle for 60 s"), ("emulator_wake", "work waits for it")] == [
        (one.kind, one.reason) for one in pool.d.state.audit.by_system
    ]


@pytest.mark.parametrize("moment", ["ordered", "stopped", "waking"])
def test_a_snapshot_keeps_what_was_ordered_and_what_is_off(moment: str):
    pool = Pool("a1", "a2")
    pool.passes(60)
    if moment != "ordered":
        pool.take_switches()
        pool.says("a1", EmulatorStatus.STOPPED)
        pool.says("a2", EmulatorStatus.STOPPED)
    if moment == "waking":
        pool.submit("t1")
    pool.d.state.expected["t9"] = ExpectedTask(pool.now_ms, ("kind=a",), "account")
    text = pool.d.state.dump()
    again = Dispatcher(state=DispatcherState.load(text, LAZY))
    assert (pool.d.board, pool.d.state.expected, text) == (
        again.board,
        again.state.expected,
        again.state.dump(),
    )


def test_an_older_snapshot_knows_nothing_of_all_this():
    pool = Pool("a1", startable=False)
    text = pool.d.state.dump()
    row = pool.d.board.emulators["a1"]
    assert (False, "", 0) == (row.startable, row.switch, row.switch_seq)
    assert pool.d.board == Dispatcher(state=DispatcherState.load(text, LAZY)).board


def test_who_waits_for_a_busy_one_takes_no_start_from_others():
    pool = Pool("a1", "b1").stopped("a1", "b1")
    pool.says("b1", EmulatorStatus.UP)
    pool.submit("t1", "kind=b", lane="anonymous")
    pool.d.set_capacity("account", 1, "ann", pool.now_ms)
    pool.submit("t2", "kind=b")
    pool.submit("t3", "kind=a")
    assert {"a1": "on"} == pool.take_switches()


def test_an_emulator_is_not_kept_on_for_somebody_who_does_not_come():
    pool = Pool("a1")
    pool.expects("t1", within_s=1)
    due_ms = pool.d.next_due_ms()
    assert due_ms is not None
    pool.passes((due_ms - pool.now_ms) / 1000)
    assert ({}, {"a1": "off"}) == (pool.d.state.expected, pool.take_switches())


def test_who_was_switched_off_is_granted_to_nobody_though_its_host_was_away():
    pool = Pool("a1")
    pool.passes(60)
    pool.says("a1", EmulatorStatus.SUSPECT, startable=False)
    pool.says("a1", EmulatorStatus.UP)
    pool.submit("t1")
    assert [] == list(pool.d.board.held())
    assert {"a1": "off"} == pool.take_switches()
    pool.says("a1", EmulatorStatus.STOPPED)
    assert {"a1": "on"} == pool.take_switches()


def test_nobody_is_waited_for_whose_host_is_away():
    pool = Pool("a1", "a2").stopped("a1", "a2")
    pool.submit("t1")
    assert {"a1": "on"} == pool.take_switches()
    pool.switched["a1"] = 0
    pool.says("a1", EmulatorStatus.STOPPED, startable=False)
    assert {"a2": "on"} == pool.take_switches()


def test_a_new_incarnation_of_an_emulator_gets_its_switch_again():
    pool = Pool("a1")
    pool.passes(60)
    assert {"a1": "off"} == pool.take_switches()
    pool.seq += 1
    news = m.Announce("a1", "h", 2, pool.seq, EmulatorStatus.UP, (), "b", startable=True)
    pool.d.on_announce(news, pool.now_ms)
    assert {"a1": "off"} == pool.take_switches()


def test_a_dispatcher_without_memory_voids_what_may_have_been_ordered_before():
    pool = Pool("a1")
    pool.d.take_over({}, pool.now_ms, 600.0, blind=True, emulators=["a1"])
    assert m.Recall(pool.now_ms, voids=pool.now_ms) == pool.d.outbox.lines["emulator/a1"][0]
    pool.d.outbox.lines.clear()
    pool.d.take_over({}, pool.now_ms, 600.0, blind=False, emulators=["a1"])
    assert m.Recall(pool.now_ms + 1) == pool.d.outbox.lines["emulator/a1"][0]


def test_a_new_run_under_the_same_incarnation_gets_its_switch_again():
    pool = Pool("a1")
    pool.passes(60)
    assert {"a1": "off"} == pool.take_switches()
    pool.switched.clear()  # what was told died with the run that heard it
    pool.says("a1", EmulatorStatus.RECOVERING)
    assert {"a1": "off"} == pool.take_switches()
