"""The two readers of `shell,v2`: for text, and for pictures."""

import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.adb.client import AdbClient
from droidherd.adb.picture import uniform
from droidherd.adb.shell import ShellFrames
from droidherd.adb.wire import WireClosedError
from droidherd.domain.errors import DroidherdError, InvalidFrameError, UnknownOutcomeError
from tests.adb.talker import DEADLINES_S, Talk, exit_frame, frame, frames, talking

LONG_S = 10.0
SERIAL = "127.0.0.1:16384"


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.integers(0, 255),
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
)
def test_frames_mean_the_same_however_they_are_cut(parts: list[tuple[int, bytes]], rc: int, cuts: list[int]):
    wire = b"".join(frame(kind, payload) for kind, payload in parts) + exit_frame(rc)
    reader = ShellFrames()
    position, turn = 0, 0
    while position < len(wire):
        assert reader.rc is None
        size = cuts[turn % len(cuts)]
        reader.feed(wire[position : position + size])
        position, turn = position + size, turn + 1
    assert rc == reader.rc
    assert b"".join(payload for kind, payload in parts if kind == 1) == bytes(reader.out)
    assert b"".join(payload for kind, payload in parts if kind == 2) == bytes(reader.err)


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_wire_error(data: bytes):
    reader = ShellFrames()
    try:
        reader.feed(data)
    except WireClosedError:
        assert reader.rc is None


def picture(width: int, height: int, *, prologue: int = 16, kind: int = 1, pixels: bytes | None = None) -> bytes:
    body = bytearray(position % 251 for position in range(width * height * 4)) if pixels is None else bytearray(pixels)
    body[3::4] = b"\xff" * (len(body) // 4)
    return struct.pack("<IIII", width, height, kind, 1)[:prologue] + body


class Screen:
    """Answers each screencap with the next stream it was given."""

    def __init__(self) -> None:
        self.stream = b""
        self.hangs = False
        self.lock = threading.Lock()

    def script(self, talk: Talk) -> None:
        assert b"shell,v2,raw:screencap" == talk.service()
        talk.say(self.stream)
        if self.hangs:
            talk.silence()


def capture(stream: bytes, *, hangs: bool = False, within_s: float = LONG_S) -> tuple[int, int, bytes]:
    screen = Screen()
    screen.stream, screen.hangs = stream, hangs
    with talking(screen.script) as talker:
        taken = AdbClient(talker.port).capture(SERIAL, within_s)
    return taken.width, taken.height, bytes(taken.rgba)


def given_up(stream: bytes, expected: type[DroidherdError]) -> DroidherdError:
    """What nobody hears the end of ends with; on a busy machine nothing of it may have arrived by an early deadline."""
    for within_s in DEADLINES_S:
        with pytest.raises(DroidherdError) as caught:
            capture(stream, hangs=True, within_s=within_s)
        if isinstance(caught.value, expected):
            return caught.value
    pytest.fail(f"it never ended with {expected.__name__}")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 9),
    st.sampled_from([12, 16]),
    st.lists(st.integers(0, 60), min_size=1, max_size=10),
    st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=50), max_size=4),
)
def test_a_picture_arrives_whole_however_it_is_cut_and_whatever_precedes_it(
    width: int, height: int, prologue: int, cuts: list[int], before: list[str]
):
    whole = picture(width, height, prologue=prologue)
    raw = "".join(f"{line}\n" for line in before).encode() + whole
    stream, position, turn = b"", 0, 0
    while position < len(raw):
        size = max(cuts[turn % len(cuts)], 1 if turn >= len(cuts) else 0)
        stream += frame(1, raw[position : position + size]) + (frame(2, b"warning") if before else b"")
        position, turn = position + size, turn + 1
    assert (width, height, whole[prologue:]) == capture(stream + exit_frame())


WHOLE = picture(4, 3)


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (exit_frame(), "only 0 bytes"),
        (frames([WHOLE[:10]]), "only 10 bytes"),
        (frames([WHOLE[:-1]]), "truncated"),
        (frames([WHOLE[:40]]), "truncated"),
        (frames([WHOLE, b"x"]), "more than the 4x3"),
        (frames([WHOLE + b"x"]), "more than the 4x3"),
        (frames([WHOLE], rc=1), "returned 1"),
        (frame(2, b"no display") + exit_frame(255), "returned 255 no display"),
        (frames([picture(0, 3)]), "impossible size"),
        (frames([struct.pack("<IIII", 2**31, 2**31, 1, 1)]), "impossible size"),
        (frames([struct.pack("<IIII", 16_000, 16_000, 1, 1)]), "impossible size"),
        (frames([picture(4, 3, kind=4)]), "pixel format 4"),
        (frames([WHOLE[:-1] + b"\0"]), "not drawn to its end"),
        (frames([b"screencap: no such display, and no picture"]), "only 42 bytes: 'screencap: no such"),
        (frames([b"no picture here\n" * 300]), "text instead of a picture: 'no picture"),
        (frames([b"a warning\n" + struct.pack("<IIII", 0, 3, 1, 1)]), "only 26 bytes"),
        (frames([picture(4, 3, pixels=b"\0\0\0\xff" * 12)]), "one colour"),
        (frame(1, WHOLE[:30]), "truncated after"),
        (frame(1, WHOLE)[:-7], "truncated after"),
        (frame(1, WHOLE), "truncated after"),
        (frame(1, WHOLE) + frame(7, b"?"), "truncated after"),
    ],
)
def test_what_is_not_a_whole_picture_is_an_invalid_frame(stream: bytes, complaint: str):
    with pytest.raises(InvalidFrameError, match=complaint) as caught:
        capture(stream)
    assert SERIAL == caught.value.to


def test_a_picture_that_never_begins_is_of_unknown_outcome():
    assert UnknownOutcomeError is type(given_up(b"", UnknownOutcomeError))


def test_a_picture_that_stops_arriving_is_an_invalid_frame():
    assert "truncated after" in str(given_up(frame(1, WHOLE)[:-9], InvalidFrameError))


def test_a_picture_without_alpha_may_hold_anything_there():
    assert (4, 3) == capture(frames([picture(4, 3, kind=2)[:-1] + b"\0"]) + b"")[:2]


@given(st.integers(2, 3000), st.data())
def test_one_pixel_of_another_colour_is_enough(count: int, data: st.DataObject):
    pixels = bytearray(b"\x10\x20\x30\xff" * count)
    assert uniform(memoryview(pixels))
    pixels[data.draw(st.integers(0, count * 4 - 1))] ^= 1
    assert not uniform(memoryview(pixels))
