import numpy as np
import pytest

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame
from droidherd.vision import colour
from droidherd.vision.pixels import Pixels

RED = (200, 30, 40)


def canvas(width: int = 200, height: int = 100) -> Pixels:
    return np.full((height, width, 4), (10, 20, 30, 255), np.uint8)


def frame_of(pixels: Pixels) -> Frame:
    return Frame(pixels.shape[1], pixels.shape[0], pixels.tobytes(), 0.0)


def painted(*boxes: Box) -> Frame:
    pixels = canvas()
    for box in boxes:
        pixels[box.y : box.y + box.height, box.x : box.x + box.width, :3] = RED
    return frame_of(pixels)


def test_a_colour_is_read_as_it_is_written():
    assert (255, 136, 0) == colour.rgb_of("#ff8800")
    with pytest.raises(FlowError, match="is not a colour"):
        colour.rgb_of("red")


@pytest.mark.parametrize(("off", "found"), [(0, True), (8, True), (9, False)])
def test_a_place_has_a_colour_within_a_tolerance_of_every_channel(off: int, found: bool):
    frame = painted(Box(50, 50, 1, 1))
    match = colour.at(frame, (50, 50), (RED[0], RED[1] + off, RED[2]), tolerance=8)
    assert (found, "#c81e28", Box(50, 50, 1, 1)) == (match.found, match.text, match.box)


def test_a_place_off_the_screen_is_the_fault_of_the_flow():
    with pytest.raises(FlowError, match="not on a screen"):
        colour.at(painted(), (200, 0), RED)


def test_a_patch_is_found_where_it_is_with_the_second_best_beside_it():
    large, small = Box(20, 10, 40, 30), Box(100, 50, 10, 10)
    match = colour.patch(painted(small, large), RED, share=0.05)
    assert (True, large, 1.0) == (match.found, match.box, match.score)
    assert (small, 0.1) == (match.runner_up_box, match.runner_up)


def test_patches_that_do_not_touch_are_not_added_up():
    boxes = [Box(10 * n, 0, 5, 100) for n in range(10)]
    assert not colour.patch(painted(*boxes), RED, share=0.2).found


def test_the_share_is_that_of_the_area():
    frame = painted(Box(20, 10, 40, 30))
    assert colour.patch(frame, RED, share=1.0, area=Box(20, 10, 40, 30)).found
    missed = colour.patch(frame, RED, share=0.5, area=Box(0, 0, 80, 40))
    assert (False, 0.75) == (missed.found, missed.score)


def test_a_colour_that_is_nowhere_scores_nothing():
    match = colour.patch(painted(), RED, share=0.01)
    assert (False, 0.0) == (match.found, match.score)
