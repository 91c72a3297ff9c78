"""Which piece of a screen is worth looking for."""

import pytest

from droidherd.domain.ports import Box, Frame
from droidherd.flowtools import cutting
from droidherd.flowtools.cutting import THRESHOLD, around, is_seen, news, picture
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render
from droidherd.virtual.layout import regions

SIZE = (1280, 720)
LAUNCHER = HerdState()
SIGN_IN = HerdState(scene=Scene.SIGN_IN, running=True)
HOME = HerdState(scene=Scene.HOME, running=True, signed_in="ann")
LIST = HerdState(scene=Scene.LIST, running=True, signed_in="ann")
DIALOG = HerdState(scene=Scene.DIALOG, running=True, signed_in="ann")


def frame_of(state: HerdState) -> Frame:
    return Frame(*SIZE, render(state, *SIZE).tobytes(), 0.0)


def centre_of(state: HerdState, name: str) -> tuple[int, int]:
    return regions(state, *SIZE)[name].centre()


def boxes(state: HerdState) -> tuple[Box, ...]:
    return tuple(regions(state, *SIZE).values())


def inside(point: tuple[int, int], box: Box) -> bool:
    return box.x <= point[0] < box.x + box.width and box.y <= point[1] < box.y + box.height


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("state", "name"),
    [
        (LAUNCHER, "app_icon"),
        (SIGN_IN, "account"),
        (SIGN_IN, "sign_in"),
        (HOME, "gift"),
        (HOME, "sign_out"),
        (DIALOG, "ok"),
    ],
)
def test_what_is_cut_around_a_tap_is_found_once_and_its_centre_may_be_tapped(state: HerdState, name: str, given: bool):
    """With what the emulator says of its elements, and with nothing but the picture, as in games."""
    frame = frame_of(state)
    cut = around(frame, centre_of(state, name), boxes(state) if given else ())
    assert cut is not None
    assert inside(cut.box.centre(), regions(state, *SIZE)[name])
    assert is_seen(frame, picture(frame, cut.box), cut.area, gap=0.0)


def test_one_of_many_alike_is_searched_in_its_own_area():
    """Every row of the list has the same button."""
    frame = frame_of(LIST)
    cut = around(frame, centre_of(LIST, "claim_2"), (regions(LIST, *SIZE)["claim_2"],))
    assert cut is not None
    found = cutting.find(frame, cutting.Template("cut", picture(frame, cut.box)), threshold=THRESHOLD, area=cut.area)
    assert found.found
    assert inside(found.box.centre(), regions(LIST, *SIZE)["claim_2"])
    assert found.runner_up <= THRESHOLD - cutting.GAP


def test_where_nothing_is_nothing_is_cut():
    blank = Frame(*SIZE, bytes([20, 20, 20, 255]) * (SIZE[0] * SIZE[1]), 0.0)
    assert around(blank, (600, 300)) is None


def test_a_tap_at_the_very_edge_cuts_nothing_that_lies_outside():
    frame = frame_of(HOME)
    for point in ((0, 0), (1279, 719), (0, 719)):
        cut = around(frame, point)
        assert cut is None or (cut.box.x >= 0 and cut.box.x + cut.box.width <= 1280)


@pytest.mark.parametrize(("before", "after"), [(LAUNCHER, SIGN_IN), (SIGN_IN, HOME), (HOME, DIALOG), (HOME, LIST)])
def test_what_is_new_is_there_and_was_not_before(before: HerdState, after: HerdState):
    first, second = frame_of(before), frame_of(after)
    cut = news(first, second, boxes(after))
    assert cut is not None
    rgb = picture(second, cut.box)
    assert (True, False) == (is_seen(second, rgb, gap=0.0), is_seen(first, rgb))


def test_nothing_is_new_on_a_screen_that_stays_or_turns():
    frame = frame_of(HOME)
    turned = Frame(720, 1280, render(HOME, 720, 1280).tobytes(), 0.0)
    assert (None, None) == (news(frame, frame), news(frame, turned))
