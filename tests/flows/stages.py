"""Stages to run on a bench, and troubles to meet there."""

from collections.abc import Callable
from typing import Any

from droidherd.contracts.plan import OnAmbiguous, Stage
from droidherd.domain.errors import (
    UnknownOutcomeError,
)
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator

HOME = HerdState(scene=Scene.HOME, running=True, signed_in="ann")
APP = "com.example.herd"
GIFT = {"tap": {"image": "gift.png", "then": {"image": "ok.png", "within": "5s"}}}
OK = {"tap": {"image": "ok.png", "then": {"image": "gift_collected.png", "within": "5s"}}}


def stage(*steps: dict[str, Any], limit_s: float = 300.0, on_ambiguous: OnAmbiguous = OnAmbiguous.ASK) -> Stage:
    return Stage(name="main", steps=steps, limit_s=limit_s, on_ambiguous=on_ambiguous)


def bench(state: HerdState = HOME) -> Bench:
    return Bench(Emulator(state))


def acts(on: Bench) -> list[str]:
    return [what for _, what in on.emulator.done]


class Stubborn:
    """Raises at every sending until it has done so `times`."""

    def __init__(self, times: int, error: Callable[[str], Exception], word: str = "sent") -> None:
        self.left = times
        self._error = error
        self._word = word

    def __call__(self, point: str) -> None:
        if point.endswith(self._word) and self.left > 0:
            self.left -= 1
            raise self._error("trouble")


def unknown_at(point: str, state: HerdState = HOME) -> Bench:
    """A bench on which the answer is lost at one point."""
    emulator = Emulator(state)

    def lose(passed: str) -> None:
        if passed == point:
            emulator.journal["lost"] = "once"
            raise UnknownOutcomeError("no answer")

    def once(passed: str) -> None:
        if "lost" not in emulator.journal:
            lose(passed)

    return Bench(emulator, point=once)
