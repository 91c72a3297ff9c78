"""What the judgement forgives, and what it does not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.vision.judge import RIGID, judge_place
from droidherd.vision.look import PreparedFrame
from droidherd.vision.match import LastPlaces, find
from droidherd.vision.pattern import Pattern
from droidherd.vision.pixels import Pixels
from droidherd.vision.template import Template, TemplateCache, check_template, load

WIDTH, HEIGHT = 640, 360
BUTTON = Box(200, 120, 160, 48)
GREEN, BLUE, WHITE = (46, 150, 90), (52, 96, 190), (255, 255, 255)


def screen(label: str = "Claim 38", fill: tuple[int, int, int] = GREEN, at: Box = BUTTON, factor: int = 1) -> Pixels:
    """An app with one button, at one or two times the size."""
    pixels = np.full((HEIGHT * factor, WIDTH * factor, 3), (236, 238, 240), np.uint8)
    for row in range(5):
        y = (40 + row * 64) * factor
        cv2.rectangle(pixels, (20 * factor, y), (600 * factor, y + 50 * factor), (210, 214, 222), cv2.FILLED)
        cv2.circle(pixels, (50 * factor, y + 25 * factor), 14 * factor, (90 + 30 * row, 80, 160), cv2.FILLED)
    low = at.x * factor, at.y * factor
    high = (at.x + at.width) * factor - 1, (at.y + at.height) * factor - 1
    cv2.rectangle(pixels, low, high, fill, cv2.FILLED)
    place = ((at.x + 14) * factor, (at.y + 33) * factor)
    cv2.putText(pixels, label, place, cv2.FONT_HERSHEY_SIMPLEX, 0.9 * factor, WHITE, 2 * factor, cv2.LINE_AA)
    return pixels


def frame_of(rgb: Pixels) -> Frame:
    rgba = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2RGBA), np.uint8)
    return Frame(rgba.shape[1], rgba.shape[0], rgba.tobytes(), 0.0)


def cut(rgb: Pixels, box: Box = BUTTON) -> Template:
    return Template("button.png", np.ascontiguousarray(rgb[box.y : box.y + box.height, box.x : box.x + box.width]))


TEMPLATE = cut(screen())


def noisy(rgb: Pixels) -> Pixels:
    noise = np.random.default_rng(1).normal(0, 8, rgb.shape)
    return np.clip(rgb + noise, 0, 255).astype(np.uint8)


def shifted(rgb: Pixels) -> Pixels:
    move = np.array([[1, 0, 0.4], [0, 1, -0.3]])
    return np.asarray(cv2.warpAffine(rgb, move, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE), np.uint8)


def brighter(rgb: Pixels) -> Pixels:
    return np.asarray(cv2.convertScaleAbs(rgb, alpha=1.12, beta=10), np.uint8)


def blurred(rgb: Pixels) -> Pixels:
    return np.asarray(cv2.GaussianBlur(rgb, (3, 3), 0.6), np.uint8)


def as_it_is(rgb: Pixels) -> Pixels:
    return rgb


FORGIVEN = [as_it_is, noisy, shifted, brighter, blurred]


@pytest.mark.parametrize("seen", FORGIVEN)
def test_noise_brightness_blur_and_a_part_of_a_pixel_are_forgiven(seen: Callable[[Pixels], Pixels]) -> None:
    match = find(frame_of(seen(screen())), TEMPLATE)
    assert match.found
    assert None is match.differs
    assert abs(match.box.x - BUTTON.x) <= 1
    assert abs(match.box.y - BUTTON.y) <= 1


@pytest.mark.parametrize("seen", FORGIVEN)
@pytest.mark.parametrize(
    "other", [screen("Claim 36"), screen("Claim 33"), screen("Claim 88"), screen("Clain 38"), screen(fill=BLUE)]
)
def test_another_digit_character_or_colour_is_never_forgiven(other: Pixels, seen: Callable[[Pixels], Pixels]) -> None:
    match = find(frame_of(seen(other)), TEMPLATE)
    assert not match.found


def test_where_it_differs_is_reported() -> None:
    match = find(frame_of(screen("Claim 36")), TEMPLATE)
    assert match.differs is not None
    assert BUTTON == match.box
    assert match.score > 0.9
    (left, _), _ = cv2.getTextSize("Claim 3", cv2.FONT_HERSHEY_SIMPLEX, 0.9, 2)
    assert abs(match.differs.centre()[0] - (BUTTON.x + 14 + left + 8)) <= 10


def test_what_is_nothing_like_it_differs_nowhere_in_particular() -> None:
    match = find(frame_of(noisy(np.full((HEIGHT, WIDTH, 3), 128, np.uint8))), TEMPLATE)
    assert (False, None) == (match.found, match.differs)


def test_the_right_one_is_found_among_many_that_differ_by_one_digit() -> None:
    rgb = screen("Claim 30", at=Box(20, 10, 160, 48))
    for number, (x, y) in enumerate([(20, 80), (20, 150), (220, 10), (220, 80), (220, 150), (420, 10), (420, 80)]):
        box = Box(x, y, 160, 48)
        rgb[y : y + 48, x : x + 160] = screen(f"Claim 3{number + 1}", at=box)[y : y + 48, x : x + 160]
    match = find(frame_of(rgb), cut(screen("Claim 35")))
    assert match.found
    assert Box(220, 150, 160, 48) == match.box
    assert match.runner_up > 0.9
    assert match.runner_up_box is not None


@pytest.mark.parametrize(
    "over",
    [Box(180, 100, 50, 100), Box(340, 90, 90, 90), Box(150, 155, 300, 60), Box(150, 60, 300, 68)],
    ids=["left", "right", "below", "above"],
)
def test_a_window_over_one_side_hides_a_part_and_changes_nothing(over: Box) -> None:
    rgb = screen()
    rgb[over.y : over.y + over.height, over.x : over.x + over.width] = (250, 214, 70)
    match = find(frame_of(rgb), TEMPLATE)
    assert match.found
    assert BUTTON == match.box


def test_what_hides_its_middle_or_half_of_it_is_in_the_way() -> None:
    for over in (Box(250, 120, 60, 48), Box(200, 120, 90, 48)):
        rgb = screen()
        rgb[over.y : over.y + over.height, over.x : over.x + over.width] = (250, 214, 70)
        assert not find(frame_of(rgb), TEMPLATE).found


def test_on_another_screen_size_same_button_is_found_another_digit_is_not() -> None:
    small = cv2.resize(screen(factor=2), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    template = Template(TEMPLATE.name, cut(np.asarray(small, np.uint8)).rgb, (WIDTH, HEIGHT))
    match = find(frame_of(screen(factor=2)), template)
    assert match.found
    assert abs(match.box.centre()[0] - 2 * BUTTON.centre()[0]) <= 2
    for label in ("Claim 36", "Claim 31", "Clam 38"):
        assert not find(frame_of(screen(label, factor=2)), template).found


def test_a_template_from_a_larger_screen_is_found_on_a_smaller_one() -> None:
    large = Template(TEMPLATE.name, cut(screen(factor=2), Box(400, 240, 320, 96)).rgb, (2 * WIDTH, 2 * HEIGHT))
    for label, there in (("Claim 38", True), ("Claim 36", False)):
        small = cv2.resize(screen(label, factor=2), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        assert there == find(frame_of(np.asarray(small, np.uint8)), large).found


@pytest.mark.parametrize("factor", [0.9, 0.93, 1.0, 1.04, 1.1])
def test_asked_for_several_scales_it_is_found_in_between_as_well(factor: float) -> None:
    size = (round(WIDTH * factor), round(HEIGHT * factor))
    rgb = np.asarray(cv2.resize(screen(), size, interpolation=cv2.INTER_AREA), np.uint8)
    other = np.asarray(cv2.resize(screen("Claim 36"), size, interpolation=cv2.INTER_AREA), np.uint8)
    scales = (0.9, 0.95, 1.0, 1.05, 1.1)
    match = find(frame_of(rgb), replace(TEMPLATE, scales=scales))
    assert match.found
    assert abs(match.box.width - BUTTON.width * factor) <= 2
    assert not find(frame_of(other), replace(TEMPLATE, scales=scales)).found


def test_scales_that_make_no_sense_are_refused() -> None:
    for scales in ((), (0.1,), (1.0, 5.0)):
        with pytest.raises(FlowError, match="scales"):
            find(frame_of(screen()), replace(TEMPLATE, scales=scales))


# --- masks ----------------------------------------------------------------------------------------------------------


def masked() -> Template:
    """The button whose number does not matter."""
    mask = np.full(TEMPLATE.rgb.shape[:2], 255, np.uint8)
    mask[:, 84:] = 0
    return Template(TEMPLATE.name, TEMPLATE.rgb, mask=mask)


def test_what_is_transparent_does_not_count_and_the_rest_does() -> None:
    assert find(frame_of(screen("Claim 91")), masked()).found
    assert not find(frame_of(screen("Clain 38")), masked()).found
    assert not find(frame_of(screen(fill=BLUE)), masked()).found


def test_the_mask_is_the_alpha_channel_of_the_file(tmp_path: Path) -> None:
    rgba = cv2.cvtColor(TEMPLATE.rgb, cv2.COLOR_RGB2BGRA)
    file = tmp_path / "button.png"
    cv2.imwrite(str(file), rgba)
    assert None is load(file).mask
    rgba[:, 84:, 3] = 0
    cv2.imwrite(str(file), rgba)
    template = load(file)
    assert template.mask is not None
    assert find(frame_of(screen("Claim 77")), template).found


def test_a_template_of_nothing_but_air_is_refused() -> None:
    mask = np.zeros(TEMPLATE.rgb.shape[:2], np.uint8)
    mask[:4, :4] = 255
    with pytest.raises(FlowError, match="transparent"):
        check_template(Template("air.png", TEMPLATE.rgb, mask=mask))


def strokes(width: int) -> tuple[Pixels, Pixels]:
    """A sign of thin strokes in two colours, and its mask."""
    sign, mask = np.zeros((48, 48, 3), np.uint8), np.zeros((48, 48), np.uint8)
    for picture, ring, bar in ((sign, (220, 60, 40), (250, 230, 90)), (mask, 255, 255)):
        cv2.circle(picture, (24, 24), 20, ring, width)
        cv2.line(picture, (12, 24), (36, 24), bar, width)
        cv2.line(picture, (24, 12), (24, 36), bar, width)
    return sign, mask


@pytest.mark.parametrize("scales", [(1.0,), (0.8, 1.0, 1.2)])
@pytest.mark.parametrize("width", [3, 4, 6])
def test_a_sign_of_thin_strokes_on_transparent_ground_is_found_on_any_ground(
    width: int, scales: tuple[float, ...]
) -> None:
    sign, mask = strokes(width)
    template = check_template(Template("sign.png", sign, mask=mask, scales=scales))
    for seed in range(6):
        ground = np.random.default_rng(seed).integers(0, 256, (9, 16, 3), np.uint8)
        rgb = np.asarray(cv2.resize(ground, (640, 360)), np.uint8)
        assert not find(frame_of(rgb), template).found
        rgb[131:179, 300 + seed : 348 + seed][mask > 0] = sign[mask > 0]
        match = find(frame_of(rgb), template)
        assert match.found
        assert match.box.centre() == pytest.approx((324 + seed, 155), abs=3)


def test_strokes_too_thin_to_be_compared_are_refused() -> None:
    sign, mask = strokes(1)
    with pytest.raises(FlowError, match="too thin"):
        check_template(Template("sign.png", sign, mask=mask))


@given(st.integers(0, 10_000))
def test_a_place_of_which_no_pixel_fits_is_judged_as_another(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.integers(0, 2, (2, 12, 12, 3), np.uint8) * np.uint8(200) + np.uint8(20)
    assert judge_place(Pattern(one), other, RIGID).differs is not None


# --- hints and shared looks -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(-20, WIDTH + 20), st.integers(-20, HEIGHT + 20), st.sampled_from(["Claim 38", "Claim 36", "Shop"]))
def test_a_hint_never_changes_the_result(x: int, y: int, label: str) -> None:
    frame = frame_of(screen(label))
    known, plain = (find(frame, TEMPLATE, hint=hint) for hint in (Box(x, y, 160, 48), None))
    assert plain.found == known.found
    assert plain.box == known.box


def test_a_hint_at_the_place_of_a_near_duplicate_is_not_believed() -> None:
    rgb = screen("Claim 36")
    box = Box(400, 250, 160, 48)
    rgb[250:298, 400:560] = screen("Claim 38", at=box)[250:298, 400:560]
    assert box == find(frame_of(rgb), TEMPLATE, hint=BUTTON).box


def test_a_hint_outside_the_area_does_not_widen_it() -> None:
    match = find(frame_of(screen()), TEMPLATE, hint=BUTTON, area=Box(0, 200, WIDTH, 160))
    assert not match.found


def test_one_look_serves_many_searches() -> None:
    looked = PreparedFrame(frame_of(screen()))
    assert find(looked, TEMPLATE) == find(frame_of(screen()), TEMPLATE)
    assert looked.level(1) is looked.level(1)
    assert not find(looked, cut(screen("Claim 36"))).found


def test_the_last_places_are_bounded_and_only_what_was_found_is_kept() -> None:
    places = LastPlaces(limit=2)
    found, missed = (Match(found, BUTTON, 1.0, 0.0) for found in (True, False))
    places.note("a", missed)
    assert None is places.last("a")
    for name in ("a", "b", "c"):
        places.note(name, found)
    assert len(places) == 2
    assert (None, BUTTON) == (places.last("a"), places.last("c"))
    places.note("c", missed)
    assert BUTTON == places.last("c")


def test_a_template_is_made_ready_once_per_screen_size(tmp_path: Path) -> None:
    file = tmp_path / "button.png"
    cv2.imwrite(str(file), cv2.cvtColor(TEMPLATE.rgb, cv2.COLOR_RGB2BGR))
    cache = TemplateCache()
    first = cache.get(file, (WIDTH, HEIGHT)).pattern(1.0)
    assert first is cache.get(file, (WIDTH, HEIGHT)).pattern(1.0)
