import random
import struct
from pathlib import Path
from zlib import compress, crc32

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import FlowError, InvalidFrameError
from droidherd.domain.ports import Box, Frame
from droidherd.vision.match import find
from droidherd.vision.pixels import Pixels, encode_png, of_frame
from droidherd.vision.template import Template, TemplateCache, check_template, load, recorded_in

WIDTH, HEIGHT = 640, 360


def noise(seed: int, width: int = WIDTH, height: int = HEIGHT) -> Pixels:
    """A busy picture with coarse and fine detail, and no two places alike."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    rgb = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2RGBA), np.uint8)


def frame_of(pixels: Pixels) -> Frame:
    return Frame(pixels.shape[1], pixels.shape[0], pixels.tobytes(), 0.0)


def cut(pixels: Pixels, box: Box) -> Template:
    piece = pixels[box.y : box.y + box.height, box.x : box.x + box.width, :3]
    return Template("piece.png", np.ascontiguousarray(piece))


# Less than two cells of the noise across, a piece may be missed.
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(16, 200), st.integers(16, 150), st.floats(0, 1), st.floats(0, 1))
def test_a_piece_is_found_at_the_very_pixel_it_was_cut_from(
    seed: int, width: int, height: int, across: float, down: float
) -> None:
    pixels = noise(seed)
    box = Box(round(across * (WIDTH - width)), round(down * (HEIGHT - height)), width, height)
    match = find(frame_of(pixels), cut(pixels, box))
    assert match.found
    assert box == match.box
    assert match.score == 1.0
    # Less than three, there may be a second place that can be filtered to look like it.
    assert match.runner_up < 0.9 or min(width, height) < 24


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_piece_of_another_picture_is_not_found(seed: int) -> None:
    match = find(frame_of(noise(seed)), cut(noise(seed + 1), Box(100, 100, 60, 40)))
    assert not match.found
    assert match.score < 0.8


def test_a_little_noise_does_not_matter() -> None:
    pixels = noise(1)
    shaken = np.clip(pixels.astype(int) + np.random.default_rng(2).integers(-8, 9, pixels.shape), 0, 255)
    match = find(frame_of(shaken.astype(np.uint8)), cut(pixels, Box(200, 120, 80, 50)))
    assert match.found
    assert Box(200, 120, 80, 50) == match.box


def test_a_dimmed_copy_is_not_the_same() -> None:
    pixels = noise(3)
    dimmed = pixels.copy()
    dimmed[:, :, :3] //= 2
    match = find(frame_of(dimmed), cut(pixels, Box(200, 120, 80, 50)))
    assert not match.found
    assert Box(200, 120, 80, 50) == match.box


def test_another_colour_of_the_same_brightness_is_not_the_same() -> None:
    pixels = noise(4)
    swapped = np.ascontiguousarray(pixels[:, :, [2, 0, 1, 3]])
    assert not find(frame_of(swapped), cut(pixels, Box(200, 120, 80, 50))).found


def test_faint_detail_counts_though_the_colours_are_nearly_the_same() -> None:
    grey = np.full((HEIGHT, WIDTH, 4), 128, np.uint8)
    one, other = (np.asarray(cv2.addWeighted(noise(seed), 0.1, grey, 0.9, 0), np.uint8) for seed in (1, 2))
    box = Box(200, 120, 80, 50)
    assert find(frame_of(one), cut(one, box)).found
    assert not find(frame_of(other), cut(one, box)).found


def test_of_two_equal_places_the_other_one_is_the_runner_up() -> None:
    pixels = noise(5)
    pixels[200:250, 400:480] = pixels[40:90, 60:140]
    match = find(frame_of(pixels), cut(pixels, Box(60, 40, 80, 50)))
    assert (1.0, 1.0) == (match.score, match.runner_up)
    assert match.box in {Box(60, 40, 80, 50), Box(400, 200, 80, 50)}


def test_an_area_leaves_out_what_is_beyond_it() -> None:
    pixels = noise(6)
    template = cut(pixels, Box(60, 40, 80, 50))
    assert Box(60, 40, 80, 50) == find(frame_of(pixels), template, area=Box(50, 30, 120, 90)).box
    assert not find(frame_of(pixels), template, area=Box(320, 0, 320, 360)).found


def test_an_area_beyond_the_edge_is_cut_off_at_the_edge() -> None:
    pixels = noise(6)
    box = Box(560, 310, 80, 50)
    assert box == find(frame_of(pixels), cut(pixels, box), area=Box(400, 200, 5000, 5000)).box


@pytest.mark.parametrize("area", [Box(0, 0, 79, 360), Box(0, 0, 640, 49), Box(700, 0, 10, 10), None])
def test_a_template_that_does_not_fit_is_a_fault_of_the_flow(area: Box | None) -> None:
    pixels = noise(7)
    template = cut(noise(7, 800, 400), Box(0, 0, 700, 50)) if area is None else cut(pixels, Box(0, 0, 80, 50))
    with pytest.raises(FlowError, match="does not fit"):
        find(frame_of(pixels), template, area=area)


def test_flat_ground_is_never_a_match() -> None:
    flat = np.full((HEIGHT, WIDTH, 4), 255, np.uint8)
    match = find(frame_of(flat), cut(noise(8), Box(0, 0, 40, 40)))
    assert not match.found
    assert match.score == 0.0


def test_a_uniform_template_is_refused() -> None:
    with pytest.raises(FlowError, match="nearly uniform"):
        check_template(Template("white.png", np.full((40, 40, 3), 250, np.uint8)))


def test_a_tiny_template_is_refused() -> None:
    with pytest.raises(FlowError, match="too few"):
        check_template(cut(noise(1), Box(0, 0, 5, 40)))


def test_a_recorded_size_scales_the_template() -> None:
    small, box = noise(9), Box(160, 80, 120, 80)
    large = cv2.resize(small, (WIDTH * 2, HEIGHT * 2), interpolation=cv2.INTER_CUBIC)
    template = Template("piece.png", cut(small, box).rgb, (WIDTH, HEIGHT))
    match = find(frame_of(np.asarray(large, np.uint8)), template)
    assert match.found
    assert abs(match.box.x - 320) <= 1
    assert abs(match.box.y - 160) <= 1
    assert (240, 160) == (match.box.width, match.box.height)


def test_a_screen_of_another_shape_is_refused() -> None:
    template = Template("piece.png", cut(noise(9), Box(0, 0, 60, 60)).rgb, (360, 640))
    with pytest.raises(FlowError, match="recorded on 360x640, the screen is 640x360"):
        find(frame_of(noise(9)), template)


@pytest.mark.parametrize(
    ("expected", "name"),
    [((1280, 720), "gift@1280x720.png"), ((1280, 720), "a/b@1280x720.png"), (None, "gift.png"), (None, "gift@x.png")],
)
def test_a_recorded_size_is_read_from_the_name(expected: tuple[int, int] | None, name: str) -> None:
    assert expected == recorded_in(name)


def test_the_search_in_steps_agrees_with_the_search_of_every_pixel() -> None:
    rng = random.Random(11)
    for seed in range(10):
        pixels, other = noise(seed), noise(seed + 100)
        box = Box(rng.randrange(500), rng.randrange(280), rng.randrange(24, 130), rng.randrange(24, 80))
        mixed = np.asarray(cv2.addWeighted(pixels, 0.97, other, 0.03, 0), np.uint8)
        template = cut(pixels, box)
        scores = cv2.matchTemplate(
            cv2.cvtColor(mixed, cv2.COLOR_RGBA2GRAY),
            cv2.cvtColor(template.rgb, cv2.COLOR_RGB2GRAY),
            cv2.TM_CCOEFF_NORMED,
        )
        _, _, _, best = cv2.minMaxLoc(scores)
        match = find(frame_of(mixed), template)
        assert best == (match.box.x, match.box.y)


def test_a_frame_of_the_wrong_length_is_an_invalid_frame() -> None:
    with pytest.raises(InvalidFrameError):
        of_frame(Frame(10, 10, bytes(399), 0.0))


def test_a_png_holds_the_colours_of_its_frame(tmp_path: Path) -> None:
    pixels = noise(12)
    file = tmp_path / "frame.png"
    file.write_bytes(encode_png(frame_of(pixels)))
    assert np.array_equal(pixels[:, :, :3], load(file).rgb)


@pytest.mark.parametrize("content", [b"", b"text", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_is_no_image_is_a_fault_of_the_flow(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(FlowError, match=r"x\.png: is not an image"):
        load(tmp_path / "x.png")


def test_an_image_of_a_size_nobody_has_memory_for_is_a_fault_of_the_flow(tmp_path: Path) -> None:
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0), b"IDAT" + compress(b""), b"IEND"]
    whole = (struct.pack(">I", len(one) - 4) + one + struct.pack(">I", crc32(one)) for one in chunks)
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(whole))
    with pytest.raises(FlowError, match=r"x\.png: cannot be decoded"):
        load(tmp_path / "x.png")


def test_the_cache_keeps_a_bounded_number_and_notices_changed_files(tmp_path: Path) -> None:
    cache = TemplateCache(limit=2)
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(encode_png(frame_of(noise(number, 40, 40))))
        cache.get(tmp_path / f"{number}.png", (WIDTH, HEIGHT))
    assert len(cache) == 2
    kept = cache.get(tmp_path / "2.png", (WIDTH, HEIGHT))
    assert kept is cache.get(tmp_path / "2.png", (WIDTH, HEIGHT))
    (tmp_path / "2.png").write_bytes(encode_png(frame_of(noise(7, 41, 40))))
    assert (40, 41, 3) == cache.get(tmp_path / "2.png", (WIDTH, HEIGHT)).rgb.shape


def test_a_missing_file_is_a_fault_of_the_flow(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"gone\.png"):
        TemplateCache().get(tmp_path / "gone.png", (WIDTH, HEIGHT))
