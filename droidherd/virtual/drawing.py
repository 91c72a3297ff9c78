"""How the app looks: a state in, RGBA pixels out."""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.domain.ports import Box
from droidherd.virtual.app import LIST_BOTTOM, LIST_TOP, ROWS, HerdState, Scene
from droidherd.virtual.layout import BASE_HEIGHT, BASE_WIDTH, base_regions, claim_box, row_box, scale_box

Pixels: TypeAlias = NDArray[np.uint8]
Colour: TypeAlias = tuple[int, int, int, int]

INK: Colour = (28, 32, 48, 255)
PAPER: Colour = (246, 244, 236, 255)
WHITE: Colour = (255, 255, 255, 255)
GREEN: Colour = (46, 150, 90, 255)
BLUE: Colour = (52, 96, 190, 255)
RED: Colour = (206, 60, 56, 255)
GOLD: Colour = (236, 178, 44, 255)
GREY: Colour = (150, 154, 164, 255)

_BACKDROPS: dict[Scene, tuple[int, int, int]] = {
    Scene.LAUNCHER: (38, 70, 110),
    Scene.SIGN_IN: (88, 60, 120),
    Scene.CAPTCHA: (120, 92, 48),
    Scene.HOME: (30, 110, 104),
    Scene.LIST: (70, 84, 60),
    Scene.DIALOG: (30, 110, 104),
}


def visible(state: HerdState) -> HerdState:
    """The part of a state that shows: equal visible states give equal pictures, so pictures can be shared."""
    bare = HerdState(scene=state.scene, popup=state.popup)
    if state.scene is Scene.SIGN_IN:
        return replace(
            bare, account=state.account, password="*" * len(state.password), field=state.field, message=state.message
        )
    if state.scene in {Scene.HOME, Scene.DIALOG}:
        return replace(bare, signed_in=state.signed_in, gift_taken=state.gift_taken, message=state.message)
    if state.scene is Scene.LIST:
        return replace(bare, scroll=state.scroll, claimed=state.claimed)
    return bare


def render(state: HerdState, width: int = BASE_WIDTH, height: int = BASE_HEIGHT, out: Pixels | None = None) -> Pixels:
    """Draw a state as RGBA, height x width x 4. `out` is drawn into when given, so no copy is needed."""
    pixels = np.empty((height, width, 4), np.uint8) if out is None else out
    if state.scene is Scene.BOOT:
        pixels[:] = (0, 0, 0, 255)
        return pixels
    _backdrop(pixels, _BACKDROPS[state.scene])
    canvas = Canvas(pixels)
    _SCENES[state.scene](canvas, state)
    if state.popup:
        _popup(canvas)
    # Smooth edges of text blend the fourth channel too; a screen is opaque.
    pixels[:, :, 3] = 255
    return pixels


@dataclass(frozen=True, slots=True)
class Canvas:
    """Draws in units of the layout onto a screen of any size."""

    pixels: Pixels
    width: int = field(init=False)
    height: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", self.pixels.shape[0])
        object.__setattr__(self, "width", self.pixels.shape[1])

    @property
    def unit(self) -> float:
        return min(self.width / BASE_WIDTH, self.height / BASE_HEIGHT)

    def at(self, x: float, y: float) -> tuple[int, int]:
        return round(x * self.width / BASE_WIDTH), round(y * self.height / BASE_HEIGHT)

    def box(self, box: Box, fill: Colour, edge: Colour = INK) -> None:
        real = scale_box(box, self.width, self.height)
        low, high = (real.x, real.y), (real.x + real.width - 1, real.y + real.height - 1)
        cv2.rectangle(self.pixels, low, high, fill, cv2.FILLED)
        cv2.rectangle(self.pixels, low, high, edge, max(1, round(3 * self.unit)))

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        cv2.circle(self.pixels, self.at(x, y), max(1, round(radius * self.unit)), fill, cv2.FILLED, cv2.LINE_AA)

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: Colour, thickness: float = 4) -> None:
        cv2.line(self.pixels, self.at(*start), self.at(*end), colour, max(1, round(thickness * self.unit)), cv2.LINE_AA)

    def text(self, words: str, x: float, y: float, colour: Colour = INK, size: float = 1.0) -> None:
        """Left end of the base line at (x, y). The font knows ASCII only; other signs show as `?`."""
        plain = words.encode("ascii", "replace").decode("ascii")
        scale, thick = size * self.unit, max(1, round(2 * size * self.unit))
        cv2.putText(self.pixels, plain, self.at(x, y), cv2.FONT_HERSHEY_SIMPLEX, scale, colour, thick, cv2.LINE_AA)

    def button(self, box: Box, words: str, fill: Colour, ink: Colour = WHITE) -> None:
        self.box(box, fill)
        for step in range(box.x + 8, box.x + box.width - 8, 12):
            self.line((step, box.y + 6), (step + 5, box.y + 6), ink, 2)
        self.text(words, box.x + 18, box.y + box.height / 2 + 10, ink, 0.9)


def _backdrop(pixels: Pixels, tint: tuple[int, int, int]) -> None:
    """A slope of colour with a fine weave, so that no part of the screen is uniform."""
    height, width = pixels.shape[:2]
    rows = (np.arange(height, dtype=np.uint32) * 48 // height).astype(np.uint8)[:, None]
    across = np.arange(width, dtype=np.uint32)[None, :]
    down = np.arange(height, dtype=np.uint32)[:, None]
    weave = (((across // 3 * 7) ^ (down // 3 * 13)) % 11).astype(np.uint8)
    shade = rows + weave
    for channel, value in enumerate(tint):
        np.add(shade, np.uint8(value), out=pixels[:, :, channel])


def _launcher(canvas: Canvas, state: HerdState) -> None:
    canvas.text("Tuesday", 60, 90, WHITE, 1.6)
    decor = (("Clock", 180, BLUE), ("Camera", 386, GREY), ("Files", 798, GREEN), ("Phone", 1004, RED))
    for words, x, colour in decor:
        canvas.box(Box(x, 250, 112, 112), colour, WHITE)
        canvas.disc(x + 56, 306, 34, WHITE)
        canvas.line((x + 56, 306), (x + 56 + x % 23, 284), INK, 5)
        canvas.text(words, x + 6, 396, WHITE, 0.8)
    icon = base_regions(replace(state, popup=False))["app_icon"]
    canvas.box(icon, GOLD, WHITE)
    _herd(canvas, icon.x + 56, icon.y + 58, 1.0)
    canvas.text("Herd", icon.x + 22, 396, WHITE, 0.8)


def _herd(canvas: Canvas, x: float, y: float, size: float) -> None:
    """The mark of the app: a small robot with horns."""
    canvas.disc(x, y, 34 * size, INK)
    canvas.disc(x - 13 * size, y - 6 * size, 8 * size, PAPER)
    canvas.disc(x + 13 * size, y - 6 * size, 8 * size, PAPER)
    canvas.disc(x - 11 * size, y - 4 * size, 3 * size, RED)
    canvas.disc(x + 15 * size, y - 4 * size, 3 * size, RED)
    canvas.line((x - 18 * size, y + 15 * size), (x + 18 * size, y + 13 * size), GOLD, 5 * size)
    canvas.line((x - 26 * size, y - 24 * size), (x - 44 * size, y - 44 * size), INK, 9 * size)
    canvas.line((x + 26 * size, y - 24 * size), (x + 44 * size, y - 44 * size), INK, 9 * size)


def _sign_in(canvas: Canvas, state: HerdState) -> None:
    canvas.box(Box(380, 60, 520, 540), PAPER)
    _herd(canvas, 640, 150, 1.4)
    canvas.text("Welcome to Herd", 478, 250, INK, 1.1)
    where = base_regions(replace(state, popup=False))
    contents = (("account", state.account, "Account"), ("password", "*" * len(state.password), "Password"))
    for name, value, hint in contents:
        box = where[name]
        canvas.box(box, WHITE, BLUE if state.field == name else GREY)
        canvas.text(value[-20:] or hint, box.x + 16, box.y + 40, INK if value else GREY, 0.9)
    canvas.button(where["sign_in"], "Sign in", BLUE)
    if state.message:
        canvas.text(state.message, 440, 560, RED, 0.8)


def _captcha(canvas: Canvas, state: HerdState) -> None:
    canvas.box(Box(340, 140, 600, 400), WHITE, GOLD)
    canvas.text("Are you a person?", 420, 220, INK, 1.3)
    for glyph, x, y, colour in (
        ("H", 430, 330, RED),
        ("3", 540, 300, BLUE),
        ("R", 650, 340, GREEN),
        ("D", 760, 305, INK),
    ):
        canvas.text(glyph, x, y, colour, 2.2)
        canvas.line((x - 14, y - 20), (x + 70, y - 34), GREY, 5)
    canvas.button(base_regions(replace(state, popup=False))["person"], "I am a person", GREEN)


def _home(canvas: Canvas, state: HerdState) -> None:
    where = base_regions(replace(state, popup=False, scene=Scene.HOME))
    canvas.box(Box(0, 0, BASE_WIDTH, 96), INK)
    _herd(canvas, 60, 54, 0.7)
    canvas.text(f"Hello {state.signed_in}"[:40], 120, 62, WHITE, 1.0)
    canvas.button(where["sign_out"], "Sign out", RED)
    _gift(canvas, where["gift"], taken=state.gift_taken)
    _rewards(canvas, where["list"])
    for name, words, colour in (("tab_home", "Home", GREEN), ("tab_list", "Rewards", GREY)):
        canvas.box(where[name], colour, WHITE)
        canvas.text(words, where[name].x + 250, where[name].y + 60, WHITE, 1.1)
    if state.message:
        canvas.box(Box(440, 520, 400, 64), INK, GOLD)
        canvas.text(state.message, 462, 562, WHITE, 0.9)


def _gift(canvas: Canvas, box: Box, *, taken: bool) -> None:
    canvas.box(box, GREY if taken else GOLD, WHITE)
    canvas.box(Box(box.x + 50, box.y + 90, 160, 110), PAPER if taken else RED)
    canvas.line((box.x + 130, box.y + 90), (box.x + 130, box.y + 200), WHITE, 14)
    canvas.line((box.x + 130, box.y + 88), (box.x + 90, box.y + 50), INK, 8)
    canvas.line((box.x + 130, box.y + 88), (box.x + 172, box.y + 46), INK, 8)
    canvas.text("Collected" if taken else "Daily gift", box.x + 44, box.y + 240, INK, 0.9)
    if not taken:
        canvas.disc(box.x + 236, box.y + 24, 22, RED)
        canvas.text("1", box.x + 228, box.y + 34, WHITE, 0.9)


def _rewards(canvas: Canvas, box: Box) -> None:
    canvas.box(box, BLUE, WHITE)
    for row in range(4):
        top = box.y + 40 + row * 40
        canvas.disc(box.x + 56, top + 10, 12, GOLD)
        canvas.line((box.x + 86, top + 10), (box.x + 150 + row * 17, top + 10), WHITE, 10)
    canvas.text("Rewards", box.x + 60, box.y + 240, WHITE, 0.9)


def _list(canvas: Canvas, state: HerdState) -> None:
    for row in range(ROWS):
        box = row_box(state, row)
        if box.y + box.height > LIST_TOP and box.y < LIST_BOTTOM:
            _row(canvas, state, row, box)
    canvas.box(Box(0, 0, BASE_WIDTH, LIST_TOP - 4), INK)
    canvas.button(Box(24, 20, 132, 60), "Back", BLUE)
    canvas.text("Rewards", 200, 62, WHITE, 1.2)
    canvas.text(f"{len(state.claimed)} of {ROWS}", 1060, 62, GOLD, 1.0)


def _row(canvas: Canvas, state: HerdState, row: int, box: Box) -> None:
    canvas.box(box, PAPER)
    canvas.disc(box.x + 50, box.y + 43, 28, GOLD)
    canvas.line((box.x + 50, box.y + 43), (box.x + 30 + row * 2, box.y + 24 + row), INK, 6)
    canvas.text(f"Reward {row}", box.x + 110, box.y + 54, INK, 1.0)
    if row in state.claimed:
        canvas.text("Claimed", 1050, box.y + 54, GREY, 0.9)
    else:
        canvas.button(claim_box(state, row), "Claim", GREEN)


def _dialog(canvas: Canvas, state: HerdState) -> None:
    _home(canvas, state)
    canvas.pixels[:, :, :3] >>= 1
    canvas.box(Box(340, 200, 600, 330), PAPER, GOLD)
    canvas.text("Collect the daily gift?", 396, 290, INK, 1.1)
    canvas.text("You can do this once.", 396, 350, GREY, 0.9)
    where = base_regions(replace(state, popup=False))
    canvas.button(where["cancel"], "Cancel", GREY)
    canvas.button(where["ok"], "OK", GREEN)


def _popup(canvas: Canvas) -> None:
    canvas.box(Box(290, 120, 720, 460), WHITE, RED)
    canvas.text("Special offer!", 420, 260, RED, 1.8)
    for spark in range(9):
        x, y = 360 + spark * 68, 400 + (spark * 37) % 90
        canvas.line((x - 20, y), (x + 20, y), GOLD, 6)
        canvas.line((x, y - 20), (x, y + 20), GOLD, 6)
    canvas.box(Box(932, 132, 64, 64), INK, RED)
    canvas.line((948, 148), (980, 180), WHITE, 7)
    canvas.line((980, 148), (948, 180), WHITE, 7)


_SCENES = {
    Scene.LAUNCHER: _launcher,
    Scene.SIGN_IN: _sign_in,
    Scene.CAPTCHA: _captcha,
    Scene.HOME: _home,
    Scene.LIST: _list,
    Scene.DIALOG: _dialog,
}
