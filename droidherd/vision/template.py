"""Templates: small pictures to be found on frames."""

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from droidherd.domain.errors import FlowError
from droidherd.vision.pattern import Pattern
from droidherd.vision.pixels import OPAQUE, Pixels, read_image

SIDE_MIN = 6
CONTRAST_MIN = 4.0
"""Standard deviation of grey below which a picture fits everywhere and proves nothing."""
_RECORDED = re.compile(r"@([1-9]\d{1,4})x([1-9]\d{1,4})\.[A-Za-z]+$")
_STRETCH_MAX = 0.02


@dataclass(frozen=True, slots=True)
class Template:
    """A picture, and the size of the screen it was cut from (none: the size of the frame it is searched on)."""

    name: str
    rgb: Pixels
    recorded: tuple[int, int] | None = None
    mask: Pixels | None = None
    """255 where it counts; none: everywhere."""
    resampled: bool = False
    """Made for another screen than it was cut from."""
    scales: tuple[float, ...] = (1.0,)
    """Sizes it may have, 1 being as recorded."""
    source: Pattern | None = None
    """What it was made from, where that has fewer pixels."""
    _patterns: dict[float, Pattern] = field(default_factory=dict[float, Pattern], repr=False, compare=False)

    @property
    def native(self) -> Pattern:
        """The pixels to compare on."""
        return self.source or self.pattern(1.0)

    def pattern(self, scale: float) -> Pattern:
        """Made ready for the search at a scale; kept, since the same few are searched again and again."""
        kept = self._patterns.get(scale)
        if kept is None:
            kept = self._patterns[scale] = self._scale(scale)
        return kept

    def _scale(self, scale: float) -> Pattern:
        if scale == 1.0:
            return Pattern(self.rgb, self.mask)
        size = (max(1, round(self.rgb.shape[1] * scale)), max(1, round(self.rgb.shape[0] * scale)))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        mask = None if self.mask is None else np.asarray(cv2.resize(self.mask, size, interpolation=how), np.uint8)
        return Pattern(np.asarray(cv2.resize(self.rgb, size, interpolation=how), np.uint8), mask)

    def at(self, width: int, height: int) -> "Template":
        """Scaled to a screen of this size. Refuses another shape of screen: there the layout differs too."""
        if self.recorded is None or self.recorded == (width, height):
            return self
        across, down = width / self.recorded[0], height / self.recorded[1]
        if abs(across - down) > _STRETCH_MAX * max(across, down):
            raise FlowError(
                f"recorded on {self.recorded[0]}x{self.recorded[1]}, the screen is {width}x{height}",
                to=self.name,
                remedy="record it again on a screen of this shape",
            )
        size = (max(1, round(self.rgb.shape[1] * across)), max(1, round(self.rgb.shape[0] * down)))
        how = cv2.INTER_AREA if across < 1 else cv2.INTER_CUBIC
        rgb = np.asarray(cv2.resize(self.rgb, size, interpolation=how), np.uint8)
        mask = None if self.mask is None else np.asarray(cv2.resize(self.mask, size, interpolation=how), np.uint8)
        source = Pattern(self.rgb, self.mask) if across > 1 else None
        return check_template(Template(self.name, rgb, None, mask, resampled=True, scales=self.scales, source=source))


def recorded_in(name: str) -> tuple[int, int] | None:
    """The screen size in a name such as `gift@1280x720.png`."""
    found = _RECORDED.search(name)
    return (int(found[1]), int(found[2])) if found else None


def load(path: Path, recorded: tuple[int, int] | None = None) -> Template:
    """Read a template; the size in its name wins over `recorded`."""
    rgb, mask = read_image(path)
    return check_template(Template(path.name, rgb, recorded_in(path.name) or recorded, mask))


def check_template(template: Template) -> Template:
    """Refuse what would be found anywhere."""
    height, width = template.rgb.shape[:2]
    if min(width, height) < SIDE_MIN:
        raise FlowError(f"{width}x{height} pixels are too few", to=template.name, remedy="cut a larger piece")
    seen = cv2.cvtColor(template.rgb, cv2.COLOR_RGB2GRAY)
    if template.mask is not None:
        seen = seen[template.mask > OPAQUE]
        if seen.size < SIDE_MIN * SIDE_MIN:
            raise FlowError("is nearly all transparent", to=template.name, remedy="leave more of it to be compared")
        if np.count_nonzero(Pattern(template.rgb, template.mask).counts) < (SIDE_MIN - 2) ** 2:
            raise FlowError(
                "is too thin where it is not transparent: only pixels with all their neighbours are compared",
                to=template.name,
                remedy="leave a pixel more around each stroke",
            )
    contrast = float(np.std(seen))
    if contrast < CONTRAST_MIN:
        raise FlowError("is nearly uniform and would fit anywhere", to=template.name, remedy="cut a piece with detail")
    return template


_Key = tuple[str, int, int, tuple[int, int] | None, int, int]


class TemplateCache:
    """Templates by file, time stamp and screen size; the longest unused is dropped. For several threads."""

    def __init__(self, limit: int = 128) -> None:
        """`limit` is a number of templates."""
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Template] = OrderedDict()

    def get(self, path: Path, screen: tuple[int, int], recorded: tuple[int, int] | None = None) -> Template:
        """The template in this file, scaled to `screen`."""
        try:
            stat = path.stat()
        except OSError as error:
            raise FlowError(f"cannot be read: {error.strerror}", to=path.name) from error
        key = (str(path), stat.st_mtime_ns, stat.st_size, recorded, *screen)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        made = load(path, recorded).at(*screen)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._kept)
