"""What a flow looks for: each kind alone, all and any and none of them, and where a tap on it goes."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from droidherd.contracts.screen_map import ScreenMap
from droidherd.domain.errors import RestlessError, ScreenNotReachedError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.model import targets
from droidherd.flows.model.geometry import beside
from droidherd.flows.model.steps.screen import WaitStep
from droidherd.flows.model.steps.touch import TapStep
from droidherd.flows.model.targets import ConditionCheck, ScreenCondition, Target, describe
from droidherd.flows.run.interpreter import run_stage
from droidherd.flows.run.judging import Judgement, judge_target
from droidherd.flows.run.look import Look
from droidherd.virtual.app import HerdState, Scene
from tests.flows.stages import HOME, acts, bench, stage

RESTLESS = RestlessError("the screen does not come to rest")
GIFT_CENTRE = "tap 330 320"


def within(condition: dict[str, Any], seconds: str = "1s") -> dict[str, Any]:
    return {**condition, "within": seconds}


SCREENS = {"home": ScreenCondition.model_validate({"all": [{"image": "a.png"}, {"gone": "b.png"}]})}


# --- what holds ----------------------------------------------------------------------------------------------


def judge(words: dict[str, Any], there: str) -> Judgement:
    """With the images whose letters are `there`."""

    def find(target: Target) -> Match:
        found = (target.image or "").removesuffix(".png") in there
        return Match(found=found, box=Box(ord((target.image or "-")[0]), 0, 1, 1), score=float(found), runner_up=0.0)

    return judge_target(ScreenCondition.model_validate(words), find, SCREENS.__getitem__)


A, B, C = ({"image": f"{char}.png"} for char in "abc")
NO_A = {"gone": "a.png"}
HOLDS = [
    (A, "a", True), (A, "b", False), (NO_A, "a", False), (NO_A, "b", True), ({"gone": A}, "", True),
    ({"all": [A, B]}, "ab", True), ({"all": [A, B]}, "a", False), ({"all": [A, {"gone": "b.png"}]}, "a", True),
    ({"any": [A, B]}, "b", True), ({"any": [A, B]}, "c", False), ({"any": [A, {"all": [B, C]}]}, "bc", True),
    ({"none": [A, B]}, "c", True), ({"none": [A, B]}, "b", False), ({"none": [{"all": [A, B]}]}, "b", True),
    ({"screen": "home"}, "a", True), ({"screen": "home"}, "ab", False), ({"any": [B, {"screen": "home"}]}, "ac", True),
    ({"none": [{"screen": "home"}]}, "b", True),
]  # fmt: skip


@pytest.mark.parametrize(("words", "there", "holds"), HOLDS)
def test_what_holds(words: dict[str, Any], there: str, holds: bool) -> None:
    assert holds is judge(words, there).holds


def test_the_place_is_that_of_the_first_thing_that_has_one() -> None:
    assert ord("b") == judge({"all": [{"gone": "a.png"}, B, C]}, "bc").match.box.x
    assert ord("c") == judge({"any": [B, C]}, "c").match.box.x


def test_no_more_is_searched_than_it_takes() -> None:
    searched: list[str] = []

    def find(target: Target) -> Match:
        searched.append(describe(target))
        return Match(found=False, box=Box(0, 0, 1, 1), score=0.0, runner_up=0.0)

    judge_target(ScreenCondition.model_validate({"all": [A, B]}), find, SCREENS.__getitem__)
    assert ["a.png"] == searched


def test_many_targets_are_named_whole_or_not_at_all() -> None:
    many = [{"text": char * 140} for char in "abcd"]
    assert f"any of text {'a' * 140!r}, text {'b' * 140!r} and 2 more" == describe(
        ConditionCheck.model_validate({"any": many})
    )
    one = [{"ui": {"text": "a" * 200, "description": "b" * 200}}]
    assert describe(ConditionCheck.model_validate({"all": one})).endswith("b" * 200 + "'")


REFUSED = [
    (ConditionCheck, {"image": "a.png", "text": "x"}, "exactly one of"),
    (ConditionCheck, {}, "exactly one of"),
    (ConditionCheck, {"text": "x", "threshold": 0.9}, "threshold goes with a picture, not with text"),
    (ConditionCheck, {"all": [A], "area": [0, 0, 1, 1]}, "area does not go with all"),
    (ConditionCheck, {"colour": {"is": "#ffffff", "at": [1, 1]}, "area": [0, 0, 1, 1]}, "area does not go with colour"),
    (ConditionCheck, {"colour": {"is": "#ffffff", "at": [1, 1], "share": 5}}, "a place has one colour"),
    (ConditionCheck, {"colour": "red"}, "should match pattern"),
    (ConditionCheck, {"ui": {"index": 1}}, "says nothing of the element"),
    (ConditionCheck, {"text": {"matches": "("}}, "is not a regular expression"),
    (
        ConditionCheck,
        {"image": "a.png", "area": [0, 0, 10, 10], "expect": [50, 50, 60, 60]},
        "expect lies outside of area",
    ),
    (ConditionCheck, {"screen": "home", "threshold": 0.8}, "threshold belongs to the screen itself"),
    (ConditionCheck, {"any": [A] * 21}, "at most 20"),
    (ConditionCheck, {"any": [{"any": [{"any": [{"any": [A]}]}]}]}, "levels of them"),
    (ConditionCheck, {"any": [{"any": [A] * 20}] * 3}, "more than 50 targets"),
    (TapStep, {"any": [NO_A]}, "nothing to tap"),
    (TapStep, {"gone": "a.png"}, "Extra inputs"),
    (TapStep, {"percent": [1, 1], "offset": [1, 1]}, "offset goes with something to look for"),
    (WaitStep, {"stable": "5s", "within": "5s"}, "stable has to be shorter than within"),
    (WaitStep, {"image": "a.png", "moves": 1, "within": "5s"}, "moves goes with stable"),
]


@pytest.mark.parametrize(("kind", "words", "why"), REFUSED)
def test_what_makes_no_sense_is_refused(kind: type[Target], words: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        kind.model_validate(words)


# --- on a screen ---------------------------------------------------------------------------------------------


TAPS = [
    {"ui": {"text": "Daily gift"}},
    {"ui": {"id": "gift", "class": "Button"}},
    {"any": [{"image": "ok.png"}, {"ui": {"id": "gift"}}]},
    {"all": [{"gone": "ok.png"}, {"image": "gift.png"}]},
]


@pytest.mark.parametrize("target", TAPS)
def test_a_tap_goes_to_what_is_found(target: dict[str, Any]) -> None:
    on = bench()
    run_stage(stage({"tap": target}), on.run())
    assert ([GIFT_CENTRE], Scene.DIALOG) == (acts(on), on.emulator.state.scene)


def test_a_tap_goes_beside_what_is_found_in_percent_of_its_size() -> None:
    on = bench()
    run_stage(stage({"tap": {"ui": {"id": "gift"}, "offset": [100, -50]}}), on.run())
    assert ["tap 590 190"] == acts(on)


def test_no_tap_goes_off_the_screen() -> None:
    assert (0, 0) == beside(Box(0, 0, 10, 10), (-50, -50), (100, 100))
    with pytest.raises(ScreenNotReachedError, match="is not on the screen"):
        beside(Box(0, 0, 10, 10), (-60, 0), (100, 100))


def test_a_finger_may_be_kept_down() -> None:
    on = bench()
    run_stage(stage({"tap": {"image": "gift.png", "hold": "800ms"}}), on.run())
    assert ["swipe (330, 320) (330, 320) 0.8"] == acts(on)


def test_one_look_serves_every_check_and_asks_for_its_elements_once_at_most() -> None:
    on = bench()
    both = {"all": [{"image": "gift.png"}, {"ui": {"id": "gift"}}, {"ui": {"id": "list"}}, {"gone": "ok.png"}]}
    run_stage(stage({"wait": within(both)}, {"wait": within({"image": "gift.png"})}), on.run())
    assert (2, 1) == (on.eyes.looks, on.eyes.trees)


def test_elements_that_cannot_be_read_are_neither_there_nor_gone() -> None:
    on = bench()
    on.eyes.restless = [RESTLESS, RESTLESS]
    run_stage(stage({"wait": within({"gone": {"ui": {"id": "ok"}}}, "5s")}), on.run())
    assert 3 == on.eyes.trees


def test_a_screen_that_never_rests_says_so_and_not_that_something_is_missing() -> None:
    on = bench()
    on.eyes.restless = [RESTLESS] * 50
    with pytest.raises(RestlessError, match="does not come to rest"):
        run_stage(stage({"wait": within({"ui": {"id": "gift"}})}), on.run())


MISSED = [
    ({"image": "ok.png"}, r"ok\.png did not appear within 1s: best match 0\.40 of 0\.90 at"),
    ({"gone": {"ui": {"id": "gift"}}}, r"ui id='gift' did not go away within 1s: 'Daily gift' is at 200,190"),
    ({"ui": {"text": "Daily gifts"}}, r"ui text='Daily gifts' did not appear within 1s: 'Daily gift' is at"),
    ({"none": [{"image": "ok.png"}, {"image": "gift.png"}]}, r"gift\.png did not go away"),
    ({"all": [{"image": "gift.png"}, {"image": "ok.png"}]}, r"ok\.png did not appear"),
    (
        {"any": [{"image": "ok.png"}, {"ui": {"text": "Daily gifts"}}]},
        r"none of 2 appeared within 1s: ok\.png: best match 0\.40 .*: 'Daily gift' is at .* \(score 0\.",
    ),
    (
        {"any": [{"image": "ok.png"}, {"gone": "gift.png"}]},
        r"none of 2 came true within 1s: ok\.png: .*; no gift\.png: best match 1\.00 of 0\.90",
    ),
    (
        {"any": [{"text": f"w{n}" + "x" * 80} for n in range(8)]},
        r"none of 8 appeared within 1s: text 'w0x+': .*; text 'w5x+': .*; and 2 more",
    ),
]


@pytest.mark.parametrize(("condition", "why"), MISSED)
def test_a_wait_in_vain_says_what_was_there_instead(condition: dict[str, Any], why: str) -> None:
    with pytest.raises(ScreenNotReachedError, match=why):
        run_stage(stage({"wait": within(condition)}), bench().run())


def test_every_look_and_everything_searched_on_it_is_reported() -> None:
    on = bench()
    given: list[tuple[str, str, bool | None]] = []

    def seen(path: str, what: str, frame: Frame, match: Match | None) -> None:
        given.append((path, what, match.found if match else None))

    run = on.run()
    object.__setattr__(run, "seen", seen)
    run_stage(stage({"wait": within({"all": [{"image": "gift.png"}, {"gone": "ok.png"}]})}), run)
    assert [("1", "", None), ("1", "gift.png", True), ("1", "ok.png", False)] == given


# --- screens -------------------------------------------------------------------------------------------------


SCREEN_MAP = ScreenMap(
    screens={
        "home": {"all": [{"ui": {"id": "gift"}}, {"gone": "ok.png"}]},
        "rewards": {"any": [{"image": "ok.png"}, {"ui": {"id": "back"}}]},
    },
    routes=({"from": "home", "to": "rewards", "do": [{"tap": {"ui": {"id": "list"}}}]},),
    interrupts=({"when": {"ui": {"id": "close"}}, "do": [{"tap": {"ui": {"id": "close"}}}]},),
)
POPUP = HerdState(scene=Scene.HOME, running=True, signed_in="ann", popup=True)


def test_screens_and_interrupts_are_recognised_by_any_target() -> None:
    on = bench(POPUP)
    run_stage(stage({"goto": "rewards"}, {"wait": within({"screen": "rewards"})}), on.run(screen_map=SCREEN_MAP))
    assert (["tap 964 164", "tap 650 320"], Scene.LIST) == (acts(on), on.emulator.state.scene)


def test_without_elements_nobody_knows_the_screen_until_they_can_be_read() -> None:
    on = bench(POPUP)
    on.eyes.restless = [RESTLESS] * 4
    run_stage(stage({"goto": "rewards"}), on.run(screen_map=SCREEN_MAP))
    assert Scene.LIST is on.emulator.state.scene


REWARDS_MISSED = r"screen rewards did not appear within 1s: ok\.png: best match 0\.40 of 0\.90 at .*; ui id='back': "


def test_a_screen_that_did_not_appear_is_named_with_what_was_missing_on_it() -> None:
    with pytest.raises(ScreenNotReachedError, match=REWARDS_MISSED):
        run_stage(stage({"wait": within({"screen": "rewards"})}), bench().run(screen_map=SCREEN_MAP))


# --- standing still ------------------------------------------------------------------------------------------


def test_it_waits_until_nothing_moves_for_so_long() -> None:
    on = bench()
    moving = [HerdState(scene=Scene.LIST, running=True, scroll=n) for n in range(4)]
    look = on.eyes.look

    def scrolling() -> Frame:
        on.emulator.state = moving.pop() if moving else on.emulator.state
        return look()

    on.eyes.look = scrolling
    began = on.clock.now()
    run_stage(stage({"wait": {"stable": "1s", "within": "10s"}}), on.run())
    assert not moving
    assert 1.75 <= on.clock.now() - began <= 2.5


def test_a_screen_that_keeps_moving_is_waited_for_no_longer_than_it_says() -> None:
    on, states = bench(), iter(range(10_000))
    look = on.eyes.look

    def scrolling() -> Frame:
        on.emulator.state = HerdState(scene=Scene.LIST, running=True, scroll=next(states))
        return look()

    on.eyes.look = scrolling
    with pytest.raises(ScreenNotReachedError, match=r"did not stand still for 1s within 5s: 100\.0% moved at last"):
        run_stage(stage({"wait": {"stable": "1s", "within": "5s"}}), on.run())


def test_who_can_tell_that_an_act_did_not_happen_needs_no_image_for_it() -> None:
    """The target is still there by another kind of look: so it was not tapped."""
    on = bench(HOME)
    look = Look(on.eyes.look(), on.eyes.tree)
    assert on.finder.find(look, Target.model_validate({"ui": {"id": "gift"}})).found


# --- what can be read, and where -----------------------------------------------------------------------------


FLOW = """
flow: demo
stages:
  - stage: one
    steps:
      - key: {name: home}
      - STEP
"""


def problems(folder: Path, step: str) -> list[str]:
    (folder / "demo").mkdir()
    (folder / "demo" / "flow.yaml").write_text(FLOW.replace("STEP", step).lstrip(), encoding="utf-8")
    return [str(problem).partition("demo/")[2] for problem in inspect(folder / "demo")[1]]


READS = [
    "tap: {text: Claim}",
    "wait: {any: [{colour: '#ffffff'}, {gone: {text: {matches: 'a+'}}}], within: 5s}",
    "repeat: {at_most: 2, while: {text: Claim}, do: [{key: {name: back}}]}",
    "read: {text: {area: [0, 0, 50, 50]}, into: value}",
]


@pytest.mark.parametrize("step", READS)
def test_without_extra_a_flow_that_reads_words_is_warned_with_the_remedy(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "OCR_MODULES", ("rapidocr", "no_such_module"))
    found = problems(tmp_path, step)
    assert any(
        "flow.yaml:6: warning: words are searched among the elements of the screen: nothing is installed here that "
        "reads pictures (for words in pictures: pip install 'droidherd[ocr]', here and where the workers run)"
        == problem
        for problem in found
    ), found


@pytest.mark.parametrize("step", ["tap: {ui: {text: Claim}}", "type: {text: Claim}", "tap: {colour: '#ffffff'}"])
def test_what_reads_no_words_does_not_need_it(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "OCR_MODULES", ("no_such_module",))
    assert [] == problems(tmp_path, step)


LINTED = [
    ("wait: {any: [{image: no.png}], within: 5s}", "flow.yaml:6: error: no.png: no such image"),
    ("wait: {gone: {feature: no.png}, within: 5s}", "flow.yaml:6: error: no.png: no such image"),
    ("wait: {ui: {txt: a}, within: 5s}", "flow.yaml:6: error: unknown key 'txt' (did you mean text?)"),
    ("wait: {any: [{imgae: a.png}], within: 5s}", "flow.yaml:6: error: unknown key 'imgae' (did you mean image?)"),
    ("wait: {colour: red, within: 5s}", "flow.yaml:6: error: colour: 'red' is not a colour"),
    ("tap: {colour: {is: '#fff'}}", "flow.yaml:6: error: is: '#fff' is not a colour"),
    ("type: {text: {sceret: a}}", "flow.yaml:6: error: unknown key 'sceret' (did you mean secret?)"),
    ("wait: {text: {match: a}, within: 5s}", "flow.yaml:6: error: unknown key 'match' (did you mean matches?)"),
]


@pytest.mark.parametrize(("step", "expected"), LINTED)
def test_a_faulty_target_is_named_with_line_and_fix(tmp_path: Path, step: str, expected: str) -> None:
    found = problems(tmp_path, step)
    assert any(problem.startswith(expected) for problem in found), found
