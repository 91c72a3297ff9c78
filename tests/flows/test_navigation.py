"""Screens, routes, interrupts and the way out, on an emulator in memory."""

from dataclasses import replace
from typing import Any

import pytest

from droidherd.contracts.plan import Effect, Stage
from droidherd.contracts.screen_map import ScreenMap
from droidherd.domain.errors import (
    ClickLoopError,
    CommandFailedError,
    FlowError,
    GivenUpError,
    NeedsPersonError,
    ScreenNotReachedError,
    UnknownOutcomeError,
)
from droidherd.flows.run.interpreter import run_cleanup, run_stage
from droidherd.flows.run.navigator import highest_numbers
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, FakeClock
from tests.flows.stages import APP, GIFT, HOME, acts, bench, stage

SCREENS: dict[str, Any] = {
    "launcher": {"image": "app_icon.png"},
    "home": {"image": "rewards.png"},
    "rewards": {"image": "back.png"},
    "gift": {"image": "ok.png"},
}
TO_HOME = {"from": "launcher", "to": "home", "do": [{"start_app": {"app": APP}}]}
TO_REWARDS = {"from": "home", "to": "rewards", "do": [{"tap": {"image": "rewards.png"}}]}
BACK_HOME = {"from": "rewards", "to": "home", "do": [{"tap": {"image": "back.png"}}]}
ROUTES = (TO_HOME, TO_REWARDS, BACK_HOME)
CLOSE = {"when": {"image": "close.png"}, "do": [{"tap": {"image": "close.png", "within": "1s"}}]}
GOTO: dict[str, Any] = {"goto": "rewards"}
START, OPEN, LEAVE, SHUT = f"start {APP}", "tap 650 320", "tap 90 50", "tap 964 164"
LAUNCHER = HerdState(signed_in="ann")
LIST = replace(HOME, scene=Scene.LIST)
DIALOG = replace(HOME, scene=Scene.DIALOG)


def screen_map(routes: tuple[Any, ...] = ROUTES, interrupts: tuple[Any, ...] = (), **more: Any) -> ScreenMap:
    return ScreenMap(screens=SCREENS, routes=routes, interrupts=interrupts, **more)


def begins_at(screen: str, *steps: dict[str, Any], effect: Effect = Effect.EMULATOR) -> Stage:
    return Stage(name="main", steps=steps, at=screen, effect=effect)


def names(on: Bench) -> list[str]:
    return [key.partition("/")[2] for key, _ in on.emulator.done]


# --- getting there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [(LAUNCHER, [START, OPEN]), (HOME, [OPEN]), (LIST, []), (replace(HOME, popup=True), [SHUT, OPEN])],
)
def test_a_screen_is_reached_from_wherever_the_app_is(state: HerdState, expected: list[str]) -> None:
    on = bench(state)
    run_stage(stage(GOTO), on.run(screen_map=screen_map(interrupts=(CLOSE,))))
    assert expected == acts(on)
    assert Scene.LIST is on.emulator.state.scene


def test_acts_on_the_way_have_names_of_their_own_and_leave_the_steps_theirs() -> None:
    on = bench(LAUNCHER)
    run_stage(begins_at("home", GOTO, {"key": {"name": "menu"}}), on.run(screen_map=screen_map()))
    assert ["n#1.1", "n#2.1", "2"] == names(on)


def test_the_cheapest_way_is_taken() -> None:
    dear = {**TO_REWARDS, "cost": 3, "do": [{"key": {"name": "menu"}}, *TO_REWARDS["do"]]}
    on = bench()
    run_stage(stage(GOTO), on.run(screen_map=screen_map((dear, TO_REWARDS))))
    assert [OPEN] == acts(on)


def test_a_route_that_fails_twice_is_left_out_and_another_one_is_taken() -> None:
    dead = {**TO_REWARDS, "cost": 0.5, "within": "1s", "do": [{"tap": {"percent": [1, 1]}}]}
    missing = {**TO_REWARDS, "cost": 0.6, "do": [{"tap": {"image": "ok.png", "within": "1s"}}]}
    on = bench()
    run_stage(stage(GOTO), on.run(screen_map=screen_map((dead, missing, TO_REWARDS))))
    assert ["tap 13 7", "tap 13 7", OPEN] == acts(on)
    assert ["n#1.1", "n#2.1", "n#5.1"] == names(on)


def test_a_route_that_ends_on_a_third_screen_goes_on_from_there() -> None:
    wrong = {**TO_HOME, "within": "60s"}
    on = bench(replace(LAUNCHER, running=True, behind=Scene.LIST))
    run_stage(stage({"goto": "home"}), on.run(screen_map=screen_map((wrong, BACK_HOME))))
    assert [START, LEAVE] == acts(on)
    assert on.clock.now() < 1002.0


def test_an_unknown_screen_is_waited_out_before_anything_is_done() -> None:
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True))

    class Later(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now() > 1005:
                on.emulator.state = LIST

    on.clock = Later()
    run_stage(stage(GOTO), on.run(screen_map=screen_map(lost={"do": [{"stop_app": {"app": APP}}], "after": "8s"})))
    assert [] == acts(on)


def test_who_is_lost_takes_the_way_out_and_then_the_routes() -> None:
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True, signed_in="ann"))
    lost = {"do": [{"stop_app": {"app": APP}}], "after": "2s"}
    run_stage(stage(GOTO), on.run(screen_map=screen_map(lost=lost)))
    assert [f"stop {APP}", START, OPEN] == acts(on)


def test_a_known_screen_from_which_no_route_leads_on_is_left_at_once() -> None:
    on = bench(DIALOG)
    run_stage(stage(GOTO), on.run(screen_map=screen_map(lost={"do": [{"key": {"name": "back"}}], "after": "60s"})))
    assert ["key back", OPEN] == acts(on)
    assert on.clock.now() < 1001.0


def test_a_route_from_anywhere_leads_out_of_an_unknown_screen() -> None:
    home = {"from": "any", "to": "launcher", "do": [{"key": {"name": "home"}}]}
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True, behind=Scene.HOME))
    with pytest.raises(ScreenNotReachedError):
        run_stage(stage(GOTO), on.run(screen_map=screen_map((home, *ROUTES))))
    assert ["key home", START] == acts(on)[:2]


def test_a_screen_out_of_reach_is_named_with_what_was_tried_and_seen() -> None:
    dead = {**TO_REWARDS, "within": "1s", "do": [{"tap": {"percent": [1, 1]}}]}
    on = bench()
    lost = {"do": [{"key": {"name": "menu"}}], "at_most": 1}
    with pytest.raises(ScreenNotReachedError) as caught:
        run_stage(stage(GOTO), on.run(screen_map=screen_map((dead,), lost=lost)))
    expected = (
        "step 1: screen rewards was not reached from home: home → rewards: rewards did not appear within 1s; "
        "home → rewards: rewards did not appear within 1s, the way out was taken 1 times; best matches: home 1.00, "
    )
    assert str(caught.value).startswith(expected)
    assert ["main.failed.png"] == list(on.kept)
    assert 4 == acts(on).count("tap 13 7")


def test_without_a_route_and_a_way_out_nothing_is_done_and_the_error_says_so() -> None:
    on = bench(DIALOG)
    with pytest.raises(ScreenNotReachedError, match="from gift: no route leads there from gift; best matches: gift 1"):
        run_stage(stage(GOTO), on.run(screen_map=screen_map()))
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True))
    with pytest.raises(ScreenNotReachedError, match="from an unknown screen: no screen was recognised"):
        run_stage(stage(GOTO), on.run(screen_map=screen_map()))
    assert [] == acts(on)


def test_a_screen_stands_wherever_an_image_could() -> None:
    on = bench()
    tap = {"tap": {"image": "rewards.png", "then": {"screen": "rewards", "within": "2s"}}}
    leave = {"repeat": {"while": {"screen": "rewards"}, "at_most": 3, "do": [{"key": {"name": "back"}}]}}
    run_stage(stage(tap, leave, {"wait": {"screen": "home", "within": "1s"}}), on.run(screen_map=screen_map()))
    assert [OPEN, "key back"] == acts(on)
    with pytest.raises(ScreenNotReachedError, match=r"screen gift did not appear within 1s: best match 0\.40"):
        run_stage(stage({"wait": {"screen": "gift", "within": "1s"}}), bench().run(screen_map=screen_map()))


def test_a_screen_that_the_flow_does_not_know_is_its_fault() -> None:
    for step in ({"goto": "shop"}, {"wait": {"screen": "shop", "within": "1s"}}):
        with pytest.raises(FlowError, match="there is no screen shop"):
            run_stage(stage(step), bench().run(screen_map=screen_map()))


def test_a_screen_map_that_makes_no_sense_is_the_flows_fault() -> None:
    with pytest.raises(FlowError, match=r"the flow's screens: routes\.0"):
        bench().run(screen_map=screen_map(({"from": "home"},)))


def test_it_stops_on_the_way_when_it_is_asked_to() -> None:
    on = bench(LAUNCHER)
    on.life.reason = "pause"
    assert "pause" == run_stage(stage(GOTO), on.run(screen_map=screen_map())).stopped
    assert [] == acts(on)


# --- what comes between ---------------------------------------------------------------------------------------


def test_an_interrupt_is_dismissed_before_a_post_condition_is_judged() -> None:
    """Everything is gone under a popup."""
    on = bench()
    on.emulator.state = HOME

    def popup(point: str) -> None:
        if point == "1 acted":
            on.emulator.state = replace(HOME, popup=True)

    on = Bench(on.emulator, point=popup)
    step = {"tap": {"percent": [1, 1], "then": {"gone": "gift.png", "within": "1s"}}}
    with pytest.raises(ScreenNotReachedError, match="did not go away"):
        run_stage(stage(step), on.run(screen_map=screen_map(interrupts=(CLOSE,))))
    assert ["tap 13 7", SHUT] == acts(on)
    assert ["1", "i1#1.1"] == names(on)


def test_an_interrupt_that_comes_too_often_is_a_click_loop() -> None:
    on = bench(replace(HOME, popup=True))
    on.finder.place = (5, 5)
    stubborn = {**CLOSE, "at_most": 3}
    with pytest.raises(ClickLoopError, match="step 1: interrupt 1 came 3 times and is there again"):
        run_stage(stage(GIFT), on.run(screen_map=screen_map(interrupts=(stubborn,))))
    assert 3 == len(acts(on))


def test_the_time_an_interrupt_takes_is_not_that_of_the_wait() -> None:
    on = bench(replace(HOME, popup=True))
    slow = {**CLOSE, "do": [{"sleep": {"for": "30s"}}, *CLOSE["do"]]}
    run_stage(stage({"wait": {"image": "gift.png", "within": "1s"}}), on.run(screen_map=screen_map(interrupts=(slow,))))
    assert on.clock.now() >= 1030.0


def test_an_interrupt_may_meet_another_one_but_not_itself() -> None:
    on = bench(replace(HOME, popup=True))
    outer = {"when": {"image": "sign_out.png"}, "do": [{"wait": {"image": "ok.png", "within": "1s"}}], "at_most": 1}
    with pytest.raises(ClickLoopError, match="interrupt 1 came 1 times"):
        run_stage(stage(GOTO), on.run(screen_map=screen_map(interrupts=(outer, CLOSE))))
    assert [SHUT] == acts(on)


def test_a_frame_is_kept_of_what_is_under_the_popup() -> None:
    on = bench(replace(HOME, popup=True))
    run_stage(stage({"screenshot": {"name": "seen"}}), on.run(screen_map=screen_map(interrupts=(CLOSE,))))
    assert repr(HOME) in bytes(on.kept["main.seen.png"].rgba).decode().replace("taps=1", "taps=0")


def test_cleanup_meets_interrupts_too_and_gets_about() -> None:
    on = bench(replace(HOME, popup=True))
    assert run_cleanup((GOTO,), on.run(screen_map=screen_map(interrupts=(CLOSE,))), 30.0).clean
    assert [SHUT, OPEN] == acts(on)


ASK = {"ask": {"what": "solve it", "choices": ["solved", "give up"], "within": "5m", "into": "reply"}}
CAPTCHA = {
    "when": {"image": "captcha.png"},
    "do": [ASK, {"when": {"var": "reply", "is": "give up", "do": [{"fail": {"what": "nobody solved it"}}]}}],
}


def test_an_interrupt_may_ask_a_person_and_each_time_anew() -> None:
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True, suspicious=True))
    steps, known = (
        stage({"key": {"name": "menu"}}, {"wait": {"screen": "home", "within": "5s"}}),
        screen_map(interrupts=(CAPTCHA,)),
    )
    with pytest.raises(NeedsPersonError) as first:
        run_stage(steps, on.run(screen_map=known))
    words = {first.value.asks.step: "solved"}
    with pytest.raises(NeedsPersonError) as second:  # it was not, and is asked again
        run_stage(steps, on.run(screen_map=known, standing=words))
    assert ["i1#1.1", "i1#2.1"] == [first.value.asks.step, second.value.asks.step]
    on.emulator.state = HOME
    run_stage(steps, on.run(screen_map=known, standing={**words, "i1#2.1": "solved"}))
    assert 1 == acts(on).count("key menu")


def test_a_person_who_gives_up_in_an_interrupt_ends_the_task() -> None:
    on = bench(HerdState(scene=Scene.CAPTCHA, running=True))
    steps, known = stage({"wait": {"screen": "home", "within": "5s"}}), screen_map(interrupts=(CAPTCHA,))
    with pytest.raises(GivenUpError, match="nobody solved it"):
        run_stage(steps, on.run(screen_map=known, standing={"i1#1.1": "give up"}))


# --- once more, after a death ----------------------------------------------------------------------------------


def test_numbers_of_passages_go_on_behind_those_of_earlier_tries() -> None:
    assert {"n": 12, "i2": 3} == dict(
        highest_numbers(["n#2.1", "n#12.4", "i2#3.1", "3", "3#2.1", "at#4", "c1.2", "in#5.1"])
    )
    on = Bench(Emulator(LAUNCHER, journal={"main/n#4.1": "begin"}))
    run_stage(stage(GOTO), on.run(screen_map=screen_map()))
    assert ["n#5.1", "n#6.1"] == names(on)


def test_an_act_of_navigation_that_failed_fails_the_stage() -> None:
    on = bench()
    on.hands.failing.add("n#1.1")
    with pytest.raises(CommandFailedError):
        run_stage(stage(GOTO), on.run(screen_map=screen_map()))


@pytest.mark.parametrize("point", ["n#1.1 begun", "n#1.1 acted", "n#1.1 answered"])
def test_nobody_is_asked_whether_an_act_on_the_way_happened(point: str) -> None:
    blind = {**TO_REWARDS, "within": "2s", "do": [{"tap": {"percent": [51, 44]}}]}
    lost = [point]

    def lose(passed: str) -> None:
        if passed in lost:
            lost.clear()
            raise UnknownOutcomeError("cut")

    on = Bench(Emulator(HOME), point=lose)
    run_stage(stage(GOTO), on.run(screen_map=screen_map((blind,))))
    assert Scene.LIST is on.emulator.state.scene
    assert (2 if point.endswith("begun") else 1) == len(on.emulator.journal)


def test_a_stage_that_only_lost_its_worker_goes_on_where_it_was() -> None:
    on = Bench(Emulator(LIST, journal={"main/1": "done"}))
    steps = begins_at("home", {"tap": {"image": "rewards.png"}}, {"tap": {"image": "back.png"}})
    run_stage(steps, on.run(screen_map=screen_map()))
    assert [LEAVE] == acts(on)


def test_a_goto_and_a_wait_that_were_passed_are_not_looked_at_again() -> None:
    on = Bench(Emulator(HOME, journal={"main/3": "done"}))
    run_stage(
        stage(GOTO, {"wait": {"screen": "gift", "within": "1s"}}, {"key": {"name": "menu"}}),
        on.run(screen_map=screen_map()),
    )
    assert [] == acts(on)


TO_LIST = {"tap": {"image": "rewards.png", "then": {"screen": "rewards", "within": "2s"}}}
CLAIM = {"tap": {"image": "claim.png"}}
ACCOUNT: dict[str, Any] = {"effect": Effect.ACCOUNT}


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        ({}, [START, OPEN, "tap 1125 147"]),
        ({"main/1": "done"}, [START, OPEN, "tap 1125 147"]),
        ({"main/1": "done", "main/2": "done"}, [START, OPEN]),
    ],
)
def test_account_work_that_comes_back_goes_to_the_screen_it_stood_on(
    journal: dict[str, str], expected: list[str]
) -> None:
    """The cleanup closed the app: what was done is not done again, and what is left is done where it belongs."""
    on = Bench(Emulator(LAUNCHER, journal=dict(journal)))
    steps = begins_at("home", TO_LIST, CLAIM, {"wait": {"screen": "rewards", "within": "1s"}}, **ACCOUNT)
    run_stage(steps, on.run(screen_map=screen_map(), lease=7))
    assert expected == [what for what in acts(on) if what != "mark"]
    assert "done" == on.emulator.journal["main/at#7"]


def test_account_work_under_the_same_lease_goes_on_where_it_was() -> None:
    on = Bench(Emulator(HOME, journal={"main/at#7": "done", "main/1": "done"}))
    run_stage(
        begins_at("rewards", {"key": {"name": "back"}}, {"key": {"name": "menu"}}, **ACCOUNT),
        on.run(screen_map=screen_map(), lease=7),
    )
    assert ["key menu"] == acts(on)


def test_a_doubtful_act_is_observed_on_the_screen_it_was_made_on() -> None:
    """After a pause the app is closed: nothing could be seen of the tap on the launcher."""
    on = Bench(Emulator(replace(LAUNCHER, gift_taken=False), journal={"main/1": "begin"}))
    run_stage(begins_at("home", GIFT, **ACCOUNT), on.run(screen_map=screen_map(), lease=8))
    assert [START, "mark", "tap 330 320"] == acts(on)
