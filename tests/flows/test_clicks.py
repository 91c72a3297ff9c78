import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import ClickLoopError, StuckError
from droidherd.domain.ports import Frame
from droidherd.flows.run import clicks
from droidherd.flows.run.clicks import ClickGuard, MadeTap, look_of
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render
from tests.flows.fakes import FakeClock
from tests.flows.stages import acts, bench, stage
from tests.flows.test_navigation import screen_map

STILL, OTHER = bytes(100), bytes([200] * 100)


def tap(target: str, screen: bytes = STILL, place: tuple[float, float] = (0.5, 0.5)) -> MadeTap:
    return MadeTap(target, place, screen)


def judged(taps: list[MadeTap], guard: ClickGuard | None = None) -> list[int]:
    """The numbers of the taps that were too many."""
    guard = guard or ClickGuard(12, 15, 1.0)
    return [number for number, one in enumerate(taps, start=1) if guard.judge(one)]


def test_the_twelfth_tap_on_a_screen_that_stays_is_one_too_many() -> None:
    assert [12] == judged([tap("a")] * 12)


def test_so_it_is_with_others_in_between() -> None:
    assert [15] == judged([tap("b", OTHER, (n / 20, 0)) if n in (2, 6, 9) else tap("a") for n in range(15)])
    assert [] == judged([tap("b", OTHER, (n / 20, 0)) if n % 3 == 2 else tap("a") for n in range(20)])


def test_a_screen_that_goes_on_is_none_of_its_business() -> None:
    assert [] == judged([tap("a", bytes([n * 30]) * 100) for n in range(8)] * 5)


def test_the_same_button_in_another_row_is_another_target() -> None:
    assert [] == judged([tap("a", place=(0.8, n / 20)) for n in range(20)])


def test_two_targets_by_turns_on_the_same_two_screens_are_noticed() -> None:
    pair = [tap("a", STILL), tap("b", OTHER)]
    assert 12 == judged(pair * 6)[0]
    assert [] == judged([tap("a", STILL), tap("b", OTHER), tap("c", OTHER)] * 6)


def test_taps_that_reached_their_target_are_no_loop_unless_the_screen_stayed() -> None:
    for shown, expected in ((OTHER, []), (STILL, [12])):
        guard = ClickGuard(12, 15, 1.0)
        found: list[int] = []
        for number in range(1, 13):
            found += [number] * bool(guard.judge(tap("a")))
            guard.came_true(shown)
        assert expected == found


def test_a_guard_that_is_switched_off_says_nothing() -> None:
    assert [] == judged([tap("a")] * 60, ClickGuard(0, 15, 1.0))


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 40))
def test_it_never_speaks_before_so_many_taps_and_always_then(taps: int, more: int, count: int) -> None:
    found = judged([tap("a")] * count, ClickGuard(taps, taps + more, 1.0))
    assert list(range(taps, count + 1)) == found


def frame_of(state: HerdState) -> Frame:
    return Frame(1280, 720, render(state, 1280, 720).tobytes(), 0.0)


def test_a_button_that_is_gone_makes_it_another_screen_and_a_popup_too() -> None:
    list_ = HerdState(scene=Scene.LIST, running=True)
    one, two = (look_of(frame_of(state)) for state in (list_, HerdState(scene=Scene.LIST, running=True, claimed=(0,))))
    assert [] == judged([tap("a", one), tap("a", two)] * 2, ClickGuard(3, 15, 0.5))
    popup = look_of(frame_of(HerdState(scene=Scene.LIST, running=True, popup=True)))
    assert [] == judged([tap("a", one), tap("a", popup)] * 2, ClickGuard(3, 15, 5.0))
    assert 1_500 < len(one) < 2_500


# --- in a stage ---------------------------------------------------------------------------------------------

DEAD_BUTTON = {"repeat": {"while": {"image": "gift.png"}, "at_most": 50, "do": [{"tap": {"image": "sign_out.png"}}]}}
"""Tapped beside the button, it changes nothing."""


def test_a_loop_on_dead_button_ends_as_a_click_loop_before_one_tap_too_many() -> None:
    on = bench()
    on.finder.place = (5, 5)
    with pytest.raises(ClickLoopError, match=r"step 1#12\.1: taps sign_out\.png 12 times of the last 12") as caught:
        run_stage(stage(DEAD_BUTTON), on.run())
    assert 11 == len(acts(on))
    assert ["main.failed.png"] == list(on.kept)
    assert "raise guards: {taps: ...}" in str(caught.value)


THERE = {"tap": {"image": "rewards.png", "then": {"image": "back.png", "within": "5s"}}}
BACK = {"tap": {"image": "back.png", "then": {"image": "rewards.png", "within": "5s"}}}


def test_to_and_fro_is_no_loop_where_each_tap_led_where_it_should(monkeypatch: pytest.MonkeyPatch) -> None:

    def short(frame: Frame) -> bytes:
        return bytes([200 * (b"list" in bytes(frame.rgba))])

    monkeypatch.setattr(clicks, "look_of", short)
    on = bench()
    run_stage(stage({"repeat": {"at_most": 20, "do": [THERE, BACK]}}), on.run())
    assert 40 == len(acts(on))
    blind = [{"tap": {key: value for key, value in step["tap"].items() if key != "then"}} for step in (THERE, BACK)]
    with pytest.raises(ClickLoopError, match="by turns, 12 taps"):
        run_stage(stage({"repeat": {"at_most": 20, "do": blind}}), bench().run())


def test_a_flow_sets_its_own_limits() -> None:
    on = bench()
    on.finder.place = (5, 5)
    with pytest.raises(ClickLoopError, match="3 times of the last 3"):
        run_stage(stage(DEAD_BUTTON), on.run(screen_map=screen_map(guards={"taps": 3, "of": 5})))
    run_stage(stage(DEAD_BUTTON), on.run(screen_map=screen_map(guards={"taps": 0})))


def test_taps_on_places_that_nobody_looks_at_tell_nothing() -> None:
    on = bench()
    run_stage(stage({"repeat": {"at_most": 40, "do": [{"tap": {"percent": [1, 1]}}]}}), on.run())
    assert 40 == len(acts(on))


def test_how_long_a_stage_may_stand_still_is_the_flows_to_say() -> None:
    on = bench(HerdState())
    on.clock = FakeClock()
    with pytest.raises(StuckError, match="nothing moved for 40s"):
        run_stage(
            stage({"wait": {"image": "gift.png", "within": "200s"}}),
            on.run(screen_map=screen_map(guards={"stuck": "40s"})),
        )
