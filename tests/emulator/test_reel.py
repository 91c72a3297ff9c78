"""The last frames of all emulators, within a limit."""

import threading
import time

import pytest

from droidherd.domain.errors import InvalidFrameError
from droidherd.domain.ports import Frame
from droidherd.emulator.reel import PER_EMULATOR, WAITING_MAX, Reel
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


def levels(reel: Reel, emulator: str = "e", count: int = 99) -> list[int]:
    return [shot.content[0] + 256 * shot.content[1] for shot in reel.last(emulator, count)]


def test_the_last_frames_of_an_emulator_come_oldest_first():
    with Reel(small) as reel:
        for level in range(1, 6):
            reel.add("e", frame(level))
            assert level == levels(reel)[-1]
        reel.add("other", frame(9))
        assert ([3, 4, 5], [9]) == (levels(reel, count=3), levels(reel, "other"))
        assert [] == levels(reel, "nobody")


def test_a_frame_that_shows_nothing_new_only_says_until_when_it_was_so():
    with Reel(small) as reel:
        for at_s in (1.0, 2.0, 3.0):
            reel.add("e", frame(7, at_s))
            assert 7 == levels(reel)[-1]
        (shot,) = reel.last("e", 9)
        assert (1.0, 3.0) == (shot.taken_at_s, shot.last_at_s)
        assert (3.0, "task") == reel.seen_at_s("e")


def test_where_a_frame_in_between_went_unseen_nobody_says_that_it_showed_the_same():
    gate = Gate()
    with Reel(gate) as reel:
        reel.add("e", frame(1, 1.0))
        assert gate.began.wait(10)
        gate.open.set()
        assert [1] == levels(reel)
        gate.open.clear()
        gate.began.clear()
        reel.add("other", frame(9))
        assert gate.began.wait(10)
        for at_s in range(2, WAITING_MAX + 3):
            reel.add("e", frame(2 if at_s == 2 else 1, float(at_s)))
        gate.open.set()
        times = [(shot.taken_at_s, shot.last_at_s) for shot in reel.last("e", 9)]
        assert [(1.0, 1.0), (3.0, WAITING_MAX + 2.0)] == times, "that of second 2 had no room"
        assert [1, 1] == levels(reel)


def test_who_takes_a_frame_does_not_wait_for_its_encoding():
    gate = Gate()
    with Reel(gate) as reel:
        reel.add("e", frame(1))
        assert gate.began.wait(10)
        for level in range(2, 30):
            reel.add("e", frame(level))  # returns, though the encoder never does
        assert not gate.open.is_set()
        gate.open.set()
        assert [1, *range(30 - WAITING_MAX, 30)] == levels(reel)


def test_under_load_an_emulator_that_has_nothing_yet_is_served_before_those_that_have():
    gate = Gate()
    with Reel(gate) as reel:
        reel.add("busy", frame(1))
        assert gate.began.wait(10)
        gate.open.set()
        assert [1] == levels(reel, "busy")
        gate.open.clear()
        gate.began.clear()
        reel.add("busy", frame(2))
        assert gate.began.wait(10)
        reel.add("quiet", frame(7))
        for level in range(3, 30):
            reel.add("busy", frame(level))
        gate.open.set()
        assert [7] == levels(reel, "quiet")
        assert [1, 2, 27, 28, 29] == levels(reel, "busy")


def test_what_is_encoded_just_now_is_not_missed_by_who_asks():
    gate = Gate()
    with Reel(gate) as reel:
        reel.add("e", frame(1))
        assert gate.began.wait(10)
        threading.Timer(0.1, gate.open.set).start()
        assert [1] == levels(reel)


def test_all_emulators_together_keep_no_more_than_the_limit_and_the_oldest_goes_first():
    with Reel(small, limit_bytes=4_000) as reel:
        for level in range(1, 40):
            reel.add(f"e{level % 3}", frame(level))
            levels(reel, f"e{level % 3}")
            assert reel.kept_bytes <= 4_000
        kept = sorted(level for name in ("e0", "e1", "e2") for level in levels(reel, name))
        assert list(range(kept[0], 40)) == kept
        assert len(kept) > 5


def test_frames_that_wait_count_with_all_their_pixels():
    gate = Gate()
    with Reel(gate, limit_bytes=10_000) as reel:
        for level in range(1, 5):
            reel.add("e", frame(level, size=32))  # 4 KB each
            assert reel.kept_bytes <= 10_000
        gate.open.set()
        assert [3, 4] == levels(reel)


def test_a_frame_larger_than_the_limit_is_not_kept():
    with Reel(small, limit_bytes=1_000) as reel:
        reel.add("e", frame(1, size=32))
        assert (0, []) == (reel.kept_bytes, levels(reel))


def test_one_emulator_cannot_push_all_others_out():
    with Reel(small) as reel:
        reel.add("quiet", frame(1))
        for level in range(2 * PER_EMULATOR):
            reel.add("busy", frame(level + 1))
            levels(reel, "busy")
        assert (PER_EMULATOR, [1]) == (len(levels(reel, "busy")), levels(reel, "quiet"))


def test_a_frame_that_cannot_be_encoded_is_left_out():
    def refuse(shown: Frame) -> bytes:
        raise InvalidFrameError("no")

    with Reel(refuse) as reel:
        reel.add("e", frame(1))
        assert [] == levels(reel)


def test_many_threads_leave_a_reel_that_adds_up():
    with Reel(small, limit_bytes=6_000, rest=0.0) as reel:

        def work(name: str) -> None:
            for level in range(300):
                reel.add(name, frame(level))
                if level % 7 == 0:
                    reel.last(name, 3)

        threads = [threading.Thread(target=work, args=(f"e{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shots = [shot for number in range(6) for shot in reel.last(f"e{number}", 99)]
        assert 0 < sum(len(shot.content) for shot in shots) <= reel.kept_bytes <= 6_000


def test_the_encoder_ends_with_the_reel_and_takes_nothing_afterwards():
    before = set(threading.enumerate())
    reel = Reel(small)
    reel.add("e", frame(1))
    (encoder,) = [one for one in threading.enumerate() if one.name == "reel" and one not in before]
    reel.close()
    eventually(lambda: not encoder.is_alive())
    reel.add("e", frame(2))
    assert (0, ()) == (reel.kept_bytes, reel.last("e", 9))


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_a_real_frame_becomes_a_jpeg_of_its_size(size: tuple[int, int]):
    width, height = size
    shown = Frame(width, height, bytes(range(256)) * (width * height * 4 // 256), time.monotonic())
    with Reel(encode_jpeg) as reel:
        reel.add("e", shown)
        (shot,) = reel.last("e", 1)
    assert (width, height, b"\xff\xd8\xff") == (shot.width, shot.height, shot.content[:3])
