"""Viewers share captures, and no step waits for them."""

import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from droidherd.domain.errors import EmulatorLostError, InvalidFrameError, StillBusyError
from droidherd.domain.ports import Frame
from droidherd.emulator import lease
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.eyes import EmulatorEyes, FrameSource
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.lines import NAME_PROPERTY
from droidherd.emulator.probe import assure
from droidherd.emulator.token import Token
from droidherd.emulator.viewers import OWN_S, TASKS_S, ViewerPorts, Viewers
from droidherd.evidence.frame_buffer import FrameBuffer
from droidherd.vision.pixels import encode_jpeg
from tests.emulator.farm import LEASES, LONG_S, One, eventually


class Clock:
    """The host's, set by the test. It stands, so that a busy machine makes no frame older."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def now(self) -> float:
        return self.now_s


class Stage:
    """One emulator with a task's eyes, and viewers."""

    def __init__(self, one: One, *, at_once: int = 4, look_s: float = LONG_S) -> None:
        self.one = one
        self.clock = Clock()
        self.frame_buffer = FrameBuffer(encode_jpeg)
        self.cameras = Cameras.raw_of(one.adb)
        looking = ViewerPorts(self.cameras.glimpse, self.assure, self.frame_buffer, self.serial, look_s, self.clock.now)
        self.viewers = Viewers(looking, at_once)
        source = FrameSource(one.adb.capture, lambda frame: self.frame_buffer.add(one.name, frame))
        self.eyes = EmulatorEyes(one.adb, one.address, source=source)

    def serial(self, emulator_id: str) -> str:
        return self.one.address

    def assure(self, emulator_id: str, serial: str, deadline_s: float) -> None:
        assure(self.one.adb, emulator_id, serial, deadline_s)

    def captures(self) -> int:
        return len(self.one.did("screencap"))


@pytest.fixture
def stage(one: One) -> Generator[Stage]:
    made = Stage(one)
    yield made
    made.frame_buffer.close()


def test_many_viewers_share_one_capture(stage: Stage):
    with ThreadPoolExecutor(12) as threads:
        shots = [*threads.map(stage.viewers.frame, [stage.one.name] * 12)]
    assert 1 == stage.captures()
    assert 1 == len({shot.taken_at_s for shot in shots})
    stage.clock.now_s = shots[0].taken_at_s + OWN_S + 0.1
    stage.viewers.frame(stage.one.name)
    assert 2 == stage.captures()


def test_while_a_task_looks_viewers_see_what_it_saw_and_capture_nothing(stage: Stage):
    seen = stage.eyes.look()
    stage.clock.now_s = seen.taken_at_s + TASKS_S - 0.1
    shot = stage.viewers.frame(stage.one.name)
    assert (seen.taken_at_s, 1) == (shot.taken_at_s, stage.captures())


def test_a_step_waits_for_no_viewer_and_meets_one_capture_of_theirs_at_most(stage: Stage):
    """Whatever hangs between viewers and the emulator: the step goes on, and only one of them is in its way."""
    stage.one.control.set_fault(stage.one.name, "shell_hang", times=1)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(stage.viewers.frame, stage.one.name) for _ in range(8)]
        eventually(lambda: stage.captures() == 1)  # it was carried out; its answer never comes
        for step in range(3):
            stage.eyes.look()
            assert 1 + step + 1 == stage.captures(), "one of a viewer, and the step's own ones"
        assert not any(one.done() for one in asked[:1])
        stage.one.control.drop(stage.one.name)
        assert all(one.exception(LONG_S) is None or _lost(one.exception(0)) for one in asked)


def _lost(error: BaseException | None) -> bool:
    return isinstance(error, EmulatorLostError | InvalidFrameError)


def test_a_hung_emulator_keeps_one_viewer_busy_and_the_others_hear_so(one: One):
    stage = Stage(one, at_once=1, look_s=0.3)
    one.control.stall(one.name)
    begun, end = threading.Event(), threading.Event()

    def slow(emulator_id: str, serial: str, deadline_s: float) -> Frame:
        begun.set()
        end.wait(LONG_S)
        return stage.cameras.glimpse(emulator_id, serial, deadline_s)

    busy = Viewers(ViewerPorts(slow, stage.assure, stage.frame_buffer, stage.serial, 0.3, stage.clock.now), 1)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(busy.frame, one.name)
        assert begun.wait(LONG_S)
        with pytest.raises(StillBusyError, match="too many frames"):
            busy.frame("another")
        end.set()
        with pytest.raises(EmulatorLostError, match="no answer within"):
            first.result(LONG_S)
    stage.frame_buffer.close()


def test_an_emulator_of_another_host_is_not_looked_for_here(stage: Stage, tmp_path: Path):
    viewers = Viewers(ViewerPorts(stage.cameras.glimpse, stage.assure, stage.frame_buffer, Inventory(tmp_path).address))
    with pytest.raises(EmulatorLostError, match="not in this host's inventory"):
        viewers.frame("elsewhere")


def test_a_viewer_sees_that_the_screen_is_black(stage: Stage):
    stage.one.control.set_fault(stage.one.name, "black_screencap", times=1)
    with pytest.raises(InvalidFrameError, match="one colour"):
        stage.viewers.frame(stage.one.name)
    assert 1280 == stage.viewers.frame(stage.one.name).width


def test_a_frame_of_whoever_answers_in_its_place_is_shown_to_nobody(stage: Stage):
    one, floor = stage.one, Token(next(LEASES))
    one.adb.shell(one.address, f"setprop {NAME_PROPERTY} another", LONG_S)
    try:
        with pytest.raises(EmulatorLostError, match="another answers in its place"):
            stage.viewers.frame(one.name)
        assert (1, None) == (stage.captures(), stage.frame_buffer.latest(one.name))
    finally:
        lease.floor(one.adb, one.address, floor, one.name, was="another")
    assert 1280 == stage.viewers.frame(one.name).width
