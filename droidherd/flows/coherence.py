"""Whether the steps of a sound flow make sense together: what asks, what remembers, what goes by it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from droidherd.contracts.plan import Lives
from droidherd.flows import course, model
from droidherd.flows.again import seconds_of
from droidherd.flows.change import CHANGE_KINDS
from droidherd.flows.flow import Flow
from droidherd.flows.loader import Place
from droidherd.flows.reading import Read
from droidherd.flows.spelling import nearest

ACTS = frozenset({"start_app", "stop_app", "clear_app", "tap", "type", "swipe", "key", "handle", *CHANGE_KINDS})
NOT_IN_CLEANUP = frozenset({"ask", "again", "fail"})


@dataclass(frozen=True, slots=True)
class Complaint:
    place: Place
    what: str
    fix: str
    fatal: bool = True


Walk: TypeAlias = Iterator[Complaint]


@dataclass(slots=True)
class _Stage:
    """What is known of a stage up to a step."""

    account: bool
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Variable → what it may hold."""
    off_screen: set[str] = field(default_factory=set)
    """Those that may hold anything, since they are read."""
    set_at: dict[str, Place] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    acted: bool = False


def complaints(flow: Flow) -> Walk:
    """All of them, stage by stage."""
    for number, stage in enumerate(flow.stages):
        known = _Stage(stage.lives is Lives.ACCOUNT)
        yield from _steps(stage.steps, ("stages", number, "steps"), known)
        for name in sorted(known.set_at.keys() - known.read):
            yield Complaint(known.set_at[name], f"variable {name!r} is never read", "remove what sets it", fatal=False)
    for place, kind, _ in every(flow.cleanup, ("cleanup",)):
        if kind in NOT_IN_CLEANUP:
            yield Complaint(place, f"{kind} does not belong into cleanup", "put it at the end of a stage")


def every(steps: model.Steps, place: Place) -> Iterator[tuple[Place, str, object]]:
    """Every step with its place and kind, blocks before what is in them."""
    for number, step in enumerate(steps):
        kind = model.kind_of(step) or ""
        args = getattr(step, kind)
        here = (*place, number, kind)
        yield here, kind, args
        for block in ("do", "else"):
            inner = getattr(args, "else_" if block == "else" else block, None)
            if inner is not None:
                yield from every(inner, (*here, block))


def _steps(steps: model.Steps, place: Place, known: _Stage) -> Walk:
    for here, kind, args in every(steps, place):
        known.acted = known.acted or kind in ACTS
        if isinstance(args, course.Ask):
            yield from _ask(args, here, known)
        elif isinstance(args, Read):
            known.choices.setdefault(args.into, ())
            known.off_screen.add(args.into)
            known.set_at.setdefault(args.into, (*here, "into"))
        elif isinstance(args, model.When) and args.var is not None:
            yield from _when(args.var, args, here, known)
        elif isinstance(args, course.Again) and args.from_ is not None:
            yield from _from(args.from_, here, known)


def _ask(args: course.Ask, place: Place, known: _Stage) -> Walk:
    if args.into is not None:
        known.choices[args.into] = (*known.choices.get(args.into, ()), *args.choices)
        known.set_at.setdefault(args.into, (*place, "into"))
    elif len(args.choices) > 1:
        yield Complaint(place, "nothing goes by the answer", "add into: answer, or offer one choice", fatal=False)
    if not args.keep and known.account and (known.acted or "repeat" in place):
        what = "keep: false after an act in a stage that lives in the account: the act is not repeated elsewhere"
        yield Complaint((*place, "keep"), what, "begin a stage with the ask")


def _when(name: str, args: model.When, place: Place, known: _Stage) -> Walk:
    yield from _read(name, (*place, "var"), known)
    offered = () if name in known.off_screen else known.choices.get(name, ())
    for value in args.is_ or ():
        if offered and value not in offered:
            near = nearest(value, offered)
            fix = f"did you mean {near}?" if near else f"offered are: {', '.join(offered)}"
            yield Complaint((*place, "is"), f"{name} is never {value[:60]!r}", fix)


def _from(name: str, place: Place, known: _Stage) -> Walk:
    yield from _read(name, (*place, "from"), known)
    if "when" in place:
        return  # which values come here, the flow itself says
    for value in known.choices.get(name, ()):
        try:
            if not re.fullmatch(course.TIME_PATTERN, value):
                seconds_of(value)
        except ValueError as error:
            yield Complaint((*place, "from"), f"{name}: {error}", "offer times only, or put it into a when")


def _read(name: str, place: Place, known: _Stage) -> Walk:
    known.read.add(name)
    if name not in known.choices:
        near = nearest(name, known.choices)
        fix = f"did you mean {near}?" if near else f"add into: {name} to an ask or a read"
        yield Complaint(place, f"variable {name!r} is not set before it in this stage", fix)
