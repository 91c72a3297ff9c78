"""Before a stage changes anything by value: what is there.

Values go into the task's history, contents become artifacts of the task.
"""

import time
from dataclasses import dataclass

from typing_extensions import override

from droidherd.contracts.changes import Change, Thing, Value
from droidherd.contracts.stage import Captured
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import FinalError
from droidherd.domain.retention import BEFORE
from droidherd.domain.task.things import problem_with_value
from droidherd.emulator.things import EmulatorThings, FoundThing
from droidherd.stage.attempt import StageAttempt, once, value_of

KEPT_LIMIT_BYTES = 4 << 30
"""Of one content that is kept."""


@dataclass(slots=True)
class CaptureAttempt(StageAttempt):
    """Reads what a stage is going to change. Changes nothing but whose emulator it is."""

    def capture(self) -> Captured:
        """Every thing of the stage once, in the order of their first changes. Raises StageFailedError."""
        began_s = time.monotonic()
        with self._redactor, self._explain_errors():
            self._seize()
            before = self._before()
            clean = self._leave() if self.life.leaving() else True
        return Captured(
            worker=self.services.worker,
            clean=clean,
            released=self._released,
            seconds=time.monotonic() - began_s,
            before=before,
            artifacts=self._artifacts(),
        )

    def _before(self) -> tuple[Value, ...]:
        things = self._things(self._hands())
        found: list[Value] = []
        for number, change in enumerate(once(self.work.stage.changes if self.work.stage else ())):
            self.life.beat(f"capture {change.thing} {change.name}")
            if change.thing in {Thing.FILE, Thing.PACKAGE}:
                found.append(self._content(things, change, number))
            else:
                found.append(_restorable(value_of(change, things.read(change.thing, change.name))))
            self.note(f"before: {change.thing} {change.name}{'' if found[-1].there else ' is absent'}")
        return tuple(found)

    def _content(self, things: EmulatorThings, change: Change, number: int) -> Value:
        """With what it takes to restore it, under a name that no later try of the capture writes to again."""
        found = things.find(change.thing, change.name)
        if not found.state.there:
            return value_of(change, found.state)
        work = self.work
        whose = f"{work.key.attempt}-{work.stage_index}-{work.lease}-{work.tries}-{number}"
        name = f"{BEFORE}{whose}{mode_mark(found)}.bin"
        with self.services.artifacts.stream(work.task_id, name, size_max=KEPT_LIMIT_BYTES) as file:
            things.pull(found, file, KEPT_LIMIT_BYTES)
        self.kept.append(ArtifactView(name=name, size=found.size))
        return value_of(change, found.state, name)

    @override
    def _read_after(self) -> None:
        """The stage has not begun."""


def mode_mark(found: FoundThing) -> str:
    """How the name of a kept content tells the mode of its file; a value has no place for it."""
    return f"-m{found.mode}" if found.mode else ""


def mode_in(kept: str) -> str:
    """The mode that the name of a kept content tells."""
    _, mark, mode = kept.removesuffix(".bin").rpartition("-m")
    return mode if mark and mode.isdecimal() else ""


def _restorable(value: Value) -> Value:
    """Refuse to change what could not be put back."""
    if value.there and (problem := problem_with_value(value.thing, value.name, value.value)):
        raise FinalError(f"it could not be restored: {problem}", to=f"{value.thing} {value.name}")
    return value
