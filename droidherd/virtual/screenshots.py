"""What each camera gets to see of a virtual emulator, faults included."""

import struct

import cv2
import numpy as np

from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.faults import UnknownFaultError
from droidherd.virtual.frames import HEADER_BYTES
from droidherd.virtual.machine import VirtualDevice

WARNING = "[Warning] Multiple displays were found, but no display id was specified! Defaulting to the first display.\n"
RAW, PNG, FRAMEBUFFER = "raw", "png", "framebuffer"
_SHORT_BYTES = 12
_ROUGH = 0xC0
"""What is left of each channel when a picture is rough."""


class NoPictureError(Exception):
    """This camera does not work here."""


async def raw_of(emulator: VirtualDevice, camera: str) -> memoryview:
    """Prologue and pixels, as this camera sees the screen now."""
    faults = emulator.faults
    if _applies(emulator, "no_camera", camera):
        raise NoPictureError(f"{camera} does not work")
    odd = faults.take("odd_camera") if _applies(emulator, "odd_camera", camera) else None
    how = str(odd.options.get("how", "stale")) if odd else ""
    stale = faults.take("black_screencap") is not None
    shown = HerdState(scene=Scene.BOOT) if stale else HerdState() if how == "stale" else emulator.shown
    # The picture is of the moment the command ran, even when drawing it takes a while.
    data = await emulator.frames.raw(shown, *emulator.size)
    return _odd(data, *emulator.size, how) if how and how != "stale" else data


async def png_of(emulator: VirtualDevice) -> memoryview:
    """The same as a PNG file; encoded once for all emulators that show the same, unless a fault made it odd."""
    if any(emulator.faults.has(name) for name in ("no_camera", "odd_camera", "black_screencap")):
        return _as_png(await raw_of(emulator, PNG))
    return await emulator.frames.png(emulator.shown, *emulator.size)


def with_oddities(emulator: VirtualDevice, data: memoryview, *, png: bool) -> memoryview:
    """As the emulator's Android version and its drivers put it out."""
    if not png and emulator.faults.take("short_prologue"):
        data = memoryview(bytes(data[:_SHORT_BYTES]) + bytes(data[HEADER_BYTES:]))
    chatty = emulator.faults.take("chatty_screencap")
    if chatty:
        data = memoryview(str(chatty.options.get("text", WARNING)).encode() + bytes(data))
    return data


def _applies(emulator: VirtualDevice, fault: str, camera: str) -> bool:
    return camera in str(emulator.faults.option(fault, "camera") or "").split(",")


def _odd(data: memoryview, width: int, height: int, how: str) -> memoryview:
    """`turned` by a quarter, `upside_down`, `rough` as a lossy method makes it, or `undrawn` in its lower half."""
    pixels = np.frombuffer(data, np.uint8, offset=HEADER_BYTES).reshape(height, width, 4).copy()
    if how == "turned":
        pixels = np.ascontiguousarray(np.rot90(pixels))
    elif how == "upside_down":
        pixels = np.ascontiguousarray(pixels[::-1])
    elif how == "rough":
        pixels[:, :, :3] &= _ROUGH
    elif how == "undrawn":
        pixels[height // 2 :] = 0
    else:
        raise UnknownFaultError(f"odd_camera: no way {how!r}; stale, turned, upside_down, rough, undrawn")
    head = struct.pack("<4I", pixels.shape[1], pixels.shape[0], *struct.unpack_from("<2I", data, 8))
    return memoryview(head + pixels.tobytes())


def _as_png(raw: memoryview) -> memoryview:
    width, height = struct.unpack_from("<2I", raw)
    pixels = np.frombuffer(raw, np.uint8, offset=HEADER_BYTES).reshape(height, width, 4)
    done, encoded = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGBA2BGRA))
    if not done:
        raise ValueError(f"no PNG of {width}x{height}")
    return memoryview(encoded.tobytes())
