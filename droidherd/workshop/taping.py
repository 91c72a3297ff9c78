"""Writes down what a stage sees and does, on its way through to the emulator."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from droidherd.contracts.plan import Plan
from droidherd.domain.errors import NeedsPersonError
from droidherd.domain.ports import Acted, Eyes, Frame, Hands, Things, Wanted
from droidherd.flows.model import Handle
from droidherd.flows.run import Handlers, StageRun
from droidherd.stay import Outfit
from droidherd.workshop.recording import COMPLETED, Tape
from droidherd.workshop.rehearsal import FlowRun, Manner, Seat, rehearse

if TYPE_CHECKING:
    from droidherd.flows.doing import StepDoing


def recorded(plan: Plan, outfit: Outfit, seat: Seat, manner: Manner, tape: Tape) -> FlowRun:
    """Rehearse a flow and write it down."""
    heard = manner.stepped

    def stepped(step: str) -> None:
        tape.where = step
        heard(step)

    def asked(question: NeedsPersonError) -> str:
        choice = manner.asked(question)
        if choice:
            tape.answer(question.asks.step, choice)
        return choice

    tape.begin(plan.flow, plan.params, plan.flow_hash)
    run = rehearse(plan, replace(outfit, fitted=taped(tape)), seat, replace(manner, stepped=stepped, asked=asked))
    tape.end(str(run.error) if run.error else f"stopped: {run.stopped}" if run.stopped else COMPLETED)
    return run


def taped(tape: Tape) -> Callable[[StageRun, Callable[[str], str]], StageRun]:
    """For `Outfit.fitted`."""

    def fitted(run: StageRun, masked: Callable[[str], str]) -> StageRun:
        return replace(
            run,
            eyes=TapedEyes(run.eyes, tape, masked),
            hands=TapedHands(run.hands, tape, masked),
            things=TapedThings(run.things, tape),
            handlers=TapedHandlers(run.handlers, tape),
        )

    return fitted


@dataclass(frozen=True, slots=True)
class TapedEyes:
    """What is not written down goes straight through."""

    eyes: Eyes
    tape: Tape
    masked: Callable[[str], str]
    """A field may show what was typed into it."""

    def look(self) -> Frame:
        frame = self.eyes.look()
        self.tape.look(frame)
        return frame

    def tree(self) -> str:
        told = self.eyes.tree()
        self.tape.tree(self.masked(told))
        return told

    def __getattr__(self, name: str) -> Any:
        return getattr(self.eyes, name)


@dataclass(frozen=True, slots=True)
class TapedHands:
    """An act is written down before it is sent: what came of it is to be seen on the next frame."""

    hands: Hands
    tape: Tape
    masked: Callable[[str], str]

    def tap(self, effect: str, x: int, y: int) -> Acted:
        self.tape.act("tap", x=x, y=y)
        return self.hands.tap(effect, x, y)

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        self.tape.act("swipe", start=list(start), end=list(end))
        return self.hands.swipe(effect, start, end, duration_s)

    def type_text(self, effect: str, text: str) -> Acted:
        self.tape.act("type", text=self.masked(text))
        return self.hands.type_text(effect, text)

    def key(self, effect: str, key: str) -> Acted:
        self.tape.act("key", key=key)
        return self.hands.key(effect, key)

    def start_app(self, effect: str, app: str) -> Acted:
        self.tape.act("start_app", app=app)
        return self.hands.start_app(effect, app)

    def stop_app(self, effect: str, app: str) -> Acted:
        self.tape.act("stop_app", app=app)
        return self.hands.stop_app(effect, app)

    def clear_app(self, effect: str, app: str) -> Acted:
        self.tape.act("clear_app", app=app)
        return self.hands.clear_app(effect, app)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hands, name)


@dataclass(frozen=True, slots=True)
class TapedThings:
    things: Things
    tape: Tape

    def make(self, effect: str, wanted: Wanted) -> Acted:
        self.tape.act("change", thing=wanted.thing, name=wanted.name, to=str(wanted.state))
        return self.things.make(effect, wanted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.things, name)


@dataclass(frozen=True, slots=True)
class TapedHandlers:
    """A handler is one act: what it does inside is its own."""

    handlers: Handlers
    tape: Tape

    def run(self, args: Handle, doing: "StepDoing") -> None:
        self.tape.act("handle", by=args.by)
        self.tape.muted += 1
        try:
            self.handlers.run(args, doing)
        finally:
            self.tape.muted -= 1
