from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from droidherd.contracts.plan import OnUnknown, Stage
from droidherd.domain.errors import (
    AbandonedError,
    CommandFailedError,
    DiskFullError,
    EmulatorLostError,
    FencedError,
    FinalError,
    FlowError,
    InvalidFrameError,
    LateError,
    NeedsPersonError,
    NotSentError,
    ScreenNotReachedError,
    StageTimeoutError,
    StuckError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Box, Frame
from droidherd.flows.interpreter import CleanupReport, Outcome, run_cleanup, run_stage
from droidherd.flows.run import StageRun, Tempo
from droidherd.virtual.app import AppState, Scene
from tests.flows.fakes import Bench, Emulator, FakeClock, FakeLife, Trouble

HOME = AppState(scene=Scene.HOME, running=True, signed_in="ann")
APP = "com.example.herd"
GIFT = {"tap": {"image": "gift.png", "then": {"image": "ok.png", "within": "5s"}}}
OK = {"tap": {"image": "ok.png", "then": {"image": "gift_collected.png", "within": "5s"}}}


def stage(*steps: dict[str, Any], limit_s: float = 300.0, on_unknown: OnUnknown = OnUnknown.ASK) -> Stage:
    return Stage(name="main", steps=steps, limit_s=limit_s, on_unknown=on_unknown)


def bench(state: AppState = HOME) -> Bench:
    return Bench(Emulator(state))


def acts(on: Bench) -> list[str]:
    return [what for _, what in on.emulator.done]


def test_each_step_reaches_the_hands_with_its_path_as_its_name() -> None:
    on = bench(AppState())
    steps = (
        {"start_app": {"app": APP}},
        {"optional": {"do": [{"tap": {"image": "account_empty.png"}}, {"type": {"text": "ann"}}]}},
        {"repeat": {"at_most": 2, "do": [{"swipe": {"from": [50, 80], "to": [50, 20], "takes": "200ms"}}]}},
        {"key": {"name": "home"}},
        {"stop_app": {"app": APP}},
    )
    assert Outcome(acts=7) == run_stage(stage(*steps), on.run())
    assert [
        ("main/1", f"start {APP}"),
        ("main/2.1", "tap 640 300"),
        ("main/2.2", "type ann"),
        ("main/3#1.1", "swipe (640, 575) (640, 144) 0.2"),
        ("main/3#2.1", "swipe (640, 575) (640, 144) 0.2"),
        ("main/4", "key home"),
        ("main/5", f"stop {APP}"),
    ] == on.emulator.done


@pytest.mark.parametrize(("percent", "pixel"), [([0, 0], "0 0"), ([100, 100], "1279 719"), ([50, 20], "640 144")])
def test_percent_is_of_the_screen_from_the_first_to_the_last_pixel(percent: list[float], pixel: str) -> None:
    on = bench()
    run_stage(stage({"tap": {"percent": percent}}), on.run())
    assert [f"tap {pixel}"] == acts(on)


def test_threshold_and_area_reach_the_finder_in_pixels() -> None:
    on = bench()
    run_stage(
        stage({"wait": {"image": "gift.png", "within": "5s", "threshold": 0.8, "area": [10, 20, 60, 90]}}), on.run()
    )
    assert [("gift.png", 0.8, Box(128, 144, 640, 504))] == on.finder.asked


def test_a_wait_polls_until_the_image_is_there() -> None:
    on = bench(AppState())

    class Later(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.slept == 4:
                on.emulator.state = HOME

    on.clock = Later()
    run_stage(stage({"wait": {"image": "gift.png", "within": "10s"}}), on.run())
    assert 5 == on.eyes.looks
    assert 1001.0 == on.clock.now()


def test_a_wait_that_ends_in_vain_says_what_was_sought_and_how_near_it_came_and_keeps_the_frame() -> None:
    on = bench(AppState())
    with pytest.raises(ScreenNotReachedError) as caught:
        run_stage(stage({"wait": {"image": "gift.png", "within": "2s"}}), on.run())
    expected = "step 1: gift.png did not appear within 2s: best match 0.40 of 0.90 at 0,0"
    assert str(caught.value).startswith(expected)
    assert ["main.failed.png"] == list(on.kept)
    assert 1002.0 == on.clock.now()


def test_an_image_that_does_not_go_away_says_so() -> None:
    on = bench()
    with pytest.raises(ScreenNotReachedError, match=r"gift\.png did not go away within 1s"):
        run_stage(stage({"wait": {"gone": "gift.png", "within": "1s"}}), on.run())


def test_a_post_condition_that_does_not_come_true_fails_the_stage_and_the_act_is_not_repeated() -> None:
    on = bench()
    with pytest.raises(ScreenNotReachedError, match=r"step 1: ok\.png did not appear"):
        run_stage(stage({"tap": {"percent": [1, 1], "then": {"image": "ok.png", "within": "3s"}}}), on.run())
    assert ["tap 13 7"] == acts(on)


def test_evidence_that_cannot_be_kept_does_not_hide_the_failure() -> None:
    on = bench(AppState())

    def full(name: str, frame: Frame) -> None:
        raise DiskFullError("no space left")

    with pytest.raises(ScreenNotReachedError):
        run_stage(stage({"wait": {"image": "gift.png", "within": "1s"}}), replace(on.run(), keep=full))
    assert any("could not be kept: no space left" in note for note in on.notes)


def test_a_frame_is_kept_under_the_names_of_stage_step_and_turn() -> None:
    on = bench()
    run_stage(stage({"frame": {"name": "a"}}, {"repeat": {"at_most": 2, "do": [{"frame": {"name": "b"}}]}}), on.run())
    assert ["main.a.png", "main.b-1.png", "main.b-2.png"] == list(on.kept)


def test_a_pause_takes_its_time_and_beats() -> None:
    on = bench()
    run_stage(stage({"pause": {"for": "5s"}}), on.run())
    assert 1005.0 == on.clock.now()
    assert on.life.beats >= 5


def test_what_is_typed_is_in_no_note() -> None:
    on = bench(AppState(scene=Scene.SIGN_IN, running=True, field="password"))
    run_stage(stage({"type": {"text": "s3cret"}}), on.run())
    assert ["type s3cret"] == acts(on)
    assert not [note for note in on.notes if "s3cret" in note]


# --- loops and blocks ---------------------------------------------------------------------------------------


def test_a_loop_with_while_ends_when_it_no_longer_holds() -> None:
    on = bench(AppState(popup=True, scene=Scene.HOME, running=True))
    close = {"tap": {"image": "close.png"}}
    run_stage(stage({"repeat": {"while": {"image": "close.png"}, "at_most": 5, "do": [close]}}), on.run())
    assert 1 == len(acts(on))


def test_a_loop_with_until_that_never_holds_is_a_failure() -> None:
    on = bench()
    loop = {"repeat": {"until": {"image": "ok.png"}, "at_most": 3, "do": [{"tap": {"percent": [1, 1]}}]}}
    with pytest.raises(ScreenNotReachedError, match=r"ok\.png did not appear"):
        run_stage(stage(loop), on.run())
    assert 3 == len(acts(on))


def test_an_optional_block_that_does_not_find_its_image_is_left_out_and_noted() -> None:
    on = bench()
    block = {"optional": {"do": [{"tap": {"image": "ok.png", "within": "1s"}}, {"key": {"name": "back"}}]}}
    run_stage(stage(block, GIFT), on.run())
    assert ["tap 330 320"] == acts(on)
    assert any(note.startswith("1: left out: ") for note in on.notes)
    assert {} == on.kept


def test_an_optional_block_does_not_swallow_other_failures() -> None:
    on = bench()
    on.hands.failing.add("1.1")
    with pytest.raises(CommandFailedError):
        run_stage(stage({"optional": {"do": [{"key": {"name": "back"}}]}}), on.run())


# --- stopping, being given up, deadlines ---------------------------------------------------------------------


def test_a_stage_stops_at_the_boundary_before_the_next_step() -> None:
    on = bench()
    keep = on.run().keep

    def keep_and_ask(name: str, frame: Frame) -> None:
        keep(name, frame)
        on.life.reason = "pause"

    run = replace(on.run(), keep=keep_and_ask)
    assert Outcome(stopped="pause", acts=1) == run_stage(stage(GIFT, {"frame": {"name": "a"}}, OK), run)
    assert 1 == len(acts(on))


def test_a_stage_stops_while_it_waits_for_what_it_would_act_on() -> None:
    on = bench()

    class Asking(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            on.life.reason = "cancel"

    on.clock = Asking()
    assert Outcome(stopped="cancel") == run_stage(stage({"tap": {"image": "ok.png", "within": "60s"}}), on.run())
    assert on.clock.now() < 1002


def test_a_stage_does_not_stop_between_an_act_and_its_post_condition() -> None:
    on = bench()
    asked = on.hands.tap

    def tap(effect: str, x: int, y: int) -> Any:
        on.life.reason = "pause"
        return asked(effect, x, y)

    on.hands.tap = tap
    assert Outcome(stopped="pause", acts=1) == run_stage(stage(GIFT, OK), on.run())
    assert Scene.DIALOG is on.emulator.state.scene


def test_a_try_that_was_given_up_does_nothing_more() -> None:
    on = bench()
    on.life.abandoned = True
    with pytest.raises(AbandonedError):
        run_stage(stage(GIFT), on.run())
    assert [] == acts(on)
    assert {} == on.kept


def test_the_total_time_of_a_stage_ends_it_in_the_middle_of_a_wait() -> None:
    on = bench(AppState())
    with pytest.raises(StageTimeoutError, match="step 2: not done within 10s"):
        run_stage(
            stage({"pause": {"for": "6s"}}, {"wait": {"image": "gift.png", "within": "60s"}}, limit_s=10), on.run()
        )
    assert 1010.0 == on.clock.now()


def test_a_stage_in_which_nothing_moves_is_stuck_before_its_time_is_up() -> None:
    on = bench(AppState())
    with pytest.raises(StuckError, match="nothing moved for 30s"):
        run_stage(stage({"wait": {"image": "gift.png", "within": "200s"}}), on.run(Tempo(progress_s=30.0)))
    assert ["main.failed.png"] == list(on.kept)


def test_a_screen_that_changes_is_progress() -> None:
    on = bench(AppState())

    class Moving(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            on.emulator.state = replace(on.emulator.state, taps=self.slept // 10)

    on.clock = Moving()
    with pytest.raises(ScreenNotReachedError):
        run_stage(stage({"wait": {"image": "gift.png", "within": "200s"}}), on.run(Tempo(progress_s=30.0)))


# --- troubles of the emulator --------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [InvalidFrameError("black"), NotSentError("offline"), UnknownOutcomeError("cut")])
def test_a_few_bad_frames_are_borne(error: Exception) -> None:
    on = bench()
    on.eyes.troubles = [error] * 4
    assert Outcome(acts=1) == run_stage(stage(GIFT), on.run())


def test_bad_frames_without_end_are_an_infrastructure_error_and_never_not_found() -> None:
    on = bench()
    on.eyes.troubles = [InvalidFrameError("black")] * 5
    with pytest.raises(InvalidFrameError):
        run_stage(stage(GIFT), on.run())
    assert 5 == on.eyes.looks


def test_a_lost_emulator_is_not_looked_at_again() -> None:
    on = bench()
    on.eyes.troubles = [EmulatorLostError("gone")] * 2
    with pytest.raises(EmulatorLostError):
        run_stage(stage(GIFT), on.run())
    assert 1 == on.eyes.looks


class Stubborn:
    """Raises at every sending until it has done so `times`."""

    def __init__(self, times: int, error: Callable[[str], Exception], word: str = "sent") -> None:
        self.left = times
        self._error = error
        self._word = word

    def __call__(self, point: str) -> None:
        if point.endswith(self._word) and self.left > 0:
            self.left -= 1
            raise self._error("trouble")


@pytest.mark.parametrize("error", [NotSentError, LateError])
def test_an_act_that_surely_was_not_sent_is_tried_again_a_few_times(error: type[Exception]) -> None:
    on = Bench(Emulator(HOME), point=Stubborn(3, error))
    assert Outcome(acts=1) == run_stage(stage(GIFT), on.run())
    on = Bench(Emulator(HOME), point=Stubborn(4, error))
    with pytest.raises(error):
        run_stage(stage(GIFT), on.run())
    assert [] == acts(on)


def test_an_act_refused_by_the_fence_is_not_tried_again() -> None:
    on = bench()
    on.hands.fenced = True
    with pytest.raises(FencedError):
        run_stage(stage(GIFT), on.run())


def test_a_journal_that_could_not_be_read_is_asked_again() -> None:
    on = Bench(Emulator(HOME), point=Stubborn(3, NotSentError, "recall"))
    assert Outcome(acts=1) == run_stage(stage(GIFT), on.run())


def test_steps_that_are_no_steps_are_a_fault_of_the_flow() -> None:
    with pytest.raises(FlowError, match="main: step"):
        run_stage(stage({"tap": {"image": "gift.png", "within": 5}}), bench().run())


# --- effects of unknown outcome ------------------------------------------------------------------------------


def unknown_at(point: str, state: AppState = HOME) -> Bench:
    """A bench on which the answer is lost at one point."""
    emulator = Emulator(state)

    def lose(passed: str) -> None:
        if passed == point:
            emulator.journal["lost"] = "once"
            raise UnknownOutcomeError("no answer")

    def once(passed: str) -> None:
        if "lost" not in emulator.journal:
            lose(passed)

    return Bench(emulator, point=once)


def test_an_unknown_act_whose_post_condition_holds_is_settled_and_not_repeated() -> None:
    on = unknown_at("1 acted")
    assert Outcome(observed=1) == run_stage(stage(GIFT), on.run())
    assert 1 == len(acts(on))
    assert "settled" == on.emulator.journal["main/1"]


def test_an_unknown_act_whose_target_is_still_there_is_forgotten_and_repeated() -> None:
    on = unknown_at("1 begun")
    assert Outcome(acts=1) == run_stage(stage(GIFT), on.run())
    assert ["tap 330 320"] == acts(on)
    assert "done" == on.emulator.journal["main/1"]


def test_an_act_is_not_called_undone_before_it_can_no_longer_come_true() -> None:
    on = unknown_at("1 begun")
    step = {"tap": {"image": "gift.png", "then": {"image": "ok.png", "within": "1s"}}}
    run_stage(stage(step), on.run(Tempo(late_s=8.0)))
    assert on.clock.now() >= 1008.0


def test_a_late_act_is_seen_and_not_repeated() -> None:
    on = unknown_at("1 begun")

    class Late(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now() > 1006:
                on.emulator.state = replace(HOME, scene=Scene.DIALOG)

    on.clock = Late()
    assert Outcome(observed=1) == run_stage(stage(GIFT), on.run())
    assert [] == acts(on)


def test_an_unknown_act_that_cannot_be_seen_asks_a_person_by_default() -> None:
    on = unknown_at("1 begun")
    with pytest.raises(NeedsPersonError, match="step 1: it cannot be seen whether this happened: key back"):
        run_stage(stage({"key": {"name": "back"}}), on.run())
    assert "begin" == on.emulator.journal["main/1"]


def test_an_unknown_act_that_cannot_be_seen_fails_when_the_stage_says_so() -> None:
    on = unknown_at("1 begun")
    with pytest.raises(FinalError, match="it cannot be seen whether this happened"):
        run_stage(stage({"key": {"name": "back"}}, on_unknown=OnUnknown.FAIL), on.run())


def test_an_unknown_act_that_cannot_be_seen_is_repeated_when_the_stage_says_so() -> None:
    on = unknown_at("1 acted")
    assert Outcome(acts=1) == run_stage(stage({"key": {"name": "back"}}, on_unknown=OnUnknown.REPEAT), on.run())
    assert ["key back", "key back"] == acts(on)


def test_an_image_that_is_gone_is_not_tapped_again_though_the_stage_would_repeat() -> None:
    on = unknown_at("1 acted")
    assert Outcome(observed=1) == run_stage(
        stage({"tap": {"image": "gift.png"}}, on_unknown=OnUnknown.REPEAT), on.run()
    )
    assert 1 == len(acts(on))


@pytest.mark.parametrize(("happened", "expected"), [(True, 0), (False, 1)])
def test_what_a_person_said_about_an_unknown_act_is_believed(*, happened: bool, expected: int) -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "begin"}))
    run_stage(stage({"key": {"name": "back"}}), on.run(told={"1": happened}))
    assert expected == len(acts(on))


def test_starting_an_app_is_repeated_without_asking() -> None:
    on = unknown_at("1 begun", AppState())
    assert Outcome(acts=1) == run_stage(stage({"start_app": {"app": APP}}), on.run())


def test_an_act_that_stays_unknown_is_given_up_after_two_rounds() -> None:
    on = Bench(Emulator(HOME), point=Stubborn(9, UnknownOutcomeError, "begun"))
    with pytest.raises(UnknownOutcomeError, match=r"tap gift\.png: still unknown after 2 tries"):
        run_stage(stage(GIFT), on.run())


def test_an_answer_lost_by_a_look_is_not_taken_for_an_act_of_unknown_outcome() -> None:
    on = bench()
    on.eyes.troubles = [UnknownOutcomeError("cut")] * 5
    with pytest.raises(UnknownOutcomeError, match="cut"):
        run_stage(stage(GIFT), on.run())
    assert {} == on.emulator.journal


# --- running again -------------------------------------------------------------------------------------------


def test_what_was_done_is_neither_sought_nor_waited_for_nor_repeated() -> None:
    on = Bench(Emulator(replace(HOME, gift_taken=True), journal={"main/1": "done", "main/3": "done"}))
    steps = (GIFT, {"wait": {"image": "ok.png", "within": "5s"}}, OK, {"frame": {"name": "a"}})
    assert Outcome(again=2) == run_stage(stage(*steps), on.run())
    assert [] == acts(on)
    assert {"gift_collected.png"} == {image for image, _, _ in on.finder.asked}


def test_the_post_condition_of_the_last_recorded_act_is_looked_at() -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "done"}))
    with pytest.raises(ScreenNotReachedError, match=r"ok\.png did not appear"):
        run_stage(stage(GIFT), on.run())


def test_an_unknown_act_with_later_ones_on_record_happened() -> None:
    on = Bench(Emulator(replace(HOME, gift_taken=True), journal={"main/1": "begin", "main/2": "done"}))
    assert Outcome(again=1, observed=1) == run_stage(stage(GIFT, OK), on.run())


def test_an_act_that_had_failed_fails_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "failed"}))
    with pytest.raises(CommandFailedError, match=r"step 1: tap gift\.png had failed before"):
        run_stage(stage(GIFT), on.run())


def test_a_block_that_was_left_out_stays_left_out() -> None:
    on = Bench(Emulator(replace(HOME, scene=Scene.DIALOG), journal={"main/2": "done"}))
    block = {"optional": {"do": [{"tap": {"image": "ok.png"}}]}}
    assert Outcome(again=1) == run_stage(stage(block, GIFT), on.run())
    assert [] == acts(on)


def test_a_loop_goes_on_in_the_turn_it_had_reached() -> None:
    journal = {"main/1#1.1": "done", "main/1#1.2": "done", "main/1#2.1": "done"}
    on = Bench(Emulator(replace(HOME, scene=Scene.LIST), journal=journal))
    there = {"tap": {"image": "rewards.png", "then": {"image": "back.png", "within": "5s"}}}
    back = {"tap": {"image": "back.png", "then": {"image": "rewards.png", "within": "5s"}}}
    assert Outcome(acts=3, again=3) == run_stage(stage({"repeat": {"at_most": 3, "do": [there, back]}}), on.run())
    assert ["main/1#2.2", "main/1#3.1", "main/1#3.2"] == [key for key, _ in on.emulator.done]


def test_a_loop_that_had_ended_is_not_entered_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/1#1.1": "done", "main/2": "done"}))
    loop = {"repeat": {"while": {"image": "gift.png"}, "at_most": 5, "do": [{"tap": {"percent": [1, 1]}}]}}
    assert Outcome(again=2) == run_stage(stage(loop, {"key": {"name": "menu"}}), on.run())
    assert [] == acts(on)


# --- cleanup -------------------------------------------------------------------------------------------------

STOP: dict[str, Any] = {"stop_app": {"app": APP}}


def clean(steps: tuple[dict[str, Any], ...], run: StageRun, budget_s: float, mark: str = "c") -> CleanupReport:
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
    assert clean(({"pause": {"for": "2s"}}, STOP), on.run(), budget_s=30).clean


def test_cleanup_never_asks_a_person() -> None:
    on = unknown_at("c1 begun")
    assert clean(({"key": {"name": "back"}},), on.run(), budget_s=30).clean
    assert ["key back"] == acts(on)


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


def test_the_fakes_strike_where_they_are_told() -> None:
    trouble = Trouble(2, UnknownOutcomeError)
    trouble("one")
    with pytest.raises(UnknownOutcomeError):
        trouble("two")
    trouble("three")
    assert ("two", 3) == (trouble.struck, trouble.passed)
    assert 0 == FakeLife().beats
