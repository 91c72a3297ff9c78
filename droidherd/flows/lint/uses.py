"""Whether the flows that a flow uses fit where they are used, and beside each other."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue

from droidherd.contracts.plan import Effect
from droidherd.domain.errors import BadParametersError
from droidherd.files.regular import IMAGE_BYTES_MAX, read_regular
from droidherd.flows.lint.inspection import Complaints, Inspection
from droidherd.flows.lint.stages import blocks
from droidherd.flows.loading.document import value_at
from droidherd.flows.loading.expansion import (
    NAME_MAX,
    STEPS_MAX,
    expand,
    longest,
    screen_map_of,
    screens_used,
    used_as_written,
    used_cleanups,
    wrong_uses,
)
from droidherd.flows.loading.loaded import LoadedFlow
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.params import placeholders, substitute
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.steps.base import Step, every
from droidherd.flows.model.steps.blocks import UseStep
from droidherd.flows.model.steps.changes import ChangeStep


def used_flows(one: Inspection) -> Complaints:
    """The flows that are used fit where they are used, and beside each other."""
    loaded = one.loaded
    flow = loaded.flow
    values = {name: param.sample() for name, param in loaded.params.items()}
    for place, use, effect in _places_of_use(flow):
        yield from _fits(loaded.uses[use.flow], place, effect)
    for name, used in loaded.all_used().items():
        for label, value in used.flow.requires.items():
            if flow.requires.get(label, value) != value:
                what = f"requires {label}={flow.requires[label]}, and flow {name}, which is used, {label}={value}"
                yield Complaint(("requires", label), what, "one emulator has to fit both")
    wrong = [*_wrong_arguments(loaded, values)]
    yield from wrong
    if wrong:
        return
    try:
        for number, steps in enumerate(loaded.stages):
            count, length = longest(expand(steps, values, loaded))
            if count > STEPS_MAX or (loaded.uses and length > NAME_MAX):
                what = f"{count} steps with those of used flows, names of effects up to {length} characters"
                fix = f"at most {STEPS_MAX} and {NAME_MAX}: split the stage, or nest less"
                yield Complaint(("stages", number, "steps"), what, fix)
        count = longest([*expand(loaded.cleanup or [], values, loaded), *used_cleanups(loaded, values)])[0]
        if count > STEPS_MAX:
            what = f"{count} steps of cleanup with those of used flows"
            yield Complaint(("cleanup",), what, f"at most {STEPS_MAX}: use fewer flows")
        screen_map_of(loaded, values)
        yield from _filled_twice(loaded)
        yield from _named_otherwise(loaded, values)
        yield from _left_behind(loaded)
    except BadParametersError as error:
        fix = error.remedy or "give the parameter an example or a default that fits"
        yield Complaint((), f"{error.what}, when parameters have their examples", fix)


def _wrong_arguments(loaded: LoadedFlow, values: Mapping[str, JsonValue]) -> Complaints:
    """What a used flow is told, and does not take. A parameter's own sample may be at fault."""
    for place, args, error in wrong_uses(loaded, values):
        field = error.to.removeprefix("params.")
        given = value_at(args, ("with", field))
        names = [*placeholders(given)] if isinstance(given, str) else []
        fix = f"give parameter {names[0]} an example or a default that fits" if names else error.remedy
        yield Complaint((*place, "with", field), error.what, fix)


def _filled_twice(loaded: LoadedFlow) -> Complaints:
    """A used flow's screens, routes and interrupts are known once: two uses must not want them filled in otherwise."""
    known: dict[str, dict[str, JsonValue]] = {}
    for place, used, given in used_as_written(loaded):
        name = used.flow.flow
        screen_map = {
            part: substitute(used.screen_map.get(part), given) for part in ("screens", "routes", "interrupts")
        }
        first = known.setdefault(name, screen_map)
        if differing := [part for part in screen_map if screen_map[part] != first[part]]:
            what = f"flow {name} is used with other parameters before, and its {differing[0]} hold them"
            fix = f"they are filled in once: move what holds them into steps of a stage of {name}, or use it once"
            yield Complaint(place, what, fix)


def _named_otherwise(loaded: LoadedFlow, values: Mapping[str, JsonValue]) -> Complaints:
    """Two used flows that mean different screens by one name: one of them would look for that of the other."""
    known: dict[str, tuple[str, str]] = {}
    for place, flow, screens in screens_used(loaded, values):
        for name in screens.keys() - loaded.flow.screens.keys():
            look = _look_of(screens[name], loaded)
            other, first = known.setdefault(name, (flow, look))
            if other != flow and look != first:
                what = f"flows {other} and {flow} both have a screen {name}, and recognise it by something else"
                yield Complaint(place, what, f"say in this flow what {name} is, or give one of them another name")


def _look_of(condition: JsonValue, loaded: LoadedFlow) -> str:
    """As a text that is the same for the same pictures, whatever their names."""
    if isinstance(condition, dict):
        parts = [f"{key}:{_look_of(condition[key], loaded)}" for key in sorted(condition)]
        return f"{{{','.join(parts)}}}"
    if isinstance(condition, list):
        return f"[{','.join(_look_of(one, loaded) for one in condition)}]"
    if isinstance(condition, str) and condition in loaded.images:
        return hashlib.sha256(read_regular(loaded.images[condition], IMAGE_BYTES_MAX)).hexdigest()
    return json.dumps(condition)


def _left_behind(loaded: LoadedFlow) -> Complaints:
    """What a used flow says of itself, and the using flow neither inherits nor says."""
    uses = {used.flow.flow: (place, used) for place, used, _ in used_as_written(loaded)}
    for part in ("lost", "guards"):
        for name, (place, used) in uses.items():
            if loaded.screen_map.get(part) is None and used.screen_map.get(part) is not None:
                what = f"flow {name} says {part}, and that does not come along"
                yield Complaint(place, what, f"add {part} to this flow: copy that of {name}", fatal=False)


def _places_of_use(flow: Flow) -> Iterator[tuple[Place, UseStep, Effect | None]]:
    """Every `use`, and where its effect is; none: in the undo, or the cleanup."""
    for place, steps in blocks(flow):
        effect = flow.stages[int(place[1])].effect if place[0] == "stages" and place[-1] == "steps" else None
        for where, step in every(steps, place):
            if isinstance(step, UseStep):
                yield where, step, effect


def _fits(used: LoadedFlow, place: Place, effect: Effect | None) -> Complaints:
    whole, name = [used, *used.all_used().values()], used.flow.flow
    stages = [stage for one in whole for stage in one.flow.stages]
    inside = {step.word: step for stage in stages for _, step in every(stage.steps)}
    changing = _first(inside, lambda step: isinstance(step, ChangeStep))
    if effect is None and any(step.changes_things for step in inside.values()):
        what = f"flow {name} changes things by value or calls a handler, which nobody would take back here"
        yield Complaint(place, what, "use it in the steps of a stage")
    if place[0] == "cleanup" and (word := _first(inside, lambda step: not step.in_cleanup)):
        yield Complaint(place, f"flow {name} holds {word}, which does not belong into cleanup", "use another one")
    if effect is Effect.ACCOUNT and changing:
        what = f"flow {name} holds {changing}, which changes the emulator; this stage acts in the account"
        yield Complaint(place, what, "use it in a stage of its own")
    if effect is Effect.EMULATOR:
        for stage in (stage for stage in stages if stage.effect is Effect.ACCOUNT):
            what = f"stage {stage.stage} of flow {name} acts in the account; this one is repeated after a move"
            yield Complaint(place, what, "add effect: account to this stage", fatal=False)


def _first(steps: Mapping[str, Step], fits: Callable[[Step], bool]) -> str:
    return next((word for word in sorted(steps) if fits(steps[word])), "")
