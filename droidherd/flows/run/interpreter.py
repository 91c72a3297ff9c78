"""Runs the stages of a plan, step by step, against ports. No I/O, no clock, no thread of its own."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, ValidationError

from droidherd.contracts.plan import OnAmbiguous, Stage
from droidherd.contracts.validation import explain
from droidherd.domain.errors import (
    AbandonedError,
    DroidherdError,
    EmulatorLostError,
    FencedError,
    FlowError,
    InfrastructureError,
    NeedsPersonError,
)
from droidherd.domain.ports import Frame, Hands, Match, Recalled, Things
from droidherd.flows.model.steps.base import Step, Steps
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.model.steps.registry import STEPS
from droidherd.flows.model.steps.screen import ReadStep, WaitStep
from droidherd.flows.model.targets import Target
from droidherd.flows.run.context import RunOutcome, StageContext, StopAskedError
from droidherd.flows.run.doing import HandlerActs
from droidherd.flows.run.effects import Actor
from droidherd.flows.run.navigator import Arrival, NavigationActor, Navigator
from droidherd.flows.run.past import EarlierTry, ask_journal, of_steps
from droidherd.flows.run.watch import ScreenWatch


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """What went wrong while tidying up; nothing of it fails the task."""

    failures: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.failures


def run_stage(stage: Stage, run: StageContext, *, stoppable: bool = True) -> RunOutcome:
    """Run a stage to its end, or to the step boundary where it was asked to stop. Everything else is raised.

    Running the same stage again, after whatever end, is safe while the hands keep their journal.
    """
    steps = _parse(stage.steps, stage.name)
    watch = ScreenWatch(run, stage.limit_s)
    recorded = ask_journal(run)
    answered = dict.fromkeys(of_steps(run.standing), Recalled.DONE)
    past = EarlierTry({**{effect: recorded[effect] for effect in of_steps(recorded)}, **answered})
    actor = Actor(run, watch, past, stage.on_ambiguous)
    interpreter = Interpreter(run, watch, actor, past, stage.name, stoppable=stoppable)
    interpreter.begin(stage, recorded)
    try:
        interpreter.steps(steps, "")
    except StopAskedError as stop:
        return RunOutcome(stop.reason, actor.acts, actor.again, actor.observed)
    except InfrastructureError:
        raise
    except NeedsPersonError:
        interpreter.keep_last("asked")
        raise
    except DroidherdError:
        interpreter.keep_last("failed")
        raise
    finally:
        watch.let_go()
    return RunOutcome("", actor.acts, actor.again, actor.observed, interpreter.again_at)


def run_cleanup(steps: tuple[JsonValue, ...], run: StageContext, budget_s: float, mark: str = "c") -> CleanupOutcome:
    """Run each step whatever became of the ones before, within `budget_s` altogether.

    Only AbandonedError and FencedError are raised: then the emulator is somebody else's. `mark` begins the names of
    the effects; it has to differ between two cleanups that share a journal and are both meant to act.
    """
    try:
        parsed = _parse(steps, "cleanup")
    except FlowError as error:
        return CleanupOutcome((str(error),))
    watch, past = ScreenWatch(run, budget_s), EarlierTry({})
    actor = Actor(run, watch, past, OnAmbiguous.REPEAT)
    interpreter = Interpreter(run, watch, actor, past, "cleanup", stoppable=False)
    watch.dismiss = interpreter.navigator.dismiss
    failures: list[str] = []
    for number, step in enumerate(parsed, start=1):
        try:
            interpreter.step(step, f"{mark}{number}")
        except (AbandonedError, FencedError):
            raise
        except DroidherdError as error:
            failures.append(f"cleanup {number}: {error}")
            run.note(failures[-1])
            if isinstance(error, EmulatorLostError):
                break
    watch.let_go()
    return CleanupOutcome(tuple(failures))


class Interpreter:
    """Walks through steps, and is the context that they run in. `path` names a step and its effect."""

    def __init__(
        self,
        run: StageContext,
        watch: ScreenWatch,
        actor: Actor,
        past: EarlierTry,
        name: str,
        *,
        stoppable: bool = True,
    ) -> None:
        """`name` is the stage's, for the names of screenshots."""
        self._run = run
        self._watch = watch
        self._actor = actor
        self._past = past
        self._name = name
        self.perform = actor.perform
        self.size = watch.size
        self._stoppable = stoppable
        self.navigator = Navigator(run, watch, self._pass)
        self._arrival = Arrival(run, past, self.navigator, actor, stoppable=stoppable)
        self._variables: dict[str, str] = {}
        """They live as long as the stage."""
        self._off_screen: set[str] = set()
        """Those that were read, and so may hold what nobody foresaw."""
        self.again_at: datetime | None = None
        """What the last `reschedule` said."""

    def begin(self, stage: Stage, recorded: Collection[str]) -> None:
        """`recorded`: all that the journal has of the stage. From here on, what comes between is dismissed."""
        self.navigator.names.know(recorded)
        self._watch.dismiss = self.navigator.dismiss
        if stage.at:
            self._arrival.expect(stage.at, stage.effect, recorded)

    def steps(self, steps: Steps, prefix: str) -> None:
        """One after the other."""
        for number, step in enumerate(steps, start=1):
            self.step(step, f"{prefix}{number}")

    def step(self, step: Step, path: str) -> None:
        """One step, at a boundary."""
        self._watch.boundary(path, stoppable=self._stoppable)
        self._arrival.regain(path)
        try:
            step.run(self, path)
        except DroidherdError as error:
            error.to = error.to or f"step {path}"
            raise
        self._watch.advance()

    def keep_last(self, name: str) -> None:
        """Keep the frame seen last as evidence; evidence that cannot be kept must not hide what it is for."""
        if self._watch.last is None:
            return
        try:
            self._run.keep(f"{self._name}.{name}.png", self._watch.last)
        except DroidherdError as error:
            self._run.note(f"the last frame could not be kept: {error}")

    def _pass(self, steps: Steps, prefix: str, stoppable: bool) -> None:
        """Steps of navigation: nothing of them is passed over, and no act of them is asked about."""
        actor = NavigationActor(self._run, self._watch)
        Interpreter(self._run, self._watch, actor, EarlierTry({}), self._name, stoppable=stoppable).steps(steps, prefix)

    # --- the context of steps: `model.steps.base.StepContext`

    @property
    def hands(self) -> Hands:
        return self._run.hands

    @property
    def things(self) -> Things:
        return self._run.things

    @property
    def rounds(self) -> int:
        return self._run.rounds

    @property
    def replaying(self) -> bool:
        return self._past.replaying

    def note(self, text: str) -> None:
        self._run.note(text)

    def look(self, path: str) -> Frame:
        return self._watch.look(path)

    def wait_for(self, condition: Target, within_s: float, path: str) -> Match:
        return self._watch.wait_for(condition, within_s, path, stoppable=self._stoppable)

    def poll(self, condition: Target, within_s: float, path: str) -> bool:
        return self._watch.poll(condition, within_s, path, stoppable=self._stoppable)[1]

    def wait_until_stable(self, step: WaitStep, path: str) -> None:
        self._watch.wait_until_stable(step, path, stoppable=self._stoppable)

    def read(self, step: ReadStep, path: str) -> str:
        return self._watch.read(step, path, stoppable=self._stoppable)

    def sleep(self, seconds: float, path: str) -> None:
        self._watch.sleep(seconds, path, stoppable=self._stoppable)

    def check_tap(self, what: str, place: tuple[int, int], path: str) -> None:
        self._watch.check_tap(what, place, path)

    def keep_screenshot(self, name: str, path: str) -> None:
        turn = "".join(f"-{part.partition('.')[0]}" for part in path.split("#")[1:])
        self._run.keep(f"{self._name}.{name}{turn}.png", self._watch.clear(path).frame)

    def reach(self, screen: str, path: str) -> None:
        self.navigator.reach(screen, path, stoppable=self._stoppable)

    def was_on(self, screen: str, path: str) -> None:
        """In a block nobody knows whether it came there at all."""
        if "." not in path:
            self._arrival.passed(screen)

    def left_out(self, effect: str) -> bool:
        return self._past.left_out(effect)

    def is_behind(self, prefix: str) -> bool:
        return self._past.is_behind(prefix)

    def branch_ahead(self, path: str) -> bool | None:
        return self._past.branch_ahead(path)

    def turn_is_ahead(self, path: str, turn: int) -> bool:
        return self._past.turn_is_ahead(path, turn)

    def answer(self, path: str) -> str | None:
        return self._run.answers.get(path)

    def variable(self, name: str) -> str | None:
        return self._variables.get(name)

    def set_variable(self, name: str, value: str, *, read: bool) -> None:
        self._variables[name] = value
        (self._off_screen.add if read else self._off_screen.discard)(name)

    def was_read(self, name: str) -> bool:
        return name in self._off_screen

    def credential(self, name: str) -> str:
        return self._run.secret(name)

    def payload(self, name: str) -> Path:
        return self._run.payload(name)

    def date(self) -> datetime:
        return self._run.clock.date()

    def run_again_at(self, when: datetime) -> None:
        self.again_at = when

    def call_handler(self, step: CallStep, path: str) -> None:
        doing = HandlerActs(self._run, self._watch, self._actor, path, stoppable=self._stoppable)
        self._run.handlers.run(step, doing)


def _parse(steps: tuple[JsonValue, ...], name: str) -> tuple[Step, ...]:
    try:
        return STEPS.validate_python(steps)
    except ValidationError as error:
        raise FlowError(f"step {explain(error, secret=True)}", to=name) from error
