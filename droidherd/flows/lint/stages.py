"""Rules on a parsed flow: its stages, and every step where it stands."""

from collections.abc import Iterator, Mapping
from functools import partial

from pydantic import JsonValue

from droidherd.contracts.plan import Effect
from droidherd.flows.lint.inspection import Complaints, Inspection
from droidherd.flows.loading.document import value_at
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.part import Complaint, FlowPart, Place, parts
from droidherd.flows.model.scalars import format_duration
from droidherd.flows.model.steps.apps import StopAppStep
from droidherd.flows.model.steps.base import LintScope, StageScope, Step, Steps, every
from droidherd.flows.model.steps.screen import ReadStep
from droidherd.flows.model.targets import Target, can_read

OCR_MISSING = "words are searched among the elements of the screen: nothing is installed here that reads pictures"
OCR_REMEDY = "for words in pictures: pip install 'droidherd[ocr]', here and where the workers run"


def name_of_folder(one: Inspection) -> Complaints:
    """A flow is called as its folder is."""
    folder = one.folder.resolve().name
    if one.flow.flow != folder:
        fix = f"name the folder {one.flow.flow}, or the flow {folder}"
        yield Complaint(("flow",), f"the flow is called {one.flow.flow}, its folder {folder}", fix)


def needs_ocr(one: Inspection) -> Complaints:
    """Words in pictures need the extra `ocr`."""
    if can_read():
        return
    for place, part in parts(one.flow):
        if isinstance(part, Target | ReadStep) and part.text is not None:
            yield Complaint((*place, "text"), OCR_MISSING, OCR_REMEDY, fatal=False)


def names_of_stages(one: Inspection) -> Complaints:
    """No two stages have one name."""
    names: set[str] = set()
    for number, stage in enumerate(one.flow.stages):
        if stage.stage in names:
            fix = "give one another name"
            yield Complaint(("stages", number, "stage"), f"two stages are called {stage.stage}", fix)
        names.add(stage.stage)


def times(one: Inspection) -> Complaints:
    """What may take longer than what it is part of never takes so long."""
    whole = one.flow.policy.time_limit
    for number, stage in enumerate(one.flow.stages):
        place: Place = ("stages", number)
        if stage.limit is not None and stage.limit > whole:
            what = f"limit {format_duration(stage.limit)} is more than the whole attempt has, {format_duration(whole)}"
            yield Complaint((*place, "limit"), what, "raise time_limit in policy, or lower the limit", fatal=False)
        most = min(whole, stage.limit or whole)
        for where, step in every(stage.steps, (*place, "steps")):
            for key, seconds in step.waits():
                if seconds > most:
                    what = f"{key[-1]} {format_duration(seconds)} is more than the stage has, {format_duration(most)}"
                    yield Complaint((*where, *key), what, "raise the limit, or wait for less", fatal=False)


def blocks(flow: Flow) -> Iterator[tuple[Place, Steps]]:
    """All steps of a flow that stand under one key, with the place of that key."""
    for number, stage in enumerate(flow.stages):
        yield ("stages", number, "steps"), stage.steps
        yield ("stages", number, "undo"), stage.undo
    yield from navigation_blocks(flow)
    yield ("cleanup",), flow.cleanup


def navigation_blocks(flow: Flow) -> Iterator[tuple[Place, Steps]]:
    """Steps that are done on the way from one screen to another."""
    for number, route in enumerate(flow.routes):
        yield ("routes", number, "do"), route.do
    for number, interrupt in enumerate(flow.interrupts):
        yield ("interrupts", number, "do"), interrupt.do
    if flow.lost is not None:
        yield ("lost", "do"), flow.lost.do


def steps(one: Inspection) -> Complaints:
    """What each step says of itself where it stands."""
    for place, block in blocks(one.flow):
        stage = one.flow.stages[int(place[1])] if place[0] == "stages" else None
        account = stage is not None and stage.effect is Effect.ACCOUNT
        known = StageScope(account) if stage is not None and place[-1] == "steps" else None
        scope = LintScope(
            block=str(place[-1] if stage is not None else place[0]),
            app=one.flow.app is not None,
            handlers=one.handlers,
            written=partial(value_at, one.data),
            account=account,
            stage=known,
        )
        for where, step in every(block, place):
            if known is not None:
                known.acted = known.acted or step.acts
            yield from step.lint(where, scope)
        if known is not None:
            for name in sorted(known.set_at.keys() - known.read):
                fix = "remove what sets it"
                yield Complaint(known.set_at[name], f"variable {name!r} is never read", fix, fatal=False)


def cleanup(one: Inspection) -> Complaints:
    """What turns the course of a task has no place in a cleanup."""
    for place, step in every(one.flow.cleanup, ("cleanup",)):
        if not step.in_cleanup:
            yield Complaint(place, f"{step.word} does not belong into cleanup", "put it at the end of a stage")


def screens_of_later_stages(one: Inspection) -> Complaints:
    """A stage begins where the stage before ended, unless the task paused, or tries again: then cleanup came between.

    A completed stage is not run again, so whatever it opened is not opened again either.
    """
    if not any(isinstance(step, StopAppStep) for _, step in every(one.flow.cleanup, ("cleanup",))):
        return
    for number, stage in enumerate(one.flow.stages):
        if number and stage.at is None and (place := _needs_screen_at(stage.steps, ("stages", number, "steps"))):
            what = f"stage {stage.stage} expects the screen of the stage before; a pause or a retry closes it"
            fix = "begin the stage with start_app, or say at: SCREEN"
            yield Complaint(place, what, fix, fatal=False)


def _needs_screen_at(steps: Steps, place: Place) -> Place | None:
    """Where steps need what is on the screen before anything in them has opened it."""
    for where, step in every(steps, place):
        if step.opens_screen:
            return None
        if step.needs_screen():
            return where
    return None


def on_the_way(one: Inspection) -> Complaints:
    """What has a place of its own in a stage has none in steps that are done whenever the screen asks for them."""
    for place, block in navigation_blocks(one.flow):
        for where, step in every(block, place):
            if not step.on_the_way:
                yield Complaint(where, f"{step.word} does not belong into {place[0]}", "put it into a stage")


def misread(one: Inspection) -> Complaints:
    """What stands in a flow's file and is read as something else than its author meant."""
    for place, part in parts(one.flow):
        written = value_at(one.sampled, place)
        if isinstance(written, dict):
            for key, what, fix in (*_keys(part, written), *_numbers(part, written)):
                yield Complaint((*place, key), what, fix)


def _keys(part: FlowPart, written: Mapping[str, JsonValue]) -> Iterator[tuple[str, str, str]]:
    for name, field in type(part).model_fields.items():
        if field.alias and field.alias != name and name in written:
            yield name, f"unknown key {name!r}", f"did you mean {field.alias}?"
    key = part.by_the_plan if isinstance(part, Step) else ""
    if key and key in written:
        yield key, f"unknown key {key!r}", "remove it: the plan writes it"


def _numbers(part: FlowPart, written: Mapping[str, JsonValue]) -> Iterator[tuple[str, str, str]]:
    for name, field in type(part).model_fields.items():
        key = field.alias or name
        if any(_is_truth(raw) and _is_number(read) for raw, read in _pairs(written.get(key), getattr(part, name))):
            yield key, f"{key}: must be a number", "YAML reads yes, no, on and off as true and false"


def _pairs(raw: JsonValue, read: object) -> Iterator[tuple[JsonValue, object]]:
    if isinstance(raw, list) and isinstance(read, tuple):
        yield from zip(raw, read, strict=False)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield raw, read


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
