import numpy as np
import pytest

from droidherd.domain.ports import Box, Frame
from droidherd.vision.area import share_moved


def frame(width: int = 100, height: int = 50, change: Box | None = None, by: int = 100) -> Frame:
    pixels = np.full((height, width, 4), 90, np.uint8)
    if change is not None:
        pixels[change.y : change.y + change.height, change.x : change.x + change.width, 1] += by
    return Frame(width, height, pixels.tobytes(), 0.0)


def test_a_screen_that_stands_still_has_not_moved():
    assert 0.0 == share_moved(frame(), frame())


def test_what_moved_is_counted_by_pixels():
    assert pytest.approx(0.1) == share_moved(frame(), frame(change=Box(0, 0, 25, 20)))


@pytest.mark.parametrize(("by", "expected"), [(12, 0.0), (13, 1.0)])
def test_the_noise_of_a_picture_is_no_movement(by: int, expected: float):
    assert expected == share_moved(frame(), frame(change=Box(0, 0, 100, 50), by=by))


def test_what_moves_outside_of_the_area_does_not_count():
    change = frame(change=Box(0, 0, 10, 50))
    assert (0.0, 0.5) == (
        share_moved(frame(), change, Box(50, 0, 50, 50)),
        share_moved(frame(), change, Box(0, 0, 20, 50)),
    )


def test_a_screen_of_another_size_has_moved_altogether():
    assert 1.0 == share_moved(frame(), frame(50, 100))
