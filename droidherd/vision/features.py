"""Find a picture by its features: also when it is larger, smaller or turned. Slower than a template match. Pure.

What the features agree on is only where to look: the picture is then laid over that place and judged there as a whole.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.vision.area import clip
from droidherd.vision.pixels import Pixels, of_frame
from droidherd.vision.template import Template

THRESHOLD = 0.8
FEATURES_MIN = 12
"""A picture with fewer is better searched for as a template."""
_AGREEING_MIN = 7
_FEATURES_MAX = 400
_FEATURES_OF_FRAME_MAX = 4_000
_DISTINCT = 0.8
"""The best partner of a feature has to be so much nearer than the second best."""
_OFF_PX = 4.0
_SPOT_PX = 8
_SCALE_MIN, _SCALE_MAX = 0.3, 3.5
_EDGE = 8
_SIDE_MIN = 6
"""OpenCV halves what it looks at several times, down to nothing."""
_NOT_FOUND = Match(found=False, box=Box(0, 0, 0, 0), score=0.0, runner_up=0.0)

Warp: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one picture."""

    points: NDArray[np.float32]
    descriptions: Any

    def __len__(self) -> int:
        return len(self.points)

    @property
    def spots(self) -> int:
        """One corner is a feature at every size it is looked at, but it is one corner."""
        return len({(int(x) // _SPOT_PX, int(y) // _SPOT_PX) for x, y in self.points})


def find(frame: Frame, template: Template, *, threshold: float = THRESHOLD, area: Box | None = None) -> Match:
    """Where the picture is, in whatever size and position, and how alike it is there.

    FlowError when the picture has too few features to be told by them.
    """
    searched = template_features(template)
    within = clip(area, frame)
    if not within.width or not within.height:
        raise FlowError("the area is empty", to=template.name, remedy="widen it")
    part = of_frame(frame)[within.y : within.y + within.height, within.x : within.x + within.width]
    grey = _grey(part, cv2.COLOR_RGBA2GRAY)
    there = features_of(grey, _FEATURES_OF_FRAME_MAX)
    warp = _find_warp(searched, there)
    if warp is None:
        return _NOT_FOUND
    box = _outline(warp, template.rgb.shape[1], template.rgb.shape[0], within)
    if box is None:
        return _NOT_FOUND
    score = _likeness(part, template.rgb, warp)
    return Match(found=score >= threshold, box=box, score=score, runner_up=0.0)


def template_features(template: Template) -> Features:
    """The features of the picture that is searched for. FlowError when they are too few."""
    found = features_of(_grey(template.rgb, cv2.COLOR_RGB2GRAY), _FEATURES_MAX)
    if found.spots < FEATURES_MIN:
        raise FlowError(
            f"has {found.spots} features, at least {FEATURES_MIN} are needed",
            to=template.name,
            remedy="cut a larger piece with more detail, or seek it as an image",
        )
    return found


def features_of(grey: Pixels, most: int) -> Features:
    """The most distinct ones; none of a flat picture, and none of one too small to have any."""
    if min(grey.shape) < _SIDE_MIN:
        return Features(np.empty((0, 2), np.float32), None)
    edge = max(2, min(_EDGE, min(grey.shape) // 6))
    detector: Any = cv2.ORB.create(nfeatures=most, edgeThreshold=edge, patchSize=31, fastThreshold=8)
    points, descriptions = detector.detectAndCompute(grey, None)
    if descriptions is None:
        return Features(np.empty((0, 2), np.float32), None)
    return Features(np.array([point.pt for point in points], np.float32), descriptions)


def _grey(pixels: Pixels, how: int) -> Pixels:
    return np.asarray(cv2.cvtColor(pixels, how), np.uint8)


def _find_warp(searched: Features, there: Features) -> Warp | None:
    """How the picture lies on the frame, if enough features say the same: moved, turned, scaled, nothing else."""
    if len(there) < 2:  # noqa: PLR2004 -- a best and a second best partner
        return None
    matcher: Any = cv2.BFMatcher(cv2.NORM_HAMMING)
    pairs = matcher.knnMatch(searched.descriptions, there.descriptions, k=2)
    good = [one for one, second in pairs if one.distance < _DISTINCT * second.distance]
    if len(good) < _AGREEING_MIN:
        return None
    source = np.array([searched.points[one.queryIdx] for one in good], np.float32)
    target = np.array([there.points[one.trainIdx] for one in good], np.float32)
    cv2.setRNGSeed(1)  # equal input gives an equal match
    found: Any = cv2.estimateAffinePartial2D(source, target, method=cv2.RANSAC, ransacReprojThreshold=_OFF_PX)
    warp, inliers = found
    if warp is None or int(np.count_nonzero(inliers)) < _AGREEING_MIN:
        return None
    scale = float(np.hypot(warp[0, 0], warp[1, 0]))
    return np.asarray(warp, np.float64) if _SCALE_MIN <= scale <= _SCALE_MAX else None


def _outline(warp: Warp, width: int, height: int, within: Box) -> Box | None:
    """The upright box around the picture as it lies there; none when its middle is off the area."""
    corners = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], np.float64) @ warp.T
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    x, y = (left + right) / 2, (top + bottom) / 2
    if not (0 <= x < within.width and 0 <= y < within.height):
        return None
    return Box(within.x + round(left), within.y + round(top), max(1, round(right - left)), max(1, round(bottom - top)))


def _likeness(part: Pixels, rgb: Pixels, warp: Warp) -> float:
    """The frame, brought back to the size and position of the picture, compared with it; 0 to 1."""
    height, width = rgb.shape[:2]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    back: Any = cv2.warpAffine(part, warp, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    # A little blur: what was scaled up or down has lost its finest detail.
    one = cv2.GaussianBlur(_rgb(back), (5, 5), 0).astype(np.float32)
    other = cv2.GaussianBlur(rgb, (5, 5), 0).astype(np.float32)
    one, other = one - one.mean(axis=(0, 1)), other - other.mean(axis=(0, 1))
    norm = float(np.sqrt(np.vdot(one, one) * np.vdot(other, other)))
    return round(max(0.0, min(1.0, float(np.vdot(one, other)) / norm)), 4) if norm > 0 else 0.0


def _rgb(rgba: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB), np.uint8)
