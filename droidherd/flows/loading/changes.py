"""What the steps of a stage are going to change by value. Known before anything runs, loops and options included."""

from collections.abc import Iterator, Mapping

from droidherd.contracts.changes import Change, Thing
from droidherd.domain.task.things import State, mirror_of
from droidherd.flows.model.steps.base import Payloads, Step, Subjects, paths_of

CHANGES_MAX = 100
"""Of one stage: each is read, kept and compared."""


def changing(steps: tuple[Step, ...]) -> Iterator[tuple[str, Step]]:
    """Every step that may change a thing, with its path; inside a loop, that of the first turn."""
    return ((path, step) for path, step in paths_of(steps) if step.changes_things)


def changes(steps: tuple[Step, ...], handlers: Subjects) -> tuple[Change, ...]:
    """Each thing with the steps that change it. What mirrors a thing stands before it, and is restored after it."""
    found: list[Change] = []
    for path, step in changing(steps):
        for thing, name in step.subjects(handlers):
            mirror, _ = mirror_of(thing, name)
            if mirror:
                found.append(Change(step=path, thing=Thing.SETTING, name=mirror))
            found.append(Change(step=path, thing=Thing(thing), name=name))
    return tuple(found)


def left_by(steps: tuple[Step, ...], payload: Payloads, handlers: Subjects) -> Mapping[tuple[str, str], set[State]]:
    """Every state in which these steps may have left each thing, wherever they stopped."""
    found: dict[tuple[str, str], set[State]] = {}
    for _, step in changing(steps):
        for thing, name, state in step.states(payload, handlers):
            found.setdefault((thing, name), set()).add(state)
            mirror, says = mirror_of(thing, name, state.value)
            if mirror:
                found.setdefault((Thing.SETTING, mirror), set()).add(State(says))
    return found
