"""What a decision adds to a frame: one capture, three templates searched on it."""

import os
import statistics
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from bench.adb import DEADLINE_S, FULL_HD
from bench.figures import Figure
from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.domain.ports import Box, Frame
from droidherd.emulator.probe import DeviceLink
from droidherd.flows.gallery.cut import CUTS
from droidherd.virtual.process import VirtualFleet
from droidherd.virtual.scenes import render
from droidherd.vision.look import PreparedFrame
from droidherd.vision.match import find
from droidherd.vision.template import Template

ROUNDS = 60
SEARCHED = {"app_icon.png": True, "sign_out.png": False, "close.png": False}
"""On the launcher: the icon that is waited for, and what would be there instead. No areas; what was found before is
looked for at its last place first, as flows do."""
LIMIT = 1.5


def frame_to_decision() -> list[Figure]:
    """1080p, through the real adb server from a virtual emulator, in turns with the capture alone."""
    templates = [_template(name) for name in SEARCHED]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with (
            VirtualFleet.start(state=root / "virtual", count=1, size=FULL_HD) as fleet,
            AdbServer(0, root / "adb", environment=os.environ) as server,
        ):
            (serial,) = fleet.addresses.values()
            DeviceLink(server.client()).ensure(serial, deadline_s=DEADLINE_S)
            alone_ms, decided_ms = _in_turns(server.client(), serial, templates)
    alone, decided = statistics.median(alone_ms), statistics.median(decided_ms)
    note = f"{decided:.2f} ms over {alone:.2f} ms; three templates on one frame, one of them there, at its last place"
    return [Figure("frame_to_decision_ratio", decided / alone, at_most=LIMIT, note=note)]


def _in_turns(adb: AdbClient, serial: str, templates: list[Template]) -> tuple[list[float], list[float]]:
    alone_ms: list[float] = []
    decided_ms: list[float] = []
    places: dict[str, Box] = {}
    for number in range(ROUNDS + 1):
        began_s = time.perf_counter()
        adb.capture(serial, DEADLINE_S)
        between_s = time.perf_counter()
        found = _decide(adb.capture(serial, DEADLINE_S), templates, places)
        ended_s = time.perf_counter()
        if found != list(SEARCHED.values()):
            raise RuntimeError(f"on the launcher was found: {dict(zip(SEARCHED, found, strict=True))}")
        if number:
            # The first round makes the templates ready.
            alone_ms.append((between_s - began_s) * 1000)
            decided_ms.append((ended_s - between_s) * 1000)
    return alone_ms, decided_ms


def _decide(frame: Frame, templates: list[Template], places: dict[str, Box]) -> list[bool]:
    looked = PreparedFrame(frame)
    found: list[bool] = []
    for template in templates:
        match = find(looked, template, hint=places.get(template.name))
        found.append(match.found)
        if match.found:
            places[template.name] = match.box
    return found


def _template(name: str) -> Template:
    """Cut from a screen of this size, as a flow made for it would have it."""
    state, box = CUTS[name]
    part = FULL_HD[0] / 1280
    x, y, width, height = (round(one * part) for one in (box.x, box.y, box.width, box.height))
    screen = render(state, *FULL_HD)[y : y + height, x : x + width]
    return Template(name, np.asarray(cv2.cvtColor(np.ascontiguousarray(screen), cv2.COLOR_RGBA2RGB), np.uint8))
