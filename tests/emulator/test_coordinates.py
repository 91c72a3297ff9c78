"""What is touched is what was seen, however frames and display lie to each other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.adb.files import DeviceFiles
from droidherd.domain.errors import InvalidFrameError
from droidherd.domain.ports import Frame, Wanted
from droidherd.domain.task.things import State
from droidherd.emulator.coordinates import FRESH_S, CoordinateMap, Display
from droidherd.emulator.things import EmulatorThings
from tests.emulator.farm import One

PANEL = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4)
"""Six rows of four pixels: a panel that stands."""


def frame_of(rows: np.ndarray) -> Frame:
    return Frame(rows.shape[1], rows.shape[0], np.ascontiguousarray(rows).tobytes(), 0.0)


def pixels(frame: Frame) -> np.ndarray:
    return np.frombuffer(frame.rgba, np.uint8).reshape(frame.height, frame.width, 4)


def blank(width: int, height: int) -> Frame:
    return Frame(width, height, bytes(width * height * 4), 0.0)


@dataclass
class Clock:
    now_s: float = 0.0

    def now(self) -> float:
        return self.now_s


def asked_for(*answers: Display | None) -> tuple[Callable[[], Display | None], list[int]]:
    """One answer after the other, the last one for ever; and how often it was asked."""
    count: list[int] = []

    def ask() -> Display | None:
        count.append(1)
        return answers[min(len(count), len(answers)) - 1]

    return ask, count


def test_where_frames_match_the_display_nothing_is_changed_or_asked_twice():
    ask, asked = asked_for(Display(0, 1280, 720, 1))
    coordinates = CoordinateMap(ask, Clock().now)
    for _ in range(5):
        coordinates.see(lambda: blank(1280, 720))
    assert ((640, 719), 1) == (coordinates.to_display(640, 719), len(asked))


def test_before_the_first_frame_and_without_an_answer_places_do_not_move():
    assert (5, 6) == CoordinateMap(lambda: Display(0, 10, 10, 0)).to_display(5, 6)
    coordinates = CoordinateMap(lambda: None)
    coordinates.see(lambda: blank(4, 8))
    assert (3, 7) == coordinates.to_display(3, 7)


def test_a_frame_of_another_scale_is_brought_to_that_of_the_display():
    coordinates = CoordinateMap(lambda: Display(0, 720, 1280, 0))
    coordinates.see(lambda: blank(1080, 1920))
    assert [(0, 0), (360, 640), (719, 1279)] == [
        coordinates.to_display(0, 0),
        coordinates.to_display(540, 960),
        coordinates.to_display(1079, 1919),
    ]


def test_elements_have_their_places_on_the_frame():
    coordinates = CoordinateMap(lambda: Display(0, 720, 1280, 0))
    coordinates.see(lambda: blank(1080, 1920))
    assert '<node bounds="[0,0][1080,1920]"/><node bounds="[15,30][90,45]"/>' == coordinates.tree_on_frame(
        '<node bounds="[0,0][720,1280]"/><node bounds="[10,20][60,30]"/>'
    )


@given(st.integers(1, 4000), st.integers(1, 4000), st.data())
def test_no_place_on_a_frame_is_beside_the_display(size: int, target: int, data: st.DataObject):
    coordinates = CoordinateMap(lambda: Display(0, target, target, 0))
    coordinates.see(lambda: Frame(size, size, b"", 0.0))
    place = data.draw(st.integers(0, size - 1))
    assert 0 <= coordinates.to_display(place, place)[0] < target


@pytest.mark.parametrize("turns", [1, 3])
def test_frames_that_never_turn_come_upright(turns: int):
    """What is drawn on a display that is turned clockwise lies turned clockwise on its panel."""
    drawn = np.rot90(PANEL, turns)
    coordinates = CoordinateMap(lambda: Display(0, 6, 4, turns))
    seen = coordinates.see(lambda: frame_of(PANEL))
    assert (6, 4) == (seen.width, seen.height)
    assert np.array_equal(drawn, pixels(seen))
    assert (5, 3) == coordinates.to_display(5, 3)


def test_a_screen_that_turned_between_frame_and_question_is_looked_at_again():
    ask, _ = asked_for(Display(0, 6, 4, 1))
    frames = iter([frame_of(PANEL), frame_of(np.rot90(PANEL))])
    seen = CoordinateMap(ask).see(lambda: next(frames))
    assert np.array_equal(np.rot90(PANEL), pixels(seen))


def test_a_screen_that_keeps_turning_gives_no_frame():
    ask, _ = asked_for(*[Display(0, 6, 4, 1), Display(0, 6, 4, 3)] * 5)
    with pytest.raises(InvalidFrameError, match="turns while it is looked at"):
        CoordinateMap(ask).see(lambda: frame_of(PANEL))


def test_a_frame_that_lies_on_a_display_that_is_not_turned_is_none():
    with pytest.raises(InvalidFrameError, match="does not lie as the display does"):
        CoordinateMap(lambda: Display(0, 6, 4, 0)).see(lambda: frame_of(PANEL))


def test_a_frame_that_never_turns_is_noticed_soon_after_the_display_turned():
    """Its size says nothing, so the display is asked again now and then."""
    clock = Clock()
    ask, _ = asked_for(Display(0, 4, 6, 0), Display(0, 6, 4, 1))
    coordinates = CoordinateMap(ask, clock.now)
    assert 4 == coordinates.see(lambda: frame_of(PANEL)).width
    clock.now_s += FRESH_S + 1
    assert 6 == coordinates.see(lambda: frame_of(PANEL)).width


def test_on_an_emulator_whose_frames_lie_a_tap_meets_what_was_seen(one: One):
    one.control.set_scene(one.name, "launcher")
    straight = one.eyes().look()
    one.control.set_fault(one.name, "turned")
    assert (720, 1280) == ((raw := one.eyes().look()).width, raw.height)
    hands = one.hands()
    seen = one.eyes(coordinates=hands.coordinates).look()
    assert (1280, 720, True) == (seen.width, seen.height, bytes(seen.rgba) == bytes(straight.rgba))
    hands.tap("1", 1200, 700)
    assert ["input tap 1200 700"] == one.acts()


def test_under_an_override_the_display_is_asked_for_and_taps_follow_it(one: One):
    hands = one.hands()
    eyes = one.eyes(coordinates=hands.coordinates)
    one.adb.shell(one.address, "wm size 640x360", 10.0)
    try:
        assert 640 == eyes.look().width
        hands.tap("1", 639, 359)
        assert ["input tap 639 359"] == one.acts()
    finally:
        one.adb.shell(one.address, "wm size reset", 10.0)


def test_after_a_stir_the_display_is_asked_for_at_once_and_then_less_often():
    """What we did may show a moment later, on frames that do not tell."""
    clock = Clock()
    ask, asked = asked_for(Display(0, 4, 6, 0))
    coordinates = CoordinateMap(ask, clock.now)
    coordinates.see(lambda: frame_of(PANEL))
    coordinates.stir()
    times: list[float] = []
    while clock.now_s < 4 * FRESH_S:
        clock.now_s += 0.125
        before = len(asked)
        coordinates.see(lambda: frame_of(PANEL))
        times += [clock.now_s] if len(asked) > before else []
    assert 0.125 == times[0]
    assert times[1:6] == [0.375, 0.875, 1.875, 3.875, 7.875]
    assert 5 < times[6] - times[5] < 5.5


def test_a_touch_without_a_look_follows_a_display_that_was_stirred():
    ask, asked = asked_for(Display(0, 100, 200, 0), Display(0, 50, 100, 0))
    coordinates = CoordinateMap(ask)
    coordinates.see(lambda: blank(100, 200))
    assert (98, 198) == coordinates.to_display(98, 198)
    coordinates.stir()
    assert [(49, 99), (49, 99), 2] == [coordinates.to_display(98, 198), coordinates.to_display(98, 198), len(asked)]


def test_a_tap_behind_a_step_that_resized_the_display_lands_on_the_new_one(one: One):
    hands = one.hands()
    eyes = one.eyes(coordinates=hands.coordinates)
    things = EmulatorThings(hands, partial(DeviceFiles, one.adb, one.address), one.token(), lambda: None)
    try:
        assert 1280 == eyes.look().width
        things.make("1", Wanted("wm", "size", State("640x360")))
        hands.tap("2", 1279, 719)
        assert ["input tap 639 359"] == one.acts()
    finally:
        one.adb.shell(one.address, "wm size reset", 10.0)


def test_a_key_and_an_app_stir_and_touches_do_not(one: One, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.emulator.coordinates.FRESH_S", 1e6)  # on a slow machine too
    hands = one.hands()
    eyes = one.eyes(coordinates=hands.coordinates)

    def asks(*doing: Callable[[], object]) -> int:
        one.mark()
        for act in doing:
            act()
            eyes.look()
        return len(one.did("dumpsys display"))

    assert 1 == asks(lambda: hands.tap("1", 1, 1), lambda: hands.type_text("2", "a"), lambda: hands.mark("3"))
    assert 2 == asks(lambda: hands.key("4", "home"), lambda: hands.start_app("5", "com.example.herd"))
