"""Any program of steps, killed any number of times between its acts, does what it would have done unharmed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.contracts.plan import Stage
from droidherd.contracts.screen_map import ScreenMap
from droidherd.domain.ports import Recalled
from droidherd.flows.run.interpreter import run_stage
from droidherd.flows.run.past import EarlierTry
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, PlugPulledError

HOME = HerdState(scene=Scene.HOME, running=True, signed_in="ann")
IN_DOUBT = ("begun", "acted")
"""Between intent and result: what happens there is the business of `test_crash_at_every_point`."""

ACTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"tap": {"percent": [1, 1]}},
        {"tap": {"image": "rewards.png", "within": "1s"}},
        {"tap": {"image": "back.png", "within": "1s"}},
        {"key": {"name": "menu"}},
        {"sleep": {"for": "1s"}},
        {"screenshot": {"name": "seen"}},
    ]
)


def optional(do: list[dict[str, Any]]) -> dict[str, Any]:
    return {"optional": {"do": do}}


def repeat(do: list[dict[str, Any]], at_most: int) -> dict[str, Any]:
    return {"repeat": {"at_most": at_most, "do": do}}


def repeat_while(do: list[dict[str, Any]], image: str) -> dict[str, Any]:
    return {"repeat": {"at_most": 3, "while": {"image": image}, "do": do}}


def blocks(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    do = st.lists(inner, min_size=1, max_size=3)
    image = st.sampled_from(["rewards.png", "back.png"])
    return st.builds(optional, do) | st.builds(repeat, do, st.integers(1, 3)) | st.builds(repeat_while, do, image)


def all_optional(steps: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """An image that is missing would end the stage; inside an optional block it is one more thing to leave out."""
    return tuple(optional([step]) for step in steps)


STEPS = st.lists(st.recursive(ACTS, blocks, max_leaves=6), min_size=1, max_size=4).map(all_optional)


class Reaper:
    """Pulls the plug at some of the safe points, counted over all tries."""

    def __init__(self, at: set[int]) -> None:
        self._at = at
        self.passed = 0

    def __call__(self, point: str) -> None:
        if point.endswith(IN_DOUBT):
            return
        self.passed += 1
        if self.passed in self._at:
            raise PlugPulledError


UNGUARDED = ScreenMap(guards={"taps": 0})
"""The steps are made up, and some go in circles."""


def done_by(steps: tuple[dict[str, Any], ...], at: set[int]) -> list[tuple[str, str]]:
    emulator, reaper = Emulator(HOME), Reaper(at)
    for _ in range(len(at) + 1):
        try:
            run_stage(Stage(name="main", steps=steps), Bench(emulator, point=reaper).run(screen_map=UNGUARDED))
        except PlugPulledError:
            continue
        return emulator.done
    raise AssertionError("the reaper strikes more often than it was told to")


@settings(max_examples=120, deadline=None)
@given(STEPS, st.sets(st.integers(1, 60), max_size=6))
def test_a_stage_killed_between_acts_does_what_it_would_have_done_unharmed(
    steps: tuple[dict[str, Any], ...], at: set[int]
) -> None:
    assert done_by(steps, set()) == done_by(steps, at)


EFFECTS = st.lists(st.from_regex(r"[1-9](#[1-3])?(\.[1-9](#[1-3])?){0,2}", fullmatch=True), unique=True, max_size=8)


@given(EFFECTS)
def test_the_past_is_over_when_every_recorded_effect_was_met(effects: list[str]) -> None:
    past = EarlierTry(dict.fromkeys(effects, Recalled.DONE))
    for effect in effects:
        assert past.replaying
        assert Recalled.DONE is past.take(effect)
    assert not past.replaying
    assert past.take("99") is None


@given(st.integers(1, 3), st.integers(1, 3))
def test_a_turn_is_ahead_when_it_or_a_later_one_is_recorded(recorded: int, asked: int) -> None:
    past = EarlierTry({f"2#{recorded}.1": Recalled.DONE, "12#3.1": Recalled.DONE, "2.2#3.1": Recalled.DONE})
    assert (asked <= recorded) == past.turn_is_ahead("2", asked)
