"""Whether what a flow says about the screen holds, by what was found there. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from droidherd.domain.ports import Match
from droidherd.flows.targets import Aim, Sight, Target, has_place, said

Find: TypeAlias = Callable[[Target], Match]
Each: TypeAlias = "Callable[[Target], Judged]"
Screens: TypeAlias = Callable[[str], Target]


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a sight on one look."""

    holds: bool
    match: Match
    """Of the part that decided: the place to tap when it holds, what was there instead when it does not."""
    about: Target
    """The part that decided."""
    wanted: bool = True
    """Whether that was to be there; else it was to be gone."""
    screen: str = ""
    """Which it was to tell."""


def judged(sight: Target, find: Find, screen: Screens) -> Judged:
    """Seeks no more than it has to, in the order in which it is written. `screen`: what one is recognised by."""

    def each(part: Target) -> Judged:
        return judged(part, find, screen)

    if isinstance(sight, Aim):
        if sight.all_ is not None:
            return _all(sight.all_, each)
        if sight.any_ is not None:
            return _any(sight.any_, each)
    if isinstance(sight, Sight):
        if sight.none_ is not None:
            return _none(sight.none_, each)
        if sight.screen is not None:
            return replace(each(screen(sight.screen)), screen=sight.screen, wanted=True)
        absent = sight.absent()
        if absent is not None:
            match = find(absent)
            return Judged(not match.found, match, absent, wanted=False)
    match = find(sight)
    return Judged(match.found, match, sight)


def _all(parts: tuple[Sight, ...], each: Each) -> Judged:
    first: Judged | None = None
    place: Judged | None = None
    for part in parts:
        one = each(part)
        if not one.holds:
            return one
        first = first or one
        place = place or (one if has_place(part) else None)
    return place or first or _nothing()


def _any(parts: tuple[Sight, ...], each: Each) -> Judged:
    best: Judged | None = None
    for part in parts:
        one = each(part)
        if one.holds:
            return one
        best = one if best is None or one.match.score > best.match.score else best
    return best or _nothing()


def _none(parts: tuple[Sight, ...], each: Each) -> Judged:
    last: Judged | None = None
    for part in parts:
        last = each(part)
        if last.holds:
            return replace(last, holds=False, wanted=not last.wanted)
    return replace(last, holds=True, wanted=not last.wanted) if last else _nothing()


def _nothing() -> Judged:
    raise ValueError("a list of nothing says nothing")


def complaint(one: Judged, time: str) -> str:
    """Why a wait was in vain, for people."""
    what = f"screen {one.screen}" if one.screen else said(one.about)
    return f"{what} did not {'appear' if one.wanted else 'go away'} within {time}: {_evidence(one)}"


def _evidence(one: Judged) -> str:
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
    """What there is where no element is like the one that was sought."""
    return f"the elements of the screen say {match.text}" if match.text else "no element of the screen says anything"
