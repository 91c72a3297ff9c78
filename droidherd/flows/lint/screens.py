"""Rules on what a flow knows of its screens, together with what the flows it uses know."""

from collections.abc import Iterator, Mapping

from droidherd.domain.text import nearest
from droidherd.flows.lint.inspection import Complaints, Inspection
from droidherd.flows.lint.stages import navigation_blocks
from droidherd.flows.loading.loaded import LoadedFlow
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.graph import ANY, Edge, leading_to
from droidherd.flows.model.part import Complaint, FlowPart, Place
from droidherd.flows.model.screens import Interrupt
from droidherd.flows.model.steps.base import Steps, every
from droidherd.flows.model.steps.screen import GotoStep
from droidherd.flows.model.targets import ScreenCondition, Target


def names_of_screens(one: Inspection) -> Complaints:
    """Every word about a screen names one, and what is to be reached can be."""
    flow, used = one.flow, _all_used(one.uses)
    known = {*flow.screens, *(name for each in used for name in each.flow.screens)}
    edges = [
        Edge(each.start, each.end) for any_flow in (flow, *(each.flow for each in used)) for each in any_flow.routes
    ]
    for place, name, is_goal in _screen_names(flow):
        if name not in known:
            yield Complaint(place, f"there is no screen {name!r}", _which(name, known))
        elif is_goal and not leading_to(edges, name):
            fix = f"add routes: [{{from: any, to: {name}, do: [...]}}]"
            yield Complaint(place, f"no route leads to screen {name!r}: it has to be there by itself", fix, fatal=False)


def _all_used(uses: Mapping[str, LoadedFlow]) -> list[LoadedFlow]:
    return [used for each in uses.values() for used in (each, *each.all_used().values())]


def _which(name: str, known: set[str]) -> str:
    near = nearest(name, known)
    if near:
        return f"did you mean {near}?"
    return f"known are: {', '.join(sorted(known))}" if known else f"add screens: {{{name}: {{image: ...}}}}"


def screens(one: Inspection) -> Complaints:
    """Each screen can be told from the others."""
    flow = one.flow
    alike: dict[str, str] = {}
    for name, condition in flow.screens.items():
        place: Place = ("screens", name)
        if name == ANY:
            yield Complaint(place, "any stands for every screen", "give the screen another name")
        if any(True for _ in _in_part(condition, place)):
            yield Complaint(place, f"screen {name} is recognised by a screen", "say what is to be seen on it")
        if condition.gone is not None:
            what = f"screen {name} is recognised by what is missing: so are many others"
            yield Complaint(place, what, "name something that is there", fatal=False)
        text = condition.model_dump_json()
        if text in alike:
            what = f"screens {alike[text]} and {name} cannot be told apart: {alike[text]} is taken for both"
            yield Complaint(place, what, "add an area, or choose another image", fatal=False)
        alike.setdefault(text, name)


def routes(one: Inspection) -> Complaints:
    """Each route leads from one screen that there is to another."""
    flow = one.flow
    known = {*flow.screens, *(name for each in _all_used(one.uses) for name in each.flow.screens)}
    for number, route in enumerate(flow.routes):
        for key, name in (("from", route.start), ("to", route.end)):
            if name not in known and not (key == "from" and name == ANY):
                what = f"there is no screen {name!r}" if name != ANY else "a route leads to one screen"
                yield Complaint(("routes", number, key), what, _which(name, known))
        if route.start == route.end:
            yield Complaint(("routes", number), f"a route from {route.start} to itself", "remove it")


def interrupts(one: Inspection) -> Complaints:
    """No interrupt dismisses what the flow wants to see."""
    flow = one.flow
    for number, interrupt in enumerate(flow.interrupts):
        place: Place = ("interrupts", number, "when")
        hidden = [name for name, condition in flow.screens.items() if _is_seen_by(interrupt, condition)]
        for name in hidden:
            what = f"this is screen {name}, which would be dismissed whenever it appears"
            yield Complaint(place, what, "recognise one of them by something else")
        if not hidden and interrupt.when.gone is not None:
            what = "an interrupt that is recognised by what is missing comes nearly always"
            yield Complaint(place, what, "name something that is there", fatal=False)
        for where, step in _looking(flow):
            if _is_seen_by(interrupt, step):
                what = f"what is waited for here is dismissed by interrupt {number + 1} before this step sees it"
                yield Complaint(where, what, "leave it to the interrupt", fatal=False)


def _is_seen_by(interrupt: Interrupt, condition: FlowPart) -> bool:
    image = interrupt.when.image
    return image is not None and image == getattr(condition, "image", None)


def _looking(flow: Flow) -> Iterator[tuple[Place, Target]]:
    """Every step of a stage that waits for something, without its blocks."""
    for number, stage in enumerate(flow.stages):
        for place, step in every(stage.steps, ("stages", number, "steps")):
            if isinstance(step, Target):
                yield place, step


def _screen_names(flow: Flow) -> Iterator[tuple[Place, str, bool]]:
    """Every word about a screen outside of `screens`, and whether somebody wants to get there."""
    for number, stage in enumerate(flow.stages):
        if stage.at is not None:
            yield ("stages", number, "at"), stage.at, True
        yield from _in_steps(stage.steps, ("stages", number, "steps"))
        yield from _in_steps(stage.undo, ("stages", number, "undo"))
    yield from _in_steps(flow.cleanup, ("cleanup",))
    for number, interrupt in enumerate(flow.interrupts):
        for place, name in _in_part(interrupt.when, ("interrupts", number, "when")):
            yield place, name, False
    for place, steps in navigation_blocks(flow):
        yield from _in_steps(steps, place)


def _in_steps(steps: Steps, place: Place) -> Iterator[tuple[Place, str, bool]]:
    for where, step in every(steps, place):
        if isinstance(step, GotoStep):
            yield where, step.screen, True
        for here, name in _in_part(step, where):
            yield here, name, False


def _in_part(part: FlowPart, place: Place) -> Iterator[tuple[Place, str]]:
    """The screens that a step's own words name: its blocks have steps of their own."""
    if isinstance(part, ScreenCondition) and part.screen is not None:
        yield (*place, "screen"), part.screen
    for name, info in type(part).model_fields.items():
        key = info.alias or name
        value = getattr(part, name)
        if key in {"do", "else"}:
            continue
        for where, one in _parts(value, (*place, key)):
            yield from _in_part(one, where)


def _parts(value: object, place: Place) -> Iterator[tuple[Place, FlowPart]]:
    if isinstance(value, FlowPart):
        yield place, value
    elif isinstance(value, tuple):
        for number, item in enumerate(value):  # pyright: ignore[reportUnknownArgumentType]
            yield from _parts(item, (*place, number))
