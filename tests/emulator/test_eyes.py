"""What eyes see, and what they say when they see nothing."""

import threading
import time

import psutil
import pytest

from droidherd.adb.files import DeviceFiles
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import (
    CommandFailedError,
    DiskFullError,
    DroidherdError,
    EmulatorLostError,
    InvalidFrameError,
    UnknownOutcomeError,
)
from droidherd.emulator.eyes import EmulatorEyes
from tests.emulator.farm import LONG_S, Farm, One, eventually

SHORT_S = 0.3


def test_a_frame_is_whole_new_and_of_the_screen(one: One):
    one.control.set_scene(one.name, "launcher")
    asked_s = time.monotonic()
    frame = one.eyes().look()
    assert (1280, 720, 1280 * 720 * 4) == (frame.width, frame.height, len(frame.rgba))
    assert asked_s <= frame.taken_at_s <= time.monotonic()
    one.control.set_scene(one.name, "sign_in")
    assert bytes(frame.rgba) != bytes(one.eyes().look().rgba)


def test_the_focus_is_what_is_in_front(one: One):
    one.hands().start_app("1", "com.example.herd")
    assert "com.example.herd/com.example.herd.MainActivity" == one.eyes().focus()
    one.hands().key("2", "home")
    assert one.eyes().focus().startswith("com.android.launcher3/")


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [("half_screencap", "truncated"), ("empty_screencap", "only 0 bytes"), ("black_screencap", "one colour")],
)
def test_a_bad_frame_is_invalid_and_the_next_one_is_good(one: One, fault: str, complaint: str):
    one.control.set_fault(one.name, fault, times=1)
    with pytest.raises(InvalidFrameError, match=complaint):
        one.eyes().look()
    assert 1280 == one.eyes().look().width


@pytest.mark.parametrize("fault", ["no_open", "shell_hang", "stall"])
def test_an_emulator_that_does_not_answer_is_lost_not_unknown(one: One, fault: str):
    one.control.set_fault(one.name, fault)
    with pytest.raises(EmulatorLostError, match=r"within 0\.3 s"):
        one.eyes(SHORT_S).look()


@pytest.mark.parametrize("fault", ["drop", "refuse_open", "shell_cut"])
def test_an_emulator_that_breaks_off_gives_no_frame(one: One, fault: str):
    one.control.set_fault(one.name, fault, times=1)
    with pytest.raises((EmulatorLostError, InvalidFrameError)):
        one.eyes().look()


@pytest.mark.parametrize("fault", ["drop", "refuse_open", "shell_cut", "shell_hang", "no_open", "stall"])
def test_a_shell_line_without_its_exit_frame_is_of_unknown_outcome(one: One, fault: str):
    one.control.set_fault(one.name, fault)
    with pytest.raises(UnknownOutcomeError):
        one.adb.shell(one.address, "echo one; echo two; echo three", SHORT_S)


@pytest.mark.parametrize("blow", ["kill", "suspend"])
def test_an_adb_server_that_dies_or_hangs_under_a_call_leaves_it_unknown(farm: Farm, one: One, blow: str):
    caught: list[DroidherdError] = []

    def call() -> None:
        try:
            one.adb.shell(one.address, "echo begun; sleep 30", 3.0)
        except DroidherdError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: bool(one.did("echo begun")))
    getattr(psutil.Process(farm.server.pid), blow)()
    thread.join(LONG_S)
    farm.server.stop()
    farm.server.start()
    assert [UnknownOutcomeError] == [type(error) for error in caught]


def test_a_look_can_be_interrupted(one: One):
    interrupt = CallInterrupt()
    one.control.set_fault(one.name, "shell_hang")
    threading.Timer(0.1, interrupt.fire).start()
    with pytest.raises(EmulatorLostError, match="interrupted"):
        EmulatorEyes(one.adb, one.address, interrupt=interrupt).look()


# --- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_003])
def test_a_file_comes_back_as_it_went(one: One, size: int):
    files = DeviceFiles(one.adb, one.address)
    content = bytes(position % 253 for position in range(size))
    path = "/data/local/tmp/it's a file"
    files.push(content, path, LONG_S)
    assert content == files.pull(path, LONG_S)
    assert (True, size) == (files.stat(path, LONG_S).exists, files.stat(path, LONG_S).size)


def test_a_file_that_is_not_there_is_no_file(one: One):
    files = DeviceFiles(one.adb, one.address)
    assert not files.stat("/data/local/tmp/none", LONG_S).exists
    with pytest.raises(CommandFailedError):
        files.pull("/data/local/tmp/none", LONG_S)


def test_a_full_emulator_takes_no_file(one: One):
    one.control.set_fault(one.name, "push_full")
    with pytest.raises(DiskFullError, match="free space"):
        DeviceFiles(one.adb, one.address).push(b"x" * 100, "/data/local/tmp/x", LONG_S)


@pytest.mark.parametrize("fault", ["half_pull", "no_open", "stall", "refuse_open"])
def test_half_a_file_is_no_file(one: One, fault: str):
    files = DeviceFiles(one.adb, one.address)
    files.push(b"x" * 200_000, "/data/local/tmp/x", LONG_S)
    one.control.set_fault(one.name, fault)
    with pytest.raises(UnknownOutcomeError):
        files.pull("/data/local/tmp/x", 0.5)
