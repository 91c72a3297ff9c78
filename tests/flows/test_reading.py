"""What is read off the screen: into variables that keep their value, and conditions that go by what is to be seen."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from droidherd.domain.errors import ScreenNotReachedError, UnknownOutcomeError
from droidherd.flows.model.steps.blocks import WhenStep
from droidherd.flows.model.steps.screen import number_in, value_in
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, PlugPulledError, Trouble
from tests.flows.stages import HOME, acts, bench, stage

LIST = HerdState(scene=Scene.LIST, running=True, signed_in="ann")
TAP_1, TAP_2, TAP_3 = ({"tap": {"percent": [n, 1]}} for n in (10, 20, 30))
TAPS = ["tap 128 7", "tap 256 7", "tap 384 7"]
BACK = {"key": {"name": "back"}}


def saying(message: str, scene: Scene = Scene.HOME) -> HerdState:
    return HerdState(scene=scene, running=True, signed_in="ann", message=message)


def read(match: str | None = None, **more: Any) -> dict[str, Any]:
    return {"read": {"text": {}, "into": "found", "within": "1s", **({"match": match} if match else {}), **more}}


def when(do: dict[str, Any], other: dict[str, Any] | None = None, **condition: Any) -> dict[str, Any]:
    words = condition if "sees" in condition else {"var": "found", **condition}
    return {"when": {**words, "do": [do], **({"else": [other]} if other else {})}}


def taps(on: Bench) -> list[str]:
    return [what for what in acts(on) if what.startswith("tap")]


# --- variables -----------------------------------------------------------------------------------------------


VALUES = [
    ("Stamina 50 / 120", None, "Stamina 50 / 120"),
    ("Stamina  50\n/ 120", r"(\d+) / (\d+)", "50"),
    ("full at 14:05", r"\d+:\d+", "14:05"),
    ("full", r"\d+", ""),
    ("a b", r"(x)?b", ""),
    ("", None, ""),
]


@pytest.mark.parametrize(("output", "match", "expected"), VALUES)
def test_of_what_is_read_the_first_group_counts_or_all_that_matches(
    output: str, match: str | None, expected: str
) -> None:
    assert expected == value_in(output, match)


@pytest.mark.parametrize(
    ("text", "number"), [("50", 50), (" -1.5 ", -1.5), ("1,234", 1234), ("12 345 678", 12345678), ("1'000.5", 1000.5)]
)
def test_a_number_is_read_with_its_thousands_grouped_or_not(text: str, number: float) -> None:
    assert number == number_in(text)


@pytest.mark.parametrize("text", ["", "5O", "1,23", "50%", "1e5", "nan", "--1", "1" * 16])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        number_in(text)


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        number_in(text)
    except ValueError as error:
        assert "is not a number" in str(error)  # noqa: PT017 -- either is fine


CONDITIONS = [
    ({"at_least": 50}, True), ({"at_least": 51}, False), ({"below": 50}, False), ({"below": 50.5}, True),
    ({"at_least": 10, "below": 100}, True), ({"is": "50"}, True), ({"is": ["5", "500"]}, False),
    ({"matches": "^5"}, True), ({"matches": "^0"}, False), ({"matches": "^5", "below": 10}, False),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "holds"), CONDITIONS)
def test_a_value_is_compared_with_what_the_flow_says(condition: dict[str, Any], holds: bool) -> None:
    on = bench(saying("Stamina 50/120"))
    run_stage(stage(read(r"(\d+)/\d+"), when(TAP_1, TAP_2, **condition)), on.run())
    assert [TAPS[0] if holds else TAPS[1]] == taps(on)


def test_what_an_element_says_can_be_read() -> None:
    on = bench(HerdState(scene=Scene.SIGN_IN, running=True, account="ann"))
    steps = stage({"read": {"ui": {"id": "account"}, "into": "found"}}, when(TAP_1, TAP_2, **{"is": "ann"}))
    run_stage(steps, on.run())
    assert TAPS[:1] == taps(on)


def test_an_element_that_is_not_there_is_answered_with_those_that_are() -> None:
    output = "the elements of the screen say 'Daily gift', 'Rewards'"
    for step in ({"read": {"ui": {"matches": "^Hello"}, "into": "found"}}, {"tap": {"ui": {"matches": "^Hello"}}}):
        with pytest.raises(ScreenNotReachedError, match=f"within 10s: {output}"):
            run_stage(stage(step), bench().run())


def test_it_waits_until_it_can_be_read() -> None:
    on = bench(saying(""))
    look = on.eyes.look
    messages = ["", "", "50"]

    def changing() -> Any:
        on.emulator.state = saying(messages.pop(0) if messages else "50")
        return look()

    on.eyes.look = changing
    run_stage(stage(read(), when(TAP_1, at_least=50)), on.run())
    assert TAPS[:1] == taps(on)


def test_what_cannot_be_read_in_time_says_what_is_there_instead() -> None:
    with pytest.raises(ScreenNotReachedError, match=r"step 1: found could not be read within 1s: 'Stamina' is there"):
        run_stage(stage(read(r"\d+")), bench(saying("Stamina")).run())


def test_what_is_too_long_for_a_journal_is_refused() -> None:
    with pytest.raises(ScreenNotReachedError, match="longer than 100 characters"):
        run_stage(stage(read()), bench(saying("x" * 101)).run())


def test_in_an_optional_block_what_cannot_be_read_leaves_its_variable_unset() -> None:
    on = bench(saying(""))
    run_stage(stage({"optional": {"do": [read()]}}, when(TAP_1, TAP_2, at_least=0)), on.run())
    assert TAPS[1:2] == taps(on)


def test_a_value_that_is_no_number_is_misread_and_not_the_fault_of_the_flow() -> None:
    with pytest.raises(ScreenNotReachedError, match="'5O' is not a number"):
        run_stage(stage(read(), when(TAP_1, at_least=5)), bench(saying("5O")).run())


AGAIN = {"reschedule": {"from": "found", "at_most": 3}}


@pytest.mark.parametrize(
    ("output", "expected"), [("full at 14:05", "14:05"), ("full at 9:05", "09:05"), ("90", ""), ("01:30:00", "")]
)
def test_a_task_runs_again_at_the_time_that_was_read(output: str, expected: str) -> None:
    on = bench(saying(output))
    at = run_stage(stage(read(r"[\d:]+"), AGAIN), on.run()).again_at
    assert at is not None
    if expected:
        assert expected == f"{at:%H:%M}"
    else:
        assert on.clock.date() + timedelta(minutes=90) == at


def test_a_time_that_was_misread_is_not_the_fault_of_the_flow() -> None:
    with pytest.raises(ScreenNotReachedError, match="neither minutes"):
        run_stage(stage(read(), AGAIN), bench(saying("soon")).run())


REFUSED = [
    ({"var": "a", "do": [TAP_1]}, "says nothing of the variable"),
    ({"do": [TAP_1]}, "exactly one of var and sees"),
    ({"var": "a", "is": "x", "sees": {"image": "a.png"}, "do": [TAP_1]}, "exactly one of var and sees"),
    ({"sees": {"image": "a.png"}, "below": 5, "do": [TAP_1]}, "go with var, not with sees"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED)
def test_a_condition_is_about_a_variable_or_about_the_screen(words: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        WhenStep.model_validate(words)


# --- when the stage runs again -------------------------------------------------------------------------------


class Plug:
    """Is pulled once, at a point of this name; the screen is another one then."""

    def __init__(self, at: str, emulator: Emulator, then: HerdState) -> None:
        self.at, self.emulator, self.then = at, emulator, then

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.at, self.emulator.state = "", self.then
            raise PlugPulledError


def died_at(point: str, before: HerdState, after: HerdState) -> Bench:
    emulator = Emulator(before)
    return Bench(emulator, point=Plug(point, emulator, after))


@pytest.mark.parametrize("point", ["1 answered", "2.1 sent", "2.1 answered", "3 answered"])
def test_what_was_read_stays_though_the_screen_says_something_else_by_now(point: str) -> None:
    on = died_at(point, saying("50"), saying("10"))
    steps = stage(read(), when(TAP_1, TAP_2, at_least=50), TAP_3)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert [TAPS[0], TAPS[2]] == taps(on)


@pytest.mark.parametrize("point", ["look", "1 sent", "1 begun", "1 acted"])
def test_what_was_not_written_down_yet_is_read_again(point: str) -> None:
    on = died_at(point, saying("50"), saying("10"))
    steps = stage(read(), when(TAP_1, TAP_2, at_least=50))
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert TAPS[1:2] == taps(on)


def test_a_lost_answer_does_not_change_what_the_journal_says_was_read() -> None:
    """The screen changes before it is asked a second time; what was written first counts."""
    emulator = Emulator(saying("50"))
    lost: list[str] = []

    def lose(point: str) -> None:
        if point == "1 answered" and not lost:
            lost.append(point)
            emulator.state = saying("10")
            raise UnknownOutcomeError("no answer")

    on = Bench(emulator, point=lose)
    run_stage(stage(read(), when(TAP_1, TAP_2, at_least=50)), on.run())
    assert (["1 answered"], TAPS[:1]) == (lost, taps(on))


def test_each_turn_of_a_loop_reads_for_itself() -> None:
    on = died_at("2 answered", saying("1", Scene.LIST), HOME)
    loop = {"repeat": {"while": {"image": "back.png"}, "at_most": 3, "do": [read(), when(TAP_1, BACK, below=2), BACK]}}
    steps = stage(loop, TAP_3)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert {"main/1#1.1": "1"} == {key: value for key, value in on.emulator.values.items() if value}
    assert [TAPS[0], TAPS[2]] == taps(on)


SEES = {"sees": {"image": "back.png"}}


@pytest.mark.parametrize(("state", "expected"), [(LIST, TAPS[0]), (HOME, TAPS[1])])
def test_a_condition_goes_by_what_is_to_be_seen(state: HerdState, expected: str) -> None:
    on = bench(state)
    run_stage(stage(when(TAP_1, TAP_2, **SEES)), on.run())
    assert [expected] == taps(on)


@pytest.mark.parametrize("point", ["1.1 answered", "2 sent", "2 answered"])
@pytest.mark.parametrize(("before", "after", "expected"), [(LIST, HOME, TAPS[0]), (HOME, LIST, TAPS[1])])
def test_the_way_taken_is_taken_again_though_the_screen_is_another_by_now(
    before: HerdState, after: HerdState, expected: str, point: str
) -> None:
    point = point if before is LIST else point.replace("1.1", "1.0.1")
    on = died_at(point, before, after)
    steps = stage(when(TAP_1, TAP_2, **SEES), TAP_3)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert [expected, TAPS[2]] == taps(on)


def test_where_no_way_was_taken_none_is_taken_later() -> None:
    on = died_at("2 answered", HOME, LIST)
    steps = stage(when(TAP_1, **SEES), TAP_2, TAP_3)
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert TAPS[1:] == taps(on)


def test_a_way_on_which_nothing_was_done_yet_is_chosen_anew() -> None:
    on = died_at("1.1 sent", LIST, HOME)
    steps = stage(when(TAP_1, TAP_2, **SEES))
    with pytest.raises(PlugPulledError):
        run_stage(steps, on.run())
    run_stage(steps, on.run())
    assert TAPS[1:2] == taps(on)


WHOLE = stage(
    read(r"(\d+)/\d+"),
    when({"tap": {"ui": {"id": "gift"}, "then": {"ui": {"id": "ok"}, "within": "5s"}}}, TAP_1, at_least=50),
    when(
        {"tap": {"ui": {"text": "OK"}, "then": {"all": [{"gone": "ok.png"}, {"ui": {"id": "gift"}}], "within": "5s"}}},
        TAP_2,
        sees={"any": [{"image": "ok.png"}, {"ui": {"id": "nothing"}}]},
    ),
    {"wait": {"stable": "1s", "within": "5s"}},
    {"key": {"name": "home"}},
)


@pytest.mark.parametrize("trouble", [PlugPulledError, UnknownOutcomeError])
def test_trouble_at_any_point_collects_once_and_takes_the_same_way(trouble: type[BaseException]) -> None:
    count = Trouble(10**9, AssertionError)
    run_stage(WHOLE, Bench(Emulator(saying("Stamina 50/120")), point=count).run())
    for nth in range(1, count.passed + 1):
        emulator, strike = Emulator(saying("Stamina 50/120")), Trouble(nth, trouble)
        for _ in range(3):
            try:
                run_stage(WHOLE, Bench(emulator, point=strike).run())
            except PlugPulledError:
                continue
            break
        assert 1 == emulator.state.claims, strike.struck
        assert "50" == emulator.values["main/1"], strike.struck
        done = [what for _, what in emulator.done if what.startswith("tap")]
        assert not {TAPS[0], TAPS[1]} & {*done}, strike.struck
