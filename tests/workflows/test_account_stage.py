"""What a task knows of the journal of a stage whose effect is in the account, and where it takes that stage."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from temporalio import activity

from activities.errors import asking, translate
from droidherd.contracts import names
from droidherd.contracts.stage import WROTE, StageReport, StageWork
from droidherd.domain.errors import (
    Asks,
    DroidherdError,
    EmulatorLostError,
    FencedError,
    NeedsPersonError,
    ScreenNotReachedError,
)
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.stage.attempt import StageFailedError
from tests.workflows.plays import Deaf, Hold, Play, Silent, again_in, completes, fails
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLLECT = {"name": "collect", "effect": "account"}
ONE = {"stages": [COLLECT]}
TWO = {"stages": [{"name": "open"}, COLLECT]}
lost = fails(EmulatorLostError("does not answer"), clean=False)


@dataclass
class Writes(Hold):
    """Says in its report that it wrote to its journal."""

    async def __call__(self, work: StageWork) -> StageReport:
        return (await super().__call__(work)).model_copy(update={"wrote": True})


@dataclass
class SilentWriter(Silent):
    """Says so in its last heartbeat."""

    seconds: float = 4.0

    async def __call__(self, work: StageWork) -> StageReport:
        activity.heartbeat("acts", WROTE)
        return await super().__call__(work)


def writes_and_fails(error: DroidherdError) -> Play:
    async def play(work: StageWork) -> StageReport:
        failed = StageFailedError(error, clean=True)
        failed.wrote = True
        if isinstance(error, NeedsPersonError):
            return asking(failed)
        raise translate(error, failed)

    return play


fails_after_writing = writes_and_fails(EmulatorLostError("does not answer"))
asks_after_writing = writes_and_fails(NeedsPersonError("did it pay?", Asks("3", ("yes", "no"))))
not_reached = writes_and_fails(ScreenNotReachedError("home did not appear"))


def knew(here: World, task: str) -> list[bool]:
    """Per try of its stages: whether the task knew that an earlier one had written, and under which lease."""
    tries = here.stages.of(task)
    leases = {0, *(work.lease for work in tries)}
    assert all(work.wrote_under in leases for work in tries)
    return [work.wrote_under > 0 for work in tries]


async def test_a_stage_that_wrote_and_was_paused_is_known_to_have_begun(here: World, task: str):
    writes = Writes()
    await here.submit(task, writes, params=ONE)
    await writes.began.wait()
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    first, second = here.stages.of(task)
    assert (0, first.lease) == (first.wrote_under, second.wrote_under)


@pytest.mark.parametrize(
    ("play", "known"), [(fails_after_writing, True), (SilentWriter(), True), (Silent(), False), (lost, False)]
)
async def test_it_knows_by_the_report_or_by_the_last_heartbeat(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch, play: Play, *, known: bool
):
    monkeypatch.setattr(here.planner, "timing", IMPATIENT_TASKS)
    await here.submit(task, play, completes, params=ONE)
    await here.ended(task)
    assert [False, known] == knew(here, task)


async def test_it_knows_of_a_try_whose_worker_was_replaced_when_that_falls_silent(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(here.planner, "timing", IMPATIENT_TASKS)
    incarnation = 1_000_000
    silent, second = SilentWriter(), Hold()
    await here.submit(task, silent, second, completes, params=ONE)
    await silent.began.wait()
    await here.join(incarnation)
    await second.began.wait()
    await timed_out(here, task)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await here.ended(task)
    first, *_, last = knew(here, task)
    assert (False, True) == (first, last)


async def timed_out(here: World, task: str) -> None:
    async def there() -> bool | None:
        events = (await here.task(task).fetch_history()).events
        return any(event.HasField("activity_task_timed_out_event_attributes") for event in events) or None

    await until(there, "its first try to time out")


async def test_a_new_attempt_knows_that_an_earlier_one_acted(here: World, task: str):
    """Its journal is another one, so nobody can tell how far the stage came."""
    await here.submit(task, not_reached, completes, params={**ONE, "policy": {"retries": 1, "backoff_s": 0}})
    await here.ended(task)
    first, second = here.stages.of(task)
    assert [(1, 0), (2, first.lease)] == [(one.key.attempt, one.wrote_under) for one in (first, second)]


async def test_a_new_attempt_knows_that_one_acted_which_then_asked_a_person(here: World, task: str):
    """The try behind the answer skips what was done, and does nothing itself. More ends: test_account_stage_ends.py."""
    failed = fails(ScreenNotReachedError("home did not appear"))
    policy = {"retries": 1, "backoff_s": 0}
    await here.submit(task, asks_after_writing, failed, completes, params={**ONE, "policy": policy})
    await here.reached(task, TaskStatus.WAITING)
    await here.control(task, "answer", choice="yes")
    await here.ended(task)
    assert [False, True, True] == knew(here, task)


async def test_a_retry_knows_that_a_try_may_have_acted_that_was_not_waited_for(here: World, task: str):
    deaf = Deaf()
    await here.submit(task, deaf, completes, params=ONE)
    await deaf.began.wait()
    await here.control(task, "cancel", force=True)
    await here.ended(task)
    deaf.let_go.set()
    await here.again(task)
    await here.ended(task)
    assert [False, True] == knew(here, task)


async def test_a_new_attempt_after_one_that_did_not_act_begins_with_nothing_known(here: World, task: str):
    failed = fails(ScreenNotReachedError("home did not appear"))
    await here.submit(task, failed, completes, params={**ONE, "policy": {"retries": 1, "backoff_s": 0}})
    await here.ended(task)
    assert [False, False] == knew(here, task)


async def test_a_new_round_begins_with_nothing_known(here: World, task: str):
    once_more = {**ONE, "policy": {"retries": 1, "backoff_s": 0}}
    await here.submit(task, not_reached, again_in(timedelta(seconds=1)), completes, params=once_more)
    await here.ended(task)
    assert [False, True, False] == knew(here, task)


async def test_a_retry_knows_that_the_run_before_acted(here: World, task: str):
    writes = Writes()
    await here.submit(task, writes, completes, params=ONE)
    await writes.began.wait()
    await here.control(task, "cancel")
    await here.ended(task)
    await here.again(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    first, second = here.stages.of(task)
    assert (0, first.lease) == (first.wrote_under, second.wrote_under)


async def test_a_run_that_was_terminated_amid_it_may_have_acted(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold, params=ONE)
    await hold.began.wait()
    await here.task(task).terminate("by hand")
    [lease] = [one.lease for one in here.stages.of(task)]
    assert [lease] == [stage.wrote_under for stage in (await here.view(task)).stages]


async def test_its_memo_says_so_as_soon_as_the_stage_was_given_to_a_worker(here: World, task: str):
    """For whoever reads how the task ended while no worker answers: a second stage, too."""
    hold = Hold()
    await here.submit(task, completes, hold, params=TWO)
    await hold.began.wait()
    memo = (await (await here.task(task).describe()).memo())[names.MEMO_TASK]
    hold.let_go.set()
    await here.ended(task)
    assert [0, here.stages.of(task)[-1].lease] == [stage.get("wrote_under", 0) for stage in memo["stages"]]


async def test_it_comes_back_even_if_stages_before_it_would_run_again(here: World, task: str):
    """An emulator stage in front does not hide that the account stage had begun there."""
    fenced = fails(FencedError("it was restarted"), clean=False)
    await here.submit(task, completes, fenced, params=TWO)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, len({one.emulator for one in view.attempts}))


async def test_it_waits_for_its_emulator_as_long_as_that_is_down(here: World, task: str):
    hold = Writes()
    await here.submit(task, completes, hold, params=TWO)
    await hold.began.wait()
    home = (await here.view(task)).emulator
    await here.sees(home, Health.DOWN)
    waiting = await here.reached(task, TaskStatus.QUEUED)
    assert home in waiting.why
    await here.sees(home, Health.GOOD)
    view = await here.ended(task)
    assert {home} == {one.emulator for one in view.attempts}
    assert here.stages.of(task)[-1].wrote_under > 0
