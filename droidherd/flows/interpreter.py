"""Runs the stages of a plan, step by step, against ports. No I/O, no clock, no thread of its own."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import JsonValue, ValidationError

from droidherd.contracts.plan import OnUnknown, Stage
from droidherd.domain.errors import (
    AbandonedError,
    DroidherdError,
    EmulatorLostError,
    FencedError,
    FlowError,
    GivenUpError,
    InfrastructureError,
    NeedsPersonError,
    ScreenNotReachedError,
)
from droidherd.domain.ports import Acted, Recalled
from droidherd.flows import course, model
from droidherd.flows.acts import Actor, Deed
from droidherd.flows.alteration import wanted
from droidherd.flows.change import CHANGE_KINDS, ChangeArgs
from droidherd.flows.doing import StepDoing
from droidherd.flows.look import beside, pixel
from droidherd.flows.navigator import Arrival, Navigator, Passing
from droidherd.flows.past import Past, asked, of_steps
from droidherd.flows.reading import Read
from droidherd.flows.run import Outcome, StageRun, StopAskedError
from droidherd.flows.secret import hushed
from droidherd.flows.targets import said
from droidherd.flows.turns import Course
from droidherd.flows.watch import Watch


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What went wrong while tidying up; nothing of it fails the task."""

    failures: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.failures


def run_stage(stage: Stage, run: StageRun, *, stoppable: bool = True) -> Outcome:
    """Run a stage to its end, or to the step boundary where it was asked to stop. Everything else is raised.

    Running the same stage again, after whatever end, is safe while the hands keep their journal.
    """
    steps = _parsed(stage.steps, stage.name)
    watch = Watch(run, stage.limit_s)
    recorded = asked(run)
    answered = dict.fromkeys(of_steps(run.standing), Recalled.DONE)
    past = Past({**{effect: recorded[effect] for effect in of_steps(recorded)}, **answered})
    actor = Actor(run, watch, past, stage.on_unknown)
    interpreter = Interpreter(run, watch, actor, past, stage.name, stoppable=stoppable)
    interpreter.begin(stage, recorded)
    try:
        interpreter.steps(steps, "")
    except StopAskedError as stop:
        return Outcome(stop.reason, actor.acts, actor.again, actor.observed)
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
    return Outcome("", actor.acts, actor.again, actor.observed, interpreter.course.again_at)


def run_cleanup(steps: tuple[JsonValue, ...], run: StageRun, budget_s: float, mark: str = "c") -> CleanupReport:
    """Run each step whatever became of the ones before, within `budget_s` altogether.

    Only AbandonedError and FencedError are raised: then the emulator is somebody else's. `mark` begins the names of
    the effects; it has to differ between two cleanups that share a journal and are both meant to act.
    """
    try:
        parsed = _parsed(steps, "cleanup")
    except FlowError as error:
        return CleanupReport((str(error),))
    watch, past = Watch(run, budget_s), Past({})
    actor = Actor(run, watch, past, OnUnknown.REPEAT)
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
    return CleanupReport(tuple(failures))


class Interpreter:
    """Walks through steps. `path` names a step and its effect."""

    def __init__(
        self, run: StageRun, watch: Watch, actor: Actor, past: Past, name: str, *, stoppable: bool = True
    ) -> None:
        """`name` is the stage's, for the names of frames."""
        self._run = run
        self._watch = watch
        self._actor = actor
        self._past = past
        self._name = name
        self._stoppable = stoppable
        self.course = Course(run, watch, actor, past)
        self.navigator = Navigator(run, watch, self._pass)
        self._arrival = Arrival(run, past, self.navigator, actor, stoppable=stoppable)
        self._walk: Mapping[str, Callable[[Any, str], None]] = {
            "start_app": self._start_app,
            "stop_app": self._stop_app,
            "clear_app": self._clear_app,
            "handle": self._handle,
            "tap": self._tap,
            "type": self._type,
            "swipe": self._swipe,
            "key": self._key,
            "wait": self._wait,
            "frame": self._frame,
            "pause": self._pause,
            "optional": self._optional,
            "repeat": self._repeat,
            **dict.fromkeys(CHANGE_KINDS, self._change),
            "ask": self.course.ask,
            "read": self._read,
            "when": self._when,
            "again": self.course.again,
            "fail": self._fail,
            "goto": self._goto,
            "use": self._use,
        }

    def begin(self, stage: Stage, recorded: Collection[str]) -> None:
        """`recorded`: all that the journal has of the stage. From here on, what comes between is dismissed."""
        self.navigator.names.know(recorded)
        self._watch.dismiss = self.navigator.dismiss
        if stage.at:
            self._arrival.expect(stage.at, stage.lives, recorded)

    def steps(self, steps: model.Steps, prefix: str) -> None:
        """One after the other."""
        for number, step in enumerate(steps, start=1):
            self.step(step, f"{prefix}{number}")

    def step(self, step: model.Step, path: str) -> None:
        """One step, at a boundary."""
        self._watch.boundary(path, stoppable=self._stoppable)
        self._arrival.regain(path)
        kind = model.kind_of(step) or ""
        try:
            self._walk[kind](getattr(step, kind), path)
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

    def _start_app(self, args: model.StartApp, path: str) -> None:
        app = args.app or ""
        act = self._now(lambda: self._run.hands.start_app(path, app))
        self._actor.perform(Deed(path, f"start {app}", act, args.then, harmless=True))

    def _stop_app(self, args: model.StopApp, path: str) -> None:
        app = args.app or ""
        act = self._now(lambda: self._run.hands.stop_app(path, app))
        self._actor.perform(Deed(path, f"stop {app}", act, args.then, harmless=True))

    def _clear_app(self, args: model.ClearApp, path: str) -> None:
        app = args.app or ""
        act = self._now(lambda: self._run.hands.clear_app(path, app))
        self._actor.perform(Deed(path, f"clear {app}", act, args.then, harmless=True))

    def _handle(self, args: model.Handle, path: str) -> None:
        """A handler looks by itself what is done; but when the stage had gone on after it, it is left alone."""
        if self._past.is_behind(f"{path}."):
            return
        self._run.handlers.run(args, StepDoing(self._run, self._watch, self._actor, path, stoppable=self._stoppable))

    def _tap(self, args: model.Tap, path: str) -> None:
        hands = self._run.hands
        what = "{:g}%, {:g}%".format(*args.percent) if args.percent else said(args)

        def ready() -> Callable[[], Acted]:
            x, y = self._place_of(args, path)
            self._watch.judge_tap(what, (x, y), path)
            if args.hold is not None:
                return partial(hands.swipe, path, (x, y), (x, y), args.hold)
            return lambda: hands.tap(path, x, y)

        self._actor.perform(Deed(path, f"tap {what}", ready, args.then, target=None if args.percent else args))

    def _type(self, args: model.TypeText, path: str) -> None:
        text = args.text
        if isinstance(text, model.Secret):
            self._type_secret(text.secret, args, path)
            return
        act = self._now(lambda: self._run.hands.type_text(path, text))
        self._actor.perform(Deed(path, f"type {len(text)} characters", act, args.then))

    def _type_secret(self, name: str, args: model.TypeText, path: str) -> None:
        """Found when it is typed, and not when the journal says that it was."""
        what = f"type the credential {name}"

        def ready() -> Callable[[], Acted]:
            return hushed(what, partial(self._run.hands.type_text, path, self._run.secret(name)))

        self._actor.perform(Deed(path, what, ready, args.then))

    def _swipe(self, args: model.Swipe, path: str) -> None:
        def ready() -> Callable[[], Acted]:
            size = self._watch.size(path)
            start, end = pixel(args.start, size), pixel(args.end, size)
            return lambda: self._run.hands.swipe(path, start, end, args.takes)

        self._actor.perform(Deed(path, "swipe", ready, args.then))

    def _key(self, args: model.Key, path: str) -> None:
        act = self._now(lambda: self._run.hands.key(path, args.name))
        self._actor.perform(Deed(path, f"key {args.name}", act, args.then, harmless=args.name == "home"))

    def _change(self, args: ChangeArgs, path: str) -> None:
        """Made again when nobody knows whether it was made: twice is the same as once."""
        act = self._now(lambda: self._run.things.make(path, wanted(args, self._run.payload)))
        self._actor.perform(Deed(path, f"change {args.thing} {args.subject}", act, harmless=True))

    def _wait(self, args: model.Wait, path: str) -> None:
        if self._past.replaying:
            if args.screen is not None:
                self._pass_over(args.screen, path)
        elif args.still is not None:
            self._watch.wait_still(args, path, stoppable=self._stoppable)
        else:
            self._watch.wait_for(args, args.within, path, stoppable=self._stoppable)

    def _frame(self, args: model.Shot, path: str) -> None:
        if not self._past.replaying:
            turn = "".join(f"-{part.partition('.')[0]}" for part in path.split("#")[1:])
            self._run.keep(f"{self._name}.{args.name}{turn}.png", self._watch.clear(path).frame)

    def _pause(self, args: model.Pause, path: str) -> None:
        if not self._past.replaying:
            self._watch.pause(args.time, path, stoppable=self._stoppable)

    def _optional(self, args: model.OptionalBlock, path: str) -> None:
        try:
            self.steps(args.do, f"{path}.")
        except ScreenNotReachedError as error:
            self._run.note(f"{path}: left out: {error}")

    def _repeat(self, args: model.Repeat, path: str) -> None:
        for turn in range(1, args.at_most + 1):
            if not self._begins(args, path, turn):
                return
            self.steps(args.do, f"{path}#{turn}.")
        if args.until is not None and not self._past.replaying:
            self._watch.wait_for(args.until, args.until.within, path, stoppable=self._stoppable)

    def _when(self, args: model.When, path: str) -> None:
        holds = self._holds(args, path)
        if holds:
            self.steps(args.do, f"{path}.")
        elif holds is False and args.else_ is not None:
            self.steps(args.else_, f"{path}.0.")

    def _holds(self, args: model.When, path: str) -> bool | None:
        """By what is remembered; of the screen, by the way that was taken, and none of both when none was."""
        if args.sees is None:
            return self.course.holds(args, path)
        if self._past.replaying:
            return self._past.branch_ahead(path)
        return self._watch.poll(args.sees, args.sees.within, path, stoppable=self._stoppable)[1]

    def _read(self, args: Read, path: str) -> None:
        self.course.read(args, path, stoppable=self._stoppable)

    def _goto(self, screen: str, path: str) -> None:
        if self._past.replaying:
            self._pass_over(screen, path)
        else:
            self.navigator.reach(screen, path, stoppable=self._stoppable)

    def _pass_over(self, screen: str, path: str) -> None:
        """It was on this screen then. In a block nobody knows whether it came there at all."""
        if "." not in path:
            self._arrival.passed(screen)

    def _use(self, args: model.Use, path: str) -> None:
        self.steps(args.do or (), f"{path}.")

    def _pass(self, steps: model.Steps, prefix: str, stoppable: bool) -> None:
        """Steps of navigation: nothing of them is passed over, and no act of them is asked about."""
        actor = Passing(self._run, self._watch)
        Interpreter(self._run, self._watch, actor, Past({}), self._name, stoppable=stoppable).steps(steps, prefix)

    def _fail(self, args: course.Fail, path: str) -> None:
        if not self._past.replaying:
            raise GivenUpError(args.what, to=f"step {path}")

    def _begins(self, args: model.Repeat, path: str, turn: int) -> bool:
        """Whether the loop takes this turn: by what was recorded, then by what is on the screen."""
        if self._past.replaying:
            return self._past.turn_is_ahead(path, turn)
        if args.while_ is not None:
            return self._watch.poll(args.while_, args.while_.within, path, stoppable=self._stoppable)[1]
        if args.until is not None:
            return not self._watch.poll(args.until, args.until.within, path, stoppable=self._stoppable)[1]
        return True

    def _now(self, act: Callable[[], Acted]) -> Callable[[], Callable[[], Acted]]:
        """An act that needs nothing on the screen."""
        return lambda: act

    def _place_of(self, args: model.Tap, path: str) -> tuple[int, int]:
        if args.percent is not None:
            return pixel(args.percent, self._watch.size(path))
        box = self._watch.wait_for(args, args.within, path, stoppable=self._stoppable).box
        return beside(box, args.offset, self._watch.size(path))


def _parsed(steps: tuple[JsonValue, ...], name: str) -> tuple[model.Step, ...]:
    try:
        return model.STEPS.validate_python(steps)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in detail["loc"])
        raise FlowError(f"step {where}: {detail['msg']}", to=name) from error
