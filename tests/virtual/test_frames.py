"""Pictures are drawn once for all emulators, within bounds."""

import asyncio
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest

from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render
from droidherd.virtual.frames import HEADER_BYTES, VirtualFrames
from droidherd.virtual.process import VirtualFleet
from tests.support.adbserver import PrivateAdb

TEN: list[dict[str, object]] = [
    {"scene": "launcher"},
    {"scene": "sign_in"},
    {"scene": "sign_in", "account": "bob"},
    {"scene": "home", "signed_in": "bob"},
    {"scene": "home", "signed_in": "bob", "gift_taken": True},
    {"scene": "dialog"},
    {"scene": "list", "scroll": 0},
    {"scene": "list", "scroll": 300},
    {"scene": "list", "scroll": 600, "claimed": [7]},
    {"scene": "home", "popup": True},
]


async def test_emulators_that_show_the_same_share_one_picture():
    frames = VirtualFrames()
    one, two = await asyncio.gather(frames.raw(HerdState(taps=1), 64, 36), frames.raw(HerdState(taps=2), 64, 36))
    frames.close()
    assert one is two
    assert HEADER_BYTES + 64 * 36 * 4 == frames.kept_bytes


async def test_what_was_used_longest_ago_goes_first():
    frames = VirtualFrames(limit_bytes=2 * (HEADER_BYTES + 64 * 36 * 4))
    first = await frames.raw(HerdState(), 64, 36)
    await frames.raw(HerdState(scene=Scene.HOME), 64, 36)
    assert first is await frames.raw(HerdState(), 64, 36)
    await frames.raw(HerdState(scene=Scene.LIST), 64, 36)
    assert first is await frames.raw(HerdState(), 64, 36)
    assert frames.kept_bytes <= 2 * (HEADER_BYTES + 64 * 36 * 4)
    frames.close()


async def test_a_png_holds_the_picture():
    frames = VirtualFrames()
    encoded = await frames.png(HerdState(), 320, 180)
    frames.close()
    decoded = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_UNCHANGED)
    assert decoded is not None
    assert np.array_equal(render(HerdState(), 320, 180), cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGBA))


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.long)])
def test_a_hundred_emulators_that_drew_ten_screens_need_at_most_200_mb(
    tmp_path: Path, private_adb: PrivateAdb, count: int
):
    with VirtualFleet.start(count=count, state=tmp_path) as fleet, fleet.control() as control:
        for name, address in fleet.addresses.items():
            private_adb.client().connect(address)
            for changes in TEN:
                control.set_app(name, popup=False, **{key: value for key, value in changes.items() if key != "popup"})
                control.set_app(name, popup=bool(changes.get("popup")))
                draw(private_adb, address)
        rss = psutil.Process(fleet.pid).memory_info().rss
        print(f"{count} virtual emulators, ten 720p screens each: {rss / 1e6:.0f} MB")  # noqa: T201 - the figure
        for address in fleet.addresses.values():
            private_adb.run("disconnect", address)
    assert rss <= 200e6


def draw(private_adb: PrivateAdb, address: str) -> None:
    """A raw frame, counted and thrown away."""
    with private_adb.client().device(serial=address).open_transport() as connection:
        connection.send_command("exec:screencap")
        connection.check_okay()
        left = HEADER_BYTES + 1280 * 720 * 4
        while data := connection.conn.recv(1 << 20):
            left -= len(data)
    assert 0 == left
