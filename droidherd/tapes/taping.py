"""Writes down what a stage sees and does, on its way through to the emulator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from droidherd.domain.errors import LateError, NotSentError
from droidherd.domain.ports import Acted, Eyes, Frame, Hands, Recalled, Things, Wanted
from droidherd.flows.model import Handle
from droidherd.flows.run import Handlers, StageRun

if TYPE_CHECKING:
    from droidherd.flows.doing import StepDoing


class Pad(Protocol):
    """On what it is written down."""

    muted: int

    def look(self, frame: Frame) -> None: ...
    def tree(self, dump: str) -> None: ...
    def act(self, kind: str, effect: str = "", /, **args: JsonValue) -> None: ...
    def forget(self) -> None:
        """The last act was not meant, or never was."""
        ...

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        """What an earlier try had done."""
        ...

    def marked(self, effect: str, value: str) -> None: ...
    def broke_off(self, handler: str) -> None:
        """It did not come to its end."""
        ...


def taped(tape: Pad) -> Callable[[StageRun, Callable[[str], str]], StageRun]:
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
    tape: Pad
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
    tape: Pad
    masked: Callable[[str], str]

    def tap(self, effect: str, x: int, y: int) -> Acted:
        self.tape.act("tap", effect, x=x, y=y)
        return self._sent(lambda: self.hands.tap(effect, x, y))

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        self.tape.act("swipe", effect, start=list(start), end=list(end))
        return self._sent(lambda: self.hands.swipe(effect, start, end, duration_s))

    def type_text(self, effect: str, text: str) -> Acted:
        self.tape.act("type", effect, text=self.masked(text))
        return self._sent(lambda: self.hands.type_text(effect, text))

    def key(self, effect: str, key: str) -> Acted:
        self.tape.act("key", effect, key=key)
        return self._sent(lambda: self.hands.key(effect, key))

    def start_app(self, effect: str, app: str) -> Acted:
        self.tape.act("start_app", effect, app=app)
        return self._sent(lambda: self.hands.start_app(effect, app))

    def stop_app(self, effect: str, app: str) -> Acted:
        self.tape.act("stop_app", effect, app=app)
        return self._sent(lambda: self.hands.stop_app(effect, app))

    def clear_app(self, effect: str, app: str) -> Acted:
        self.tape.act("clear_app", effect, app=app)
        return self._sent(lambda: self.hands.clear_app(effect, app))

    def recall(self) -> Mapping[str, Recalled]:
        recorded = self.hands.recall()
        self.tape.recalled(recorded)
        return recorded

    def mark(self, effect: str, value: str = "") -> Acted:
        acted = self.hands.mark(effect, value)
        self.tape.marked(effect, value)
        return acted

    def marked(self, effect: str) -> str | None:
        value = self.hands.marked(effect)
        if value is not None:
            self.tape.marked(effect, value)
        return value

    def forget(self, effect: str) -> None:
        """It was observed that it did not happen; it will be done again."""
        self.tape.forget()
        self.hands.forget(effect)

    def _sent(self, act: Callable[[], Acted]) -> Acted:
        try:
            return act()
        except (NotSentError, LateError):
            self.tape.forget()
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hands, name)


@dataclass(frozen=True, slots=True)
class TapedThings:
    things: Things
    tape: Pad

    def make(self, effect: str, wanted: Wanted) -> Acted:
        self.tape.act("change", effect, thing=wanted.thing, name=wanted.name, to=str(wanted.state))
        return self.things.make(effect, wanted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.things, name)


@dataclass(frozen=True, slots=True)
class TapedHandlers:
    """A handler is one act: what it does inside is its own."""

    handlers: Handlers
    tape: Pad

    def run(self, args: Handle, doing: "StepDoing") -> None:
        self.tape.act("handle", doing.path, by=args.by)
        self.tape.muted += 1
        done = False
        try:
            self.handlers.run(args, doing)
            done = True
        finally:
            self.tape.muted -= 1
            if not done:
                self.tape.broke_off(args.by)
