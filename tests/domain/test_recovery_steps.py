"""What is tried for an emulator in trouble, in which order, how often and when."""

import pytest

from droidherd.domain.fleet.recovery import EmulatorTrouble, RecoveryStep, RecoverySteps
from droidherd.domain.messages import RecoveryPolicy

POLICY = RecoveryPolicy(controller="mumu", reconnect_s=15, restarts=3, backoff_s=10, backoff_max_s=25, forgive_s=100)
NOBODY = RecoveryPolicy(restarts=3)
MIDDLE = 0.5
"""Of the dice: the pause is what the settings say."""


def steps_until_none(
    recovery: RecoverySteps, trouble: EmulatorTrouble, policy: RecoveryPolicy = POLICY, times: int = 9, now_ms: int = 0
) -> list[str]:
    """Every step until there is none, each carried out at once."""
    steps: list[str] = []
    for _ in range(times):
        recovery.forgive_after_uptime(policy, now_ms)
        due = recovery.next(trouble, policy, MIDDLE)
        if due is None:
            break
        steps.append(f"{due.step} {due.after_s:g}")
        if due.step is RecoveryStep.RESTART:
            recovery.count_restart()
    return steps


def test_one_that_answers_and_is_unfit_climbs_the_recovery_steps_in_order():
    expected = ["reconnect 0", "restart_app 0", "restart 0", "restart 10", "restart 20"]
    assert expected == steps_until_none(RecoverySteps(), EmulatorTrouble.UNFIT)


def test_a_silent_one_is_left_to_its_reconnecting_host_and_then_restarted():
    assert ["restart 15", "restart 15", "restart 20"] == steps_until_none(RecoverySteps(), EmulatorTrouble.SILENT)


def test_pauses_grow_no_further_than_they_may():
    many = RecoveryPolicy(controller="mumu", reconnect_s=0, restarts=5, backoff_s=10, backoff_max_s=25)
    pauses = ["restart 0", "restart 10", "restart 20", "restart 25", "restart 25"]
    assert pauses == steps_until_none(RecoverySteps(), EmulatorTrouble.SILENT, many)


def test_without_a_controller_nothing_is_restarted():
    steps = RecoverySteps()
    assert [] == steps_until_none(steps, EmulatorTrouble.SILENT, NOBODY)
    assert ["reconnect 0", "restart_app 0"] == steps_until_none(steps, EmulatorTrouble.UNFIT, NOBODY)


def test_lower_steps_are_tried_again_once_it_was_well_and_restarts_count_on():
    steps = RecoverySteps()
    steps_until_none(steps, EmulatorTrouble.UNFIT)
    steps.passed_gate(0)
    assert ["reconnect 0", "restart_app 0"] == steps_until_none(steps, EmulatorTrouble.UNFIT, now_ms=50_000)


def test_restarts_are_forgiven_after_so_long_up_or_when_a_person_says_so():
    steps = RecoverySteps()
    steps_until_none(steps, EmulatorTrouble.SILENT)
    assert [] == steps_until_none(steps, EmulatorTrouble.SILENT, now_ms=900_000)
    steps.passed_gate(900_000)
    assert [] == steps_until_none(steps, EmulatorTrouble.SILENT, now_ms=999_999)
    assert 3 == len(steps_until_none(steps, EmulatorTrouble.SILENT, now_ms=1_000_000))
    steps.forgive()
    assert 3 == len(steps_until_none(steps, EmulatorTrouble.SILENT, now_ms=1_000_000))


def test_later_steps_of_one_trouble_forgive_nothing_however_long_they_take():
    steps = RecoverySteps()
    steps_until_none(steps, EmulatorTrouble.SILENT)
    steps.passed_gate(1)
    assert ["reconnect 0"] == steps_until_none(steps, EmulatorTrouble.UNFIT, times=1, now_ms=50_000)
    assert ["restart_app 0"] == steps_until_none(steps, EmulatorTrouble.UNFIT, now_ms=900_000)


@pytest.mark.parametrize(("dice", "expected"), [(0.0, 7.5), (0.5, 15.0), (1.0, 22.5)])
def test_emulators_of_one_host_do_not_move_in_step(dice: float, expected: float):
    step = RecoverySteps().next(EmulatorTrouble.SILENT, POLICY, dice)
    assert step is not None
    assert expected == step.after_s


def test_no_two_measures_are_the_same():
    steps = RecoverySteps()
    assert steps.plan(RecoveryStep.STOP) != steps.plan(RecoveryStep.STOP)
