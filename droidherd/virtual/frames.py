"""Pictures shared by all emulators of a process: drawn once, kept within a limit of bytes, oldest use out first."""

import asyncio
import struct
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import cv2
import numpy as np

from droidherd.virtual.app import HerdState
from droidherd.virtual.drawing import render, visible

HEADER_BYTES = 16
_RGBA_8888 = 1
_SRGB = 1

Key: TypeAlias = tuple[str, HerdState, int, int]


class VirtualFrames:
    """`raw` is the output of `screencap`: header and pixels in one buffer, sent without a copy."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[Key, memoryview] = OrderedDict()
        self._bytes = 0
        self._drawing: dict[Key, asyncio.Future[memoryview]] = {}
        self._painters = ThreadPoolExecutor(max_workers=2, thread_name_prefix="painter")

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    async def raw(self, state: HerdState, width: int, height: int) -> memoryview:
        return await self._get("raw", state, width, height)

    async def png(self, state: HerdState, width: int, height: int) -> memoryview:
        return await self._get("png", state, width, height)

    def close(self) -> None:
        self._painters.shutdown(wait=True, cancel_futures=True)

    async def _get(self, form: str, state: HerdState, width: int, height: int) -> memoryview:
        key: Key = (form, visible(state), width, height)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        drawing = self._drawing.get(key)
        if drawing is None:
            drawing = asyncio.ensure_future(self._make(key))
            self._drawing[key] = drawing
            drawing.add_done_callback(lambda _: self._drawing.pop(key, None))
        # Shielded: whoever gives up must not take the picture from the others who wait for it.
        return await asyncio.shield(drawing)

    async def _make(self, key: Key) -> memoryview:
        form, state, width, height = key
        loop = asyncio.get_running_loop()
        if form == "raw":
            made = await loop.run_in_executor(self._painters, draw_raw, state, width, height)
        else:
            raw = await self.raw(state, width, height)
            made = await loop.run_in_executor(self._painters, _encode, raw, width, height)
        self._keep(key, made)
        return made

    def _keep(self, key: Key, made: memoryview) -> None:
        self._kept[key] = made
        self._bytes += len(made)
        while self._bytes > self._limit and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)


def draw_raw(state: HerdState, width: int, height: int) -> memoryview:
    """Header and pixels in one buffer."""
    buffer = bytearray(HEADER_BYTES + width * height * 4)
    struct.pack_into("<4I", buffer, 0, width, height, _RGBA_8888, _SRGB)
    render(state, width, height, np.frombuffer(buffer, np.uint8, offset=HEADER_BYTES).reshape(height, width, 4))
    return memoryview(buffer).toreadonly()


def _encode(raw: memoryview, width: int, height: int) -> memoryview:
    pixels = np.frombuffer(raw, np.uint8, offset=HEADER_BYTES).reshape(height, width, 4)
    done, encoded = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGBA2BGRA))
    if not done:
        raise ValueError(f"no PNG of {width}x{height}")
    return memoryview(encoded.tobytes())
