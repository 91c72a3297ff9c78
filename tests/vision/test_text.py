"""Words on the screen: what a model read, what is searched in it, and the model itself."""

import sys

import numpy as np
import pytest

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame
from droidherd.flows import patterns
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render
from droidherd.vision import text
from droidherd.vision.text import Line, find, join_lines, read, words

LINES = (
    Line("Cancel OK", Box(100, 10, 180, 20), 0.9),
    Line("Looks good", Box(0, 50, 100, 20), 0.8),
    Line("Stamina 50/120", Box(0, 90, 140, 20), 0.95),
    Line("OK", Box(300, 130, 40, 20), 0.99),
)


def test_the_line_that_says_nothing_else_comes_first():
    match = find(LINES, words("ok"))
    assert (True, Box(300, 130, 40, 20), 0.99, "OK") == (match.found, match.box, match.score, match.text)
    assert (Box(100, 10, 180, 20), 0.9) == (match.runner_up_box, match.runner_up)


def test_of_a_line_that_says_more_the_part_that_was_searched_is_the_place():
    assert Box(240, 10, 40, 20) == find(LINES[:1], words("OK")).box


def test_a_part_of_a_word_is_not_the_word():
    assert not find(LINES[1:2], words("OK")).found
    assert not find((Line("Stamina 150/120", Box(0, 0, 9, 9), 1.0),), words("50/120")).found


@pytest.mark.parametrize(
    ("line", "wanted"), [("DAILY  gift", "Daily Gift"), ("DailyGift!", "daily gift"), ("点击领取奖励", "领取")]
)
def test_case_and_white_space_do_not_matter_and_not_every_script_has_spaces(line: str, wanted: str):
    assert find((Line(line, Box(0, 0, 9, 9), 1.0),), words(wanted)).found


def test_a_pattern_is_found_in_one_line():
    match = find(LINES, patterns.compile_pattern(r"(\d+)/(\d+)"))
    assert (True, "Stamina 50/120", Box(80, 90, 60, 20)) == (match.found, match.text, match.box)


def test_a_text_that_is_not_found_comes_with_the_nearest_one():
    match = find(LINES, words("Stamina 60/120"), like="Stamina 60/120")
    assert (False, "Stamina 50/120") == (match.found, match.text)
    assert not find((), words("x")).found


def test_all_that_was_read_is_one_line():
    assert "Cancel OK Looks good" == join_lines(LINES[:2])


def frame_of(state: HerdState) -> Frame:
    pixels = render(state)
    return Frame(pixels.shape[1], pixels.shape[0], pixels.tobytes(), 0.0)


HOME = frame_of(HerdState(scene=Scene.HOME, running=True, signed_in="ann", message="Gift collected"))


def test_the_words_of_a_screen_are_read_where_they_are():
    match = find(read(HOME, Box(0, 0, 1280, 180)), words("Sign out"))
    assert match.found
    x, y = match.box.centre()
    assert 1090 <= x <= 1254
    assert 22 <= y <= 74


def test_an_area_without_words_says_nothing():
    assert () == read(HOME, Box(900, 300, 100, 100))


def test_an_area_too_small_for_a_character_is_refused():
    with pytest.raises(FlowError, match="holds no words"):
        read(HOME, Box(0, 0, 5, 5))


def test_a_uniform_picture_says_nothing():
    blank = np.full((60, 200, 4), 255, np.uint8)
    assert () == read(Frame(200, 60, blank.tobytes(), 0.0))


def test_without_the_extra_reading_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    text._engine.cache_clear()
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(FlowError, match=r"pip install 'droidherd\[ocr\]'"):
        read(HOME)
    text._engine.cache_clear()
