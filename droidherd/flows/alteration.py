"""What the steps of a stage are going to change by value. Known before anything runs, loops and options included."""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from pydantic import JsonValue

from droidherd.contracts.changes import Change, Thing
from droidherd.domain.ports import Wanted
from droidherd.domain.things import ABSENT, State, mirror_of
from droidherd.flows import model
from droidherd.flows.change import ChangeArgs, Install, PutFile, SetValue
from droidherd.handlers.base import Subject

CHANGES_MAX = 100
"""Of one stage: each is read, kept and compared."""

Payloads = Callable[[str], Path]
"""The file behind the name of a payload."""


class Subjects(Protocol):
    """Knows what handlers change."""

    def changes(self, by: str, params: Mapping[str, JsonValue]) -> tuple[Subject, ...]: ...


def changing(steps: tuple[model.Step, ...], prefix: str = "") -> Iterator[tuple[str, ChangeArgs | model.Handle]]:
    """Every step that may change a thing, with its path; inside a loop, that of the first turn."""
    for number, step in enumerate(steps, start=1):
        path = f"{prefix}{number}"
        args: object = getattr(step, model.kind_of(step) or "")
        if isinstance(args, ChangeArgs | model.Handle):
            yield path, args
        elif isinstance(args, model.OptionalBlock | model.Use):
            yield from changing(args.do or (), f"{path}.")
        elif isinstance(args, model.Repeat):
            yield from changing(args.do, f"{path}#1.")
        elif isinstance(args, model.When):
            yield from changing(args.do, f"{path}.")
            yield from changing(args.else_ or (), f"{path}.0.")


def changes(steps: tuple[model.Step, ...], handlers: Subjects) -> tuple[Change, ...]:
    """Each thing with the steps that change it. What mirrors a thing stands before it, and is restored after it."""
    found: list[Change] = []
    for path, args in changing(steps):
        for thing, name in _subjects(args, handlers):
            mirror, _ = mirror_of(thing, name)
            if mirror:
                found.append(Change(step=path, thing=Thing.SETTING, name=mirror))
            found.append(Change(step=path, thing=Thing(thing), name=name))
    return tuple(found)


def wanted(args: ChangeArgs, payload: Payloads) -> Wanted:
    """What a step makes of its thing."""
    if isinstance(args, SetValue):
        return Wanted(args.thing, args.subject, State(args.to))
    if isinstance(args, PutFile) and args.text is not None:
        content = args.text.encode()
        digest = hashlib.sha256(content).hexdigest()
        return Wanted(args.thing, args.subject, State(digest), partial(io.BytesIO, content))
    if isinstance(args, PutFile | Install):
        file = payload(args.apk if isinstance(args, Install) else args.source or "")
        return Wanted(args.thing, args.subject, State(digest_of(file)), partial(_opened, file))
    return Wanted(args.thing, args.subject, ABSENT)


def left_by(
    steps: tuple[model.Step, ...], payload: Payloads, handlers: Subjects
) -> Mapping[tuple[str, str], set[State]]:
    """Every state in which these steps may have left each thing, wherever they stopped."""
    found: dict[tuple[str, str], set[State]] = {}
    for _, args in changing(steps):
        for thing, name, state in _states(args, payload, handlers):
            found.setdefault((thing, name), set()).add(state)
            mirror, says = mirror_of(thing, name, state.value)
            if mirror:
                found.setdefault((Thing.SETTING, mirror), set()).add(State(says))
    return found


def digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _subjects(args: ChangeArgs | model.Handle, handlers: Subjects) -> list[tuple[str, str]]:
    if isinstance(args, model.Handle):
        return [(each.thing, each.name) for each in handlers.changes(args.by, args.params)]
    return [(args.thing, args.subject)]


def _states(args: ChangeArgs | model.Handle, payload: Payloads, handlers: Subjects) -> list[tuple[str, str, State]]:
    if isinstance(args, model.Handle):
        known = handlers.changes(args.by, args.params)
        return [(each.thing, each.name, each.state) for each in known if each.state is not None]
    return [(args.thing, args.subject, wanted(args, payload).state)]


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    return file.open("rb")
