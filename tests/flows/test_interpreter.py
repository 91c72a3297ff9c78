from dataclasses import replace
from typing import Any

import pytest

from droidherd.domain.errors import (
    AbandonedError,
    CommandFailedError,
    DiskFullError,
    ScreenNotReachedError,
    StageTimeoutError,
    StuckError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Box, Frame
from droidherd.flows.run.context import Tempo
from droidherd.flows.run.interpreter import RunOutcome, run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import FakeClock, FakeLife, Trouble
from tests.flows.stages import APP, GIFT, HOME, OK, acts, bench, stage


def test_each_step_reaches_the_hands_with_its_path_as_its_name() -> None:
    on = bench(HerdState())
    steps = (
        {"start_app": {"app": APP}},
        {"optional": {"do": [{"tap": {"image": "account_empty.png"}}, {"type": {"text": "ann"}}]}},
        {"repeat": {"at_most": 2, "do": [{"swipe": {"from": [50, 80], "to": [50, 20], "takes": "200ms"}}]}},
        {"key": {"name": "home"}},
        {"stop_app": {"app": APP}},
    )
    assert RunOutcome(acts=7) == run_stage(stage(*steps), on.run())
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
    on = bench(HerdState())

    class Later(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.slept == 4:
                on.emulator.state = HOME

    on.clock = Later()
    run_stage(stage({"wait": {"image": "gift.png", "within": "10s"}}), on.run())
    assert 5 == on.eyes.looks
    assert 1001.0 == on.clock.now()


def test_a_wait_in_vain_says_what_was_searched_how_near_it_came_keeps_frame() -> None:
    on = bench(HerdState())
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


def test_a_post_condition_that_fails_fails_the_stage_and_repeats_no_act() -> None:
    on = bench()
    with pytest.raises(ScreenNotReachedError, match=r"step 1: ok\.png did not appear"):
        run_stage(stage({"tap": {"percent": [1, 1], "then": {"image": "ok.png", "within": "3s"}}}), on.run())
    assert ["tap 13 7"] == acts(on)


def test_evidence_that_cannot_be_kept_does_not_hide_the_failure() -> None:
    on = bench(HerdState())

    def full(name: str, frame: Frame) -> None:
        raise DiskFullError("no space left")

    with pytest.raises(ScreenNotReachedError):
        run_stage(stage({"wait": {"image": "gift.png", "within": "1s"}}), replace(on.run(), keep=full))
    assert any("could not be kept: no space left" in note for note in on.notes)


def test_a_frame_is_kept_under_the_names_of_stage_step_and_turn() -> None:
    on = bench()
    run_stage(
        stage({"screenshot": {"name": "a"}}, {"repeat": {"at_most": 2, "do": [{"screenshot": {"name": "b"}}]}}),
        on.run(),
    )
    assert ["main.a.png", "main.b-1.png", "main.b-2.png"] == list(on.kept)


def test_a_pause_takes_its_time_and_beats() -> None:
    on = bench()
    run_stage(stage({"sleep": {"for": "5s"}}), on.run())
    assert 1005.0 == on.clock.now()
    assert on.life.beats >= 5


def test_what_is_typed_is_in_no_note() -> None:
    on = bench(HerdState(scene=Scene.SIGN_IN, running=True, field="password"))
    run_stage(stage({"type": {"text": "s3cret"}}), on.run())
    assert ["type s3cret"] == acts(on)
    assert not [note for note in on.notes if "s3cret" in note]


# --- loops and blocks ---------------------------------------------------------------------------------------


def test_a_loop_with_while_ends_when_it_no_longer_holds() -> None:
    on = bench(HerdState(popup=True, scene=Scene.HOME, running=True))
    close = {"tap": {"image": "close.png"}}
    run_stage(stage({"repeat": {"while": {"image": "close.png"}, "at_most": 5, "do": [close]}}), on.run())
    assert 1 == len(acts(on))


def test_a_loop_with_until_that_never_holds_is_a_failure() -> None:
    on = bench()
    loop = {"repeat": {"until": {"image": "ok.png"}, "at_most": 3, "do": [{"tap": {"percent": [1, 1]}}]}}
    with pytest.raises(ScreenNotReachedError, match=r"ok\.png did not appear"):
        run_stage(stage(loop), on.run())
    assert 3 == len(acts(on))


def test_an_optional_block_that_does_not_find_its_image_is_skipped_and_noted() -> None:
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
    assert RunOutcome(stopped="pause", acts=1) == run_stage(stage(GIFT, {"screenshot": {"name": "a"}}, OK), run)
    assert 1 == len(acts(on))


def test_a_stage_stops_while_it_waits_for_what_it_would_act_on() -> None:
    on = bench()

    class Asking(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            on.life.reason = "cancel"

    on.clock = Asking()
    assert RunOutcome(stopped="cancel") == run_stage(stage({"tap": {"image": "ok.png", "within": "60s"}}), on.run())
    assert on.clock.now() < 1002


def test_a_stage_does_not_stop_between_an_act_and_its_post_condition() -> None:
    on = bench()
    asked = on.hands.tap

    def tap(effect: str, x: int, y: int) -> Any:
        on.life.reason = "pause"
        return asked(effect, x, y)

    on.hands.tap = tap
    assert RunOutcome(stopped="pause", acts=1) == run_stage(stage(GIFT, OK), on.run())
    assert Scene.DIALOG is on.emulator.state.scene


def test_a_try_that_was_given_up_does_nothing_more() -> None:
    on = bench()
    on.life.abandoned = True
    with pytest.raises(AbandonedError):
        run_stage(stage(GIFT), on.run())
    assert [] == acts(on)
    assert {} == on.kept


def test_the_total_time_of_a_stage_ends_it_in_the_middle_of_a_wait() -> None:
    on = bench(HerdState())
    with pytest.raises(StageTimeoutError, match=r"step 2: not done within 10\.1s"):
        run_stage(
            stage({"sleep": {"for": "6s"}}, {"wait": {"image": "gift.png", "within": "60s"}}, limit_s=10.1), on.run()
        )
    assert 1010.1 == on.clock.now()


def test_a_stage_in_which_nothing_moves_is_stuck_before_its_time_is_up() -> None:
    on = bench(HerdState())
    with pytest.raises(StuckError, match="nothing moved for 30s"):
        run_stage(stage({"wait": {"image": "gift.png", "within": "200s"}}), on.run(Tempo(progress_s=30.0)))
    assert ["main.failed.png"] == list(on.kept)


def test_a_step_that_is_done_is_progress() -> None:
    on = bench(HerdState())
    steps = (
        {"optional": {"do": [{"wait": {"image": "gift.png", "within": "20s"}}]}},
        {"wait": {"image": "gift.png", "within": "20s"}},
    )
    with pytest.raises(ScreenNotReachedError):
        run_stage(stage(*steps), on.run(Tempo(progress_s=30.0)))


def test_a_screen_that_changes_is_progress() -> None:
    on = bench(HerdState())

    class Moving(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            on.emulator.state = replace(on.emulator.state, taps=self.slept // 10)

    on.clock = Moving()
    with pytest.raises(ScreenNotReachedError):
        run_stage(stage({"wait": {"image": "gift.png", "within": "200s"}}), on.run(Tempo(progress_s=30.0)))


def test_the_fakes_fail_where_they_are_asked_to() -> None:
    trouble = Trouble(2, UnknownOutcomeError)
    trouble("one")
    with pytest.raises(UnknownOutcomeError):
        trouble("two")
    trouble("three")
    assert ("two", 3) == (trouble.struck, trouble.passed)
    assert 0 == FakeLife().beats
