"""Made-up screens for the vision benchmark: app-like and game-like, drawn at any size from a seed.

A screen is a list of elements in units of 1280x720. Each is drawn anew for the size asked for, so that an element at
another resolution is what a real screen would show there, and not a resized picture.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Pixels: TypeAlias = NDArray[np.uint8]
Colour: TypeAlias = tuple[int, int, int]

UNITS = (1280, 720)
LEGIBLE = 10.0
"""Height of capital letters, in units, below which no designer goes (12 sp on a screen of 720 lines)."""
_FINE = 4
HERSHEY = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX)
WORDS = (
    "Claim", "Start", "Battle", "Collect", "Quests", "Guild", "Shop", "Cancel", "Accept", "Sign in", "Settings",
    "Daily", "Reward", "Level", "Energy", "Arena", "Events", "Mail", "Friends", "Upgrade", "Skip", "Retry", "Confirm",
    "Continue", "Download", "Update", "Profile", "Search", "Open", "Close", "Buy now", "Free", "Wi-Fi", "Battery",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Element:
    """Something with a place, a label and colours. In units of the layout."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    label: str
    fill: Colour
    ink: Colour
    font: int
    """-1: the smooth one; otherwise one of HERSHEY."""
    text: float
    """Height of capital letters."""
    icon: int = 0
    """A seed for what an icon shows."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen to be drawn."""

    game: bool
    seed: int
    elements: tuple[Element, ...] = field(default=())

    def instead(self, old: Element, new: Element | None) -> "Scene":
        """The same screen with one element gone, or replaced by one that lies on top of all others."""
        kept = tuple(one for one in self.elements if one is not old)
        return replace(self, elements=kept if new is None else (*kept, new))


@dataclass(frozen=True, slots=True)
class View:
    """From units to pixels."""

    width: int
    height: int
    zoom: float = 1.0
    left: float = 0.0
    top: float = 0.0

    @property
    def unit(self) -> float:
        return self.zoom * self.width / UNITS[0]

    def box(self, one: Element) -> tuple[int, int, int, int]:
        """x, y, width, height in pixels."""
        unit = self.unit
        x, y = round((one.x - self.left) * unit), round((one.y - self.top) * unit)
        return x, y, round(one.width * unit), round(one.height * unit)


def draw(scene: Scene, view: View) -> Pixels:
    """The screen as RGB."""
    canvas = _backdrop(scene, view)
    for one in scene.elements:
        _DRAW[one.kind](canvas, one, view)
    return canvas


def words(random: Random) -> str:
    """A label: mostly a word with a number, as buttons and counters have it."""
    word = random.choice(WORDS)
    shape = random.random()
    if shape < 0.5:
        return f"{word} {random.randint(1, 99)}"
    return word if shape < 0.8 else f"{random.randint(0, 999)}/{random.randint(100, 999)}"


def fitting(one: Element) -> Element:
    """With letters as small as need be, but legible, for its label to stay inside; then it is made wider."""
    aside = {"row": 1.1 + 0.9, "counter": 1.05 + 0.4}.get(one.kind, 0.0) * one.height + 8
    share = max(1.0, _label_width(one) / (one.width - aside))
    smaller = replace(one, text=max(min(one.text, LEGIBLE), one.text / share))
    return replace(smaller, width=max(one.width, math.ceil(_label_width(smaller) + aside)))


def _label_width(one: Element) -> int:
    view = View(*UNITS)
    return (_smooth(one, view) if one.font < 0 else _strokes(one, view)).shape[1]


# --- grounds --------------------------------------------------------------------------------------------------------


def _backdrop(scene: Scene, view: View) -> Pixels:
    return _landscape(scene.seed, view) if scene.game else _paper(scene.seed, view)


def _paper(seed: int, view: View) -> Pixels:
    """An app: one light or dark colour, a bar on top, faint lines."""
    random = Random(seed)
    tone = random.choice((248, 240, 30, 18, 60))
    canvas = np.full((view.height, view.width, 3), (tone, tone, min(255, tone + 4)), np.uint8)
    bar = tuple(random.randint(20, 200) for _ in range(3))
    cv2.rectangle(canvas, (0, 0), (view.width, round(56 * view.unit - view.top * view.unit)), bar, cv2.FILLED)
    for row in range(2, 10):
        y = round((row * 72 - view.top) * view.unit)
        cv2.line(canvas, (0, y), (view.width, y), (tone // 2 + 60,) * 3, 1)
    return canvas


def _landscape(seed: int, view: View) -> Pixels:
    """A game: clouds of several sizes, some hills, some things in the way."""
    large = _clouds(seed)
    unit = view.unit
    move = np.array([[unit, 0, -view.left * unit], [0, unit, -view.top * unit]], np.float64)
    canvas = cv2.warpAffine(large, move, (view.width, view.height), flags=cv2.INTER_LINEAR,
                            borderMode=cv2.BORDER_REFLECT)  # fmt: skip
    random = Random(seed)
    for _ in range(40):
        x, y, radius = random.uniform(0, 1280), random.uniform(0, 720), random.uniform(6, 60)
        colour = tuple(random.randint(0, 255) for _ in range(3))
        centre = (round((x - view.left) * unit), round((y - view.top) * unit))
        if random.random() < 0.5:
            cv2.circle(canvas, centre, max(1, round(radius * unit)), colour, cv2.FILLED, cv2.LINE_AA)
        else:
            turns = [random.uniform(0, 2 * math.pi) for _ in range(5)]
            corners = [
                [centre[0] + radius * unit * math.cos(a), centre[1] + radius * unit * math.sin(a)] for a in turns
            ]
            cv2.fillPoly(canvas, [np.array(corners, np.int32)], colour, cv2.LINE_AA)
    return np.asarray(canvas, np.uint8)


@lru_cache(maxsize=4)
def _clouds(seed: int) -> Pixels:
    """A pixel per unit."""
    generator = np.random.default_rng(seed)
    total = np.full((UNITS[1], UNITS[0], 3), 128 * (1 - 1.6), np.float32)
    for cells, weight in ((4, 0.4), (12, 0.25), (40, 0.2), (160, 0.1), (480, 0.05)):
        grid = generator.uniform(0, 255, (cells * 9 // 16 + 1, cells, 3)).astype(np.float32)
        total += 1.6 * weight * cv2.resize(grid, UNITS, interpolation=cv2.INTER_LINEAR)
    return np.clip(total, 0, 255).astype(np.uint8)


# --- elements -------------------------------------------------------------------------------------------------------


def _button(canvas: Pixels, one: Element, view: View) -> None:
    x, y, width, height = view.box(one)
    _rounded(canvas, (x, y, width, height), one.fill, radius=round(6 * view.unit))
    _text(canvas, one, (x + width / 2, y + height / 2), view, centred=True)


def _row(canvas: Pixels, one: Element, view: View) -> None:
    """A line of a list: icon, text, a switch at the end."""
    x, y, width, height = view.box(one)
    _rounded(canvas, (x, y, width, height), one.fill, radius=2)
    _sign(canvas, one, (x + height // 2, y + height // 2), height * 0.32)
    _text(canvas, one, (x + height * 1.1, y + height / 2), view, centred=False)
    middle = (x + width - height // 2, y + height // 2)
    cv2.circle(canvas, middle, max(2, round(height * 0.18)), one.ink, max(1, round(2 * view.unit)), cv2.LINE_AA)


def _card(canvas: Pixels, one: Element, view: View) -> None:
    """A large thing with a picture above its label."""
    x, y, width, height = view.box(one)
    _rounded(canvas, (x, y, width, height), one.fill, radius=round(8 * view.unit))
    _sign(canvas, one, (x + width // 2, y + round(height * 0.4)), height * 0.28)
    _text(canvas, one, (x + width / 2, y + height * 0.84), view, centred=True)


def _counter(canvas: Pixels, one: Element, view: View) -> None:
    """A small sign and a number, as along the top edge of a game."""
    x, y, width, height = view.box(one)
    _rounded(canvas, (x, y, width, height), one.fill, radius=height // 2)
    _sign(canvas, one, (x + height // 2, y + height // 2), height * 0.36)
    _text(canvas, one, (x + height * 1.05, y + height / 2), view, centred=False)


def _icon(canvas: Pixels, one: Element, view: View) -> None:
    x, y, width, height = view.box(one)
    _rounded(canvas, (x, y, width, height), one.fill, radius=round(4 * view.unit))
    _sign(canvas, one, (x + width // 2, y + height // 2), min(width, height) * 0.36)


def _glyph(canvas: Pixels, one: Element, view: View) -> None:
    """Tiny: one sign on its ground."""
    x, y, width, height = view.box(one)
    cv2.rectangle(canvas, (x, y), (x + width - 1, y + height - 1), one.fill, cv2.FILLED)
    _text(canvas, one, (x + width / 2, y + height / 2), view, centred=True)


_DRAW = {"button": _button, "row": _row, "card": _card, "counter": _counter, "icon": _icon, "glyph": _glyph}


def _rounded(canvas: Pixels, box: tuple[int, int, int, int], fill: Colour, *, radius: int) -> None:
    x, y, width, height = box
    radius = min(radius, width // 2, height // 2)
    right, bottom = x + width - 1, y + height - 1
    cv2.rectangle(canvas, (x + radius, y), (right - radius, bottom), fill, cv2.FILLED)
    cv2.rectangle(canvas, (x, y + radius), (right, bottom - radius), fill, cv2.FILLED)
    for corner in ((x + radius, y + radius), (right - radius, y + radius), (x + radius, bottom - radius),
                   (right - radius, bottom - radius)):  # fmt: skip
        cv2.circle(canvas, corner, radius, fill, cv2.FILLED, cv2.LINE_AA)


def _sign(canvas: Pixels, one: Element, centre: tuple[int, int], radius: float) -> None:
    """What an icon shows: some shapes that follow from its seed."""
    random = Random(one.icon)
    cv2.circle(canvas, centre, max(2, round(radius)), one.ink, cv2.FILLED, cv2.LINE_AA)
    for _ in range(3):
        colour = tuple(random.randint(0, 255) for _ in range(3))
        a, b, c = (random.uniform(0, 2 * math.pi) for _ in range(3))
        corners = [[centre[0] + radius * 0.9 * math.cos(t), centre[1] + radius * 0.9 * math.sin(t)] for t in (a, b, c)]
        cv2.fillPoly(canvas, [np.array(corners, np.int32)], colour, cv2.LINE_AA)


def _text(canvas: Pixels, one: Element, at: tuple[float, float], view: View, *, centred: bool) -> None:
    """Letters are outlines: of any size, and never bolder for being rounded."""
    share = _smooth(one, view) if one.font < 0 else _strokes(one, view)
    height, width = share.shape
    x, y = round(at[0] - width / 2 if centred else at[0]), round(at[1] - height / 2)
    x0, y0, x1, y1 = max(0, x), max(0, y), min(canvas.shape[1], x + width), min(canvas.shape[0], y + height)
    if x0 >= x1 or y0 >= y1:
        return
    part = share[y0 - y : y1 - y, x0 - x : x1 - x, None]
    under = canvas[y0:y1, x0:x1].astype(np.float32)
    canvas[y0:y1, x0:x1] = np.rint(under + (np.array(one.ink, np.float32) - under) * part).astype(np.uint8)


def _smooth(one: Element, view: View) -> NDArray[np.float32]:
    """How much of each pixel is ink, of 0 to 1. Drawn large and reduced: small letters would be bent to the pixels."""
    font = _font(round(max(2.0, one.text * view.unit * 1.4) * _FINE, 1))
    left, top, right, bottom = font.getbbox(one.label)
    size = (math.ceil((right - left) / _FINE) + 2, math.ceil((bottom - top) / _FINE) + 2)
    mask = Image.new("L", (size[0] * _FINE, size[1] * _FINE))
    ImageDraw.Draw(mask).text((_FINE - left, _FINE - top), one.label, fill=255, font=font)
    return _share(np.asarray(mask, np.uint8), size)


def _strokes(one: Element, view: View) -> NDArray[np.float32]:
    """The same of OpenCV's letters, drawn four times as large."""
    font, scale = HERSHEY[one.font], one.text * view.unit / 21 * _FINE
    thick = max(1, round(scale * 1.6))
    (width, height), base = cv2.getTextSize(one.label, font, scale, thick)
    size = (math.ceil(width / _FINE) + 2, math.ceil((height + base) / _FINE) + 2)
    mask = np.zeros((size[1] * _FINE, size[0] * _FINE), np.uint8)
    cv2.putText(mask, one.label, (_FINE, _FINE + height), font, scale, 255, thick, cv2.LINE_AA)
    return _share(mask, size)


def _share(mask: Pixels, size: tuple[int, int]) -> NDArray[np.float32]:
    reduced = cv2.resize(mask, size, interpolation=cv2.INTER_AREA)
    return np.asarray(reduced, np.float32) / np.float32(255)


@lru_cache(maxsize=64)
def _font(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow came without FreeType: its smooth font is part of the set")
    return font
