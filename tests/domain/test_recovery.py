"""An emulator whose host can do something for it: the steps, orders of people, being switched on and off."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import Emulator, EmulatorAction, EmulatorRequest, EmulatorState
from droidherd.domain.fleet.recovery import EmulatorTrouble, PlannedStep, RecoveryStep
from droidherd.domain.messages import EmulatorStatus, Health, RecoveryPolicy
from tests.domain.pool import seen

POLICY = RecoveryPolicy(controller="mumu", reconnect_s=15, restarts=2, backoff_s=10)


class Recovered:
    """One emulator, and a clock."""

    def __init__(self, recovery: RecoveryPolicy | None = POLICY, *, up: bool = True) -> None:
        self.machine = Emulator(EmulatorState("e1"))
        self.recovery = recovery
        self.seq, self.now_ms = 0, 1_000_000
        if up:
            self.sees(Health.GOOD)
            self.gate()

    def sees(self, health: Health, boot: str = "b1") -> None:
        self.seq += 1
        word = replace(seen("h1", health, seq=self.seq, boot=boot), recovery=self.recovery)
        self.machine.on_seen(word, self.now_ms)

    def gate(self, evidence: str = "", *, takes_s: int = 0) -> None:
        order, began_ms = self.machine.gate_request(), self.now_ms
        assert order is not None
        self.lives(takes_s)
        self.machine.on_gate(order, evidence, self.now_ms, began_ms=began_ms)

    def lives(self, seconds: int) -> None:
        self.now_ms += seconds * 1000

    def does(self, evidence: str = "", *, idle: bool = False) -> PlannedStep:
        """The host carries out what is due."""
        due = self.machine.state.due
        assert due is not None
        self.machine.begin_step(due)
        self.machine.on_step_done(due, evidence, self.now_ms, idle=idle)
        return due

    def switch(self, *, on: bool, seq: int) -> None:
        self.machine.on_switch(m.Switch(on=on, seq=seq), self.now_ms)

    def asks(self, action: EmulatorAction) -> str:
        return self.machine.on_control(EmulatorRequest(action, "ann", "why not"), self.now_ms)

    @property
    def due(self) -> str:
        return self.machine.state.due.step if self.machine.state.due else ""

    @property
    def state(self) -> EmulatorStatus:
        return self.machine.state.status

    def last_announce(self) -> m.Announce:
        last = self.machine.outbox.lines["dispatcher/pool"][-1]
        assert isinstance(last, m.Announce)
        return last


def test_a_silent_one_is_restarted_after_a_while_and_is_up_through_its_gate():
    one = Recovered()
    one.sees(Health.DOWN)
    assert (EmulatorStatus.DOWN, PlannedStep(1, RecoveryStep.RESTART, EmulatorTrouble.SILENT, 15.0)) == (
        one.state,
        one.machine.state.due,
    )
    one.does()
    one.sees(Health.GOOD, "b2")
    assert (EmulatorStatus.RECOVERING, "") == (one.state, one.due)
    one.gate()
    assert (EmulatorStatus.UP, 1) == (one.state, one.machine.state.steps.restarts)


def test_one_that_comes_back_by_itself_is_not_restarted():
    one = Recovered()
    one.sees(Health.DOWN)
    one.sees(Health.GOOD)
    assert (EmulatorStatus.UP, "") == (one.state, one.due)


def test_what_its_host_was_ordered_goes_on_though_it_came_back():
    one = Recovered()
    one.sees(Health.DOWN)
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.sees(Health.GOOD, "b2")
    assert due == one.machine.state.due
    one.gate()
    one.machine.on_step_done(due, "", one.now_ms, idle=True)
    assert (EmulatorStatus.UP, "", 0) == (one.state, one.due, one.machine.state.steps.restarts)


def test_one_that_no_restart_brings_back_is_quarantined_until_it_boots():
    one = Recovered()
    one.sees(Health.DOWN)
    assert ["restart", "restart"] == [one.does("restart: no such instance").step for _ in range(2)]
    assert (EmulatorStatus.QUARANTINED, "evidence") == (one.state, one.due)
    assert ("quarantine", "system:recovery") == (one.last_announce().action, one.last_announce().actor)
    one.does("answers no probe; see /data/quarantine/e1")
    assert ("answers no probe; see /data/quarantine/e1", "", EmulatorStatus.QUARANTINED) == (
        one.machine.state.evidence,
        one.due,
        one.state,
    )
    one.sees(Health.GOOD, "b9")
    one.gate()
    assert EmulatorStatus.UP is one.state


def test_one_that_was_given_up_is_restarted_once_a_person_lets_it_serve():
    one = Recovered()
    one.sees(Health.DOWN)
    for _ in range(3):
        one.does("timed out")  # two restarts, then the evidence
    assert (EmulatorStatus.QUARANTINED, "") == (one.state, one.due)
    one.machine.on_drain(on=False, actor="ann", now_ms=one.now_ms)
    assert (EmulatorStatus.DOWN, RecoveryStep.RESTART) == (one.state, one.due)


def test_an_unfit_one_is_recovered_step_by_step_with_a_gate_in_between():
    one = Recovered(up=False)
    one.sees(Health.GOOD)
    steps: list[str] = []
    for _ in range(4):
        one.gate("the launcher has no focus")
        steps.append(one.due)
        assert None is one.machine.gate_request()
        one.does()
    assert ["reconnect", "restart_app", "restart", "restart"] == steps
    one.gate("the launcher has no focus")
    assert (EmulatorStatus.QUARANTINED, "evidence") == (one.state, one.due)


def test_a_gate_that_passes_begins_the_recovery_steps_anew():
    one = Recovered(up=False)
    one.sees(Health.GOOD)
    one.gate("black frame")
    one.does()
    one.gate()
    assert ((), EmulatorStatus.UP) == (one.machine.state.steps.tried, one.state)


def test_without_a_controller_a_silent_one_waits_to_be_seen_again():
    one = Recovered(RecoveryPolicy())
    one.sees(Health.DOWN)
    assert (EmulatorStatus.DOWN, "") == (one.state, one.due)


def test_nothing_is_done_for_the_emulators_of_a_host_that_is_away():
    one = Recovered()
    one.recovery = None
    one.sees(Health.DOWN)
    assert (EmulatorStatus.DOWN, "", "its host is away") == (one.state, one.due, one.asks(EmulatorAction.RESTART))


# --- people -----------------------------------------------------------------------------------------------------


def test_a_person_quarantines_and_releases_and_the_pool_hears_who_it_was():
    one = Recovered()
    assert "" == one.asks(EmulatorAction.QUARANTINE)
    assert (EmulatorStatus.QUARANTINED, "quarantined by ann: why not") == (one.state, one.machine.state.quarantined_by)
    assert ("quarantine", "ann", "why not") == (
        one.last_announce().action,
        one.last_announce().actor,
        one.last_announce().reason,
    )
    one.sees(Health.GOOD, "b2")
    assert (EmulatorStatus.QUARANTINED, None) == (one.state, one.machine.gate_request())
    assert "" == one.asks(EmulatorAction.RELEASE)
    one.gate()
    assert EmulatorStatus.UP is one.state


def test_a_quarantined_one_is_not_restarted_when_it_falls_silent():
    one = Recovered()
    one.asks(EmulatorAction.QUARANTINE)
    one.does()
    one.sees(Health.DOWN)
    assert "" == one.due
    one.asks(EmulatorAction.RELEASE)
    assert "restart" == one.due


def test_a_person_restarts_it_at_once_and_it_passes_its_gate_again():
    one = Recovered()
    assert "" == one.asks(EmulatorAction.RESTART)
    assert (0.0, EmulatorTrouble.NONE) == ((done := one.does()).after_s, done.trouble)
    one.sees(Health.GOOD, "b2")
    assert EmulatorStatus.RECOVERING is one.state


@pytest.mark.parametrize(
    ("recovery", "expected"), [(RecoveryPolicy(), "nobody can start and stop it"), (None, "its host is away")]
)
def test_what_nobody_can_restart_is_refused_with_the_reason(recovery: RecoveryPolicy | None, expected: str):
    one = Recovered(recovery)
    assert one.asks(EmulatorAction.RESTART).startswith(expected)
    assert ("", EmulatorStatus.UP) == (one.due, one.state)


def test_recovering_by_hand_begins_at_the_bottom_whatever_was_tried():
    one = Recovered()
    one.sees(Health.DOWN)
    while one.due != "evidence":
        one.does("restart: no such instance")
    one.does("nothing to be seen")
    one.asks(EmulatorAction.RECOVER)
    assert (EmulatorStatus.DOWN, "restart", 0) == (one.state, one.due, one.machine.state.steps.restarts)
    one.does()
    one.sees(Health.GOOD, "b2")
    one.gate()
    one.asks(EmulatorAction.RECOVER)
    assert ("reconnect", EmulatorStatus.RECOVERING) == (one.due, one.state)
    one.does()
    one.gate()
    assert EmulatorStatus.UP is one.state


# --- on and off -------------------------------------------------------------------------------------------------


def test_one_that_nobody_needs_is_switched_off_and_shown_as_stopped_not_down():
    one = Recovered()
    one.switch(on=False, seq=7)
    assert (EmulatorStatus.DRAINING, "stop", 0) == (one.state, one.due, one.last_announce().switched)
    one.does()
    assert (EmulatorStatus.STOPPED, "", 7, True) == (
        one.state,
        one.due,
        one.last_announce().switched,
        one.last_announce().startable,
    )
    one.sees(Health.SUSPECT)
    one.sees(Health.DOWN)
    assert (EmulatorStatus.STOPPED, "") == (one.state, one.due)


def test_one_that_is_needed_again_is_started_and_passes_its_gate():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Health.DOWN)
    one.switch(on=True, seq=8)
    assert ("start", EmulatorStatus.STOPPED) == (one.due, one.state)
    one.does()
    assert 7 == one.last_announce().switched
    one.sees(Health.GOOD, "b2")
    one.gate()
    assert (EmulatorStatus.UP, 8) == (one.state, one.last_announce().switched)


def test_one_that_is_needed_again_before_its_host_was_notified_stays_up():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.switch(on=True, seq=8)
    assert (EmulatorStatus.UP, "", 8) == (one.state, one.due, one.last_announce().switched)


def test_one_that_is_needed_again_while_it_is_stopped_is_started_at_once():
    one = Recovered()
    one.switch(on=False, seq=7)
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.switch(on=True, seq=8)
    one.machine.on_step_done(due, "", one.now_ms)
    assert ("start", EmulatorStatus.STOPPED) == (one.due, one.state)


def test_one_that_does_not_start_goes_through_the_recovery_steps():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Health.DOWN)
    one.switch(on=True, seq=8)
    one.does("start: no such instance")
    assert (EmulatorStatus.DOWN, "restart", 8) == (one.state, one.due, one.last_announce().switched)


def test_one_that_cannot_be_stopped_stays_up_and_the_pool_is_notified():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.does("stop: still answers")
    assert (EmulatorStatus.UP, 7) == (one.state, one.last_announce().switched)


def test_an_older_switch_and_one_that_changes_nothing_do_no_harm():
    one = Recovered()
    one.switch(on=True, seq=7)
    one.switch(on=False, seq=6)
    assert (EmulatorStatus.UP, "", 7) == (one.state, one.due, one.last_announce().switched)


def test_one_without_a_controller_answers_a_switch_and_does_nothing():
    one = Recovered(RecoveryPolicy())
    one.switch(on=False, seq=7)
    assert (EmulatorStatus.UP, "", 7, False) == (
        one.state,
        one.due,
        one.last_announce().switched,
        one.last_announce().startable,
    )


def test_one_that_a_person_switched_on_is_taken_as_it_is():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Health.DOWN)
    one.sees(Health.GOOD, "b2")
    one.gate()
    assert EmulatorStatus.UP is one.state


def test_on_demand_one_that_does_not_run_when_first_seen_is_not_needed_yet():
    one = Recovered(replace(POLICY, on_demand=True), up=False)
    one.sees(Health.DOWN, "")
    assert (EmulatorStatus.STOPPED, "") == (one.state, one.due)
    one.switch(on=True, seq=3)
    assert "start" == one.due


def test_what_is_not_on_demand_is_started_when_it_is_first_seen():
    one = Recovered(up=False)
    one.sees(Health.DOWN, "")
    assert "restart" == one.due


def test_one_that_vanished_and_is_not_off_is_switched_off_when_seen_again():
    one = Recovered()
    one.sees(Health.DOWN)
    one.switch(on=False, seq=7)
    one.machine.state.due = None
    one.sees(Health.DOWN)
    assert EmulatorStatus.STOPPED is one.state
    one.sees(Health.GOOD)
    assert (EmulatorStatus.DRAINING, "stop") == (one.state, one.due)


def test_what_a_dispatcher_without_memory_voids_does_not_come_true_any_more():
    one = Recovered()
    one.machine.on_recall(m.Recall(2, voids=8))
    one.switch(on=False, seq=7)
    assert (EmulatorStatus.UP, "") == (one.state, one.due)


def test_what_was_voided_before_its_host_was_notified_is_taken_back():
    one = Recovered()
    one.switch(on=False, seq=7)
    one.machine.on_recall(m.Recall(2, voids=8))
    assert (EmulatorStatus.UP, "", 8) == (one.state, one.due, one.last_announce().switched)


def test_what_its_host_was_ordered_is_not_voided_and_nobody_may_have_it():
    one = Recovered()
    one.switch(on=False, seq=7)
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.machine.on_recall(m.Recall(2, voids=8))
    assert (EmulatorStatus.DRAINING, "stop") == (one.state, one.due)
    one.machine.on_step_done(due, "", one.now_ms)
    assert EmulatorStatus.STOPPED is one.state


def test_nobody_may_have_one_that_a_person_restarts():
    one = Recovered()
    one.asks(EmulatorAction.RESTART)
    assert (EmulatorStatus.DRAINING, EmulatorStatus.DRAINING) == (one.state, one.last_announce().state)


def test_nobody_gets_one_that_came_back_while_a_restart_was_ordered():
    one = Recovered()
    one.sees(Health.DOWN)
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.sees(Health.GOOD)
    assert EmulatorStatus.DRAINING is one.state
    one.machine.on_step_done(due, "", one.now_ms, idle=True)
    assert EmulatorStatus.UP is one.state


def test_one_needed_again_while_stopping_is_nobodys_until_it_was_started():
    one = Recovered()
    one.switch(on=False, seq=7)
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.switch(on=True, seq=8)
    assert (EmulatorStatus.DRAINING, 0) == (one.state, one.last_announce().switched)


def test_a_gate_passed_before_a_person_ordered_something_does_not_count():
    one = Recovered(up=False)
    one.sees(Health.GOOD)
    order = one.machine.gate_request()
    assert order is not None
    one.asks(EmulatorAction.RECOVER)
    one.machine.on_gate(order, "", one.now_ms)
    assert EmulatorStatus.RECOVERING is one.state
    one.does()
    one.gate()
    assert EmulatorStatus.UP is one.state


SOON = replace(POLICY, forgive_s=100)
SLOW_S = 200
"""Longer than it takes until restarts are forgiven."""


def comes_up(one: Recovered) -> None:
    """By a restart, which is over once it has been seen."""
    due = one.machine.state.due
    assert due is not None
    one.machine.begin_step(due)
    one.lives(SLOW_S)
    one.sees(Health.GOOD, f"b{due.number + 1}")
    one.machine.on_step_done(due, "", one.now_ms)


def fails_its_gate(one: Recovered) -> None:
    """And no step below a restart helps."""
    one.gate("no focus", takes_s=SLOW_S)
    while one.due in (RecoveryStep.RECONNECT, RecoveryStep.APP):
        one.does()
        one.gate("no focus", takes_s=SLOW_S)


def dies_before_its_gate_is_over(one: Recovered) -> None:
    one.lives(SLOW_S)
    one.sees(Health.DOWN, "")


def passes_late_and_dies_soon(one: Recovered) -> None:
    one.gate(takes_s=SLOW_S)
    one.lives(50)
    one.sees(Health.DOWN, "")


def passes_and_falls_ill(one: Recovered) -> None:
    one.gate()
    one.machine.on_reset(m.Reset(one.machine.state.reset_done + 1))
    fails_its_gate(one)


@pytest.mark.parametrize(
    "ends", [fails_its_gate, dies_before_its_gate_is_over, passes_late_and_dies_soon, passes_and_falls_ill]
)
def test_one_never_up_for_long_is_given_up_however_long_everything_takes(ends: Callable[[Recovered], None]):
    one = Recovered(SOON)
    one.sees(Health.DOWN, "")
    for _ in range(10):
        if one.due != RecoveryStep.RESTART:
            break
        comes_up(one)
        ends(one)
    assert (EmulatorStatus.QUARANTINED, SOON.restarts) == (one.state, one.machine.state.steps.restarts)


@pytest.mark.parametrize(("up_s", "restarts"), [(99, 1), (100, 0)])
def test_restarts_are_forgiven_once_it_has_been_up_for_so_long(up_s: int, restarts: int):
    one = Recovered(SOON)
    one.sees(Health.DOWN, "")
    comes_up(one)
    passes_late_and_dies_soon(one)
    one.sees(Health.GOOD, one.machine.state.boot)  # back by itself: its time goes on
    one.lives(up_s - 50)
    one.sees(Health.DOWN, "")
    assert restarts == one.machine.state.steps.restarts
