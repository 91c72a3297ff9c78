"""What a handler does on the emulator, as acts of its step: journaled under its path, made again when unknown."""

from collections.abc import Callable

from droidherd.domain.ports import Acted, Frame, Wanted
from droidherd.flows.model.steps.base import PlannedAct
from droidherd.flows.run.context import StageContext
from droidherd.flows.run.effects import Actor
from droidherd.flows.run.watch import ScreenWatch


class HandlerActs:
    """Implements `handlers.base.Doing` for one step. Twice must be the same as once for all of it."""

    def __init__(self, run: StageContext, watch: ScreenWatch, actor: Actor, path: str, *, stoppable: bool) -> None:
        """`path` is the step's."""
        self._stoppable = stoppable
        self._run = run
        self._watch = watch
        self._actor = actor
        self.path = path

    def make(self, name: str, wanted: Wanted) -> None:
        effect = self._effect(name)
        self._perform(effect, f"change {wanted.thing} {wanted.name}", lambda: self._run.things.make(effect, wanted))

    def start_app(self, name: str, app: str) -> None:
        effect = self._effect(name)
        self._perform(effect, f"start {app}", lambda: self._run.hands.start_app(effect, app))

    def stop_app(self, name: str, app: str) -> None:
        effect = self._effect(name)
        self._perform(effect, f"stop {app}", lambda: self._run.hands.stop_app(effect, app))

    def look(self) -> Frame:
        return self._watch.look(self.path)

    def rest(self, seconds: float) -> None:
        """Here the stage may be asked to stop: the handler goes on with its cleanup, and the step is not done."""
        self._watch.boundary(self.path, stoppable=self._stoppable)
        self._watch.rest(seconds, self.path)

    def _effect(self, name: str) -> str:
        return f"{self.path}.{name}"

    def _perform(self, effect: str, what: str, act: Callable[[], Acted]) -> None:
        self._actor.perform(PlannedAct(effect, what, lambda: act, harmless=True))
