"""Whether the flows that a flow uses fit where they are used, and beside each other."""

import hashlib
import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from droidherd.contracts.plan import Lives
from droidherd.domain.errors import BadParametersError
from droidherd.flows.change import CHANGE_KINDS
from droidherd.flows.coherence import NOT_IN_CLEANUP, Complaint, Walk, every
from droidherd.flows.expansion import (
    NAME_MAX,
    STEPS_MAX,
    charted,
    longest,
    made,
    misused,
    screens_used,
    tidied,
    used_as_written,
)
from droidherd.flows.flow import Flow
from droidherd.flows.loaded import LoadedFlow
from droidherd.flows.loader import Place
from droidherd.flows.model import Steps, Use
from droidherd.flows.params import placeholders, substituted
from droidherd.flows.problems import value_at


def used_together(loaded: LoadedFlow) -> Walk:
    """Whether the flows that are used fit where they are used."""
    flow = loaded.flow
    values = {name: param.sample() for name, param in flow.params.items()}
    for place, use, lives in _places_of_use(flow):
        yield from _fits(loaded.uses[use.flow], place, lives)
    for name, used in loaded.used().items():
        for label, value in used.flow.requires.items():
            if flow.requires.get(label, value) != value:
                what = f"requires {label}={flow.requires[label]}, and flow {name}, which is used, {label}={value}"
                yield Complaint(("requires", label), what, "one emulator has to fit both")
    wrong = [*_told_wrong(loaded, values)]
    yield from wrong
    if wrong:
        return
    try:
        for number, steps in enumerate(loaded.stages):
            count, length = longest(made(steps, values, loaded))
            if count > STEPS_MAX or (loaded.uses and length > NAME_MAX):
                what = f"{count} steps with those of used flows, names of effects up to {length} characters"
                fix = f"at most {STEPS_MAX} and {NAME_MAX}: split the stage, or nest less"
                yield Complaint(("stages", number, "steps"), what, fix)
        count = longest([*made(loaded.cleanup or [], values, loaded), *tidied(loaded, values)])[0]
        if count > STEPS_MAX:
            what = f"{count} steps of cleanup with those of used flows"
            yield Complaint(("cleanup",), what, f"at most {STEPS_MAX}: use fewer flows")
        charted(loaded, values)
        yield from _filled_twice(loaded)
        yield from _named_otherwise(loaded, values)
        yield from _left_behind(loaded)
    except BadParametersError as error:
        fix = error.remedy or "give the parameter an example or a default that fits"
        yield Complaint((), f"{error.what}, when parameters have their examples", fix)


def _told_wrong(loaded: LoadedFlow, values: Mapping[str, JsonValue]) -> Walk:
    """What a used flow is told, and does not take. A parameter's own sample may be at fault."""
    for place, args, error in misused(loaded, values):
        field = error.to.removeprefix("params.")
        told = value_at(args, ("with", field))
        names = [*placeholders(told)] if isinstance(told, str) else []
        fix = f"give parameter {names[0]} an example or a default that fits" if names else error.remedy
        yield Complaint((*place, "with", field), error.what, fix)


def _filled_twice(loaded: LoadedFlow) -> Walk:
    """A used flow's screens, routes and interrupts are known once: two uses must not want them filled in otherwise."""
    known: dict[str, dict[str, JsonValue]] = {}
    for place, used, told in used_as_written(loaded):
        name = used.flow.flow
        chart = {part: substituted(used.chart.get(part), told) for part in ("screens", "routes", "interrupts")}
        first = known.setdefault(name, chart)
        if differing := [part for part in chart if chart[part] != first[part]]:
            what = f"flow {name} is used with other parameters before, and its {differing[0]} hold them"
            fix = f"they are filled in once: move what holds them into steps of a stage of {name}, or use it once"
            yield Complaint(place, what, fix)


def _named_otherwise(loaded: LoadedFlow, values: Mapping[str, JsonValue]) -> Walk:
    """Two used flows that mean different screens by one name: one of them would look for that of the other."""
    known: dict[str, tuple[str, str]] = {}
    for place, flow, screens in screens_used(loaded, values):
        for name in screens.keys() - loaded.flow.screens.keys():
            look = _look_of(screens[name], loaded)
            other, first = known.setdefault(name, (flow, look))
            if other != flow and look != first:
                what = f"flows {other} and {flow} both have a screen {name}, and recognise it by something else"
                yield Complaint(place, what, f"say in this flow what {name} is, or give one of them another name")


def _look_of(sight: JsonValue, loaded: LoadedFlow) -> str:
    """As a text that is the same for the same pictures, whatever their names."""
    if isinstance(sight, dict):
        parts = [f"{key}:{_look_of(sight[key], loaded)}" for key in sorted(sight)]
        return f"{{{','.join(parts)}}}"
    if isinstance(sight, list):
        return f"[{','.join(_look_of(one, loaded) for one in sight)}]"
    if isinstance(sight, str) and sight in loaded.images:
        return hashlib.sha256(loaded.images[sight].read_bytes()).hexdigest()
    return json.dumps(sight)


def _left_behind(loaded: LoadedFlow) -> Walk:
    """What a used flow says of itself, and the using flow neither inherits nor says."""
    uses = {used.flow.flow: (place, used) for place, used, _ in used_as_written(loaded)}
    for part in ("lost", "guards"):
        for name, (place, used) in uses.items():
            if loaded.chart.get(part) is None and used.chart.get(part) is not None:
                what = f"flow {name} says {part}, and that does not come along"
                yield Complaint(place, what, f"add {part} to this flow: copy that of {name}", fatal=False)


def _places_of_use(flow: Flow) -> Iterator[tuple[Place, Use, Lives | None]]:
    """Every `use`, and where what it does lives; none: in the undo, or the cleanup."""
    blocks: list[tuple[Place, Steps, Lives | None]] = [(("cleanup",), flow.cleanup, None)]
    for number, stage in enumerate(flow.stages):
        blocks.append((("stages", number, "steps"), stage.steps, stage.lives))
        blocks.append((("stages", number, "undo"), stage.undo, None))
    for place, steps, lives in blocks:
        for where, _, args in every(steps, place):
            if isinstance(args, Use):
                yield where, args, lives


def _fits(used: LoadedFlow, place: Place, lives: Lives | None) -> Walk:
    whole = [used, *used.used().values()]
    kinds = {kind for one in whole for stage in one.flow.stages for _, kind, _ in every(stage.steps, ())}
    changing, name = sorted(kinds & {*CHANGE_KINDS}), used.flow.flow
    if lives is None and (kinds & {*CHANGE_KINDS, "handle"}):
        what = f"flow {name} changes things by value or calls a handler, which nobody would take back here"
        yield Complaint(place, what, "use it in the steps of a stage")
    if place[0] == "cleanup" and (course := sorted(kinds & NOT_IN_CLEANUP)):
        yield Complaint(place, f"flow {name} holds {course[0]}, which does not belong into cleanup", "use another one")
    if lives is Lives.ACCOUNT and changing:
        what = f"flow {name} holds {changing[0]}, which changes the emulator, and this stage lives in the account"
        yield Complaint(place, what, "use it in a stage of its own")
    if lives is Lives.EMULATOR:
        for stage in (stage for one in whole for stage in one.flow.stages if stage.lives is Lives.ACCOUNT):
            what = f"stage {stage.stage} of flow {name} lives in the account, and this one is done again after a move"
            yield Complaint(place, what, "add lives: account to this stage", fatal=False)
