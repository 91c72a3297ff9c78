"""The last frames of all emulators, within a limit."""

import threading
import time

import pytest

from droidherd.domain.errors import InvalidFrameError
from droidherd.domain.ports import Frame
from droidherd.evidence.frame_buffer import PER_EMULATOR, WAITING_MAX, FrameBuffer
from droidherd.vision.pixels import encode_jpeg
from tests.emulator.farm import eventually


def frame(level: int, at_s: float = 0.0, size: int = 8) -> Frame:
    return Frame(size, size, bytes([level % 256, level // 256, 0, 255]) * (size * size), at_s or float(level))


def small(shown: Frame) -> bytes:
    """Stands for a picture library: a hundred bytes that tell which frame it was."""
    return bytes(shown.rgba[:2]) + b"." * 98


class Gate:
    """An encoder that waits until it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began = threading.Event()

    def __call__(self, shown: Frame) -> bytes:
        self.began.set()
        self.open.wait(10)
        return small(shown)


def levels(frame_buffer: FrameBuffer, emulator: str = "e", count: int = 99) -> list[int]:
    return [shot.content[0] + 256 * shot.content[1] for shot in frame_buffer.last(emulator, count)]


def test_the_last_frames_of_an_emulator_come_oldest_first():
    with FrameBuffer(small) as frame_buffer:
        for level in range(1, 6):
            frame_buffer.add("e", frame(level))
            assert level == levels(frame_buffer)[-1]
        frame_buffer.add("other", frame(9))
        assert ([3, 4, 5], [9]) == (levels(frame_buffer, count=3), levels(frame_buffer, "other"))
        assert [] == levels(frame_buffer, "nobody")


def test_a_frame_that_shows_nothing_new_only_says_until_when_it_was_so():
    with FrameBuffer(small) as frame_buffer:
        for at_s in (1.0, 2.0, 3.0):
            frame_buffer.add("e", frame(7, at_s))
            assert 7 == levels(frame_buffer)[-1]
        (shot,) = frame_buffer.last("e", 9)
        assert (1.0, 3.0) == (shot.taken_at_s, shot.last_at_s)
        assert (3.0, "task") == frame_buffer.seen_at_s("e")


def test_where_a_frame_went_unseen_nobody_says_that_it_showed_the_same():
    gate = Gate()
    with FrameBuffer(gate) as frame_buffer:
        frame_buffer.add("e", frame(1, 1.0))
        assert gate.began.wait(10)
        gate.open.set()
        assert [1] == levels(frame_buffer)
        gate.open.clear()
        gate.began.clear()
        frame_buffer.add("other", frame(9))
        assert gate.began.wait(10)
        for at_s in range(2, WAITING_MAX + 3):
            frame_buffer.add("e", frame(2 if at_s == 2 else 1, float(at_s)))
        gate.open.set()
        times = [(shot.taken_at_s, shot.last_at_s) for shot in frame_buffer.last("e", 9)]
        assert [(1.0, 1.0), (3.0, WAITING_MAX + 2.0)] == times, "that of second 2 had no room"
        assert [1, 1] == levels(frame_buffer)


def test_who_takes_a_frame_does_not_wait_for_its_encoding():
    gate = Gate()
    with FrameBuffer(gate) as frame_buffer:
        frame_buffer.add("e", frame(1))
        assert gate.began.wait(10)
        for level in range(2, 30):
            frame_buffer.add("e", frame(level))  # returns, though the encoder never does
        assert not gate.open.is_set()
        gate.open.set()
        assert [1, *range(30 - WAITING_MAX, 30)] == levels(frame_buffer)


def test_under_load_an_emulator_that_has_nothing_yet_is_served_first():
    gate = Gate()
    with FrameBuffer(gate) as frame_buffer:
        frame_buffer.add("busy", frame(1))
        assert gate.began.wait(10)
        gate.open.set()
        assert [1] == levels(frame_buffer, "busy")
        gate.open.clear()
        gate.began.clear()
        frame_buffer.add("busy", frame(2))
        assert gate.began.wait(10)
        frame_buffer.add("quiet", frame(7))
        for level in range(3, 30):
            frame_buffer.add("busy", frame(level))
        gate.open.set()
        assert [7] == levels(frame_buffer, "quiet")
        assert [1, 2, 27, 28, 29] == levels(frame_buffer, "busy")


def test_what_is_encoded_just_now_is_not_missed_by_who_asks():
    gate = Gate()
    with FrameBuffer(gate) as frame_buffer:
        frame_buffer.add("e", frame(1))
        assert gate.began.wait(10)
        threading.Timer(0.1, gate.open.set).start()
        assert [1] == levels(frame_buffer)


def test_all_emulators_together_keep_the_limit_and_the_oldest_goes_first():
    with FrameBuffer(small, limit_bytes=4_000) as frame_buffer:
        for level in range(1, 40):
            frame_buffer.add(f"e{level % 3}", frame(level))
            levels(frame_buffer, f"e{level % 3}")
            assert frame_buffer.kept_bytes <= 4_000
        kept = sorted(level for name in ("e0", "e1", "e2") for level in levels(frame_buffer, name))
        assert list(range(kept[0], 40)) == kept
        assert len(kept) > 5


def test_frames_that_wait_count_with_all_their_pixels():
    gate = Gate()
    with FrameBuffer(gate, limit_bytes=10_000) as frame_buffer:
        for level in range(1, 5):
            frame_buffer.add("e", frame(level, size=32))  # 4 KB each
            assert frame_buffer.kept_bytes <= 10_000
        gate.open.set()
        assert [3, 4] == levels(frame_buffer)


def test_a_frame_larger_than_the_limit_is_not_kept():
    with FrameBuffer(small, limit_bytes=1_000) as frame_buffer:
        frame_buffer.add("e", frame(1, size=32))
        assert (0, []) == (frame_buffer.kept_bytes, levels(frame_buffer))


def test_one_emulator_cannot_push_all_others_out():
    with FrameBuffer(small) as frame_buffer:
        frame_buffer.add("quiet", frame(1))
        for level in range(2 * PER_EMULATOR):
            frame_buffer.add("busy", frame(level + 1))
            levels(frame_buffer, "busy")
        assert (PER_EMULATOR, [1]) == (len(levels(frame_buffer, "busy")), levels(frame_buffer, "quiet"))


def test_a_frame_that_cannot_be_encoded_is_left_out():
    def refuse(shown: Frame) -> bytes:
        raise InvalidFrameError("no")

    with FrameBuffer(refuse) as frame_buffer:
        frame_buffer.add("e", frame(1))
        assert [] == levels(frame_buffer)


def test_many_threads_leave_a_frame_buffer_that_adds_up():
    with FrameBuffer(small, limit_bytes=6_000, rest=0.0) as frame_buffer:

        def work(name: str) -> None:
            for level in range(300):
                frame_buffer.add(name, frame(level))
                if level % 7 == 0:
                    frame_buffer.last(name, 3)

        threads = [threading.Thread(target=work, args=(f"e{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shots = [shot for number in range(6) for shot in frame_buffer.last(f"e{number}", 99)]
        assert 0 < sum(len(shot.content) for shot in shots) <= frame_buffer.kept_bytes <= 6_000


def test_the_encoder_ends_with_the_buffer_and_takes_nothing_afterwards():
    before = set(threading.enumerate())
    frame_buffer = FrameBuffer(small)
    frame_buffer.add("e", frame(1))
    (encoder,) = [one for one in threading.enumerate() if one.name == "frame buffer" and one not in before]
    frame_buffer.close()
    eventually(lambda: not encoder.is_alive())
    frame_buffer.add("e", frame(2))
    assert (0, ()) == (frame_buffer.kept_bytes, frame_buffer.last("e", 9))


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_a_real_frame_becomes_a_jpeg_of_its_size(size: tuple[int, int]):
    width, height = size
    shown = Frame(width, height, bytes(range(256)) * (width * height * 4 // 256), time.monotonic())
    with FrameBuffer(encode_jpeg) as frame_buffer:
        frame_buffer.add("e", shown)
        (shot,) = frame_buffer.last("e", 1)
    assert (width, height, b"\xff\xd8\xff") == (shot.width, shot.height, shot.content[:3])
