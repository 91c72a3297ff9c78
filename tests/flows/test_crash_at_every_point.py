"""The process dies, or an answer is lost, at every single point of a flow; the stage then runs again."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from droidherd.contracts.plan import Plan
from droidherd.domain.errors import CommandFailedError, NotSentError, UnknownOutcomeError
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator, PlugPulledError, Trouble

CATALOGUE = Catalogue()
NEVER = 10**9
SIGNED_IN = HerdState(scene=Scene.HOME, running=True, signed_in="other")


class Pest:
    """A popup that appears at some of the looks, counted over all tries, beside whatever else happens there."""

    def __init__(self, emulator: Emulator, seed: int, trouble: Trouble) -> None:
        self._emulator = emulator
        self._at = set(random.Random(seed).sample(range(1, 40), 6))
        self._trouble = trouble
        self._looks = 0

    def __call__(self, point: str) -> None:
        self._looks += point == "look"
        if point == "look" and self._looks in self._at and self._emulator.state.scene is not Scene.LAUNCHER:
            self._emulator.state = replace(self._emulator.state, popup=True)
        self._trouble(point)


def finish(plan: Plan, emulator: Emulator, trouble: Callable[[str], None]) -> int:
    """Run every stage to its end, again and again while the process dies; the number of tries."""
    tries = 0
    for stage in plan.stages:
        while True:
            tries += 1
            assert tries < 20
            try:
                run_stage(stage, Bench(emulator, stage.name, trouble).run(screen_map=plan.screen_map))
            except PlugPulledError:
                continue
            break
    return tries


def points_of(plan: Plan, start: HerdState) -> int:
    count = Trouble(NEVER, AssertionError)
    finish(plan, Emulator(start), count)
    return count.passed


def doubled(plan: Plan, emulator: Emulator) -> list[tuple[str, str]]:
    """Acts that really happened twice under one name, though their step says how to see that they happened."""
    seen: set[str] = set()
    found: list[tuple[str, str]] = []
    for key, what in emulator.done:
        if not key.partition("/")[2][0].isdecimal():
            continue  # navigation: it has names of its own each time
        if key in seen and not what.startswith(("start ", "stop ")) and "then" in step_of(plan, key):
            found.append((key, what))
        seen.add(key)
    return found


def step_of(plan: Plan, key: str) -> dict[str, Any]:
    """The arguments of the step behind an effect such as `open/4#1.2`."""
    name, _, path = key.partition("/")
    steps: Any = next(stage.steps for stage in plan.stages if stage.name == name)
    step: dict[str, Any] = {}
    for part in re.sub(r"#\d+", "", path).split("."):
        step = next(iter(steps[int(part) - 1].values()))
        steps = step.get("do", ())
    return step


FLOWS = [
    ("daily_reward", {}, HerdState()),
    ("daily_reward", {}, SIGNED_IN),
    ("sign_in", {}, SIGNED_IN),
    ("long_walk", {"rounds": 2}, HerdState()),
    ("collect_rewards", {}, HerdState()),
    ("collect_rewards", {}, HerdState(popup=True, running=True, scene=Scene.DIALOG, signed_in="ann")),
    ("browse_list", {"pages": 2}, HerdState(popup=True, running=True, scene=Scene.SIGN_IN)),
]


@pytest.mark.parametrize(("name", "params", "start"), FLOWS)
def test_a_process_that_dies_at_any_point_does_nothing_twice(
    name: str, params: dict[str, str | int], start: HerdState
) -> None:
    plan = CATALOGUE.plan(name, params, account="ann")
    unharmed = Emulator(start)
    finish(plan, unharmed, Trouble(NEVER, AssertionError))
    for nth in range(1, points_of(plan, start) + 1):
        emulator, trouble = Emulator(start), Trouble(nth, PlugPulledError)
        assert finish(plan, emulator, trouble) == len(plan.stages) + 1, trouble.struck
        assert doubled(plan, emulator) == [], trouble.struck
        assert (emulator.state.claims, emulator.state.sign_ins) == (unharmed.state.claims, unharmed.state.sign_ins)
        assert emulator.state.scene == unharmed.state.scene, trouble.struck


@pytest.mark.parametrize(("name", "params", "start"), FLOWS)
def test_an_answer_lost_at_any_point_is_observed_and_nothing_is_done_twice(
    name: str, params: dict[str, str | int], start: HerdState
) -> None:
    plan = CATALOGUE.plan(name, params, account="ann")
    for nth in range(1, points_of(plan, start) + 1):
        emulator, trouble = Emulator(start), Trouble(nth, UnknownOutcomeError)
        finish(plan, emulator, trouble)
        assert doubled(plan, emulator) == [], trouble.struck


def test_a_daily_reward_is_claimed_once_whatever_two_points_trouble_strikes() -> None:
    plan = CATALOGUE.plan("daily_reward", {}, account="ann")
    whole = points_of(plan, HerdState())
    for first in range(1, whole + 1, 3):
        emulator = Emulator(HerdState())
        die, lose = Trouble(first, PlugPulledError), Trouble(first + 5, NotSentError)

        def both(point: str, die: Trouble = die, lose: Trouble = lose) -> None:
            die(point)
            if point.endswith("sent"):
                lose(point)

        for stage in plan.stages:
            for _ in range(5):
                try:
                    run_stage(stage, Bench(emulator, stage.name, both).run(screen_map=plan.screen_map))
                except (PlugPulledError, CommandFailedError):
                    continue
                break
        assert emulator.state.claims == 1
        assert emulator.state.sign_ins == 1


ANYWHERE = [
    HerdState(),
    HerdState(running=True, scene=Scene.SIGN_IN, account="half a na"),
    HerdState(running=True, scene=Scene.LIST, signed_in="ann", popup=True),
]


@pytest.mark.parametrize(("seed", "trouble"), [(1, UnknownOutcomeError), (2, PlugPulledError), (3, PlugPulledError)])
def test_popups_deaths_and_lost_answers_at_any_point_change_nothing(
    seed: int, trouble: Callable[[str], BaseException]
) -> None:
    plan, start = CATALOGUE.plan("collect_rewards", {}, account="ann"), ANYWHERE[seed - 1]
    emulator, count = Emulator(start), Trouble(NEVER, AssertionError)
    finish(plan, emulator, Pest(emulator, seed, count))
    assert any(key.startswith("gift/i1#") for key, _ in emulator.done), "no popup came between"
    for nth in range(1, count.passed + 1):
        emulator, strike = Emulator(start), Trouble(nth, trouble)
        finish(plan, emulator, Pest(emulator, seed, strike))
        assert doubled(plan, emulator) == [], strike.struck
        assert (7, (0, 1, 2, 3, 4, 5)) == (emulator.state.claims, emulator.state.claimed), strike.struck
        assert Scene.LIST is emulator.state.scene, strike.struck
