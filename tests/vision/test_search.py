"""Each shortcut of the search finds what the long way finds."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.ports import Box
from droidherd.vision import match, search
from droidherd.vision.look import PreparedFrame
from droidherd.vision.match import find
from droidherd.vision.pattern import Pattern
from droidherd.vision.pixels import Pixels
from droidherd.vision.search import Guess, at_a_glance, guesses
from droidherd.vision.template import Template
from tests.vision.test_match import HEIGHT, WIDTH, cut, frame_of, noise

WHOLE = Box(0, 0, WIDTH, HEIGHT)


def shaken(pixels: Pixels, seed: int) -> Pixels:
    off = np.random.default_rng(seed).integers(-6, 7, pixels.shape)
    return np.clip(pixels.astype(int) + off, 0, 255).astype(np.uint8)


def no_glance(*_: object) -> list[Guess]:
    return []


@settings(max_examples=40, deadline=None)
# Less than two cells of the noise across, there may be a second place that looks like it.
@given(st.integers(0, 10_000), st.integers(16, 26), st.integers(16, 26), st.floats(0, 1), st.floats(0, 1))
def test_a_glance_ends_at_the_very_pixel_or_settles_nothing(
    seed: int, width: int, height: int, across: float, down: float
) -> None:
    pixels = noise(seed)
    box = Box(round(across * (WIDTH - width)), round(down * (HEIGHT - height)), width, height)
    frame, template = frame_of(shaken(pixels, seed)), cut(pixels, box)
    there = find(frame, template)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(match, "at_a_glance", no_glance)
        long_way = find(frame, template)
    # Now and then the long way is given up where a glance ends at the very pixel.
    assert (there.found, there.box) in {(long_way.found, long_way.box), (True, box)}


def test_a_glance_is_for_a_fine_level_and_bears_a_coarser_one() -> None:
    looked = PreparedFrame(frame_of(noise(1)))
    tiny, large = (cut(noise(1), box).pattern(1.0) for box in (Box(60, 40, 20, 20), Box(60, 40, 160, 120)))
    assert tiny.glance > tiny.coarse
    best = at_a_glance(looked, [tiny], WHOLE)[0]
    assert (60, 40) == (best.x, best.y)
    assert large.glance == large.coarse
    assert [] == at_a_glance(looked, [large], WHOLE)


@pytest.mark.parametrize("seed", range(8))
def test_strips_find_what_the_whole_finds(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # Beside the borders of the strips, too: whatever lies across two of them is wholly in one.
    box = Box(100 + 7 * seed, 60 + 11 * seed, 40 + seed, 30)
    looked, pattern = PreparedFrame(frame_of(shaken(noise(seed), seed))), cut(noise(seed), box).pattern(1.0)
    at_once = guesses(looked, [pattern], WHOLE)
    monkeypatch.setattr(search, "_AT_ONCE", 1000)
    in_strips = guesses(looked, [pattern], WHOLE)
    assert at_once[0] == in_strips[0]
    assert (box.x, box.y) == (at_once[0].x, at_once[0].y)


@pytest.mark.parametrize("scales", [(1.0,), (0.5, 1.0), (0.5, 0.8, 1.7)], ids=["one", "two", "three"])
def test_the_best_place_of_what_is_not_there_lies_on_the_frame(scales: tuple[float, ...]) -> None:
    """Also where it is given up on a coarse level: scales begin on levels of their own."""
    for seed in range(150):
        random = np.random.default_rng(seed)
        (width, height), (across, down) = (random.integers(*sides, 2).tolist() for sides in ((15, 50), (50, 160)))
        grain, ground = (random.integers(0, 256, shape, np.uint8) for shape in ((height, width, 3), (6, 6, 4)))
        frame = frame_of(np.asarray(cv2.resize(ground, (across, down)), np.uint8))
        match = find(frame, Template("x.png", grain, scales=scales))
        assert not match.found
        assert 0 <= match.box.x <= across - match.box.width, (seed, match.box)
        assert 0 <= match.box.y <= down - match.box.height, (seed, match.box)


@pytest.mark.parametrize("size", [(20, 24), (40, 24)], ids=["sums", "transform"])
def test_places_score_as_opencv_has_them_in_sums_and_in_transforms(size: tuple[int, int]) -> None:
    pixels = shaken(noise(3), 3)
    box = Box(200, 120, *size)
    pattern = Pattern(cut(noise(3), box).rgb)
    looked, level = PreparedFrame(frame_of(pixels)), pattern.coarse
    expected = cv2.matchTemplate(looked.level(level), pattern.levels[level], cv2.TM_CCOEFF_NORMED)
    whole = search.TemplatePiece(looked, level, Box(0, 0, WIDTH >> level, HEIGHT >> level))
    (places,) = search.coarse(whole, [pattern], 5)
    assert places
    for one in places:
        assert one.score == pytest.approx(float(expected[one.y, one.x]), abs=0.01)


def test_of_what_is_hidden_on_one_side_the_other_part_is_searched() -> None:
    pixels = noise(4)
    template = Template("piece.png", cut(noise(4), Box(200, 120, 90, 60)).rgb)
    pixels[110:190, 180:215] = (250, 214, 70, 255)
    found = search.by_parts(PreparedFrame(frame_of(pixels)), template.pattern(1.0), WHOLE)
    assert (200, 120) in {(one.x, one.y) for one in found}
