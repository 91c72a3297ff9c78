"""Find a template on a frame.

Places are searched in grey from coarse to fine (`search`), and each is then judged in colour on every pixel (`judge`).
The judgement makes the answer: correlation alone calls a button with another number on it a perfect match.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from droidherd.domain.errors import FlowError
from droidherd.domain.ports import Box, Frame, Match
from droidherd.vision.align import Alignment, refine
from droidherd.vision.area import clip
from droidherd.vision.judge import LOOSE, RIGID, SAME_SHAPE, Comparison, judge_place
from droidherd.vision.look import PreparedFrame
from droidherd.vision.pattern import Pattern
from droidherd.vision.search import Guess, at_a_glance, by_parts, guesses, nearby
from droidherd.vision.template import Template

THRESHOLD = 0.9
SCALE_MIN, SCALE_MAX = 0.5, 2.0
_JUDGED_MAX = 4
_GUESS_MARGIN = 0.2
_CONVINCING = 0.7
_SCALE_DOUBT = 0.03
"""Scales asked for lie some hundredths apart; the true one lies between."""
_GUESS_MIN, _GUESS_MIN_SCALES = 0.65, 0.45
"""A place that correlates less than this is not worth a judgement. Between two scales the right one looks poor, too."""


@dataclass(frozen=True, slots=True)
class TemplateSearch:
    """A template in the scales it may have on this frame."""

    template: Template
    scales: tuple[float, ...]
    patterns: tuple[Pattern, ...]
    within: Box


@dataclass(frozen=True, slots=True)
class PlacedMatch:
    """A place with its comparison, on the frame."""

    box: Box
    comparison: Comparison


def find(
    frame: Frame | PreparedFrame,
    template: Template,
    *,
    threshold: float = THRESHOLD,
    area: Box | None = None,
    hint: Box | None = None,
) -> Match:
    """Where the template fits best, how well, how well it fits elsewhere, and where it differs.

    `area` narrows the search, in pixels of the frame. `hint` is where it was seen last: looked at first and judged as
    any other place, so it may save time and never makes an answer.
    A `Looked` serves several searches on one frame. Deterministic: equal input gives an equal match.
    """
    looked = frame if isinstance(frame, PreparedFrame) else PreparedFrame(frame)
    searched = _prepare(looked, template, area)
    if hint is not None:
        known = _at_hint(looked, searched, hint)
        if known is not None and _is_it(known, threshold):
            return _match(known, threshold, (0.0, None))
    found = at_a_glance(looked, searched.patterns, searched.within)
    placed = _try_guesses(looked, searched, found, threshold)
    if not any(_is_it(one, threshold) for one in placed):
        found = guesses(looked, searched.patterns, searched.within)
        placed = _try_guesses(looked, searched, found, threshold)
    if not any(_is_it(one, threshold) for one in placed) and _doubtful(searched, found):
        placed += _try_guesses(looked, searched, by_parts(looked, searched.patterns[0], searched.within), threshold)
    if not placed:
        best = found[0] if found else Guess(0, searched.within.x, searched.within.y, 0.0)
        box = _box(searched, best)
        # Not worth a judgement: all of it differs, and how alike it is is what the search says.
        placed.append(PlacedMatch(box, Comparison(round(max(0.0, best.score), 4), box)))
    best = max(placed, key=lambda one: (_is_it(one, threshold), one.comparison.score))
    return _match(best, threshold, _runner_up(looked, searched, found, placed, best.box))


def _try_guesses(
    looked: PreparedFrame, searched: TemplateSearch, found: list[Guess], threshold: float
) -> list[PlacedMatch]:
    """Judged one after the other, up to the first that is it."""
    placed: list[PlacedMatch] = []
    for guess in found[:_JUDGED_MAX]:
        if guess.score < max(_least(searched), found[0].score - _GUESS_MARGIN):
            break
        placed.append(_judge(looked, searched, guess))
        if _is_it(placed[-1], threshold):
            break
    return placed


def _least(searched: TemplateSearch) -> float:
    return _GUESS_MIN if len(searched.patterns) == 1 else _GUESS_MIN_SCALES


def _doubtful(searched: TemplateSearch, found: list[Guess]) -> bool:
    """No place looks much like it: a part of it may be hidden."""
    return len(searched.patterns) == 1 and (not found or found[0].score < _CONVINCING)


def _runner_up(
    looked: PreparedFrame, searched: TemplateSearch, found: list[Guess], placed: list[PlacedMatch], best: Box
) -> tuple[float, Box | None]:
    """The best place elsewhere: judged as well, unless it does not come near."""
    others = [one for one in placed if _apart(one.box, best)]
    unjudged = [one for one in found if _apart(_box(searched, one), best)]
    if unjudged and unjudged[0].score >= _CONVINCING and not others:
        others = [_judge(looked, searched, unjudged[0])]
    if others:
        second = max(others, key=lambda one: one.comparison.score)
        return second.comparison.score, second.box
    return (round(max(0.0, unjudged[0].score), 4), _box(searched, unjudged[0])) if unjudged else (0.0, None)


def _prepare(looked: PreparedFrame, template: Template, area: Box | None) -> TemplateSearch:
    width, height = looked.frame.width, looked.frame.height
    within, scales = clip(area, looked.frame), template.scales
    if not scales or not all(SCALE_MIN <= one <= SCALE_MAX for one in scales):
        raise FlowError(f"scales {scales} are not between {SCALE_MIN} and {SCALE_MAX}", to=template.name)
    template = template.at(width, height)
    fitting = [
        (scale, pattern)
        for scale, pattern in ((scale, template.pattern(scale)) for scale in scales)
        if pattern.width <= within.width and pattern.height <= within.height
    ]
    if not fitting:
        size = template.rgb.shape[1], template.rgb.shape[0]
        raise FlowError(
            f"{size[0]}x{size[1]} does not fit into {within.width}x{within.height}",
            to=template.name,
            remedy="cut a smaller piece or widen the area",
        )
    return TemplateSearch(template, tuple(one for one, _ in fitting), tuple(one for _, one in fitting), within)


def _at_hint(looked: PreparedFrame, searched: TemplateSearch, hint: Box) -> PlacedMatch | None:
    """The place where it was seen last, if it lies in the area at all."""
    widths = [abs(pattern.width - hint.width) for pattern in searched.patterns]
    index = widths.index(min(widths))
    guess = nearby(looked, searched.patterns[index], hint, searched.within)
    if guess.score < _least(searched):
        return None
    return _judge(looked, searched, Guess(index, guess.x, guess.y, guess.score))


def _judge(looked: PreparedFrame, searched: TemplateSearch, guess: Guess) -> PlacedMatch:
    pattern, template = searched.patterns[guess.pattern], searched.template
    if searched.scales == (1.0,) and not template.resampled:
        there = looked.patch(guess.x, guess.y, pattern.width, pattern.height)
        return PlacedMatch(
            _box(searched, guess), _on_frame(judge_place(pattern, there, RIGID), Alignment(1, 1, guess.x, guess.y))
        )
    # Compared on the template's own pixels: enlarging it would add nothing, and blur what is compared.
    native = template.native
    across, down = pattern.width / native.width, pattern.height / native.height
    doubt = 0.0 if len(searched.scales) == 1 else _SCALE_DOUBT
    piece = refine(looked, native, Alignment(across, down, guess.x, guess.y), doubt)
    lay = piece.lay
    width, height = looked.frame.width, looked.frame.height
    size = (
        min(width, max(1, round(native.width * lay.scale_x))),
        min(height, max(1, round(native.height * lay.scale_y))),
    )
    left, top = min(max(round(lay.left), 0), width - size[0]), min(max(round(lay.top), 0), height - size[1])
    return PlacedMatch(Box(left, top, *size), _on_frame(judge_place(native, piece.rgb, LOOSE), lay))


def _on_frame(comparison: Comparison, lay: Alignment) -> Comparison:
    differs = comparison.differs
    if differs is None:
        return comparison
    left, top = round(lay.left + differs.x * lay.scale_x), round(lay.top + differs.y * lay.scale_y)
    box = Box(left, top, max(1, round(differs.width * lay.scale_x)), max(1, round(differs.height * lay.scale_y)))
    return Comparison(comparison.score, box)


def _is_it(one: PlacedMatch, threshold: float) -> bool:
    return one.comparison.score >= threshold and one.comparison.differs is None


def _box(searched: TemplateSearch, guess: Guess) -> Box:
    pattern = searched.patterns[guess.pattern]
    return Box(guess.x, guess.y, pattern.width, pattern.height)


def _match(best: PlacedMatch, threshold: float, runner_up: tuple[float, Box | None]) -> Match:
    comparison = best.comparison
    return Match(
        found=_is_it(best, threshold),
        box=best.box,
        score=comparison.score,
        runner_up=runner_up[0],
        differs=comparison.differs if comparison.score >= SAME_SHAPE else None,
        runner_up_box=runner_up[1],
    )


def _apart(one: Box, other: Box) -> bool:
    return abs(one.x - other.x) * 2 > other.width or abs(one.y - other.y) * 2 > other.height


class LastPlaces:
    """Last places by what was searched for; the longest unused is dropped. For several threads."""

    def __init__(self, limit: int = 1024) -> None:
        """`limit` is a number of places."""
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Box] = OrderedDict()

    def last(self, searched: Hashable) -> Box | None:
        with self._lock:
            return self._kept.get(searched)

    def note(self, searched: Hashable, match: Match) -> None:
        """Remember where it was found. What is not there now may be there again: its place stays."""
        if not match.found:
            return
        with self._lock:
            self._kept[searched] = match.box
            self._kept.move_to_end(searched)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
