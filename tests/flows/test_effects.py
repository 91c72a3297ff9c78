"""Acts that were not sent, were perhaps done, or were done by an earlier try."""

from dataclasses import replace

import pytest

from droidherd.contracts.plan import OnAmbiguous
from droidherd.domain.errors import (
    CommandFailedError,
    EmulatorLostError,
    FencedError,
    FinalError,
    FlowError,
    InvalidFrameError,
    LateError,
    NeedsPersonError,
    NotSentError,
    ScreenNotReachedError,
    UnknownOutcomeError,
)
from droidherd.flows.run.context import Tempo
from droidherd.flows.run.interpreter import RunOutcome, run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, FakeClock
from tests.flows.stages import APP, GIFT, HOME, OK, Stubborn, acts, bench, stage, unknown_at


@pytest.mark.parametrize("error", [InvalidFrameError("black"), NotSentError("offline"), UnknownOutcomeError("cut")])
def test_a_few_bad_frames_are_borne(error: Exception) -> None:
    on = bench()
    on.eyes.troubles = [error] * 4
    assert RunOutcome(acts=1) == run_stage(stage(GIFT), on.run())


def test_endless_bad_frames_are_an_infrastructure_error_and_never_not_found() -> None:
    on = bench()
    on.eyes.troubles = [InvalidFrameError("black")] * 5
    with pytest.raises(InvalidFrameError):
        run_stage(stage(GIFT), on.run())
    assert 5 == on.eyes.looks


def test_a_failure_of_the_emulator_is_no_evidence_about_the_flow() -> None:
    on = Bench(Emulator(HOME), point=Stubborn(9, NotSentError))
    with pytest.raises(NotSentError):
        run_stage(stage(GIFT), on.run())
    assert on.eyes.looks > 0
    assert {} == on.kept


def test_a_lost_emulator_is_not_looked_at_again() -> None:
    on = bench()
    on.eyes.troubles = [EmulatorLostError("gone")] * 2
    with pytest.raises(EmulatorLostError):
        run_stage(stage(GIFT), on.run())
    assert 1 == on.eyes.looks


@pytest.mark.parametrize("error", [NotSentError, LateError])
def test_an_act_that_surely_was_not_sent_is_tried_again_a_few_times(error: type[Exception]) -> None:
    on = Bench(Emulator(HOME), point=Stubborn(3, error))
    assert RunOutcome(acts=1) == run_stage(stage(GIFT), on.run())
    on = Bench(Emulator(HOME), point=Stubborn(4, error))
    with pytest.raises(error):
        run_stage(stage(GIFT), on.run())
    assert [] == acts(on)


class LostOnce:
    """The connection is lost once, at a point whose name ends so."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, point: str) -> None:
        if self.where and point.endswith(self.where):
            self.where = ""
            raise UnknownOutcomeError("closed")


@pytest.mark.parametrize(
    ("where", "outcome"),
    [("answered", RunOutcome(observed=1)), ("acted", None), ("begun", None), ("sent", RunOutcome(acts=1))],
)
def test_the_journal_is_asked_before_a_person_is(where: str, outcome: RunOutcome | None) -> None:
    """Nothing on the screen shows this tap; but a line whose answer was lost writes its result all the same."""
    on = Bench(Emulator(HOME), point=LostOnce(where))
    blind = stage({"tap": {"percent": [50, 90]}})
    if outcome is None:
        with pytest.raises(NeedsPersonError):
            run_stage(blind, on.run())
    else:
        assert outcome == run_stage(blind, on.run())
        assert 1 == len(acts(on))


def test_an_act_refused_by_the_fence_is_not_tried_again() -> None:
    on = bench()
    on.hands.fenced = True
    with pytest.raises(FencedError):
        run_stage(stage(GIFT), on.run())


def test_a_journal_that_could_not_be_read_is_asked_again() -> None:
    on = Bench(Emulator(HOME), point=Stubborn(3, NotSentError, "recall"))
    assert RunOutcome(acts=1) == run_stage(stage(GIFT), on.run())


def test_steps_that_are_no_steps_are_a_fault_of_the_flow() -> None:
    with pytest.raises(FlowError, match="main: step"):
        run_stage(stage({"tap": {"image": "gift.png", "within": 5}}), bench().run())


def test_an_unknown_act_whose_post_condition_holds_is_not_repeated() -> None:
    on = unknown_at("1 acted")
    assert RunOutcome(observed=1) == run_stage(stage(GIFT), on.run())
    assert 1 == len(acts(on))
    assert "settled" == on.emulator.journal["main/1"]


def test_an_unknown_act_whose_target_is_still_there_is_repeated() -> None:
    on = unknown_at("1 begun")
    assert RunOutcome(acts=1) == run_stage(stage(GIFT), on.run())
    assert ["tap 330 320"] == acts(on)
    assert "done" == on.emulator.journal["main/1"]


def test_an_act_is_not_called_undone_before_it_can_no_longer_come_true() -> None:
    on = unknown_at("1 begun")
    step = {"tap": {"image": "gift.png", "then": {"image": "ok.png", "within": "1s"}}}
    run_stage(stage(step), on.run(Tempo(late_s=8.0)))
    assert on.clock.now() >= 1008.0


def test_an_act_that_cannot_be_seen_is_not_repeated_while_it_may_come_true() -> None:
    on = unknown_at("1 begun")
    run_stage(stage({"key": {"name": "back"}}, on_ambiguous=OnAmbiguous.REPEAT), on.run(Tempo(late_s=8.0)))
    assert 1008.0 == on.clock.now()


def test_a_late_act_is_seen_and_not_repeated() -> None:
    on = unknown_at("1 begun")

    class Late(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now() > 1006:
                on.emulator.state = replace(HOME, scene=Scene.DIALOG)

    on.clock = Late()
    assert RunOutcome(observed=1) == run_stage(stage(GIFT), on.run())
    assert [] == acts(on)


def test_an_unknown_act_that_cannot_be_seen_asks_a_person_by_default() -> None:
    on = unknown_at("1 begun")
    with pytest.raises(NeedsPersonError, match="step 1: it cannot be seen whether this happened: key back"):
        run_stage(stage({"key": {"name": "back"}}), on.run())
    assert "begin" == on.emulator.journal["main/1"]


def test_an_unknown_act_that_cannot_be_seen_fails_when_the_stage_says_so() -> None:
    on = unknown_at("1 begun")
    with pytest.raises(FinalError, match="it cannot be seen whether this happened"):
        run_stage(stage({"key": {"name": "back"}}, on_ambiguous=OnAmbiguous.FAIL), on.run())


def test_an_unknown_act_that_cannot_be_seen_is_repeated_when_stage_allows() -> None:
    on = unknown_at("1 acted")
    assert RunOutcome(acts=1) == run_stage(stage({"key": {"name": "back"}}, on_ambiguous=OnAmbiguous.REPEAT), on.run())
    assert ["key back", "key back"] == acts(on)


def test_an_image_that_is_gone_is_not_tapped_though_the_stage_would_repeat() -> None:
    on = unknown_at("1 acted")
    assert RunOutcome(observed=1) == run_stage(
        stage({"tap": {"image": "gift.png"}}, on_ambiguous=OnAmbiguous.REPEAT), on.run()
    )
    assert 1 == len(acts(on))


@pytest.mark.parametrize(("happened", "expected"), [(True, 0), (False, 1)])
def test_what_a_person_answers_about_an_unknown_act_is_believed(*, happened: bool, expected: int) -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "begin"}))
    run_stage(stage({"key": {"name": "back"}}), on.run(confirmed={"1": happened}))
    assert expected == len(acts(on))


def test_starting_an_app_is_repeated_without_asking() -> None:
    on = unknown_at("1 begun", HerdState())
    assert RunOutcome(acts=1) == run_stage(stage({"start_app": {"app": APP}}), on.run())


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


def test_what_was_done_is_neither_searched_nor_waited_for_nor_repeated() -> None:
    on = Bench(Emulator(replace(HOME, gift_taken=True), journal={"main/1": "done", "main/3": "done"}))
    steps = (GIFT, {"wait": {"image": "ok.png", "within": "5s"}}, OK, {"screenshot": {"name": "a"}})
    assert RunOutcome(again=2) == run_stage(stage(*steps), on.run())
    assert [] == acts(on)
    assert {"gift_collected.png"} == {image for image, _, _ in on.finder.asked}


def test_the_post_condition_of_the_last_recorded_act_is_looked_at() -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "done"}))
    with pytest.raises(ScreenNotReachedError, match=r"ok\.png did not appear"):
        run_stage(stage(GIFT), on.run())


def test_an_unknown_act_with_later_ones_on_record_happened() -> None:
    on = Bench(Emulator(replace(HOME, gift_taken=True), journal={"main/1": "begin", "main/2": "done"}))
    assert RunOutcome(again=1, observed=1) == run_stage(stage(GIFT, OK), on.run())


def test_what_precedes_the_last_recorded_act_takes_no_time_and_no_frame() -> None:
    on = Bench(Emulator(replace(HOME, scene=Scene.DIALOG), journal={"main/4": "done"}))
    never = {"repeat": {"until": {"image": "claim.png"}, "at_most": 1, "do": [{"sleep": {"for": "9s"}}]}}
    steps = ({"sleep": {"for": "9s"}}, {"screenshot": {"name": "a"}}, never, GIFT, {"screenshot": {"name": "b"}})
    assert RunOutcome(again=1) == run_stage(stage(*steps), on.run())
    assert 1000.0 == on.clock.now()
    assert ["main.b.png"] == list(on.kept)


def test_an_until_that_had_held_is_not_looked_at_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/1#1.1": "done", "main/2": "done"}))
    loop = {"repeat": {"until": {"image": "ok.png"}, "at_most": 1, "do": [{"tap": {"percent": [1, 1]}}]}}
    assert RunOutcome(again=2) == run_stage(stage(loop, {"key": {"name": "menu"}}), on.run())


def test_an_act_that_had_failed_fails_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/1": "failed"}))
    with pytest.raises(CommandFailedError, match=r"step 1: tap gift\.png had failed before"):
        run_stage(stage(GIFT), on.run())


def test_a_block_that_was_left_out_stays_left_out() -> None:
    on = Bench(Emulator(replace(HOME, scene=Scene.DIALOG), journal={"main/2": "done"}))
    block = {"optional": {"do": [{"tap": {"image": "ok.png"}}]}}
    assert RunOutcome(again=1) == run_stage(stage(block, GIFT), on.run())
    assert [] == acts(on)


def test_a_loop_goes_on_in_the_turn_it_had_reached() -> None:
    journal = {"main/1#1.1": "done", "main/1#1.2": "done", "main/1#2.1": "done"}
    on = Bench(Emulator(replace(HOME, scene=Scene.LIST), journal=journal))
    there = {"tap": {"image": "rewards.png", "then": {"image": "back.png", "within": "5s"}}}
    back = {"tap": {"image": "back.png", "then": {"image": "rewards.png", "within": "5s"}}}
    assert RunOutcome(acts=3, again=3) == run_stage(stage({"repeat": {"at_most": 3, "do": [there, back]}}), on.run())
    assert ["main/1#2.2", "main/1#3.1", "main/1#3.2"] == [key for key, _ in on.emulator.done]


def test_a_loop_that_had_ended_is_not_entered_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/1#1.1": "done", "main/2": "done"}))
    loop = {"repeat": {"while": {"image": "gift.png"}, "at_most": 5, "do": [{"tap": {"percent": [1, 1]}}]}}
    assert RunOutcome(again=2) == run_stage(stage(loop, {"key": {"name": "menu"}}), on.run())
    assert [] == acts(on)
    assert not [note for note in on.notes if note.startswith("1#2")]
