"""Find a template on a frame.

Candidates are sought in grey on a reduced picture, then placed on the full one, then judged in colour on every
pixel. The last step is what makes a score trustworthy: normalised correlation alone calls a dimmed button
behind a dialog, or a red one instead of a green one, a perfect match.
"""

from dataclasses import dataclass
from typing import TypeAlias

import cv2
import numpy as np

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.vision.pixels import Pixels, of_frame
from droidherd.vision.template import Template

Scores: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]

THRESHOLD = 0.9
_CANDIDATES = 6
_COARSE_SIDE_MIN = 12
_COARSE_FACTOR_MAX = 8
_MARGIN = 0.2
_RUNNERS_UP = 1
_COLOUR_RANGE = 96.0
"""A mean difference per channel of this many levels is no likeness at all."""


@dataclass(frozen=True, slots=True)
class Candidate:
    x: int
    y: int
    score: float


def find(frame: Frame, template: Template, *, threshold: float = THRESHOLD, area: Box | None = None) -> Match:
    """Where the template fits best, how well, and how well it fits elsewhere.

    `area` narrows the search, in pixels of the frame. Deterministic: equal input gives an equal match.
    """
    within = _clipped(area, frame)
    template = template.at(frame.width, frame.height)
    height, width = template.rgb.shape[:2]
    if width > within.width or height > within.height:
        raise FlowError(
            f"{width}x{height} does not fit into {within.width}x{within.height}",
            to=template.name,
            remedy="cut a smaller piece or widen the area",
        )
    part = of_frame(frame)[within.y : within.y + within.height, within.x : within.x + within.width]
    ranked = _ranked(part, template.rgb)
    best = ranked[0]
    runner_up = next((c.score for c in ranked[1:] if _apart(c, best, width, height)), 0.0)
    box = Box(within.x + best.x, within.y + best.y, width, height)
    return Match(found=best.score >= threshold, box=box, score=best.score, runner_up=runner_up)


def _clipped(area: Box | None, frame: Frame) -> Box:
    if area is None:
        return Box(0, 0, frame.width, frame.height)
    left, top = max(0, area.x), max(0, area.y)
    right, bottom = min(frame.width, area.x + area.width), min(frame.height, area.y + area.height)
    return Box(left, top, max(0, right - left), max(0, bottom - top))


def _ranked(part: Pixels, rgb: Pixels) -> list[Candidate]:
    grey = np.asarray(cv2.cvtColor(part, cv2.COLOR_RGBA2GRAY), np.uint8)
    wanted = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)
    factor = _factor(wanted)
    if factor == 1:
        peaks = _worth_a_look(_correlate(grey, wanted), wanted.shape[1], wanted.shape[0])
    else:
        small, small_wanted = _reduced(grey, factor), _reduced(wanted, factor)
        rough = _worth_a_look(_correlate(small, small_wanted), small_wanted.shape[1], small_wanted.shape[0])
        peaks = [_refined(grey, wanted, peak, factor) for peak in rough]
    judged = [Candidate(x, y, _likeness(part, rgb, x, y)) for x, y in dict.fromkeys(peaks)]
    return sorted(judged, key=lambda c: (-c.score, c.y, c.x))


def _factor(wanted: Pixels) -> int:
    """How much smaller the first look may be: fine detail that averages out would lead it astray."""
    contrast = float(np.std(wanted))
    factor = 1
    while factor < _COARSE_FACTOR_MAX and min(wanted.shape) // (factor * 2) >= _COARSE_SIDE_MIN:
        if float(np.std(_reduced(wanted, factor * 2))) < contrast / 2:
            break
        factor *= 2
    return factor


def _reduced(grey: Pixels, factor: int) -> Pixels:
    size = (max(1, grey.shape[1] // factor), max(1, grey.shape[0] // factor))
    # Cropped to whole blocks first, so that template and frame are averaged over blocks of the same size.
    whole = grey[: size[1] * factor, : size[0] * factor]
    return np.asarray(cv2.resize(whole, size, interpolation=cv2.INTER_AREA), np.uint8)


def _correlate(grey: Pixels, wanted: Pixels) -> Scores:
    scores = cv2.matchTemplate(grey, wanted, cv2.TM_CCOEFF_NORMED)
    # Over flat ground the formula divides by zero; flat ground is never what was sought.
    cleaned = np.nan_to_num(scores, copy=False, nan=-1.0, posinf=-1.0, neginf=-1.0)
    return cleaned.astype(np.float32, copy=False).reshape(scores.shape[0], scores.shape[1])


def _worth_a_look(scores: Scores, width: int, height: int) -> list[tuple[int, int]]:
    """The two best places, and those that come so close that the last look may rank them otherwise."""
    peaks = _peaks(scores, width, height)
    least = float(scores[peaks[0][1], peaks[0][0]]) - _MARGIN
    return [(x, y) for rank, (x, y) in enumerate(peaks) if rank < _RUNNERS_UP + 1 or scores[y, x] >= least]


def _peaks(scores: Scores, width: int, height: int) -> list[tuple[int, int]]:
    """The best places, each more than half a template away from the better ones."""
    left = scores.copy()
    found: list[tuple[int, int]] = []
    for _ in range(_CANDIDATES):
        _, high, _, (x, y) = cv2.minMaxLoc(left)
        if high <= -1.0 and found:
            break
        found.append((x, y))
        across, down = max(1, width // 2), max(1, height // 2)
        left[max(0, y - down) : y + down + 1, max(0, x - across) : x + across + 1] = -1.0
    return found


def _refined(grey: Pixels, wanted: Pixels, rough: tuple[int, int], factor: int) -> tuple[int, int]:
    """The exact place near a rough one."""
    height, width = wanted.shape
    margin = 2 * factor
    left = max(0, min(rough[0] * factor - margin, grey.shape[1] - width))
    top = max(0, min(rough[1] * factor - margin, grey.shape[0] - height))
    window = grey[top : top + height + 2 * margin, left : left + width + 2 * margin]
    _, _, _, (x, y) = cv2.minMaxLoc(_correlate(window, wanted))
    return left + x, top + y


def _likeness(part: Pixels, rgb: Pixels, x: int, y: int) -> float:
    """From 0 to 1: the lesser of how alike the shapes and how alike the colours are."""
    height, width = rgb.shape[:2]
    there = np.asarray(cv2.cvtColor(part[y : y + height, x : x + width], cv2.COLOR_RGBA2RGB), np.uint8)
    colour = 1.0 - cv2.norm(there, rgb, cv2.NORM_L1) / rgb.size / _COLOUR_RANGE
    if colour <= 0:
        return 0.0
    a, b = _centred(there), _centred(rgb)
    norm = float(np.sqrt(np.vdot(a, a) * np.vdot(b, b)))
    shape = float(np.vdot(a, b)) / norm if norm > 0 else 0.0
    return round(max(0.0, min(shape, colour, 1.0)), 4)


def _centred(rgb: Pixels) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Without the mean of each channel, which `colour` judges."""
    values = rgb.reshape(-1, 3).astype(np.float32)
    values -= np.asarray(cv2.mean(rgb)[:3], np.float32)
    return values


def _apart(one: Candidate, other: Candidate, width: int, height: int) -> bool:
    return abs(one.x - other.x) * 2 > width or abs(one.y - other.y) * 2 > height
