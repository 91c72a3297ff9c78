"""Steps that turn the course of a task: what a person is asked, what goes by the answer, when it runs again."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.errors import About, Asks, FlowError, GivenUpError, NeedsPersonError
from droidherd.flows.model.steps.people import RescheduleStep
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, PlugPulledError
from tests.flows.stages import APP, HOME, acts, bench, stage

ASK = {"ask": {"what": "solve it", "choices": ["solved", "give up"], "within": "30m", "into": "answer"}}
FREE = {"ask": {**ASK["ask"], "keep": False}}
TAP_1, TAP_2, TAP_3 = ({"tap": {"percent": [n, 1]}} for n in (10, 20, 30))
TAPS = ["tap 128 7", "tap 256 7", "tap 384 7"]
LIST = HerdState(scene=Scene.LIST, running=True, signed_in="ann")


def when(value: str | list[str], do: dict[str, Any], other: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"when": {"var": "answer", "is": value, "do": [do], **({"else": [other]} if other else {})}}


def loop(image: str, *do: dict[str, Any]) -> dict[str, Any]:
    return {"repeat": {"while": {"image": image}, "at_most": 3, "do": list(do)}}


def taps(on: Bench) -> list[str]:
    return [what for what in acts(on) if what.startswith("tap")]


def test_a_question_leaves_with_its_choices_its_time_and_a_picture() -> None:
    on = bench()
    with pytest.raises(NeedsPersonError, match="step 2: solve it") as caught:
        run_stage(stage(TAP_1, ASK, TAP_2), on.run())
    assert Asks("2", ("solved", "give up"), 1800.0, keep=True, about=About.SCREEN) == caught.value.asks
    assert (["main.asked.png"], TAPS[:1]) == (list(on.kept), taps(on))


def test_whoever_frees_the_emulator_asks_about_nothing_that_is_on_it() -> None:
    with pytest.raises(NeedsPersonError) as caught:
        run_stage(stage(FREE), bench().run())
    assert (False, About.TASK) == (caught.value.asks.keep, caught.value.asks.about)


@pytest.mark.parametrize(("answer", "second"), [("solved", TAPS[1]), ("give up", TAPS[2])])
def test_it_goes_on_behind_the_question_and_by_the_answer(answer: str, second: str) -> None:
    steps = stage(TAP_1, ASK, when("solved", TAP_2, TAP_3))
    on = bench()
    with pytest.raises(NeedsPersonError):
        run_stage(steps, on.run())
    run_stage(steps, on.run(standing={"2": answer}))
    assert [TAPS[0], second] == taps(on)


def test_what_was_waited_for_before_the_question_need_not_be_there_any_more() -> None:
    on = bench()
    steps = stage({"tap": {"image": "gift.png", "then": {"image": "ok.png", "within": "1s"}}}, ASK, TAP_2)
    with pytest.raises(NeedsPersonError):
        run_stage(steps, on.run())
    on.emulator.state = LIST
    run_stage(steps, on.run(standing={"2": "solved"}))
    assert 2 == len(taps(on))


def test_an_answer_given_without_an_emulator_passes_nothing_over_later() -> None:
    on = bench()
    run_stage(stage(TAP_1, FREE, when("solved", TAP_2)), on.run(answers={"2": "solved"}))
    assert TAPS[:2] == taps(on)


def test_in_a_loop_each_turn_asks_anew_and_is_answered_by_itself() -> None:
    on = bench(LIST)
    steps = stage(loop("back.png", ASK, when("solved", TAP_1, TAP_2)), TAP_3)
    with pytest.raises(NeedsPersonError) as first:
        run_stage(steps, on.run())
    with pytest.raises(NeedsPersonError) as second:
        run_stage(steps, on.run(standing={"1#1.1": "give up"}))
    assert ["1#1.1", "1#2.1"] == [first.value.asks.step, second.value.asks.step]
    on.emulator.state = HOME
    run_stage(steps, on.run(standing={"1#1.1": "give up", "1#2.1": "solved"}))
    assert [TAPS[1], TAPS[0], TAPS[2]] == taps(on)


class Plug:
    """Is pulled once, at a point of this name."""

    def __init__(self, at: str) -> None:
        self.at = at

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.at = ""
            raise PlugPulledError


@pytest.mark.parametrize("given", ["answers", "standing"])
@pytest.mark.parametrize("at", ["1#1.1 sent", "1#1.1 answered", "1#1.2.1 answered", "2 answered"])
def test_a_worker_that_dies_behind_the_question_asks_nobody_again(given: str, at: str) -> None:
    """Also when the screen that made it ask is gone by then: the way it took is in the journal."""
    on = Bench(Emulator(LIST), point=Plug(at))
    question = ASK if given == "standing" else FREE
    steps = stage(loop("back.png", question, when("solved", {"key": {"name": "back"}})), TAP_2)
    message: Any = {given: {"1#1.1": "solved"}}
    if given == "standing" and at.startswith("1#1.1 "):
        at = ""  # an answer that stands is not written down a second time
    try:
        run_stage(steps, on.run(**message))
    except PlugPulledError:
        run_stage(steps, on.run(**message))
    assert ["key back", TAPS[1]] == [what for what in acts(on) if what != "mark"], at


def test_a_question_on_a_way_that_was_not_taken_asks_nobody() -> None:
    on = Bench(Emulator(HOME), point=Plug("2 answered"))
    steps = stage(loop("back.png", ASK), TAP_1, TAP_2)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    on.emulator.state = LIST
    run_stage(steps, on.run())
    assert TAPS[:2] == taps(on)


def test_a_variable_that_was_never_set_is_like_none_of_the_values() -> None:
    on = bench()
    run_stage(
        stage({"optional": {"do": [{"wait": {"image": "ok.png", "within": "1s"}}, ASK]}}, when("solved", TAP_1, TAP_2)),
        on.run(),
    )
    assert [TAPS[1]] == taps(on)


def test_a_flow_that_gives_up_fails_for_good_with_its_own_words() -> None:
    on = bench()
    with pytest.raises(GivenUpError, match="step 2: nobody solved it"):
        run_stage(stage({"start_app": {"app": APP}}, {"fail": {"what": "nobody solved it"}}, TAP_1), on.run())
    assert ["start com.example.herd"] == acts(on)


def test_it_says_when_it_wants_to_run_again() -> None:
    on = bench()
    steps = stage({"reschedule": {"in": "2h", "at_most": 3}}, {"sleep": {"for": "5s"}}, TAP_1)
    before = on.clock.date()
    assert before + timedelta(hours=2) == run_stage(steps, on.run(rounds=2)).again_at


def test_after_so_many_rounds_it_is_done() -> None:
    on = bench()
    assert run_stage(stage({"reschedule": {"in": "2h", "at_most": 3}}), on.run(rounds=3)).again_at is None
    assert "1: reschedule: was done 3 times" in on.notes


def test_a_worker_that_dies_behind_it_does_not_forget_it() -> None:
    on = Bench(Emulator(LIST), point=Plug("2 answered"))
    steps = stage(loop("back.png", {"reschedule": {"in": "2h", "at_most": 1}}, {"key": {"name": "back"}}), TAP_2)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    assert run_stage(steps, on.run()).again_at is not None


def test_the_time_may_be_what_a_person_chose() -> None:
    ask = {"ask": {**ASK["ask"], "choices": ["90", "14:05"]}}
    on = bench()
    outcome = run_stage(stage(ask, {"reschedule": {"from": "answer", "at_most": 1}}), on.run(standing={"1": "90"}))
    assert on.clock.date() + timedelta(minutes=90) == outcome.again_at


def test_a_variable_that_holds_no_time_is_the_fault_of_the_flow() -> None:
    steps = stage(ASK, {"reschedule": {"from": "answer", "at_most": 1}})
    with pytest.raises(FlowError, match="step 2: reschedule: 'solved' is neither minutes, nor a duration"):
        run_stage(steps, bench().run(standing={"1": "solved"}))


NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
DUE = [
    ({"in": "90s"}, "", "2026-03-28T12:01:30"),
    ({"at": "14:05"}, "", "2026-03-28T14:05:00"),
    ({"at": "12:00"}, "", "2026-03-29T12:00:00"),
    ({"at": "11:59"}, "", "2026-03-29T11:59:00"),
    ({"at": "14:05", "zone": "Europe/Berlin"}, "", "2026-03-28T13:05:00"),
    # That night the clocks of Berlin go forward: nine o'clock there comes an hour earlier.
    ({"at": "09:00", "zone": "Europe/Berlin"}, "", "2026-03-29T07:00:00"),
    ({"from": "x"}, "90", "2026-03-28T13:30:00"),
    ({"from": "x"}, " 2h ", "2026-03-28T14:00:00"),
    ({"from": "x", "zone": "Asia/Tokyo"}, "22:00", "2026-03-28T13:00:00"),
]


@pytest.mark.parametrize(("words", "value", "expected"), DUE)
def test_the_time_that_is_meant(words: dict[str, str], value: str, expected: str) -> None:
    assert datetime.fromisoformat(f"{expected}+00:00") == RescheduleStep.model_validate({**words, "at_most": 1}).due(
        value, NOON
    )


@pytest.mark.parametrize("value", ["", "0", "soon", "43201", "721h", "24:00", "-5"])
def test_what_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"neither minutes|more than nothing"):
        RescheduleStep.model_validate({"from": "x", "at_most": 1}).due(value, NOON)


def test_an_hour_that_comes_twice_is_not_behind_us() -> None:
    second_time = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    again = RescheduleStep.model_validate({"at": "02:30", "zone": "Europe/Berlin", "at_most": 1})
    assert datetime(2026, 10, 26, 1, 30, tzinfo=UTC) == again.due("", second_time)


@given(st.times(), st.integers(0, 20 * 366 * 24 * 60), st.sampled_from(["UTC", "Europe/Berlin", "America/Lima"]))
def test_a_time_of_day_is_always_ahead_and_never_much_more_than_a_day(wanted: time, minutes: int, zone: str) -> None:
    now = NOON + timedelta(minutes=minutes)
    ahead = RescheduleStep.model_validate({"at": f"{wanted:%H:%M}", "zone": zone, "at_most": 1}).due("", now) - now
    assert timedelta(0) < ahead <= timedelta(hours=26)
