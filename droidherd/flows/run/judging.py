"""Whether what a flow says about the screen holds, by what was found there. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from droidherd.domain.ports import Match
from droidherd.flows.model.targets import ScreenCondition, Target, TargetGroup, describe, has_place

Find: TypeAlias = Callable[[Target], Match]
Each: TypeAlias = "Callable[[Target], Judgement]"
Screens: TypeAlias = Callable[[str], Target]
TRIED_MAX = 6
"""Of the parts of an `any`, an error names so many."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a condition on one look."""

    holds: bool
    match: Match
    """Of the part that decided: the place to tap when it holds, what was there instead when it does not."""
    about: Target
    """The part that decided."""
    wanted: bool = True
    """Whether that was to be there; else it was to be gone."""
    screen: str = ""
    """Which it was to tell."""
    tried: "tuple[Judgement, ...]" = ()
    """The parts of an `any` of which none held, in their order."""


def judge_target(condition: Target, find: Find, screen: Screens) -> Judgement:
    """Seeks no more than it has to, in the order in which it is written. `screen`: what one is recognised by."""

    def each(part: Target) -> Judgement:
        return judge_target(part, find, screen)

    if isinstance(condition, TargetGroup):
        if condition.all_ is not None:
            return _all(condition.all_, each)
        if condition.any_ is not None:
            return _any(condition.any_, each)
    if isinstance(condition, ScreenCondition):
        if condition.none_ is not None:
            return _none(condition.none_, each)
        if condition.screen is not None:
            return replace(each(screen(condition.screen)), screen=condition.screen, wanted=True)
        absent = condition.absent()
        if absent is not None:
            match = find(absent)
            return Judgement(not match.found, match, absent, wanted=False)
    match = find(condition)
    return Judgement(match.found, match, condition)


def _all(parts: tuple[ScreenCondition, ...], each: Each) -> Judgement:
    first: Judgement | None = None
    place: Judgement | None = None
    for part in parts:
        one = each(part)
        if not one.holds:
            return one
        first = first or one
        place = place or (one if has_place(part) else None)
    return place or first or _nothing()


def _any(parts: tuple[ScreenCondition, ...], each: Each) -> Judgement:
    best: Judgement | None = None
    tried: list[Judgement] = []
    for part in parts:
        one = each(part)
        if one.holds:
            return one
        tried += one.tried or (one,)
        best = one if best is None or one.match.score > best.match.score else best
    return replace(best, tried=tuple(tried)) if best else _nothing()


def _none(parts: tuple[ScreenCondition, ...], each: Each) -> Judgement:
    last: Judgement | None = None
    for part in parts:
        last = each(part)
        if last.holds:
            return replace(last, holds=False, wanted=not last.wanted)
    return replace(last, holds=True, wanted=not last.wanted) if last else _nothing()


def _nothing() -> Judgement:
    raise ValueError("a list of nothing says nothing")


def complaint(one: Judgement, time: str) -> str:
    """Why a wait was in vain, for people."""
    if len(one.tried) > 1:
        return _none_of(one, time)
    what = f"screen {one.screen}" if one.screen else describe(one.about)
    return f"{what} did not {'appear' if one.wanted else 'go away'} within {time}: {_evidence(one)}"


def _none_of(one: Judgement, time: str) -> str:
    """Each of those that would have done, and how near it came."""
    more = len(one.tried) - TRIED_MAX
    each = [f"{_name(part)}: {_near(part)}" for part in one.tried[:TRIED_MAX]] + [f"and {more} more"] * (more > 0)
    came = "appeared" if all(part.wanted for part in one.tried) else "came true"
    ended = f"screen {one.screen} did not appear" if one.screen else f"none of {len(one.tried)} {came}"
    return f"{ended} within {time}: {'; '.join(each)}"


def _name(part: Judgement) -> str:
    return f"screen {part.screen}" if part.screen else f"{'' if part.wanted else 'no '}{describe(part.about)}"


def _near(part: Judgement) -> str:
    """With its score, also where a message about that part alone has no use for one."""
    evidence, about = _evidence(part), part.about
    pictured = about.image is not None or about.feature is not None
    return evidence if pictured else f"{evidence} (score {part.match.score:.2f})"


def _evidence(one: Judgement) -> str:
    about, match, box = one.about, one.match, one.match.box
    if about.image is not None or about.feature is not None:
        text = f"best match {match.score:.2f} of {about.likeness:.2f} at {box.x},{box.y}"
        return f"{text}, but it differs at {match.differs.x},{match.differs.y}" if match.differs else text
    if about.colour is not None:
        there = f"it is {match.text} there" if match.text else f"{match.score:.0%} of what is asked for"
        return f"{there}, at {box.x},{box.y}"
    if about.ui is not None and not match.score:
        return elsewhere(match)
    return f"{match.text[:80]!r} is at {box.x},{box.y}" if match.text else "nothing like it is there"


def elsewhere(match: Match) -> str:
    """What there is where no element is like the one that was searched for."""
    return f"the elements of the screen say {match.text}" if match.text else "no element of the screen says anything"
