"""Whether what a flow knows of its screens holds together, with what the flows it uses know. Pure."""

from collections.abc import Iterator, Mapping

from droidherd.flows.advice import key_near
from droidherd.flows.change import CHANGE_KINDS
from droidherd.flows.chart import Interrupt
from droidherd.flows.coherence import Complaint, Walk, every
from droidherd.flows.course import Ask
from droidherd.flows.flow import Flow
from droidherd.flows.graph import ANY, Edge, leading_to
from droidherd.flows.loaded import LoadedFlow
from droidherd.flows.loader import Place
from droidherd.flows.model import Key, Steps
from droidherd.flows.part import Part
from droidherd.flows.spelling import nearest
from droidherd.flows.targets import Sight

NOT_ON_THE_WAY = frozenset({"again", "goto", "handle", "use", *CHANGE_KINDS})
"""What has a place of its own in a stage, and none in steps that are done whenever the screen asks for them."""

_PARTS = ("steps", "undo")
Uses = Mapping[str, LoadedFlow]


def surveyed(flow: Flow, uses: Uses) -> Walk:
    """Screens, routes and interrupts, and every word about a screen."""
    known = {*flow.screens, *(name for used in _all_used(uses) for name in used.flow.screens)}
    yield from _screens(flow)
    yield from _routes(flow, known)
    yield from _interrupts(flow)
    yield from _ways(flow)
    yield from _keys(flow)
    edges = [
        Edge(each.start, each.end) for one in (flow, *(used.flow for used in _all_used(uses))) for each in one.routes
    ]
    for place, name, is_goal in _named(flow):
        if name not in known:
            yield Complaint(place, f"there is no screen {name!r}", _which(name, known))
        elif is_goal and not leading_to(edges, name):
            fix = f"add routes: [{{from: any, to: {name}, do: [...]}}]"
            yield Complaint(place, f"no route leads to screen {name!r}: it has to be there by itself", fix, fatal=False)


def _all_used(uses: Uses) -> list[LoadedFlow]:
    return [used for each in uses.values() for used in (each, *each.used().values())]


def _which(name: str, known: set[str]) -> str:
    near = nearest(name, known)
    if near:
        return f"did you mean {near}?"
    return f"known are: {', '.join(sorted(known))}" if known else f"add screens: {{{name}: {{image: ...}}}}"


def _screens(flow: Flow) -> Walk:
    alike: dict[str, str] = {}
    for name, sight in flow.screens.items():
        place: Place = ("screens", name)
        if name == ANY:
            yield Complaint(place, "any stands for every screen", "give the screen another name")
        if any(True for _ in _in_part(sight, place)):
            yield Complaint(place, f"screen {name} is recognised by a screen", "say what is to be seen on it")
        if sight.gone is not None:
            what = f"screen {name} is recognised by what is missing: so are many others"
            yield Complaint(place, what, "name something that is there", fatal=False)
        text = sight.model_dump_json()
        if text in alike:
            what = f"screens {alike[text]} and {name} cannot be told apart: {alike[text]} is taken for both"
            yield Complaint(place, what, "add an area, or choose another image", fatal=False)
        alike.setdefault(text, name)


def _routes(flow: Flow, known: set[str]) -> Walk:
    for number, route in enumerate(flow.routes):
        for key, name in (("from", route.start), ("to", route.end)):
            if name not in known and not (key == "from" and name == ANY):
                what = f"there is no screen {name!r}" if name != ANY else "a route leads to one screen"
                yield Complaint(("routes", number, key), what, _which(name, known))
        if route.start == route.end:
            yield Complaint(("routes", number), f"a route from {route.start} to itself", "remove it")


def _interrupts(flow: Flow) -> Walk:
    for number, interrupt in enumerate(flow.interrupts):
        place: Place = ("interrupts", number, "when")
        hidden = [name for name, sight in flow.screens.items() if _is_seen_by(interrupt, sight)]
        for name in hidden:
            what = f"this is screen {name}, which would be dismissed whenever it appears"
            yield Complaint(place, what, "recognise one of them by something else")
        if not hidden and interrupt.when.gone is not None:
            what = "an interrupt that is recognised by what is missing comes nearly always"
            yield Complaint(place, what, "name something that is there", fatal=False)
        for where, args in _sights(flow):
            if _is_seen_by(interrupt, args):
                what = f"what is waited for here is dismissed by interrupt {number + 1} before this step sees it"
                yield Complaint(where, what, "leave it to the interrupt", fatal=False)


def _is_seen_by(interrupt: Interrupt, sight: Part) -> bool:
    image = interrupt.when.image
    return image is not None and image == getattr(sight, "image", None)


def _sights(flow: Flow) -> Iterator[tuple[Place, Part]]:
    """Every step of a stage that waits for something, without its blocks."""
    for number, stage in enumerate(flow.stages):
        for place, kind, args in every(stage.steps, ("stages", number, "steps")):
            if kind in {"tap", "wait"} and isinstance(args, Part):
                yield place, args


def _ways(flow: Flow) -> Walk:
    """Steps that are done on the way."""
    for place, steps in _blocks(flow):
        ask_may_begin = place[0] == "interrupts"
        for where, kind, args in every(steps, place):
            if kind in NOT_ON_THE_WAY:
                yield Complaint(where, f"{kind} does not belong into {place[0]}", "put it into a stage")
            elif isinstance(args, Ask) and not (ask_may_begin and args.keep and where == (*place, 0, "ask")):
                what = "a question on the way keeps its emulator and is the first step of an interrupt"
                yield Complaint(where, what, "put it into a stage, or begin an interrupt with it")


def _keys(flow: Flow) -> Walk:
    """Android knows hundreds of keys; one that is nearly a usual one is a typo more often than not."""
    stages = [(("stages", n, part), getattr(stage, part)) for n, stage in enumerate(flow.stages) for part in _PARTS]
    for place, steps in (*stages, *_blocks(flow), (("cleanup",), flow.cleanup)):
        for where, _, args in every(steps, place):
            if isinstance(args, Key) and (near := key_near(args.name)):
                yield Complaint((*where, "name"), f"key {args.name!r} is unusual", f"did you mean {near}?", fatal=False)


def _blocks(flow: Flow) -> Iterator[tuple[Place, Steps]]:
    for number, route in enumerate(flow.routes):
        yield ("routes", number, "do"), route.do
    for number, interrupt in enumerate(flow.interrupts):
        yield ("interrupts", number, "do"), interrupt.do
    if flow.lost is not None:
        yield ("lost", "do"), flow.lost.do


def _named(flow: Flow) -> Iterator[tuple[Place, str, bool]]:
    """Every word about a screen outside the chart, and whether somebody wants to get there."""
    for number, stage in enumerate(flow.stages):
        if stage.at is not None:
            yield ("stages", number, "at"), stage.at, True
        yield from _in_steps(stage.steps, ("stages", number, "steps"))
        yield from _in_steps(stage.undo, ("stages", number, "undo"))
    yield from _in_steps(flow.cleanup, ("cleanup",))
    for number, interrupt in enumerate(flow.interrupts):
        for place, name in _in_part(interrupt.when, ("interrupts", number, "when")):
            yield place, name, False
    for place, steps in _blocks(flow):
        yield from _in_steps(steps, place)


def _in_steps(steps: Steps, place: Place) -> Iterator[tuple[Place, str, bool]]:
    for where, kind, args in every(steps, place):
        if kind == "goto" and isinstance(args, str):
            yield where, args, True
        elif isinstance(args, Part):
            for here, name in _in_part(args, where):
                yield here, name, False


def _in_part(part: Part, place: Place) -> Iterator[tuple[Place, str]]:
    """The screens that a step's own words name: its blocks have steps of their own."""
    if isinstance(part, Sight) and part.screen is not None:
        yield (*place, "screen"), part.screen
    for name, info in type(part).model_fields.items():
        key = info.alias or name
        value = getattr(part, name)
        if key in {"do", "else"}:
            continue
        for where, one in _parts(value, (*place, key)):
            yield from _in_part(one, where)


def _parts(value: object, place: Place) -> Iterator[tuple[Place, Part]]:
    if isinstance(value, Part):
        yield place, value
    elif isinstance(value, tuple):
        for number, item in enumerate(value):  # pyright: ignore[reportUnknownArgumentType]
            yield from _parts(item, (*place, number))
