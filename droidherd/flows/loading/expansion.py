"""From the steps as they are written to those of a plan: parameters, apps and packages in, used flows in their place.

A used flow's stages become one block of the stage that uses it. Its screens, routes and interrupts join those of the
using flow; its images and files come along under names of their own. Pure, but for packages that are read from APKs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from droidherd.artifacts.apk import read_apk
from droidherd.contracts.screen_map import ScreenMap
from droidherd.domain.errors import BadParametersError
from droidherd.flows.loading.folder import IMAGE_KEYS
from droidherd.flows.loading.loaded import SCREEN_PARTS, LoadedFlow, carried_name, uses_in
from droidherd.flows.model.params import ACCOUNT, checked_params, substitute
from droidherd.flows.model.part import Place
from droidherd.flows.model.steps.apps import AppStep
from droidherd.flows.model.steps.registry import STEP_TYPES

STEPS_MAX = 1_000
"""Of one stage, with those of the flows it uses."""
NAME_MAX = 56
"""Of an effect: the journal on the emulator bounds it."""
FILE_KEYS = {word: step.file_key for word, step in STEP_TYPES.items() if step.file_key}
"""Steps with a file of the flow, and the argument that names it."""
_APP_KEYS = tuple(word for word, step in STEP_TYPES.items() if issubclass(step, AppStep))

Values = Mapping[str, JsonValue]


def expand(steps: JsonValue, values: Values, loaded: LoadedFlow) -> list[JsonValue]:
    """Steps as a plan has them. BadParametersError when a used flow is told what it does not take."""
    return [_unfold(step, values, loaded) for step in filled_in(substitute(steps, values), loaded)]


def expand_undo(steps: JsonValue, values: Values, loaded: LoadedFlow) -> list[JsonValue]:
    """The undo of the flows that these steps use, the last one first."""
    found: list[JsonValue] = []
    for _, args in reversed([*uses_in(substitute(steps, values))]):
        used, theirs = _use(args, values, loaded)
        for number in reversed(range(len(used.flow.stages))):
            found += _with_files(expand(used.undos[number] or [], theirs, used), used.flow.flow)
            found += _with_files(expand_undo(used.stages[number], theirs, used), used.flow.flow)
    return found


def used_cleanups(loaded: LoadedFlow, values: Values) -> list[JsonValue]:
    """The cleanup of the flows it uses, the last one first; each once, and not what it does itself."""
    known = [expand(loaded.cleanup or [], values, loaded)]
    for body in _cleanups(loaded, values):
        if body not in known:
            known.append(body)
    return [step for body in known[1:] for step in body]


def _cleanups(loaded: LoadedFlow, values: Values) -> Iterator[list[JsonValue]]:
    uses = [args for _, steps in _blocks(loaded) for _, args in uses_in(substitute(steps, values))]
    for args in reversed(uses):
        used, theirs = _use(args, values, loaded)
        yield _with_files(expand(used.cleanup or [], theirs, used), used.flow.flow)
        yield from (_with_files(body, used.flow.flow) for body in _cleanups(used, theirs))


def used_as_written(loaded: LoadedFlow) -> Iterator[tuple[Place, LoadedFlow, Values]]:
    """Every flow that is used, also by those it uses: where this flow does so, and its parameters as texts."""
    values: Values = {name: f"${{{name}}}" for name in loaded.params}
    for place, steps in _blocks(loaded):
        for where, args in uses_in(steps, place):
            yield from ((where, used, shown) for used, shown in _used_with_values(args, values, loaded))


def wrong_uses(loaded: LoadedFlow, values: Values) -> Iterator[tuple[Place, JsonValue, BadParametersError]]:
    """Each use that tells a flow what it does not take: where, its arguments as they are written, and why."""
    for place, steps in _blocks(loaded):
        for where, args in uses_in(steps, place):
            try:
                _use(substitute(args, values), values, loaded)
            except BadParametersError as error:
                yield where, args, error


def screens_used(loaded: LoadedFlow, values: Values) -> Iterator[tuple[Place, str, Mapping[str, JsonValue]]]:
    """What each use says of screens: where this flow uses whom, and its screens with images as this flow names them."""
    for place, steps in _blocks(loaded):
        for where, args in uses_in(substitute(steps, values), place):
            used, theirs = _use(args, values, loaded)
            screens = _rename(_merge(used, theirs)["screens"], used.flow.flow)
            yield where, used.flow.flow, screens if isinstance(screens, dict) else {}


def _blocks(loaded: LoadedFlow) -> Iterator[tuple[Place, JsonValue]]:
    """All that may use flows."""
    for number, (steps, undo) in enumerate(zip(loaded.stages, loaded.undos, strict=True)):
        yield ("stages", number, "steps"), steps
        yield ("stages", number, "undo"), undo
    yield ("cleanup",), loaded.cleanup


def _used_with_values(args: JsonValue, values: Values, loaded: LoadedFlow) -> Iterator[tuple[LoadedFlow, Values]]:
    """A used flow and those it uses, with what each is told, unchecked: a placeholder is no value."""
    if not isinstance(args, dict):
        return
    used, given = loaded.uses[str(args.get("flow"))], substitute(args.get("with"), values)
    shown = {name: param.default for name, param in used.params.items()}
    mine = {ACCOUNT: values[ACCOUNT]} if used.needs_account else {}
    theirs: Values = {**shown, **(given if isinstance(given, dict) else {}), **mine}
    yield used, theirs
    for _, steps in _blocks(used):
        for _, inner in uses_in(steps):
            yield from _used_with_values(inner, theirs, used)


def screen_map_of(loaded: LoadedFlow, values: Values) -> ScreenMap | None:
    """What the flow knows of screens, and the flows it uses. What both say, the using flow says."""
    merged = _merge(loaded, values)
    screens, routes, interrupts, lost = (merged.get(part) for part in SCREEN_PARTS)
    guards = loaded.screen_map.get("guards")
    if lost is None and screens and loaded.flow.app is not None:
        app: JsonValue = {"app": loaded.flow.app}
        restart: list[JsonValue] = [{"stop_app": app}, {"start_app": app}]
        way_out: dict[str, JsonValue] = {"do": restart}
        lost = way_out
    if not (screens or interrupts or guards):
        return None
    return ScreenMap(
        screens=screens if isinstance(screens, dict) else {},
        routes=tuple(routes) if isinstance(routes, list) else (),
        interrupts=tuple(interrupts) if isinstance(interrupts, list) else (),
        lost=lost,
        guards=guards if isinstance(guards, dict) else {},
    )


def requirements(loaded: LoadedFlow) -> dict[str, str]:
    """The labels an emulator must carry, for the used flows as well."""
    found: dict[str, str] = {}
    for used in loaded.all_used().values():
        found |= used.flow.requires
    return {**found, **loaded.flow.requires}


def filled_in(steps: JsonValue, loaded: LoadedFlow) -> list[JsonValue]:
    """Write the flow's app, and the package an APK holds, where a step leaves it out: a stage stands on its own."""
    whole = _fill(steps, loaded)
    return whole if isinstance(whole, list) else []


def longest(steps: Sequence[JsonValue], prefix: int = 0) -> tuple[int, int]:
    """How many steps these are, and how long the longest name of an effect gets."""
    count, length = 0, 0
    for number, step in enumerate(steps, start=1):
        count, here = count + 1, prefix + len(str(number))
        length = max(length, here)
        for args in step.values() if isinstance(step, dict) else ():
            if not isinstance(args, dict):
                continue
            turn = 1 + len(str(args["at_most"])) if "at_most" in args else 0
            for block, more in (("do", turn + 1), ("else", 3)):
                inside = args.get(block)
                more_steps, reach = longest(inside if isinstance(inside, list) else [], here + more)
                count, length = count + more_steps, max(length, reach)
    return count, length


def _unfold(step: JsonValue, values: Values, loaded: LoadedFlow) -> JsonValue:
    if not isinstance(step, dict):
        return step
    return {kind: _unfolded_args(kind, args, values, loaded) for kind, args in step.items()}


def _unfolded_args(kind: str, args: JsonValue, values: Values, loaded: LoadedFlow) -> JsonValue:
    if not isinstance(args, dict):
        return args
    if kind == "use":
        used, theirs = _use(args, values, loaded)
        return {**args, "do": _body(used, theirs)}
    blocks = {key: args[key] for key in ("do", "else") if isinstance(args.get(key), list)}
    return {**args, **{key: [_unfold(step, values, loaded) for step in _list(block)] for key, block in blocks.items()}}


def _body(used: LoadedFlow, values: Values) -> list[JsonValue]:
    """The steps of all its stages, each begun on its screen."""
    found: list[JsonValue] = []
    for stage, steps in zip(used.flow.stages, used.stages, strict=True):
        if stage.at is not None:
            found.append({"goto": stage.at})
        found += expand(steps, values, used)
    return _with_files(found, used.flow.flow)


def _use(args: JsonValue, values: Values, loaded: LoadedFlow) -> tuple[LoadedFlow, Values]:
    """The flow that is meant, and what it is told."""
    shown = args.get("with") if isinstance(args, dict) else None
    used = loaded.uses[str(args.get("flow"))] if isinstance(args, dict) else loaded
    given = shown if isinstance(shown, dict) else {}
    try:
        read = {name: _read(used, name, given[name]) for name in given}
        mine = {ACCOUNT: values[ACCOUNT]} if used.needs_account else {}
        return used, checked_params(used.params, {**read, **mine})
    except BadParametersError as error:
        error.locate(f"use {used.flow.flow}: {error.to}")
        raise


def _read(used: LoadedFlow, name: str, value: JsonValue) -> JsonValue:
    """A number or a truth that came by a placeholder is a text here. What is none is left for the check to name."""
    param = used.flow.params.get(name)
    if not isinstance(value, str) or param is None or param.type == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _merge(loaded: LoadedFlow, values: Values) -> dict[str, JsonValue]:
    """Own screens hide used ones of the same name; routes and interrupts are all of them, each once."""
    own = {part: _fill(substitute(loaded.screen_map.get(part), values), loaded) for part in SCREEN_PARTS}
    seen: set[str] = set()
    for _, args in (use for _, steps in _blocks(loaded) for use in uses_in(substitute(steps, values))):
        used, theirs = _use(args, values, loaded)
        if used.flow.flow in seen:
            continue
        seen.add(used.flow.flow)
        more = {part: _rename(value, used.flow.flow) for part, value in _merge(used, theirs).items()}
        for part, value in more.items():
            mine = own[part]
            if isinstance(value, dict) and part == "screens":
                own[part] = {**value, **(mine if isinstance(mine, dict) else {})}
            elif isinstance(value, list):
                known = _list(mine)
                own[part] = [*known, *(item for item in value if item not in known)]
    return own


def _with_files(steps: list[JsonValue], flow: str) -> list[JsonValue]:
    return [_rename(step, flow) for step in steps]


def _rename(value: JsonValue, flow: str) -> JsonValue:
    """With the names that a used flow's images and files have in the using flow."""
    if isinstance(value, list):
        return [_rename(item, flow) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, JsonValue] = {}
    for key, item in value.items():
        if key == "call":
            found[key] = item
        elif key in IMAGE_KEYS and isinstance(item, str):
            found[key] = carried_name(flow, item)
        elif key in FILE_KEYS and isinstance(item, dict):
            file = item.get(FILE_KEYS[key])
            found[key] = {**item, FILE_KEYS[key]: carried_name(flow, file)} if isinstance(file, str) else item
        else:
            found[key] = _rename(item, flow)
    return found


def _fill(value: JsonValue, loaded: LoadedFlow) -> JsonValue:
    if isinstance(value, list):
        return [_fill(item, loaded) for item in value]
    if not isinstance(value, dict):
        return value
    filled: dict[str, JsonValue] = {key: _fill(item, loaded) for key, item in value.items()}
    for key in _APP_KEYS:
        inner = filled.get(key)
        if isinstance(inner, dict) and "app" not in inner:
            filled[key] = {**inner, "app": loaded.flow.app}
    install = filled.get("install")
    if isinstance(install, dict):
        filled["install"] = with_package(install, loaded.payloads)
    return filled


def with_package(args: Mapping[str, JsonValue], payloads: Mapping[str, Path]) -> dict[str, JsonValue]:
    """The arguments of `install` with the package in them, so that a stage stands on its own."""
    name = args.get("apk")
    file = payloads.get(name) if isinstance(name, str) else None
    return {**args, "package": read_apk(file).package} if file and "package" not in args else dict(args)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
