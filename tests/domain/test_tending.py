"""An emulator whose host can do something for it: the ladder, orders of people, being switched on and off."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.emulator import Action, Ask, Emulator
from droidherd.domain.ladder import Measure, Rung, Trouble
from droidherd.domain.messages import Care, EmulatorState, Sight
from tests.domain.pool import seen

CARE = Care(controller="mumu", reconnect_s=15, restarts=2, backoff_s=10)


class Tended:
    """One emulator, and a clock."""

    def __init__(self, care: Care | None = CARE, *, up: bool = True) -> None:
        self.machine = Emulator("e1")
        self.care = care
        self.seq, self.now_ms = 0, 1_000_000
        if up:
            self.sees(Sight.GOOD)
            self.gate()

    def sees(self, sight: Sight, boot: str = "b1") -> None:
        self.seq += 1
        word = replace(seen("h1", sight, seq=self.seq, boot=boot), care=self.care)
        self.machine.on_seen(word, self.now_ms)

    def gate(self, evidence: str = "", *, takes_s: int = 0) -> None:
        order, began_ms = self.machine.order(), self.now_ms
        assert order is not None
        self.lives(takes_s)
        self.machine.on_gate(order, evidence, self.now_ms, began_ms=began_ms)

    def lives(self, seconds: int) -> None:
        self.now_ms += seconds * 1000

    def does(self, evidence: str = "", *, idle: bool = False) -> Measure:
        """The host carries out what is due."""
        due = self.machine.due
        assert due is not None
        self.machine.begin(due)
        self.machine.on_measure(due, evidence, self.now_ms, idle=idle)
        return due

    def switch(self, *, on: bool, seq: int) -> None:
        self.machine.on_switch(m.Switch(on=on, seq=seq), self.now_ms)

    def asks(self, action: Action) -> str:
        return self.machine.on_care(Ask(action, "ann", "why not"), self.now_ms)

    @property
    def due(self) -> str:
        return self.machine.due.rung if self.machine.due else ""

    @property
    def state(self) -> EmulatorState:
        return self.machine.state

    def told(self) -> m.Announce:
        return self.machine.outbox.lines["dispatcher/pool"][-1]


def test_a_silent_one_is_restarted_after_a_while_and_is_up_again_through_its_gate():
    one = Tended()
    one.sees(Sight.DOWN)
    assert (EmulatorState.DOWN, Measure(1, Rung.RESTART, Trouble.SILENT, 15.0)) == (one.state, one.machine.due)
    one.does()
    one.sees(Sight.GOOD, "b2")
    assert (EmulatorState.RECOVERING, "") == (one.state, one.due)
    one.gate()
    assert (EmulatorState.UP, 1) == (one.state, one.machine.ladder.restarts)


def test_one_that_comes_back_by_itself_is_not_restarted():
    one = Tended()
    one.sees(Sight.DOWN)
    one.sees(Sight.GOOD)
    assert (EmulatorState.UP, "") == (one.state, one.due)


def test_what_its_host_was_told_already_goes_on_though_it_came_back_and_its_gate_need_not_wait():
    one = Tended()
    one.sees(Sight.DOWN)
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.sees(Sight.GOOD, "b2")
    assert due == one.machine.due
    one.gate()
    one.machine.on_measure(due, "", one.now_ms, idle=True)
    assert (EmulatorState.UP, "", 0) == (one.state, one.due, one.machine.ladder.restarts)


def test_one_that_no_restart_brings_back_is_quarantined_with_evidence_until_it_boots():
    one = Tended()
    one.sees(Sight.DOWN)
    assert ["restart", "restart"] == [one.does("restart: no such instance").rung for _ in range(2)]
    assert (EmulatorState.QUARANTINED, "evidence") == (one.state, one.due)
    assert ("quarantine", "system:recovery") == (one.told().order, one.told().actor)
    one.does("answers no probe; see /data/quarantine/e1")
    assert ("answers no probe; see /data/quarantine/e1", "", EmulatorState.QUARANTINED) == (
        one.machine.evidence,
        one.due,
        one.state,
    )
    one.sees(Sight.GOOD, "b9")
    one.gate()
    assert EmulatorState.UP is one.state


def test_one_that_was_given_up_is_restarted_again_once_a_person_lets_it_serve_again():
    one = Tended()
    one.sees(Sight.DOWN)
    for _ in range(3):
        one.does("timed out")  # two restarts, then the evidence
    assert (EmulatorState.QUARANTINED, "") == (one.state, one.due)
    one.machine.on_drain(on=False, actor="ann", now_ms=one.now_ms)
    assert (EmulatorState.DOWN, Rung.RESTART) == (one.state, one.due)


def test_an_unfit_one_climbs_rung_by_rung_with_a_gate_in_between():
    one = Tended(up=False)
    one.sees(Sight.GOOD)
    rungs: list[str] = []
    for _ in range(4):
        one.gate("the launcher has no focus")
        rungs.append(one.due)
        assert None is one.machine.order()
        one.does()
    assert ["reconnect", "restart_app", "restart", "restart"] == rungs
    one.gate("the launcher has no focus")
    assert (EmulatorState.QUARANTINED, "evidence") == (one.state, one.due)


def test_a_gate_that_passes_begins_the_ladder_anew():
    one = Tended(up=False)
    one.sees(Sight.GOOD)
    one.gate("black frame")
    one.does()
    one.gate()
    assert ((), EmulatorState.UP) == (one.machine.ladder.tried, one.state)


def test_without_a_controller_a_silent_one_waits_to_be_seen_again():
    one = Tended(Care())
    one.sees(Sight.DOWN)
    assert (EmulatorState.DOWN, "") == (one.state, one.due)


def test_nothing_is_done_for_the_emulators_of_a_host_that_is_away():
    one = Tended()
    one.care = None
    one.sees(Sight.DOWN)
    assert (EmulatorState.DOWN, "", "its host is away") == (one.state, one.due, one.asks(Action.RESTART))


# --- people -----------------------------------------------------------------------------------------------------


def test_a_person_quarantines_and_releases_and_the_pool_hears_who_it_was():
    one = Tended()
    assert "" == one.asks(Action.QUARANTINE)
    assert (EmulatorState.QUARANTINED, "quarantined by ann: why not") == (one.state, one.machine.held)
    assert ("quarantine", "ann", "why not") == (one.told().order, one.told().actor, one.told().reason)
    one.sees(Sight.GOOD, "b2")
    assert (EmulatorState.QUARANTINED, None) == (one.state, one.machine.order())
    assert "" == one.asks(Action.RELEASE)
    one.gate()
    assert EmulatorState.UP is one.state


def test_a_quarantined_one_is_not_restarted_when_it_falls_silent():
    one = Tended()
    one.asks(Action.QUARANTINE)
    one.does()
    one.sees(Sight.DOWN)
    assert "" == one.due
    one.asks(Action.RELEASE)
    assert "restart" == one.due


def test_a_person_restarts_it_at_once_and_it_passes_its_gate_again():
    one = Tended()
    assert "" == one.asks(Action.RESTART)
    assert (0.0, Trouble.NONE) == ((done := one.does()).after_s, done.trouble)
    one.sees(Sight.GOOD, "b2")
    assert EmulatorState.RECOVERING is one.state


@pytest.mark.parametrize(("care", "expected"), [(Care(), "nobody can start and stop it"), (None, "its host is away")])
def test_what_nobody_can_restart_is_refused_with_the_reason(care: Care | None, expected: str):
    one = Tended(care)
    assert one.asks(Action.RESTART).startswith(expected)
    assert ("", EmulatorState.UP) == (one.due, one.state)


def test_recovering_by_hand_begins_at_the_bottom_whatever_was_tried():
    one = Tended()
    one.sees(Sight.DOWN)
    while one.due != "evidence":
        one.does("restart: no such instance")
    one.does("nothing to be seen")
    one.asks(Action.RECOVER)
    assert (EmulatorState.DOWN, "restart", 0) == (one.state, one.due, one.machine.ladder.restarts)
    one.does()
    one.sees(Sight.GOOD, "b2")
    one.gate()
    one.asks(Action.RECOVER)
    assert ("reconnect", EmulatorState.RECOVERING) == (one.due, one.state)
    one.does()
    one.gate()
    assert EmulatorState.UP is one.state


# --- on and off -------------------------------------------------------------------------------------------------


def test_one_that_nobody_needs_is_switched_off_and_shown_as_stopped_and_not_as_down():
    one = Tended()
    one.switch(on=False, seq=7)
    assert (EmulatorState.DRAINING, "stop", 0) == (one.state, one.due, one.told().switched)
    one.does()
    assert (EmulatorState.STOPPED, "", 7, True) == (one.state, one.due, one.told().switched, one.told().startable)
    one.sees(Sight.SUSPECT)
    one.sees(Sight.DOWN)
    assert (EmulatorState.STOPPED, "") == (one.state, one.due)


def test_one_that_is_needed_again_is_started_and_passes_its_gate():
    one = Tended()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Sight.DOWN)
    one.switch(on=True, seq=8)
    assert ("start", EmulatorState.STOPPED) == (one.due, one.state)
    one.does()
    assert 7 == one.told().switched
    one.sees(Sight.GOOD, "b2")
    one.gate()
    assert (EmulatorState.UP, 8) == (one.state, one.told().switched)


def test_one_that_is_needed_again_before_its_host_was_told_stays_up():
    one = Tended()
    one.switch(on=False, seq=7)
    one.switch(on=True, seq=8)
    assert (EmulatorState.UP, "", 8) == (one.state, one.due, one.told().switched)


def test_one_that_is_needed_again_while_it_is_stopped_is_started_at_once():
    one = Tended()
    one.switch(on=False, seq=7)
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.switch(on=True, seq=8)
    one.machine.on_measure(due, "", one.now_ms)
    assert ("start", EmulatorState.STOPPED) == (one.due, one.state)


def test_one_that_does_not_start_climbs_the_ladder():
    one = Tended()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Sight.DOWN)
    one.switch(on=True, seq=8)
    one.does("start: no such instance")
    assert (EmulatorState.DOWN, "restart", 8) == (one.state, one.due, one.told().switched)


def test_one_that_cannot_be_stopped_stays_up_and_the_pool_is_told():
    one = Tended()
    one.switch(on=False, seq=7)
    one.does("stop: still answers")
    assert (EmulatorState.UP, 7) == (one.state, one.told().switched)


def test_an_older_switch_and_one_that_changes_nothing_do_no_harm():
    one = Tended()
    one.switch(on=True, seq=7)
    one.switch(on=False, seq=6)
    assert (EmulatorState.UP, "", 7) == (one.state, one.due, one.told().switched)


def test_one_without_a_controller_answers_a_switch_and_does_nothing():
    one = Tended(Care())
    one.switch(on=False, seq=7)
    assert (EmulatorState.UP, "", 7, False) == (one.state, one.due, one.told().switched, one.told().startable)


def test_one_that_a_person_switched_on_is_taken_as_it_is():
    one = Tended()
    one.switch(on=False, seq=7)
    one.does()
    one.sees(Sight.DOWN)
    one.sees(Sight.GOOD, "b2")
    one.gate()
    assert EmulatorState.UP is one.state


def test_on_demand_one_that_does_not_run_when_it_is_first_seen_is_not_needed_yet():
    one = Tended(replace(CARE, on_demand=True), up=False)
    one.sees(Sight.DOWN, "")
    assert (EmulatorState.STOPPED, "") == (one.state, one.due)
    one.switch(on=True, seq=3)
    assert "start" == one.due


def test_what_is_not_on_demand_is_started_when_it_is_first_seen():
    one = Tended(up=False)
    one.sees(Sight.DOWN, "")
    assert "restart" == one.due


def test_one_that_is_out_of_sight_and_not_off_is_switched_off_when_it_is_seen_again():
    one = Tended()
    one.sees(Sight.DOWN)
    one.switch(on=False, seq=7)
    one.machine.due = None
    one.sees(Sight.DOWN)
    assert EmulatorState.STOPPED is one.state
    one.sees(Sight.GOOD)
    assert (EmulatorState.DRAINING, "stop") == (one.state, one.due)


def test_what_a_dispatcher_without_memory_voids_does_not_come_true_any_more():
    one = Tended()
    one.machine.on_recall(m.Recall(2, voids=8))
    one.switch(on=False, seq=7)
    assert (EmulatorState.UP, "") == (one.state, one.due)


def test_what_was_voided_before_its_host_was_told_is_taken_back():
    one = Tended()
    one.switch(on=False, seq=7)
    one.machine.on_recall(m.Recall(2, voids=8))
    assert (EmulatorState.UP, "", 8) == (one.state, one.due, one.told().switched)


def test_what_its_host_was_told_is_not_voided_and_nobody_may_have_it():
    one = Tended()
    one.switch(on=False, seq=7)
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.machine.on_recall(m.Recall(2, voids=8))
    assert (EmulatorState.DRAINING, "stop") == (one.state, one.due)
    one.machine.on_measure(due, "", one.now_ms)
    assert EmulatorState.STOPPED is one.state


def test_nobody_may_have_one_that_a_person_restarts():
    one = Tended()
    one.asks(Action.RESTART)
    assert (EmulatorState.DRAINING, EmulatorState.DRAINING) == (one.state, one.told().state)


def test_nobody_may_have_one_that_came_back_while_its_host_was_told_to_restart_it_until_that_is_settled():
    one = Tended()
    one.sees(Sight.DOWN)
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.sees(Sight.GOOD)
    assert EmulatorState.DRAINING is one.state
    one.machine.on_measure(due, "", one.now_ms, idle=True)
    assert EmulatorState.UP is one.state


def test_one_that_is_needed_again_while_it_is_stopped_is_nobodys_until_it_was_started():
    one = Tended()
    one.switch(on=False, seq=7)
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.switch(on=True, seq=8)
    assert (EmulatorState.DRAINING, 0) == (one.state, one.told().switched)


def test_a_gate_that_was_passed_before_a_person_ordered_something_does_not_count():
    one = Tended(up=False)
    one.sees(Sight.GOOD)
    order = one.machine.order()
    assert order is not None
    one.asks(Action.RECOVER)
    one.machine.on_gate(order, "", one.now_ms)
    assert EmulatorState.RECOVERING is one.state
    one.does()
    one.gate()
    assert EmulatorState.UP is one.state


SOON = replace(CARE, forgive_s=100)
SLOW_S = 200
"""Longer than it takes until restarts are forgiven."""


def comes_up(one: Tended) -> None:
    """By a restart, which is over once it has been seen."""
    due = one.machine.due
    assert due is not None
    one.machine.begin(due)
    one.lives(SLOW_S)
    one.sees(Sight.GOOD, f"b{due.number + 1}")
    one.machine.on_measure(due, "", one.now_ms)


def fails_its_gate(one: Tended) -> None:
    """And no rung below a restart helps."""
    one.gate("no focus", takes_s=SLOW_S)
    while one.due in (Rung.RECONNECT, Rung.APP):
        one.does()
        one.gate("no focus", takes_s=SLOW_S)


def dies_before_its_gate_is_over(one: Tended) -> None:
    one.lives(SLOW_S)
    one.sees(Sight.DOWN, "")


def passes_late_and_dies_soon(one: Tended) -> None:
    one.gate(takes_s=SLOW_S)
    one.lives(50)
    one.sees(Sight.DOWN, "")


def passes_and_falls_ill(one: Tended) -> None:
    one.gate()
    one.machine.on_tidy(m.Tidy(one.machine.tidied + 1))
    fails_its_gate(one)


@pytest.mark.parametrize(
    "ends", [fails_its_gate, dies_before_its_gate_is_over, passes_late_and_dies_soon, passes_and_falls_ill]
)
def test_one_that_is_never_up_for_long_is_given_up_however_long_everything_takes(ends: Callable[[Tended], None]):
    one = Tended(SOON)
    one.sees(Sight.DOWN, "")
    for _ in range(10):
        if one.due != Rung.RESTART:
            break
        comes_up(one)
        ends(one)
    assert (EmulatorState.QUARANTINED, SOON.restarts) == (one.state, one.machine.ladder.restarts)


@pytest.mark.parametrize(("up_s", "restarts"), [(99, 1), (100, 0)])
def test_restarts_are_forgiven_once_it_has_been_up_for_so_long(up_s: int, restarts: int):
    one = Tended(SOON)
    one.sees(Sight.DOWN, "")
    comes_up(one)
    passes_late_and_dies_soon(one)
    one.sees(Sight.GOOD, one.machine.boot)  # back by itself: its time goes on
    one.lives(up_s - 50)
    one.sees(Sight.DOWN, "")
    assert restarts == one.machine.ladder.restarts
