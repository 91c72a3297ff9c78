"""Features: a picture that is larger, smaller or turned is found, and one that only looks like it is not."""

from typing import Any

import cv2
import numpy as np
import pytest

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render
from droidherd.vision.features import find
from droidherd.vision.pixels import Pixels
from droidherd.vision.template import Template

HOME = HerdState(scene=Scene.HOME, running=True, signed_in="ann")
GIFT = Box(200, 190, 260, 260)


def shown(state: HerdState) -> Pixels:
    return np.ascontiguousarray(render(state)[:, :, :3])


def frame_of(rgb: Any) -> Frame:
    rgba = np.ascontiguousarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2RGBA))
    return Frame(rgba.shape[1], rgba.shape[0], rgba.tobytes(), 0.0)


def gift() -> Template:
    rows, columns = slice(GIFT.y, GIFT.y + GIFT.height), slice(GIFT.x, GIFT.x + GIFT.width)
    return Template("gift.png", np.ascontiguousarray(shown(HOME)[rows, columns]))


@pytest.mark.parametrize("scale", [0.5, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0])
def test_a_picture_is_found_at_any_size(scale: float):
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    match = find(frame_of(cv2.resize(shown(HOME), None, fx=scale, fy=scale, interpolation=how)), gift())
    assert match.found
    expected = tuple(value * scale for value in (GIFT.x, GIFT.y, GIFT.width, GIFT.height))
    assert pytest.approx(expected, abs=4) == (match.box.x, match.box.y, match.box.width, match.box.height)


@pytest.mark.parametrize("degrees", [5, 20, 90])
def test_a_picture_is_found_in_any_position(degrees: int):
    turn = cv2.getRotationMatrix2D((640, 360), degrees, 1.0)
    match = find(frame_of(cv2.warpAffine(shown(HOME), turn, (1280, 720))), gift())
    middle = turn @ np.array([*GIFT.centre(), 1.0])
    assert match.found
    assert pytest.approx(tuple(middle), abs=4) == match.box.centre()


def test_a_picture_that_is_drawn_otherwise_in_the_same_frame_is_not_found():
    match = find(frame_of(shown(HerdState(scene=Scene.HOME, running=True, signed_in="ann", gift_taken=True))), gift())
    assert (False, True) == (match.found, match.score < 0.6)


@pytest.mark.parametrize("scene", [Scene.LIST, Scene.LAUNCHER, Scene.SIGN_IN])
def test_on_another_screen_it_is_not_found(scene: Scene):
    assert not find(frame_of(shown(HerdState(scene=scene, running=True))), gift()).found


def test_the_area_bounds_the_search():
    frame = frame_of(shown(HOME))
    assert find(frame, gift(), area=Box(150, 150, 400, 400)).found
    assert not find(frame, gift(), area=Box(640, 0, 640, 720)).found


def test_a_picture_with_too_few_features_is_refused():
    plain = np.full((60, 60, 3), 200, np.uint8)
    plain[20:40, 20:40] = 30
    with pytest.raises(FlowError, match="features, at least 12 are needed"):
        find(frame_of(shown(HOME)), Template("plain.png", plain))


def test_equal_input_gives_an_equal_match():
    frame = frame_of(cv2.resize(shown(HOME), None, fx=0.8, fy=0.8, interpolation=cv2.INTER_AREA))
    assert find(frame, gift()) == find(frame, gift())


@pytest.mark.parametrize(("width", "height"), [(1, 400), (400, 1), (3, 3), (5, 200)])
def test_in_an_area_too_thin_for_features_nothing_is_found(width: int, height: int):
    assert not find(frame_of(shown(HOME)), gift(), area=Box(200, 200, width, height)).found
