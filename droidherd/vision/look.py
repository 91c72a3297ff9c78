"""One frame, looked at many times: what is computed from it once is shared by all that is searched on it."""

from dataclasses import dataclass

import cv2
import numpy as np

from droidherd.domain.ports import Box, Frame
from droidherd.vision.pixels import Pixels, halve, of_frame


@dataclass(frozen=True, slots=True)
class FramePiece:
    """Some of a level, and where it lies on it."""

    pixels: Pixels
    left: int
    top: int


class PreparedFrame:
    """A frame with its grey reductions, each made when it is first asked for."""

    def __init__(self, frame: Frame) -> None:
        """InvalidFrameError when the frame's length is not that of its size."""
        self.frame = frame
        self.rgba = of_frame(frame)
        self._levels: dict[int, Pixels] = {}

    def level(self, number: int) -> Pixels:
        """The frame in grey, halved so many times."""
        if number not in self._levels:
            self._levels[number] = self._make(number)
        return self._levels[number]

    def _make(self, number: int) -> Pixels:
        if number:
            # Grey first: OpenCV halves one channel fourteen times as fast as four, and level 0 is needed later on.
            return halve(self.level(number - 1))
        return np.asarray(cv2.cvtColor(self.rgba, cv2.COLOR_RGBA2GRAY), np.uint8)

    def grey(self, level: int, part: Box) -> Pixels:
        """A part of a level. Of the frame itself no more than that is converted."""
        rows, columns = slice(part.y, part.y + part.height), slice(part.x, part.x + part.width)
        if level or 0 in self._levels:
            return self.level(level)[rows, columns]
        return np.asarray(cv2.cvtColor(self.rgba[rows, columns], cv2.COLOR_RGBA2GRAY), np.uint8)

    def pixels(self, level: int, part: Box) -> FramePiece:
        """The whole level if there is one, and no more than the part if there is not: in one piece of memory."""
        if level or 0 in self._levels:
            return FramePiece(self.level(level), 0, 0)
        return FramePiece(self.grey(0, part), part.x, part.y)

    def patch(self, x: int, y: int, width: int, height: int) -> Pixels:
        """A piece in colour, as RGB."""
        return np.asarray(cv2.cvtColor(self.rgba[y : y + height, x : x + width], cv2.COLOR_RGBA2RGB), np.uint8)
