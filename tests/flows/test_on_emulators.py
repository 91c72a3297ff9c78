"""Flows of the gallery through the real adb server, on a virtual emulator that keeps its own journal."""

import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from droidherd.contracts.plan import Plan, Stage
from droidherd.domain.errors import GivenUpError, InfrastructureError, NeedsPersonError, ScreenNotReachedError
from droidherd.domain.ports import Frame
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.model.screens import parse_screen_map
from droidherd.flows.run.context import StageContext, Tempo
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.interpreter import CleanupOutcome, RunOutcome, run_cleanup, run_stage
from droidherd.stage.context import HostClock
from tests.emulator.farm import One
from tests.flows.fakes import FakeLife

CATALOGUE = Catalogue()
TEMPO = Tempo(poll_s=0.05, late_s=0.5, retry_s=0.05)


class Visit:
    """One task on one emulator, stage by stage."""

    def __init__(self, one: One, name: str, params: Mapping[str, JsonValue] | None = None) -> None:
        self.one = one
        self.plan: Plan = CATALOGUE.plan(name, params or {}, account="ann")
        self.kept: dict[str, Frame] = {}
        self.notes: list[str] = []
        self.tries = 0
        self.answers: dict[str, str] = {}
        """Given while the emulator was kept."""

    def stage(self, stage: Stage) -> RunOutcome:
        return run_stage(stage, self._run(self.plan.stages.index(stage)))

    def all(self) -> list[RunOutcome]:
        return [self.stage(stage) for stage in self.plan.stages]

    def cleanup(self) -> CleanupOutcome:
        return run_cleanup(self.plan.cleanup, self._run(len(self.plan.stages)), 10.0, f"c{self.tries}.")

    def again_until_done(self, stage: Stage) -> None:
        """Run a stage until it completes, as the engine would."""
        for _ in range(5):
            try:
                self.stage(stage)
            except InfrastructureError as error:
                self.notes.append(str(error))
            else:
                return
        pytest.fail(f"not done after five tries: {self.notes}")

    def _run(self, index: int) -> StageContext:
        self.tries += 1
        token, clock = self.one.token(index, self.tries), self.one.seize(index, self.tries).clock
        until_s = time.monotonic() + 60.0
        handle = LeaseHandle(self.one.address, self.one.key, token, index)
        return StageContext(
            hands=EmulatorHands(self.one.adb, handle, lambda: clock.deadline(until_s)),
            eyes=self.one.eyes(),
            life=FakeLife(),
            clock=HostClock(),
            finder=FlowFinder(CATALOGUE, PlannedFlow(self.plan.flow, self.plan.flow_hash, self.plan.stages[0].files)),
            keep=self.kept.__setitem__,
            note=self.notes.append,
            tempo=TEMPO,
            answers=self.answers,
            standing=frozenset(self.answers),
            screen_map=parse_screen_map(self.plan.screen_map),
            lease=self.one.lease,
        )


@pytest.mark.parametrize(
    ("name", "params", "frames"),
    [
        ("sign_in", {}, ["enter.home.png"]),
        ("daily_reward", {}, ["collect.collected.png"]),
        ("guarded_reward", {}, []),
        ("collect_rewards", {}, ["rewards.collected.png"]),
        ("regular_visit", {}, ["visit.arrived.png"]),
        ("browse_list", {"pages": 2}, ["browse.page-1.png", "browse.page-2.png"]),
        ("visit", {}, ["visit.arrived.png"]),
        ("tap_once", {}, []),
        ("change_password", {}, ["first.home.png", "second.home.png", "second.gift.png"]),
        ("long_walk", {"rounds": 1, "pace_ms": 1}, []),
        ("start_app", {"app": "com.example.herd"}, []),
        ("stop_app", {"app": "com.example.herd"}, []),
    ],
)
def test_a_flow_of_the_gallery_runs_through_and_cleans_up(
    one: One, name: str, params: dict[str, JsonValue], frames: list[str]
) -> None:
    visit = Visit(one, name, params)
    assert all(not outcome.stopped for outcome in visit.all())
    assert visit.cleanup().clean
    assert frames == list(visit.kept)
    assert one.acts()


def test_a_daily_reward_is_collected_by_the_account_it_is_for(one: One) -> None:
    before = one.control.counters(one.name)["claims"]
    visit = Visit(one, "daily_reward")
    visit.all()
    assert before + 1 == one.control.counters(one.name)["claims"]
    assert "ann" == one.control.state(one.name)["app"]["signed_in"]


def test_a_captcha_is_solved_by_a_person_on_emulator_and_the_stage_goes_on(one: One) -> None:
    one.control.suspect(one.name)
    visit = Visit(one, "guarded_reward")
    first = visit.plan.stages[0]
    with pytest.raises(NeedsPersonError, match="Solve the captcha of ann") as caught:
        visit.stage(first)
    before = one.control.counters(one.name)
    one.adb.shell(one.address, "input tap 640 436", 10.0)
    visit.answers[caught.value.asks.step] = "solved"
    visit.stage(first)
    assert before["sign_ins"] == one.control.counters(one.name)["sign_ins"]
    visit.answers.clear()
    visit.stage(visit.plan.stages[1])
    assert before["claims"] + 1 == one.control.counters(one.name)["claims"]
    assert ["open.asked.png"] == list(visit.kept)


def test_an_answer_that_solved_nothing_is_followed_by_the_same_question(one: One) -> None:
    one.control.suspect(one.name)
    visit = Visit(one, "guarded_reward")
    first = visit.plan.stages[0]
    asked: list[str] = []
    for _ in range(3):
        with pytest.raises(NeedsPersonError) as caught:
            visit.stage(first)
        asked.append(caught.value.asks.step)
        visit.answers[asked[-1]] = "solved"
    assert 3 == len(set(asked))
    one.adb.shell(one.address, "input tap 640 436", 10.0)
    visit.all()


def test_an_unsolved_captcha_is_for_a_person_also_when_the_stage_begins_anew(one: One) -> None:
    """A pause, a lost lease and a retry all close the app and begin with it: it shows the captcha at once then."""
    one.control.suspect(one.name)
    paused = Visit(one, "guarded_reward")
    with pytest.raises(NeedsPersonError):
        paused.stage(paused.plan.stages[0])
    assert paused.cleanup().clean
    one.lease += 1
    resumed = Visit(one, "guarded_reward")
    with pytest.raises(NeedsPersonError, match="Solve the captcha of ann") as caught:
        resumed.all()
    one.adb.shell(one.address, "input tap 640 436", 10.0)
    resumed.answers[caught.value.asks.step] = "solved"
    before = one.control.counters(one.name)["claims"]
    resumed.stage(resumed.plan.stages[0])
    resumed.answers.clear()
    resumed.stage(resumed.plan.stages[1])
    assert before + 1 == one.control.counters(one.name)["claims"]
    assert "ann" == one.control.state(one.name)["app"]["signed_in"]


def test_a_captcha_that_a_person_gives_up_fails_the_task(one: One) -> None:
    one.control.suspect(one.name)
    visit = Visit(one, "guarded_reward")
    with pytest.raises(NeedsPersonError) as caught:
        visit.all()
    visit.answers[caught.value.asks.step] = "give up"
    with pytest.raises(GivenUpError, match="nobody solved the captcha"):
        visit.all()
    one.control.set_app(one.name, suspicious=False)


def test_a_second_look_fails_once_and_then_succeeds(one: One) -> None:
    first = Visit(one, "second_look")
    with pytest.raises(ScreenNotReachedError, match=r"nothing_entered\.png did not appear within 500ms"):
        first.all()
    assert first.cleanup().clean
    one.lease += 1
    second = Visit(one, "second_look")
    second.all()
    assert second.cleanup().clean
    assert ["look.failed.png"] == list(first.kept)
    assert ["look.complaint.png"] == list(second.kept)


def test_a_popup_over_the_app_is_closed_on_the_way(one: One) -> None:
    one.control.popup(one.name)
    visit = Visit(one, "sign_in")
    visit.all()
    assert any("tap close.png" in note for note in visit.notes)


ANYWHERE = [
    {},
    {"scene": "sign_in", "running": True},
    {"scene": "sign_in", "running": True, "account": "half a na"},
    {"scene": "home", "running": True, "signed_in": "ann"},
    {"scene": "list", "running": True, "signed_in": "ann", "popup": True},
    {"scene": "dialog", "running": True, "signed_in": "ann"},
]


@pytest.mark.parametrize("state", ANYWHERE)
def test_rewards_are_collected_from_whatever_screen_the_app_is_on(one: One, state: dict[str, Any]) -> None:
    before = one.control.counters(one.name)["claims"]
    one.control.set_app(one.name, **state)
    Visit(one, "collect_rewards").all()
    assert before + 7 == one.control.counters(one.name)["claims"]
    app = one.control.state(one.name)["app"]
    assert ("list", "ann") == (app["scene"], app["signed_in"])


def test_a_line_cut_on_way_and_in_a_stage_collects_all_once_and_asks_nobody(one: One) -> None:
    before = one.control.counters(one.name)["claims"]
    visit = Visit(one, "collect_rewards")
    for stage, tap in zip(visit.plan.stages, (2, 1), strict=True):
        one.control.cut_after(one.name, "input tap", count=tap, when="after")
        visit.again_until_done(stage)
    assert before + 7 == one.control.counters(one.name)["claims"]


def in_a_hurry(plan: Plan) -> Plan:
    """The same plan with little patience."""
    return Plan.model_validate_json(re.sub(r'"within":"1\ds"', '"within":"1s"', plan.model_dump_json()))


@pytest.mark.parametrize(("when", "tap"), [("before", 2), ("after", 3), ("before", 5), ("after", 5)])
def test_a_line_cut_before_or_after_its_act_collects_the_reward_once(one: One, when: str, tap: int) -> None:
    before = one.control.counters(one.name)["claims"]
    visit = Visit(one, "daily_reward")
    visit.plan = in_a_hurry(visit.plan)
    one.control.cut_after(one.name, "input tap", count=tap, when=when)
    for stage in visit.plan.stages:
        visit.again_until_done(stage)
    assert any("the connection was closed" in note for note in visit.notes)
    assert before + 1 == one.control.counters(one.name)["claims"]
