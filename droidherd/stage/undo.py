"""Takes one stage back, on the emulator it changed: compares, runs the flow's own undo, restores values, lets go.

Everything is compared before anything is touched. Repeating it after a death at any point is harmless: a restored
thing is as it was before, the flow's undo resumes by its journal like a stage, and a mark in a journal that outlives
the rollback tells that the comparison was passed, for what is only half restored by then.
"""

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from typing_extensions import override

from droidherd.contracts.changes import Conflict, Thing, Undo, Value
from droidherd.contracts.plan import OnAmbiguous, Stage
from droidherd.contracts.stage import UndoReport
from droidherd.domain.errors import CommandFailedError, DroidherdError, FinalError, FlowError
from droidherd.domain.ports import Frame, Match, Recalled, Wanted
from droidherd.domain.task.things import ABSENT, MIRRORS, Move, State, move
from droidherd.emulator import lease
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.emulator.things import INSTALL_S, EmulatorThings
from droidherd.emulator.token import Token
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.loading.changes import left_by
from droidherd.flows.model.geometry import Area
from droidherd.flows.model.steps.registry import STEPS
from droidherd.flows.model.targets import Target
from droidherd.flows.run import interpreter
from droidherd.flows.run.context import Finder
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.look import Look
from droidherd.stage.attempt import StageAttempt
from droidherd.stage.capture import mode_in
from droidherd.stage.context import planned_flow

QUIET_POLL_S = 0.5
LIMIT_S = 300.0
AGREED = "agreed."


@dataclass(slots=True, kw_only=True)
class UndoAttempt(StageAttempt):
    """One try to take one stage back."""

    undo: Undo
    force: bool = False
    _needed: tuple[Value, ...] = ()
    """What was not as before when it was compared."""

    def take_back(self) -> UndoReport:
        """Raises StageFailedError. With conflicts nothing was touched, and the emulator is let go."""
        began_s = time.monotonic()
        restored: tuple[str, ...] = ()
        with self._redactor, self._explain_errors():
            self._seize()
            hands = self._hands()
            things = self._things(hands)
            self._wait_until_quiet(hands)
            conflicts = self._compare(things)
            if conflicts:
                lease.release(self.services.adb, self._serial(), self._token())
                self._released = clean = True
            else:
                restored = self._restore_all(things)
                clean = self._leave() if self.work.last or self.life.leaving() else True
        return UndoReport(
            worker=self.services.worker,
            clean=clean,
            released=self._released,
            seconds=time.monotonic() - began_s,
            restored=restored,
            conflicts=conflicts,
            artifacts=self._artifacts(),
        )

    # --- before anything is touched ---------------------------------------------------------------------------

    def _wait_until_quiet(self, hands: EmulatorHands) -> None:
        """A line of the stage whose caller gave up may still be at work, and would change things behind our back."""
        until_s = time.monotonic() + INSTALL_S
        while not hands.is_quiet(self.work.task_id, last_look=time.monotonic() > until_s):
            self.life.beat("waits for a line that is still at work")
            time.sleep(QUIET_POLL_S)

    def _compare(self, things: EmulatorThings) -> tuple[Conflict, ...]:
        marks = self._marks().recall()
        agreed = any(name.startswith(self._agreement_mark()) and word is Recalled.DONE for name, word in marks.items())
        conflicts: list[Conflict] = []
        needed: list[Value] = []
        for value in self.undo.before:
            self.life.beat(f"compare {value.thing} {value.name}")
            with _locate_errors(value):
                found, now = _read(things, value)
            left = self._states_left(value)
            change = move(state_of(value), left, now) if now is not None else Move.CONFLICT
            if change is not Move.NOTHING:
                needed.append(value)
            if change is Move.CONFLICT and not self.force and not (agreed and self._is_half_way(value)):
                expected = " or ".join(sorted(map(str, left)))
                conflicts.append(
                    Conflict(step=value.step, thing=value.thing, name=value.name, expected=expected, found=found)
                )
                self.note(
                    f"conflict: {value.thing} {value.name} is {found}, expected {expected or 'nobody knows what'}"
                )
        self._needed = tuple(needed)
        return tuple(conflicts)

    def _is_half_way(self, value: Value) -> bool:
        """Whether an earlier try of this undo may have left it like nothing we know: all else changes in one step."""
        mirror = value.thing is Thing.SETTING and value.name in MIRRORS.values()
        return mirror or value.thing is Thing.PACKAGE or bool(self.undo.steps)

    def _states_left(self, value: Value) -> Collection[State]:
        """As the stage left it. When a try never said so, whatever its steps make of it may be theirs."""
        reported = {
            state_of(after) for after in self.undo.after if (after.thing, after.name) == (value.thing, value.name)
        }
        stage = self.work.stage
        if stage is None or (reported and not self.undo.unsaid):
            return reported
        with suppress(FlowError):  # the flow is another one by now: then only its own word would do
            left = left_by(STEPS.validate_python(stage.steps), self._payload, self.services.catalogue.handlers)
            return reported | left.get((value.thing, value.name), set())
        return reported

    # --- taking back ------------------------------------------------------------------------------------------

    def _restore_all(self, things: EmulatorThings) -> tuple[str, ...]:
        """The flow's own undo, then the values, the last change first."""
        undo, mine = self.undo, f"{self.work.lease}.{self.work.tries}"
        for value in self._needed:
            if value.kept:
                with _locate_errors(value), self.services.artifacts.open(self.work.task_id, value.kept):
                    pass  # better to know now that it is gone
        self._marks().run_effect(f"{self._agreement_mark()}{mine}", ":")
        if undo.steps:
            stage = self.work.stage
            on_ambiguous = stage.on_ambiguous if stage else OnAmbiguous.ASK
            limit_s = self.work.limit_s or (stage.limit_s if stage else LIMIT_S)
            steps = Stage(name=f"undo-{undo.stage}", steps=undo.steps, on_ambiguous=on_ambiguous, limit_s=limit_s)
            interpreter.run_stage(steps, self._context(), stoppable=False)
        things.sweep(tuple(value.name for value in undo.before if value.thing is Thing.FILE))
        restored: list[str] = []
        for number, value in reversed([*enumerate(undo.before)]):
            with _locate_errors(value):
                if self._restore(things, value, f"r{mine}.{number}"):
                    restored.append(f"{value.thing} {value.name}")
        for value in undo.before:
            with _locate_errors(value):
                _see(things, value)
        return tuple(restored)

    def _restore(self, things: EmulatorThings, value: Value, effect: str) -> bool:
        self.life.beat(f"restore {value.thing} {value.name}")
        before = state_of(value)
        if _read(things, value)[1] == before:
            return False
        content = partial(self.services.artifacts.open, self.work.task_id, value.kept) if value.kept else None
        wanted = Wanted(value.thing, value.name, before, content, mode_in(value.kept), restoring=True)
        things.make(effect, wanted)
        self.note(f"restored: {value.thing} {value.name}")
        return True

    # --- otherwise than a stage -------------------------------------------------------------------------------

    @override
    def _journal(self) -> str:
        """Of the rollback alone, whatever lease it runs under: it has to find what it did."""
        return f"{self.work.key.text()}.u"

    @override
    def _token(self) -> Token:
        """Stages are taken back from the last to the first: under one lease only the try grows."""
        return Token(self.work.lease, 0, self.work.tries)

    def _marks(self) -> EmulatorHands:
        """On the journal of all rollbacks of this task: one that is asked for again has to find how far others came."""
        handle = LeaseHandle(self._serial(), f"{self.work.task_id}.u", self._token(), self.work.stage_index)
        return EmulatorHands(self.services.adb, handle, self._deadline_uptime)

    def _agreement_mark(self) -> str:
        return f"{AGREED}{self.undo.lease}."

    @override
    def _read_after(self) -> None:
        """It changes nothing that anybody would take back."""

    @override
    def _before_values(self) -> Mapping[tuple[str, str], State]:
        return {(value.thing, value.name): state_of(value) for value in self.undo.before}

    @override
    def _new_finder(self) -> Finder:
        """Values are restored also when the flow has changed since; only its own undo needs it as it was."""
        return LateFinder(self.services.catalogue, planned_flow(self.work))


class LateFinder:
    """Asks for the flow when the first image is searched for."""

    def __init__(self, catalogue: Catalogue, planned: PlannedFlow) -> None:
        """As `FlowFinder`."""
        self._make = partial(FlowFinder, catalogue, planned)
        self._finder: FlowFinder | None = None

    def find(self, look: Look, target: Target) -> Match:
        return self._make_finder().find(look, target)

    def words(self, look: Look, area: Area | None) -> str:
        return self._make_finder().words(look, area)

    def moved(self, before: Frame, after: Frame, area: Area | None) -> float:
        return self._make_finder().moved(before, after, area)

    def _make_finder(self) -> FlowFinder:
        self._finder = self._finder or self._make()
        return self._finder


def state_of(value: Value) -> State:
    return State(value.value) if value.there else ABSENT


@contextmanager
def _locate_errors(value: Value) -> Generator[None]:
    """An error says at which step's change it was met."""
    try:
        yield
    except DroidherdError as error:
        error.locate(f"step {value.step}, {value.thing} {value.name}")
        raise


def _read(things: EmulatorThings, value: Value) -> tuple[str, State | None]:
    """What it is, in words and as a state; none when there is something else in its place."""
    try:
        state = things.read(value.thing, value.name)
    except FinalError as error:
        return error.what, None
    return str(state), state


def _see(things: EmulatorThings, value: Value) -> None:
    found, now = _read(things, value)
    if now != state_of(value):
        what = f"is {found} after it was restored to {state_of(value)}"
        raise CommandFailedError(what, rc=1, remedy="something else on the emulator changes it, too")
