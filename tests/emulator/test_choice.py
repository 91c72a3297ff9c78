"""Which camera is chosen, and how long finding out may take: cameras that are made up, by a clock that is, too."""

from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import AbandonedError, InvalidFrameError, UnknownOutcomeError
from droidherd.domain.ports import Frame
from droidherd.emulator.cameras import FILE, Cameras

LONG_S = 10.0
NAMES = ("raw", "png", "framebuffer")


class Clock:
    """Runs only where somebody says so, and a little whenever it is looked at: a busy machine takes none of it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


CLOCK = Clock()


@pytest.fixture(autouse=True)
def by_this_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("droidherd.emulator.cameras.time", CLOCK)


class Scripted:
    """A camera that shows what it is told, one frame after the other."""

    def __init__(self, name: str, *levels: int, age_s: float = 0.0) -> None:
        self.name = name
        self._levels = [*levels]
        self._age_s = age_s

    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        level = self._levels.pop(0) if len(self._levels) > 1 else self._levels[0]
        return Frame(2, 1, bytes([level] * 3 + [255] + [0] * 3 + [255]), CLOCK.monotonic() - self._age_s)


def test_a_screen_that_moves_is_judged_by_how_much_it_moves():
    cameras = Cameras([Scripted("raw", 30), Scripted("png", 10, 50)])
    place = cameras.probe("e", "s")
    assert ["raw", "png"] == sorted([camera.name for camera in place.ranking], reverse=True)


def test_a_camera_that_differed_while_the_screen_moved_gets_another_try():
    cameras = Cameras([Scripted("raw", 0, 104), Scripted("png", 100, 104)])
    assert {"raw", "png"} == {camera.name for camera in cameras.probe("e", "s").ranking}


def test_a_frame_from_before_the_question_is_stale():
    cameras = Cameras([Scripted("raw", 9, age_s=2.0)])
    with pytest.raises(InvalidFrameError, match=r"stale: taken 2\.0 s before it was asked for"):
        cameras.take("e", "s", LONG_S)


class Fickle(Scripted):
    """A camera that can be broken, and heeds who interrupts it."""

    broken = False

    @override
    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        if interrupt is not None:
            interrupt.check()
        if self.broken:
            raise InvalidFrameError("broken")
        return super().take(serial, deadline_s, interrupt)


def test_who_gives_up_waiting_for_a_probe_is_not_taken_for_a_broken_camera():
    def given_up() -> None:
        raise AbandonedError("Temporal gave this try up")

    cameras = Cameras([Fickle("raw", 1), Fickle("png", 1)])
    with pytest.raises(AbandonedError):
        cameras.take("e", "s", LONG_S, CallInterrupt(pulse=given_up))
    assert None is cameras.choice_for("e")


def test_a_camera_left_out_once_is_tried_again_when_no_other_sees_anything():
    raw, png = Fickle("raw", 1), Fickle("png", 1)
    png.broken = True
    cameras = Cameras([raw, png])
    cameras.take("e", "s", LONG_S)
    raw.broken, png.broken = True, False
    for _ in range(2):
        with pytest.raises(InvalidFrameError):
            cameras.take("e", "s", LONG_S)
    assert 2 == cameras.take("e", "s", LONG_S).width
    assert png is cameras.probe("e", "s").camera


def test_to_find_out_about_a_suspect_takes_no_longer_than_the_frame_may():
    class Timed(Fickle):
        given_s = 0.0

        @override
        def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
            self.given_s = deadline_s
            return super().take(serial, deadline_s, interrupt)

    raw, png = Timed("raw", 1), Fickle("png", 1)
    cameras = Cameras([raw, png])
    cameras.probe("e", "s").ranking.sort(key=lambda one: one is png)
    raw.broken = True
    for _ in range(2):
        with pytest.raises(InvalidFrameError):
            cameras.take("e", "s", LONG_S)
    assert 2 == cameras.take("e", "s", 0.5).width
    assert raw.given_s < 0.5


# --- the probe, within the time of one frame -----------------------------------------------------------------

D_S = 0.6
"""What a frame may take here."""


class Asked(Scripted):
    """Remembers what time it was given, each time it was asked."""

    def __init__(self, name: str, *levels: int) -> None:
        super().__init__(name, *levels)
        self.given_s: list[float] = []

    @override
    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        self.given_s.append(deadline_s)
        return super().take(serial, deadline_s, interrupt)


class Stalled(Asked):
    """Gives no answer."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 0)

    @override
    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        super().take(serial, deadline_s, interrupt)
        CLOCK.sleep(deadline_s)
        raise UnknownOutcomeError(f"no answer within {deadline_s:g} s")


def test_the_first_frame_of_an_emulator_is_one_that_its_probe_took():
    raw, png = Asked("raw", 10), Asked("png", 10, 11)
    cameras = Cameras([raw, png])
    frame = cameras.take("e", "s", LONG_S)
    assert (1, 2) == (len(raw.given_s), len(png.given_s)), "each was asked for the probe alone"
    assert 11 == frame.rgba[0], "the newest"


def test_a_reference_that_gives_no_answer_leaves_the_others_their_part():
    png, raw, odd = Stalled("png"), Asked("raw", 10), Asked("framebuffer", 90)
    cameras = Cameras([raw, png, odd])
    assert 10 == cameras.take("e", "s", D_S).rgba[0]
    place = cameras.choice_for("e")
    assert place is not None
    assert [raw] == place.ranking, "the first that shows something stands in, and the other shows something else"
    assert (1, True) == (len(png.given_s), png.given_s[0] <= D_S / 2), "nor is it asked again"


@pytest.mark.parametrize("working", NAMES)
def test_one_camera_that_works_is_found_though_all_others_give_no_answer(working: str):
    cameras = Cameras([Asked(name, 7) if name == working else Stalled(name) for name in NAMES])
    assert 7 == cameras.take("e", "s", D_S).rgba[0]


class Slow(Asked):
    """Needs a third of the time there is."""

    @override
    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        frame = super().take(serial, deadline_s, interrupt)
        CLOCK.sleep(min(deadline_s, D_S / 3))
        if deadline_s < D_S / 3:
            raise UnknownOutcomeError(f"no answer within {deadline_s:g} s")
        return replace(frame, taken_at_s=CLOCK.monotonic())


def test_an_emulator_whose_every_camera_is_slow_is_seen_all_the_same():
    assert 7 == Cameras([Slow(name, 7) for name in NAMES]).take("e", "s", D_S).rgba[0]


def test_a_probe_and_its_frame_take_no_longer_than_a_frame_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.emulator.cameras.FRESH_S", D_S / 100)
    png, raw, framebuffer = Stalled("png"), Asked("raw", 10, 11), Stalled("framebuffer")
    frame = Cameras([raw, png, framebuffer]).take("e", "s", D_S)
    assert 11 == frame.rgba[0], "that of the probe is old by now: what is seen is acted on"
    assert png.given_s[0] + framebuffer.given_s[0] + raw.given_s[-1] <= D_S


def test_a_reference_that_drops_one_frame_is_asked_again():
    class Dropping(Asked):
        @override
        def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
            frame = super().take(serial, deadline_s, interrupt)
            if len(self.given_s) == 1:
                raise InvalidFrameError("dropped")
            return frame

    png = Dropping("png", 10)
    cameras = Cameras([Asked("raw", 90), png])
    assert 10 == cameras.take("e", "s", LONG_S).rgba[0]
    place = cameras.choice_for("e")
    assert place is not None
    assert [png] == place.ranking, "or what shows something else would have stood in for it"


class Counted(Scripted):
    """Counts its frames."""

    frames = 0

    @override
    def take(self, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        self.frames += 1
        return super().take(serial, deadline_s, interrupt)


def test_a_worker_that_starts_sees_an_emulator_as_the_one_before_did(tmp_path: Path):
    Cameras([Slow("raw", 7), Scripted("png", 7)], folder=tmp_path).probe("e", "s")
    raw, png = Counted("raw", 7), Counted("png", 7)
    Cameras([raw, png], folder=tmp_path).take("e", "s", LONG_S)
    assert (0, 1) == (raw.frames, png.frames)


def test_an_emulator_that_booted_is_looked_at_anew_by_a_later_worker_too(tmp_path: Path):
    cameras = Cameras([Scripted("raw", 7), Scripted("png", 7)], folder=tmp_path)
    cameras.probe("e", "s")
    cameras.forget("e")
    assert Cameras([Scripted("raw", 7), Scripted("png", 7)], folder=tmp_path).choice_for("e") is None


@pytest.mark.parametrize("kept", ["", "[]", '{"e": 1}', '{"e": ["gone"]}'])
def test_a_choice_that_cannot_be_followed_is_made_again(tmp_path: Path, kept: str):
    (tmp_path / FILE).write_text(kept)
    cameras = Cameras([Scripted("raw", 7), Scripted("png", 7)], folder=tmp_path)
    cameras.take("e", "s", LONG_S)
    choice = cameras.choice_for("e")
    assert choice is not None
    assert {"raw", "png"} == {camera.name for camera in choice.ranking}
