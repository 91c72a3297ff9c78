from typing import Any

import pytest

from droidherd.domain.errors import (
    AbandonedError,
    EmulatorLostError,
    FencedError,
)
from droidherd.flows.run.context import StageContext
from droidherd.flows.run.interpreter import CleanupOutcome, run_cleanup, run_stage
from tests.flows.stages import APP, acts, bench, stage, unknown_at

STOP: dict[str, Any] = {"stop_app": {"app": APP}}


def clean(steps: tuple[dict[str, Any], ...], run: StageContext, budget_s: float, mark: str = "c") -> CleanupOutcome:
    return run_cleanup(steps, run, budget_s, mark)


def test_cleanup_goes_on_after_a_failure_and_reports_it() -> None:
    on = bench()
    steps = ({"tap": {"image": "ok.png", "within": "1s"}}, STOP)
    report = clean(steps, on.run(), budget_s=30)
    assert not report.clean
    assert report.failures[0].startswith("cleanup 1: step c1: ok.png did not appear within 1s")
    assert [("main/c2", f"stop {APP}")] == on.emulator.done


def test_cleanup_is_clean_when_every_step_was() -> None:
    on = bench()
    assert clean((STOP,), on.run(), budget_s=30).clean


def test_cleanup_ends_when_its_time_is_up() -> None:
    on = bench()
    steps = ({"wait": {"image": "ok.png", "within": "100s"}}, STOP)
    report = clean(steps, on.run(), budget_s=5)
    assert 2 == len(report.failures)
    assert 1005.0 == on.clock.now()
    assert [] == acts(on)


def test_cleanup_does_not_stop_when_the_task_is_asked_to() -> None:
    on = bench()
    on.life.reason = "cancel"
    assert clean(({"sleep": {"for": "2s"}}, STOP), on.run(), budget_s=30).clean


def test_cleanup_never_asks_a_person() -> None:
    on = unknown_at("c1 begun")
    assert clean(({"key": {"name": "back"}},), on.run(), budget_s=30).clean
    assert ["key back"] == acts(on)


def test_a_stage_taken_up_after_a_cleanup_in_its_journal_does_what_is_left() -> None:
    """A stage that lives in the account keeps its journal when it was paused, or freed its emulator to ask."""
    on = bench()
    taps = ({"tap": {"percent": [10, 1]}}, {"tap": {"percent": [20, 1]}})
    run_stage(stage(taps[0]), on.run())
    assert clean((STOP,), on.run(), budget_s=30, mark="c1.").clean
    run_stage(stage(*taps), on.run())
    assert ["tap 128 7", f"stop {APP}", "tap 256 7"] == acts(on)


def test_cleanup_gives_up_when_the_emulator_is_gone() -> None:
    on = bench()
    on.eyes.troubles = [EmulatorLostError("gone")]
    report = clean(({"wait": {"image": "ok.png", "within": "1s"}}, STOP), on.run(), budget_s=30)
    assert 1 == len(report.failures)
    assert [] == acts(on)


def test_cleanup_of_an_emulator_that_is_somebody_elses_raises() -> None:
    on = bench()
    on.hands.fenced = True
    with pytest.raises(FencedError):
        clean((STOP, STOP), on.run(), budget_s=30)


def test_cleanup_of_an_abandoned_try_raises() -> None:
    on = bench()
    on.life.abandoned = True
    with pytest.raises(AbandonedError):
        clean((STOP,), on.run(), budget_s=30)


def test_two_cleanups_with_marks_of_their_own_both_act() -> None:
    on = bench()
    for mark in ("c7.", "c8."):
        clean((STOP,), on.run(), 30, mark)
    assert ["main/c7.1", "main/c8.1"] == [key for key, _ in on.emulator.done]


def test_a_broken_cleanup_is_reported_and_does_not_raise() -> None:
    report = clean(({"tap": {}},), bench().run(), budget_s=30)
    assert report.failures[0].startswith("cleanup: step")
