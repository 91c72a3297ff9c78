"""PNG files as `screencap -p` sends them."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.adb.picture import whole_png
from droidherd.domain.errors import InvalidFrameError
from droidherd.vision.pixels import decode_png

PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
FILE = cv2.imencode(".png", PIXELS)[1].tobytes()


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=50), max_size=9), st.binary())
def test_a_file_is_found_behind_warnings_and_ends_where_it_says(before: list[str], behind: bytes):
    text = "".join(f"{line}\n" for line in before).encode()
    assert FILE == bytes(whole_png(text + FILE + behind))


@pytest.mark.parametrize("size", range(1, len(FILE)))
def test_a_file_without_its_last_byte_is_no_file(size: int):
    with pytest.raises(InvalidFrameError, match=r"truncated|no PNG"):
        whole_png(FILE[:size])


@given(st.binary(max_size=300))
def test_any_bytes_are_a_file_or_an_invalid_frame(data: bytes):
    for content in (data, FILE[:20] + data, FILE[:33] + data):
        with pytest.raises(InvalidFrameError):
            whole_png(content)


def test_an_impossible_size_is_refused_before_it_is_decoded():
    huge = FILE[:16] + (60_000).to_bytes(4, "big") * 2 + FILE[24:]
    with pytest.raises(InvalidFrameError, match="60000x60000"):
        whole_png(huge)


def test_pixels_come_out_as_they_went_in():
    width, height, rgba = decode_png(memoryview(FILE))
    found = np.frombuffer(rgba, np.uint8).reshape(height, width, 4)
    assert (7, 5) == (width, height)
    assert np.array_equal(PIXELS[:, :, ::-1], found[:, :, :3])
    assert {255} == set(found[:, :, 3].flat)


def test_what_is_no_picture_inside_is_an_invalid_frame():
    broken = bytearray(FILE)
    broken[60:64] = b"\0\0\0\0"
    with pytest.raises(InvalidFrameError, match="cannot be decoded"):
        decode_png(memoryview(bytes(broken[:70])))
