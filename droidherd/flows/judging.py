"""Whether what a flow says about the screen holds, by what was found there. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from droidherd.domain.ports import Match
from droidherd.flows.targets import Aim, Sight, Target, has_place, said

Find: TypeAlias = Callable[[Target], Match]


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


def judged(sight: Target, find: Find) -> Judged:
    """Seeks no more than it has to, in the order in which it is written."""
    if isinstance(sight, Aim):
        if sight.all_ is not None:
            return _all(sight.all_, find)
        if sight.any_ is not None:
            return _any(sight.any_, find)
    if isinstance(sight, Sight):
        if sight.none_ is not None:
            return _none(sight.none_, find)
        absent = sight.absent()
        if absent is not None:
            match = find(absent)
            return Judged(not match.found, match, absent, wanted=False)
    match = find(sight)
    return Judged(match.found, match, sight)


def _all(parts: tuple[Sight, ...], find: Find) -> Judged:
    first: Judged | None = None
    place: Judged | None = None
    for part in parts:
        one = judged(part, find)
        if not one.holds:
            return one
        first = first or one
        place = place or (one if has_place(part) else None)
    return place or first or _nothing()


def _any(parts: tuple[Sight, ...], find: Find) -> Judged:
    best: Judged | None = None
    for part in parts:
        one = judged(part, find)
        if one.holds:
            return one
        best = one if best is None or one.match.score > best.match.score else best
    return best or _nothing()


def _none(parts: tuple[Sight, ...], find: Find) -> Judged:
    last: Judged | None = None
    for part in parts:
        last = judged(part, find)
        if last.holds:
            return Judged(holds=False, match=last.match, about=last.about, wanted=not last.wanted)
    return Judged(holds=True, match=last.match, about=last.about, wanted=not last.wanted) if last else _nothing()


def _nothing() -> Judged:
    raise ValueError("a list of nothing says nothing")


def complaint(one: Judged, time: str) -> str:
    """Why a wait was in vain, for people."""
    if not one.wanted:
        return f"{said(one.about)} did not go away within {time}: {_evidence(one)}"
    return f"{said(one.about)} did not appear within {time}: {_evidence(one)}"


def _evidence(one: Judged) -> str:
    about, match, box = one.about, one.match, one.match.box
    if about.image is not None or about.feature is not None:
        text = f"best match {match.score:.2f} of {about.likeness:.2f} at {box.x},{box.y}"
        return f"{text}, but it differs at {match.differs.x},{match.differs.y}" if match.differs else text
    if about.colour is not None:
        there = f"it is {match.text} there" if match.text else f"{match.score:.0%} of what is asked for"
        return f"{there}, at {box.x},{box.y}"
    return f"{match.text[:80]!r} is at {box.x},{box.y}" if match.text else "nothing like it is there"
