"""Whether the steps of a sound flow make sense together: what asks, what remembers, what goes by it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from droidherd.contracts.plan import Lives
from droidherd.flows import course, model
from droidherd.flows.again import seconds_of
from droidherd.flows.change import CHANGE_KINDS
from droidherd.flows.duration import format_duration
from droidherd.flows.flow import Flow, FlowStage
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
    names: set[str] = set()
    for number, stage in enumerate(flow.stages):
        if stage.stage in names:
            yield Complaint(
                ("stages", number, "stage"), f"two stages are called {stage.stage}", "give one another name"
            )
        names.add(stage.stage)
        yield from _times(flow, number)
        yield from _frames(stage, ("stages", number, "steps"))
        known = _Stage(stage.lives is Lives.ACCOUNT)
        yield from _steps(stage.steps, ("stages", number, "steps"), known)
        for name in sorted(known.set_at.keys() - known.read):
            yield Complaint(known.set_at[name], f"variable {name!r} is never read", "remove what sets it", fatal=False)
    for place, kind, _ in every(flow.cleanup, ("cleanup",)):
        if kind in NOT_IN_CLEANUP:
            yield Complaint(place, f"{kind} does not belong into cleanup", "put it at the end of a stage")


def _times(flow: Flow, number: int) -> Walk:
    """What may take longer than what it is part of never takes so long."""
    stage, place = flow.stages[number], ("stages", number)
    whole = flow.policy.time_limit
    if stage.limit is not None and stage.limit > whole:
        what = f"limit {format_duration(stage.limit)} is more than the whole attempt has, {format_duration(whole)}"
        yield Complaint((*place, "limit"), what, "raise time_limit in policy, or lower the limit", fatal=False)
    most = min(whole, stage.limit or whole)
    for where, kind, args in every(stage.steps, (*place, "steps")):
        for part, said in () if kind == "ask" else _waits(args):
            if said > most:
                what = f"{part[-1]} {format_duration(said)} is more than the stage has, {format_duration(most)}"
                yield Complaint((*where, *part), what, "raise the limit, or wait for less", fatal=False)


def _waits(args: object) -> Iterator[tuple[Place, float]]:
    """How long a step may wait by its own words, and where it says so."""
    if isinstance(args, model.Pause):
        yield ("for",), args.time
    for part in ((), ("then",), ("while",), ("until",), ("sees",)):
        one = getattr(args, f"{part[0]}_" if part == ("while",) else part[0], None) if part else args
        within = getattr(one, "within", None)
        if isinstance(within, float):
            yield (*part, "within"), within


def _frames(stage: FlowStage, place: Place) -> Walk:
    """Two frames of one name, which nobody tells apart by it."""
    known: dict[str, list[Place]] = {}
    for where, _, args in every(stage.steps, place):
        if isinstance(args, model.Shot):
            if any(not _either_or(where, other) for other in known.get(args.name, ())):
                what = f"this stage has another frame {args.name}, and this one is kept as {args.name} with a number"
                yield Complaint((*where, "name"), what, "give one another name", fatal=False)
            known.setdefault(args.name, []).append(where)


def _either_or(one: Place, other: Place) -> bool:
    """Whether a `when` does only one of the two."""
    step = next((mine, theirs) for mine, theirs in zip(one, other, strict=False) if mine != theirs)
    return set(step) == {"do", "else"}


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
