"""The set of the vision benchmark: frames, templates and the truth about them, from a seed.

What a case is made of is decided by its number and the seed alone. Nothing here knows how anybody searches.
"""

import colorsys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import cv2
import numpy as np

from bench.vision.scenes import Colour, Element, Pixels, Scene, View, draw, fitting, words

SIZES = ((1280, 720), (1920, 1080))
PRESENT = ("plain", "noise", "brightness", "sub-pixel", "scaled", "other resolution", "covered", "flat", "tiny")
NEAR = ("digit", "label", "colour")
ABSENT = (*NEAR, *NEAR, "gone", "elsewhere")
"""Three of four are near-duplicates: the same screen, the same place, one thing differs."""
PRESENT_SHARE = 0.6
RESAMPLED = 0.1
"""Share of the absent whose template comes from another resolution."""
SCALES = (0.9, 0.95, 1.0, 1.05, 1.1)
"""Asked for where the scale is in doubt; the true one is anywhere between the first and the last."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question with its answer."""

    number: int
    kind: str
    game: bool
    frame: Pixels
    """RGBA."""
    template: Pixels
    """RGB."""
    truth: tuple[int, int, int, int] | None
    """x, y, width, height on the frame; none: it is not there."""
    recorded: tuple[int, int] | None = None
    """The screen the template was cut from, where it was another one."""
    scales: tuple[float, ...] = (1.0,)
    hint: tuple[int, int, int, int] | None = None
    """Where it was when the flow saw it last, in every second case. Of no use where it is gone, or became larger."""

    def solved(self, found: bool, centre: tuple[float, float]) -> bool:
        """Whether an answer is right: not there, or there and tapped in the middle half of the element."""
        if self.truth is None:
            return not found
        x, y, width, height = self.truth
        across, down = abs(centre[0] - x - width / 2), abs(centre[1] - y - height / 2)
        return found and across <= width / 4 and down <= height / 4


def cases(count: int, seed: int) -> Iterator[Case]:
    """A set, one after another: frames are large."""
    for number in range(count):
        random = Random(f"{seed} {number}")
        # In fives: three present, two absent, so that any beginning of the set has the shares of the whole.
        turn, place = divmod(number, 5)
        there = place < round(5 * PRESENT_SHARE)
        kind = PRESENT[(turn * 3 + place) % len(PRESENT)] if there else ABSENT[(turn * 2 + place - 3) % len(ABSENT)]
        case = (_present if there else _absent)(number, kind, random)
        yield case if turn % 2 else replace(case, hint=None)


# --- screens --------------------------------------------------------------------------------------------------------

_SHAPES = {
    "button": ((90, 240), (36, 64)),
    "row": ((320, 560), (56, 80)),
    "card": ((160, 280), (140, 220)),
    "counter": ((90, 180), (28, 44)),
    "icon": ((40, 110), (40, 110)),
}
_GLYPH = (12, 18)
_LETTERS = (12, 26)


def _screen(random: Random, wanted: str = "") -> tuple[Scene, Element]:
    """A screen and the element that is searched for. `wanted`: glyph, or anything."""
    game = random.random() < 0.5
    placed: list[Element] = []
    for index in range(60):
        kind = wanted if index == 0 and wanted else random.choice(tuple(_SHAPES))
        one = _element(random, kind, game=game)
        if all(_apart(one, other) for other in placed):
            placed.append(one)
    return Scene(game, random.randrange(1 << 30), tuple(placed)), placed[0]


def _element(random: Random, kind: str, *, game: bool) -> Element:
    across, down = _SHAPES.get(kind, (_GLYPH, _GLYPH))
    width, height = random.randint(*across), random.randint(*down)
    letters = min(random.uniform(*_LETTERS), height * 0.55)
    label = words(random)
    if kind == "glyph":
        label, letters = random.choice("0123456789ABEHKMRSXZ"), height * 0.6
    fill = _colour(random, 0.5 if game else 0.35)
    ink: Colour = (255, 255, 255) if sum(fill) < 380 else (20, 24, 30)
    one = Element(
        kind, random.randint(8, 1272 - width), random.randint(60, 712 - height), width, height, label, fill, ink,
        random.choice((-1, -1, 0, 1, 2)), letters, random.randrange(1 << 30),
    )  # fmt: skip
    if kind not in ("glyph", "icon"):
        one = fitting(one)
    return replace(one, x=min(one.x, 1272 - one.width))


def _colour(random: Random, saturation: float) -> Colour:
    red, green, blue = colorsys.hls_to_rgb(random.random(), random.uniform(0.25, 0.75), random.uniform(saturation, 1.0))
    return round(red * 255), round(green * 255), round(blue * 255)


def _apart(one: Element, other: Element) -> bool:
    return (
        one.x + one.width + 12 < other.x or other.x + other.width + 12 < one.x
        or one.y + one.height + 12 < other.y or other.y + other.height + 12 < one.y
    )  # fmt: skip


# --- there ----------------------------------------------------------------------------------------------------------


def _present(number: int, kind: str, random: Random) -> Case:
    size = random.choice(SIZES)
    scene, searched = _screen(random, {"tiny": "glyph", "flat": "button"}.get(kind, ""))
    if kind == "flat":
        faint = replace(searched, ink=_near(searched.fill, random.uniform(22, 45)))
        scene, searched = scene.instead(searched, faint), faint
    view = View(*size)
    template = _cut(draw(scene, view), view, searched)
    recorded, scales = None, (1.0,)
    if kind == "other resolution":
        recorded = SIZES[0] if size == SIZES[1] else SIZES[1]
        template = _cut(draw(scene, View(*recorded)), View(*recorded), searched)
    if kind == "scaled":
        view, scales = _zoomed(view, searched, random.uniform(SCALES[0], SCALES[-1])), SCALES
    frame = _shown(scene, view, recorded, random)
    truth = view.box(searched)
    frame = _DISTURB.get(kind, _as_it_is)(frame, truth, random)
    last = View(*size).box(searched)
    return Case(number, kind, scene.game, _lightly(frame, random), template, truth, recorded, scales, last)


def _shown(scene: Scene, view: View, recorded: tuple[int, int] | None, random: Random) -> Pixels:
    """Apps draw themselves anew at another resolution; games often draw as before and stretch the picture."""
    if recorded is None or random.random() < 0.5:
        return draw(scene, view)
    small = draw(scene, View(*recorded))
    how = cv2.INTER_AREA if recorded[0] > view.width else random.choice((cv2.INTER_LINEAR, cv2.INTER_CUBIC))
    return np.asarray(cv2.resize(small, (view.width, view.height), interpolation=how), np.uint8)


def _zoomed(view: View, searched: Element, zoom: float) -> View:
    """Larger or smaller, as if the screen's density had changed, with the searched element still on it."""
    span_x, span_y = 1280 / zoom, 720 / zoom
    left = min(max(0.0, searched.x + searched.width / 2 - span_x / 2), max(0.0, 1280 - span_x))
    top = min(max(0.0, searched.y + searched.height / 2 - span_y / 2), max(0.0, 720 - span_y))
    return View(view.width, view.height, zoom, left, top)


def _cut(screen: Pixels, view: View, one: Element) -> Pixels:
    x, y, width, height = view.box(one)
    return np.ascontiguousarray(screen[y : y + height, x : x + width])


def _near(fill: Colour, levels: float) -> Colour:
    """A colour so many levels of brightness away."""
    sign = 1 if sum(fill) < 380 else -1
    red, green, blue = (max(0, min(255, round(one + sign * levels))) for one in fill)
    return red, green, blue


def _as_it_is(frame: Pixels, _truth: tuple[int, int, int, int], _random: Random) -> Pixels:
    return frame


def _noise(frame: Pixels, _truth: tuple[int, int, int, int], random: Random) -> Pixels:
    return _shaken(frame, random.uniform(3, 10), random)


def _shaken(frame: Pixels, sigma: float, random: Random) -> Pixels:
    generator = np.random.default_rng(random.randrange(1 << 30))
    # One long strip, cut at a place of its own for every row: a fresh number for every pixel takes ten times as long.
    strip = generator.normal(0.0, sigma, 1 << 18).astype(np.float32)
    length = frame.shape[1] * 3
    starts = generator.integers(0, len(strip) - length, frame.shape[0])
    noise = np.stack([strip[start : start + length] for start in starts]).reshape(frame.shape)
    return np.clip(np.rint(frame + noise), 0, 255).astype(np.uint8)


def _brightness(frame: Pixels, _truth: tuple[int, int, int, int], random: Random) -> Pixels:
    return cv2.convertScaleAbs(frame, alpha=random.uniform(0.82, 1.18), beta=random.uniform(0, 24)).astype(np.uint8)


def _moved(frame: Pixels, _truth: tuple[int, int, int, int], random: Random) -> Pixels:
    move = np.array([[1, 0, random.uniform(-0.5, 0.5)], [0, 1, random.uniform(-0.5, 0.5)]], np.float64)
    how = random.choice((cv2.INTER_LINEAR, cv2.INTER_CUBIC))
    size = (frame.shape[1], frame.shape[0])
    return np.asarray(cv2.warpAffine(frame, move, size, flags=how, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _covered(frame: Pixels, truth: tuple[int, int, int, int], random: Random) -> Pixels:
    """Something lies over 8 to 25 % of it: a window that reaches in from a side, or a round thing."""
    x, y, width, height = truth
    share, colour = random.uniform(0.08, 0.25), _colour(random, 0.2)
    side = random.randrange(6)
    if side == 5:
        radius = max(3, round((share / np.pi * width * height) ** 0.5))
        centre = (x + random.randint(0, width), y + random.randint(0, height))
        cv2.circle(frame, centre, min(radius, round(min(width, height) * 0.5)), colour, cv2.FILLED, cv2.LINE_AA)
        return frame
    if side == 4:
        radius = max(2, round((share * 4 / np.pi * width * height) ** 0.5))
        corner = (x + random.choice((0, width)), y + random.choice((0, height)))
        cv2.circle(frame, corner, min(radius, round(min(width, height) * 0.9)), colour, cv2.FILLED, cv2.LINE_AA)
        return frame
    reach = 40 + random.randint(0, 80)
    if side < 2:
        deep = round(width * share)
        left = x - reach if side == 0 else x + width - deep
        low, high = (left, y - reach), (left + reach + deep - 1, y + height + reach)
    else:
        deep = round(height * share)
        top = y - reach if side == 2 else y + height - deep
        low, high = (x - reach, top), (x + width + reach, top + reach + deep - 1)
    cv2.rectangle(frame, low, high, colour, cv2.FILLED)
    return frame


_DISTURB: dict[str, Callable[[Pixels, tuple[int, int, int, int], Random], Pixels]] = {
    "noise": _noise,
    "brightness": _brightness,
    "sub-pixel": _moved,
    "covered": _covered,
}


def _lightly(frame: Pixels, random: Random) -> Pixels:
    """A third of all frames carry a little noise beside what their kind says. As RGBA."""
    if random.random() < 1 / 3:
        frame = _shaken(frame, random.uniform(0.5, 3), random)
    return np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA), np.uint8)


# --- not there ------------------------------------------------------------------------------------------------------


def _absent(number: int, kind: str, random: Random) -> Case:
    """One of four near-duplicates is met at another resolution, shifted, shaken or brighter as well."""
    size = random.choice(SIZES)
    tiny = random.random() < 0.1
    scene, searched = _screen(random, "glyph" if tiny else "")
    if kind in ("digit", "label") and not tiny:
        scene, searched = _labelled(scene, searched, kind, random)
    if random.random() < 0.12 and searched.kind != "icon" and kind != "colour":
        faint = replace(searched, ink=_near(searched.fill, random.uniform(22, 45)))
        scene, searched = scene.instead(searched, faint), faint
    recorded = (SIZES[0] if size == SIZES[1] else SIZES[1]) if random.random() < RESAMPLED else None
    cut_at = View(*(recorded or size))
    template = _cut(draw(scene, cut_at), cut_at, searched)
    if kind == "elsewhere":
        scene, _ = _screen(random)
    elif kind == "gone":
        scene = scene.instead(searched, None)
    else:
        scene = scene.instead(searched, _DIFFER[kind](searched, random))
    frame = _shown(scene, View(*size), recorded, random)
    how = random.choice((_as_it_is,) * 9 + (_noise, _brightness, _moved))
    frame = how(frame, (0, 0, 0, 0), random)
    last = View(*size).box(searched)
    return Case(number, kind, scene.game, _lightly(frame, random), template, None, recorded, hint=last)


def _labelled(scene: Scene, searched: Element, kind: str, random: Random) -> tuple[Scene, Element]:
    """With a label that has what is to be changed, on something that shows a label."""
    label = searched.label
    if kind == "digit" and not any(sign.isdigit() for sign in label):
        label = f"{label} {random.randint(1, 99)}"
    if kind == "label" and not any(sign.isalpha() for sign in label):
        label = random.choice(("Claim", "Start", "Mail", "Shop"))
    if searched.kind == "icon":
        replacement = replace(searched, kind="card", width=150, height=130, label=label, text=13.0,
                             x=min(searched.x, 1120), y=min(searched.y, 580))  # fmt: skip
    else:
        replacement = replace(searched, label=label)
    replacement = fitting(replacement)
    replacement = replace(replacement, x=min(replacement.x, 1272 - replacement.width))
    return scene.instead(searched, replacement), replacement


def _other_digit(one: Element, random: Random) -> Element:
    """One digit differs. A tiny sign becomes another sign."""
    places = [index for index, sign in enumerate(one.label) if sign.isdigit()]
    if not places:
        return replace(one, label=random.choice([sign for sign in "0123456789" if sign != one.label]))
    place = random.choice(places)
    other = random.choice([sign for sign in "0123456789" if sign != one.label[place]])
    return replace(one, label=one.label[:place] + other + one.label[place + 1 :])


def _other_label(one: Element, random: Random) -> Element:
    """One letter differs, or the whole word does."""
    if len(one.label) > 2 and random.random() < 0.5:
        other = words(random)
        return replace(one, label=other) if other != one.label else _other_digit(one, random)
    places = [index for index, sign in enumerate(one.label) if sign.isalpha()]
    place = random.choice(places) if places else 0
    now = one.label[place]
    signs = "ABDEHKMNPRSUXZ" if now.isupper() or len(one.label) == 1 else "abdeghkmnopqrsuz"
    return replace(
        one, label=one.label[:place] + random.choice([s for s in signs if s != now]) + one.label[place + 1 :]
    )


def _other_colour(one: Element, random: Random) -> Element:
    """Another hue, of ground or of ink; half of the time just as bright."""
    red, green, blue = (part / 255 for part in one.fill)
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    turned = colorsys.hls_to_rgb((hue + random.uniform(0.12, 0.88)) % 1, light, max(saturation, 0.3))
    fill: Colour = (round(turned[0] * 255), round(turned[1] * 255), round(turned[2] * 255))
    if random.random() < 0.5:
        fill = _as_bright(fill, one.fill)
    return replace(one, fill=fill)


def _as_bright(colour: Colour, like: Colour) -> Colour:
    """Moved towards black or white until its grey is that of the other."""
    weights = np.array((0.299, 0.587, 0.114))
    wanted, now = float(np.dot(weights, like)), float(np.dot(weights, colour))
    end = 255.0 if wanted > now else 0.0
    part = (wanted - now) / (end - now) if end != now else 0.0
    red, green, blue = (round(one + (end - one) * part) for one in colour)
    return red, green, blue


_DIFFER: dict[str, Callable[[Element, Random], Element]] = {
    "digit": _other_digit,
    "label": _other_label,
    "colour": _other_colour,
}
