"""A template made ready: what searching and judging need of it, computed once and kept with it."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.vision.pixels import OPAQUE, Pixels, halve, strongest

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]

LEVEL_MAX = 3
COARSE_SIDE_MIN = 7
"""With 6, one tiny sign in fourteen is overlooked; with 7, one in a hundred."""
GLANCE_SIDE_MIN = 4
_PARTS_FROM = 24
_HALVED_MIN = 4
_CONTRAST_KEPT = 0.4
_CONTRAST_MIN = 4.0
SAMPLES_MAX = 256
"""Of a level that is probed: so many decide between near-duplicates on the frame itself, half of it above."""
ALIGN_SAMPLES_MAX = 1200
FIT_SAMPLES_MAX = 480
OFFSET_UNIT = 64.0
"""The constant column of the fit, in levels: about as large as the others, so that the sums are well conditioned."""
_AROUND = 9
_CROSS = np.ones((3, 3), np.uint8)


@dataclass(frozen=True, slots=True)
class PixelProbe:
    """A level of the pattern at some of its pixels: enough to tell which of a few places is the right one."""

    width: int
    height: int
    rows: Indices
    columns: Indices
    values: Floats
    """Without their mean, of length one."""


@dataclass(frozen=True, slots=True)
class FitBasis:
    """What a frame's colours are explained by: the template's neighbourhoods at some pixels, channel after channel."""

    rows: Indices
    columns: Indices
    columns_of: Floats
    """3 x samples rows: nine neighbours and a constant."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """How the samples of a level change when the pattern moves, grows, or turns brighter."""

    rows: Floats
    columns: Floats
    """From the edge of the first pixel."""
    values: Floats
    jacobian: Floats
    """Right, down, wider, higher, gain, offset."""
    normal: Floats
    """The jacobian's products with itself."""


class Pattern:
    """The pixels of a template at one scale. `mask`: 255 where it counts, none: everywhere."""

    def __init__(self, rgb: Pixels, mask: Pixels | None = None) -> None:
        """Nothing is computed yet."""
        self.rgb = rgb
        self.mask = mask
        self.height, self.width = rgb.shape[:2]
        self._probes: dict[int, PixelProbe] = {}
        self._slopes: dict[int, Slopes] = {}
        self._slope_shares: dict[tuple[float, int], Pixels] = {}
        self._tolerances: dict[tuple[int, float], Pixels] = {}

    @cached_property
    def levels(self) -> list[Pixels]:
        """In grey, halved as often as it bears."""
        levels = [np.asarray(cv2.cvtColor(self.rgb, cv2.COLOR_RGB2GRAY), np.uint8)]
        while len(levels) <= LEVEL_MAX and min(levels[-1].shape) >= _HALVED_MIN:
            levels.append(halve(levels[-1]))
        return levels

    @cached_property
    def masks(self) -> list[Pixels]:
        """The mask, halved likewise; empty without one."""
        if self.mask is None:
            return []
        masks = [self.mask]
        while len(masks) < len(self.levels):
            masks.append(halve(masks[-1]))
        return [np.asarray((one > OPAQUE) * np.uint8(255), np.uint8) for one in masks]

    @cached_property
    def coarse(self) -> int:
        """The level the search begins on: as small as the pattern stays telling."""
        return self._coarsest(COARSE_SIDE_MIN)

    @cached_property
    def glance(self) -> int:
        """The level of a first glance: as small as the pattern is mostly still telling."""
        return self._coarsest(GLANCE_SIDE_MIN)

    def _coarsest(self, side: int) -> int:
        """By the least side it may have, and by its contrast, its corners left aside."""
        contrast = self._contrast_of(0)
        level = 0
        for number, grey in enumerate(self.levels[1:], 1):
            if min(grey.shape) < side or np.count_nonzero(self._count(number)) < side * side:
                break
            if self._contrast_of(number) < max(_CONTRAST_MIN, _CONTRAST_KEPT * contrast):
                break
            level = number
        return level

    def _contrast_of(self, level: int) -> float:
        """Of what counts: thin strokes on transparent ground are gone where the ground still has contrast."""
        if not self.masks or not self.masks[level].any():
            return _contrast(self.levels[level])
        return float(np.std(self.levels[level][self.masks[level] > 0]))

    @cached_property
    def parts(self) -> "list[tuple[Pattern, int, int]]":
        """Half of it from the upper left and half from the lower right, with their places.

        Whatever reaches in from one side leaves one of the two alone. None of what is too small or has a mask.
        """
        if min(self.width, self.height) < _PARTS_FROM or self.mask is not None:
            return []
        across, down = self.width * 3 // 10, self.height * 3 // 10
        upper = Pattern(np.ascontiguousarray(self.rgb[: self.height - down, : self.width - across]))
        lower = Pattern(np.ascontiguousarray(self.rgb[down:, across:]))
        return [one for one in ((upper, 0, 0), (lower, across, down)) if _contrast(one[0].levels[0]) >= _CONTRAST_MIN]

    def probe(self, level: int) -> PixelProbe:
        """The samples of one level."""
        if level not in self._probes:
            grey = self.levels[level]
            rows, columns = self._samples(level, SAMPLES_MAX // 2 if level else SAMPLES_MAX)
            values = grey[rows, columns].astype(np.float32)
            values -= values.mean()
            length = float(np.sqrt(np.dot(values, values)))
            values /= np.float32(max(length, 1e-6))
            self._probes[level] = PixelProbe(grey.shape[1], grey.shape[0], rows, columns, values)
        return self._probes[level]

    def _count(self, level: int) -> NDArray[np.bool_]:
        return self.masks[level] > 0 if self.masks else np.ones(self.levels[level].shape, np.bool_)

    def _samples(self, level: int, most: int) -> tuple[Indices, Indices]:
        """Some of what counts on a level. Of a mask that scaling left nothing of anything: it only leads to a guess."""
        counted = self._count(level)
        return _sample(self.levels[level], counted if counted.any() else np.ones_like(counted), most)

    def slopes(self, level: int) -> Slopes:
        """For placing the pattern by less than a pixel."""
        if level not in self._slopes:
            grey = self.levels[level]
            down_at, across_at = self._samples(level, ALIGN_SAMPLES_MAX)
            right, down = (
                np.asarray(cv2.Sobel(grey, cv2.CV_32F, dx, 1 - dx, ksize=3, scale=1 / 8), np.float32)[
                    down_at, across_at
                ]
                for dx in (1, 0)
            )
            rows, columns = (one.astype(np.float32) + np.float32(0.5) for one in (down_at, across_at))
            values = grey[down_at, across_at].astype(np.float32)
            stacked = np.stack([right, down, right * columns, down * rows, values, np.full_like(values, 64)], axis=1)
            jacobian = np.asarray(stacked, np.float32)
            self._slopes[level] = Slopes(rows, columns, values, jacobian, np.asarray(jacobian.T @ jacobian, np.float32))
        return self._slopes[level]

    @cached_property
    def counts(self) -> NDArray[np.bool_]:
        """Where it is judged: inside the mask, and not on the outermost pixels, whose neighbours nobody knows."""
        inside = np.zeros((self.height, self.width), np.bool_)
        inside[1:-1, 1:-1] = True
        if self.mask is not None:
            inside &= cv2.erode((self.mask > OPAQUE).astype(np.uint8), _CROSS) > 0
        return inside

    @cached_property
    def slope(self) -> Pixels:
        """How much each channel varies around each pixel."""
        return np.asarray(cv2.morphologyEx(self.rgb, cv2.MORPH_GRADIENT, _CROSS), np.uint8)

    def allowed(self, slope: float, edge: int, constant: float) -> Pixels:
        """By how much each pixel may be off: a share of its slope, and a constant. Anything where it is not judged."""
        if (slope, edge) not in self._slope_shares:
            share = np.asarray(cv2.convertScaleAbs(self.slope, alpha=slope), np.uint8)
            share[~self.counts] = 255
            rim = min(edge, min(self.width, self.height) // 8)
            share[:rim] = share[self.height - rim :] = 255
            share[:, :rim] = share[:, self.width - rim :] = 255
            self._slope_shares[slope, edge] = share
        return np.asarray(cv2.convertScaleAbs(self._slope_shares[slope, edge], beta=constant), np.uint8)

    def tolerated(self, least: int, share: float) -> Pixels:
        """By how much a window may be off: a share of the contrast around it, and not less than `least`."""
        if (least, share) not in self._tolerances:
            around = cv2.dilate(strongest(self.slope), np.ones((_AROUND, _AROUND), np.uint8))
            scaled = cv2.convertScaleAbs(around, alpha=share)
            self._tolerances[least, share] = np.asarray(np.maximum(scaled, least), np.uint8)
        return self._tolerances[least, share]

    @cached_property
    def basis(self) -> FitBasis:
        rows, columns = _sample(self.levels[0], self.counts, FIT_SAMPLES_MAX)
        neighbours = [self.rgb[rows + down, columns + across] for down in (-1, 0, 1) for across in (-1, 0, 1)]
        stacked = np.stack([one.T.reshape(-1) for one in neighbours], axis=1).astype(np.float32)
        constant = np.full((len(stacked), 1), OFFSET_UNIT, np.float32)
        return FitBasis(rows, columns, np.concatenate([stacked, constant], axis=1))


def median(values: Floats) -> float:
    """The upper one of two; numpy's own takes three times as long for a few hundred values."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def _contrast(grey: Pixels) -> float:
    """Of the middle: at the corners of what is round the ground shows, and may be all there is to see."""
    down, across = grey.shape[0] // 8, grey.shape[1] // 8
    return float(np.std(grey[down : grey.shape[0] - down, across : grey.shape[1] - across]))


def _sample(grey: Pixels, counts: NDArray[np.bool_], most: int) -> tuple[Indices, Indices]:
    """Half of the samples where something changes, half everywhere, both spread over the whole."""
    everywhere = np.flatnonzero(counts)
    slope = np.asarray(cv2.morphologyEx(grey, cv2.MORPH_GRADIENT, _CROSS), np.uint8).reshape(-1)
    if len(everywhere) > most:
        steep = everywhere[slope[everywhere] > max(8.0, float(slope[everywhere].mean()))]
        everywhere = np.unique(np.concatenate([_thin(steep, most // 2), _thin(everywhere, most // 2)]))
    rows, columns = np.divmod(everywhere, grey.shape[1])
    return rows, columns


def _thin(places: Indices, most: int) -> Indices:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
