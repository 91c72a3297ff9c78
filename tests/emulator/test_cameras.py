"""Cameras through the real adb server: what each one takes, which one is chosen, and what happens when one breaks."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Generator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from droidherd import telemetry
from droidherd.adb.cameras import Camera, FramebufferCamera, PngCamera, RawCamera
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import (
    DroidherdError,
    InvalidFrameError,
    NotSentError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Frame
from droidherd.emulator.boot import BootGate, BootStep
from droidherd.emulator.cameras import Cameras
from droidherd.vision.pixels import decode_png
from tests.emulator.farm import LONG_S, Farm, One

MAKERS: dict[str, Callable[[One], Camera]] = {
    "raw": lambda one: RawCamera(one.adb),
    "png": lambda one: PngCamera(one.adb, decode_png),
    "framebuffer": lambda one: FramebufferCamera(one.adb),
}
each = pytest.mark.parametrize("name", MAKERS)


def take(one: One, name: str, seconds: float = LONG_S, interrupt: CallInterrupt | None = None) -> Frame:
    return MAKERS[name](one).take(one.address, seconds, interrupt)


def shots(one: One) -> list[str]:
    return [command.line for command in one.did("screencap")]


@each
def test_every_camera_takes_the_same_picture(one: One, name: str):
    asked_s = time.monotonic()
    frame, raw = take(one, name), take(one, "raw")
    assert asked_s <= frame.taken_at_s <= time.monotonic()
    assert (raw.width, raw.height, bytes(raw.rgba)) == (frame.width, frame.height, bytes(frame.rgba))


@each
def test_no_camera_takes_a_black_screen_for_a_picture(one: One, name: str):
    one.control.set_fault(one.name, "black_screencap")
    with pytest.raises(InvalidFrameError, match="one colour"):
        take(one, name)


@pytest.mark.parametrize("name", ["raw", "png"])
@pytest.mark.parametrize("fault", ["half_screencap", "empty_screencap"])
def test_half_a_picture_or_none_is_no_picture_though_the_return_code_is_0(one: One, name: str, fault: str):
    one.control.set_fault(one.name, fault)
    with pytest.raises(InvalidFrameError):
        take(one, name)


@each
@pytest.mark.parametrize("fault", ["no_open", "stall"])
def test_no_camera_waits_beyond_its_deadline(one: One, name: str, fault: str):
    one.control.set_fault(one.name, fault)
    with pytest.raises(UnknownOutcomeError, match=r"within 0\.3 s"):
        take(one, name, 0.3)


@each
def test_no_camera_shows_anything_when_the_emulator_breaks_off(one: One, name: str):
    one.control.set_fault(one.name, "refuse_open", times=1)
    with pytest.raises((InvalidFrameError, UnknownOutcomeError)):
        take(one, name)


@each
def test_a_camera_that_does_not_work_here_says_so(one: One, name: str):
    one.control.set_fault(one.name, "no_camera", camera=name)
    with pytest.raises((InvalidFrameError, UnknownOutcomeError)):
        take(one, name)


@each
def test_an_emulator_the_server_does_not_know_was_never_asked(one: One, name: str):
    with pytest.raises(NotSentError, match="not found"):
        MAKERS[name](one).take("127.0.0.1:9", LONG_S)


@each
def test_any_camera_can_be_interrupted(one: One, name: str):
    interrupt = CallInterrupt()
    one.control.set_fault(one.name, "no_open")
    threading.Timer(0.1, interrupt.fire).start()
    with pytest.raises(DroidherdError):
        take(one, name, interrupt=interrupt)


def test_the_framebuffer_starts_no_adb_server_of_its_own(farm: Farm, one: One):
    port = farm.server.port
    farm.server.stop()
    try:
        with pytest.raises((NotSentError, UnknownOutcomeError)):
            take(one, "framebuffer", 2.0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 2.0)
    finally:
        farm.server.start()


@pytest.mark.parametrize("name", ["raw", "png"])
@pytest.mark.parametrize("fault", ["chatty_screencap", "short_prologue"])
def test_pictures_of_other_androids_are_understood(one: One, name: str, fault: str):
    plain = take(one, name)
    one.control.set_fault(one.name, fault)
    assert bytes(plain.rgba) == bytes(take(one, name).rgba)


def test_a_screen_that_is_half_drawn_is_no_picture(one: One):
    one.control.set_fault(one.name, "odd_camera", camera="raw", how="undrawn")
    with pytest.raises(InvalidFrameError, match="not drawn to its end"):
        take(one, "raw")


# --- the choice ----------------------------------------------------------------------------------------------


@pytest.fixture
def cameras(one: One, monkeypatch: pytest.MonkeyPatch) -> Generator[Cameras]:
    monkeypatch.setattr(telemetry, "metrics", telemetry.Metrics(CollectorRegistry()))
    one.control.set_scene(one.name, "sign_in")
    yield Cameras.all_of(one.adb)
    one.control.set_scene(one.name, "launcher")


def names(cameras: Cameras, one: One) -> set[str]:
    place = cameras.choice_for(one.name)
    return {camera.name for camera in place.ranking} if place else set()


def test_an_emulator_is_probed_once_and_says_what_came_of_it(
    one: One, cameras: Cameras, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        place = cameras.probe(one.name, one.address)
    assert {"raw", "png", "framebuffer"} == names(cameras, one)
    assert min(place.judged, key=lambda judged: judged.seconds).name == place.camera.name
    assert f"{one.name} is seen with {place.camera.name} (raw " in caplog.text
    one.mark()
    cameras.take(one.name, one.address, LONG_S)
    assert len(shots(one)) <= 1, "a frame costs one capture, not a probe"
    assert 1 == telemetry.metrics.registry.get_sample_value("droidherd_cameras", {"camera": place.camera.name})
    cameras.forget(one.name)
    cameras.take(one.name, one.address, LONG_S)
    assert len(shots(one)) > 2, "after a boot it is probed anew"


def test_a_glimpse_never_probes(one: One, cameras: Cameras):
    assert 1280 == cameras.glimpse(one.name, one.address, LONG_S).width
    assert (1, None) == (len(shots(one)), cameras.choice_for(one.name))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("stale", "differs from the reference"),
        ("turned", "720x1280 instead of 1280x720"),
        ("upside_down", "differs from the reference"),
        ("rough", "differs from the reference"),
    ],
)
@pytest.mark.parametrize("name", ["raw", "framebuffer"])
def test_a_camera_that_shows_something_else_is_not_chosen_however_quick(
    one: One, cameras: Cameras, name: str, how: str, why: str
):
    one.control.set_fault(one.name, "odd_camera", camera=name, how=how)
    place = cameras.probe(one.name, one.address)
    assert name not in names(cameras, one)
    assert why in next(judged.why_not for judged in place.judged if judged.name == name)


@pytest.mark.parametrize("left", ["raw", "png", "framebuffer"])
def test_an_emulator_with_one_working_camera_is_seen_with_that(one: One, cameras: Cameras, left: str):
    out = ",".join(name for name in MAKERS if name != left)
    one.control.set_fault(one.name, "no_camera", camera=out)
    assert 1280 == cameras.take(one.name, one.address, LONG_S).width
    assert {left} == names(cameras, one)


def test_an_emulator_without_any_is_no_emulator_to_work_on(one: One, cameras: Cameras):
    one.control.set_fault(one.name, "no_camera", camera="raw,png,framebuffer")
    with pytest.raises(InvalidFrameError, match="no camera shows anything: raw: screencap returned 1"):
        cameras.take(one.name, one.address, LONG_S)


def chosen(cameras: Cameras, one: One) -> str:
    place = cameras.choice_for(one.name)
    return place.camera.name if place else ""


def test_a_camera_that_breaks_is_replaced_by_the_next_one(one: One, cameras: Cameras):
    cameras.take(one.name, one.address, LONG_S)
    first = chosen(cameras, one)
    one.control.set_fault(one.name, "no_camera", camera=first)
    for _ in range(2):
        with pytest.raises((InvalidFrameError, UnknownOutcomeError)):
            cameras.take(one.name, one.address, LONG_S)
    assert 1280 == cameras.take(one.name, one.address, LONG_S).width
    assert first not in names(cameras, one)
    one.control.clear_fault(one.name)
    assert 1280 == cameras.take(one.name, one.address, LONG_S).width
    assert first != chosen(cameras, one), "out until the next boot"


def test_one_bad_frame_makes_no_other_camera(one: One, cameras: Cameras):
    cameras.take(one.name, one.address, LONG_S)
    first = chosen(cameras, one)
    one.control.set_fault(one.name, "black_screencap", times=1)
    with pytest.raises(InvalidFrameError):
        cameras.take(one.name, one.address, LONG_S)
    assert first == chosen(cameras, one)


def test_a_screen_that_is_black_for_a_while_costs_no_camera_its_place(one: One, cameras: Cameras):
    cameras.take(one.name, one.address, LONG_S)
    first, before = chosen(cameras, one), names(cameras, one)
    one.control.set_fault(one.name, "black_screencap")
    for _ in range(3):
        with pytest.raises(InvalidFrameError):
            cameras.take(one.name, one.address, LONG_S)
    one.control.clear_fault(one.name)
    assert 1280 == cameras.take(one.name, one.address, LONG_S).width
    assert (first, before) == (chosen(cameras, one), names(cameras, one))


def test_an_emulator_whose_raw_frames_are_no_good_passes_the_boot_gate(one: One, cameras: Cameras):
    one.control.set_fault(one.name, "no_camera", camera="raw")
    reached: list[BootStep] = []
    gate = BootGate(one.adb, one.address, reached.append, take=partial(cameras.take, one.name))
    gate.wait(LONG_S, (BootStep.FRAME,))
    assert [BootStep.FRAME] == reached
    assert "raw" not in names(cameras, one)
