"""Reading the words on a frame (OCR). Needs the extra `droidherd[ocr]`; the models come with it, nothing is downloaded.

`read` asks the model; all else is pure.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import cv2
import numpy as np
import regex

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows import patterns
from droidherd.vision.area import clip
from droidherd.vision.pixels import of_frame

REMEDY = "pip install 'droidherd[ocr]' where this worker runs, and start it again"
LINES_MAX = 500
SPAN_MAX = 1_000
"""Of a line that a pattern is tried on."""
CONFIDENCE_MIN = 0.5
_SIDE_MAX = 1920
"""A larger picture is scaled down before words are searched on it."""
_SIDE_MIN = 8
_NOWHERE = Box(0, 0, 0, 0)
_CHAR = r"[^\W\u2e80-\uffff]"
"""Of a script that puts spaces between its words."""


@dataclass(frozen=True, slots=True)
class Line:
    """Some words in a row."""

    text: str
    box: Box
    confidence: float


def read(frame: Frame, area: Box | None = None) -> tuple[Line, ...]:
    """Every line of words in an area, from the top; without an area that of the whole screen, which takes long."""
    within = clip(area, frame)
    if min(within.width, within.height) < _SIDE_MIN:
        raise FlowError(f"an area of {within.width}x{within.height} holds no words", remedy="widen it")
    part = of_frame(frame)[within.y : within.y + within.height, within.x : within.x + within.width]
    engine = _engine()
    with _TURN:
        found: Any = engine(np.asarray(cv2.cvtColor(part, cv2.COLOR_RGBA2BGR), np.uint8))
    if found.boxes is None or found.txts is None or found.scores is None:
        return ()
    lines = [
        Line(str(text), _box(corners, within), round(float(score), 4))
        for corners, text, score in zip(found.boxes, found.txts, found.scores, strict=True)
        if float(score) >= CONFIDENCE_MIN
    ]
    return tuple(sorted(lines[:LINES_MAX], key=lambda line: (line.box.y, line.box.x)))


def words(wanted: str) -> regex.Pattern[str]:
    """A pattern for these words: whole ones, in any case, with any white space in between (models lose some)."""
    spelled = r"\s*".join(re.escape(word) for word in wanted.split())
    before = rf"(?<!{_CHAR})" if re.match(_CHAR, wanted.strip()) else ""
    after = rf"(?!{_CHAR})" if re.search(rf"{_CHAR}\Z", wanted.strip()) else ""
    return patterns.compile_pattern(before + spelled + after, any_case=True)


def find(lines: Sequence[Line], pattern: regex.Pattern[str], like: str = "") -> Match:
    """The line in which the pattern is found; the one that says least beside it comes first.

    `like`: what is searched for, in words, so that the nearest line can be named when there is none.
    """
    held = [(line, spot) for line in lines if (spot := patterns.search(pattern, line.text[:SPAN_MAX])) is not None]
    if not held:
        return _nearest(lines, like)
    held.sort(key=lambda one: (len(one[0].text), one[0].box.y, one[0].box.x))
    line, spot = held[0]
    second = held[1][0] if held[1:] else None
    return Match(
        found=True,
        box=_narrow(line.box, spot.span(), len(line.text)),
        score=line.confidence,
        runner_up=second.confidence if second else 0.0,
        runner_up_box=second.box if second else None,
        text=line.text,
    )


def join_lines(lines: Sequence[Line]) -> str:
    """All that was read, as one line."""
    return " ".join(" ".join(line.text.split()) for line in lines)


def _nearest(lines: Sequence[Line], like: str) -> Match:
    rated = [(SequenceMatcher(None, like.casefold()[:80], line.text.casefold()[:80]).ratio(), line) for line in lines]
    score, line = max(rated, key=lambda one: one[0], default=(0.0, None))
    if line is None:
        return Match(found=False, box=_NOWHERE, score=0.0, runner_up=0.0)
    return Match(found=False, box=line.box, score=round(min(0.99, score), 4), runner_up=0.0, text=line.text)


def _narrow(box: Box, span: tuple[int, int], whole: int) -> Box:
    """The part of a line that some of its letters take, as if all were equally wide."""
    if whole <= 0 or span[0] == span[1]:
        return box
    left, right = (round(box.width * part / whole) for part in span)
    return Box(box.x + left, box.y, max(1, right - left), box.height)


def _box(corners: Any, within: Box) -> Box:
    points = np.asarray(corners, np.float64)
    left, top = (int(value) for value in points.min(axis=0))
    right, bottom = (int(np.ceil(value)) for value in points.max(axis=0))
    return Box(within.x + left, within.y + top, max(1, right - left), max(1, bottom - top))


_TURN = threading.Semaphore(2)
"""A model on a full screen takes a core for a while: a hundred emulators reading at once would starve each other."""


@cache
def _engine() -> Any:
    """Loaded when the first words are read: it takes a second and some hundred megabytes."""
    try:
        from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports] -- an extra
    except ImportError as error:
        raise FlowError("words on the screen cannot be read here", remedy=REMEDY) from error
    # One emulator, one thread, here too. A small area is not blown up before words are searched in it.
    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Det.limit_type": "max",
            "Det.limit_side_len": _SIDE_MAX,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
