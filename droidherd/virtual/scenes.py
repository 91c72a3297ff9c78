"""Pictures of the app "Herd": deterministic, with enough texture to be found by template matching.

This module is the interface of the screen: state (`app`), places (`layout`) and pictures (`drawing`).
"""

from droidherd.virtual import app
from droidherd.virtual.app import HerdState, Scene, clear, key, start, stop, type_text
from droidherd.virtual.drawing import Pixels, render
from droidherd.virtual.layout import BASE_HEIGHT, BASE_WIDTH, region_at, regions

__all__ = [
    "HerdState", "Pixels", "Scene", "clear", "key", "regions", "render", "start", "stop", "swipe", "tap", "type_text",
]  # fmt: skip


def tap(state: HerdState, x: int, y: int, width: int = BASE_WIDTH, height: int = BASE_HEIGHT) -> HerdState:
    """Touch the screen at a pixel."""
    return app.press(state, region_at(state, (x, y), (width, height)))


def swipe(state: HerdState, begin: tuple[int, int], end: tuple[int, int], height: int = BASE_HEIGHT) -> HerdState:
    """Drag a finger; upwards shows what is further down."""
    return app.scroll(state, round((begin[1] - end[1]) * BASE_HEIGHT / height))
