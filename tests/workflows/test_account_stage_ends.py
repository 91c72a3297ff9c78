"""However an attempt ends amid a stage that acted in the account: whoever tries it again knows that it may have."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from temporalio import activity

from activities.errors import unclassified
from droidherd.contracts.stage import StageReport, StageWork
from droidherd.domain.errors import (
    Asks,
    EmulatorLostError,
    FinalError,
    NeedsPersonError,
    ScreenNotReachedError,
)
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Deaf, Hold, Play, completes, fails, is_unknown_to_us
from tests.workflows.test_account_stage import COLLECT, Writes, writes_and_fails
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


def acts_and_asks(*, keep: bool = True, within_s: float = 20.0) -> Play:
    return writes_and_fails(NeedsPersonError("did it pay?", Asks("3", ("yes", "no"), within_s, keep)))


async def meets_a_bug(work: StageWork) -> StageReport:
    raise unclassified(OSError("no space left"))


async def says_nonsense(work: StageWork) -> Any:
    return "nonsense"


class EndsAsCancelled(Hold):
    """Asked to stop, its activity ends as cancelled, and tells nothing."""

    async def __call__(self, work: StageWork) -> StageReport:
        self.began.set()
        while True:
            activity.heartbeat()
            await asyncio.sleep(0.05)


not_reached = fails(ScreenNotReachedError("home did not appear"))
"""Skips what was done before, and does nothing else."""
fatal = fails(FinalError("it is banned"))

Drive = Callable[[World, str, list[Play]], Awaitable[None]]


async def alone(here: World, task: str, plays: list[Play]) -> None:
    """It ends by itself."""


async def retried(here: World, task: str, plays: list[Play]) -> None:
    await here.ended(task)
    await here.again(task)


def answered(*after: Drive) -> Drive:
    async def drive(here: World, task: str, plays: list[Play]) -> None:
        await here.reached(task, TaskStatus.WAITING)
        await here.control(task, "answer", choice="yes")
        for one in after:
            await one(here, task, plays)

    return drive


def controlled(action: str, *, amid: bool, **more: Any) -> Drive:
    async def drive(here: World, task: str, plays: list[Play]) -> None:
        await begun(here, task, plays, amid=amid)
        await here.control(task, action, **more)
        await retried(here, task, plays)
        release(plays)

    return drive


def terminated(*, amid: bool) -> Drive:
    async def drive(here: World, task: str, plays: list[Play]) -> None:
        await begun(here, task, plays, amid=amid)
        await here.task(task).terminate("by hand")
        release(plays)
        await here.again(task)

    return drive


async def begun(here: World, task: str, plays: list[Play], *, amid: bool) -> None:
    if not amid:
        await here.reached(task, TaskStatus.WAITING)
    elif isinstance(plays[0], Hold):
        await plays[0].began.wait()


def release(plays: list[Play]) -> None:
    for play in plays:
        if isinstance(play, Hold):
            play.let_go.set()


async def paused_and_gone_on(here: World, task: str, plays: list[Play]) -> None:
    """Paused while it asks; on the way out it cleans up."""
    await here.reached(task, TaskStatus.WAITING)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await retried(here, task, plays)


async def paused_amid(here: World, task: str, plays: list[Play]) -> None:
    await begun(here, task, plays, amid=True)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")


async def lost_and_cancelled(here: World, task: str, plays: list[Play]) -> None:
    """Its emulator is lost, nobody hears of the try any more, and the task is cancelled meanwhile."""
    await begun(here, task, plays, amid=True)
    home = (await here.view(task)).emulator
    await here.sees(home, Health.DOWN)
    await here.reached(task, TaskStatus.QUEUED)
    await here.control(task, "cancel")
    await here.ended(task)
    await here.sees(home, Health.GOOD)
    await here.again(task)
    release(plays)


class End(NamedTuple):
    plays: tuple[Callable[[], Play], ...]
    drive: Drive
    retries: int = 0


def once(play: Play) -> Callable[[], Play]:
    return lambda: play


ENDS: dict[str, End] = {
    "fails": End((once(writes_and_fails(FinalError("x"))),), retried),
    "fails, policy": End((once(writes_and_fails(ScreenNotReachedError("x"))),), alone, 1),
    "a failure of unknown make": End((once(is_unknown_to_us),), retried),
    "a bug outside the stage": End((once(meets_a_bug),), retried),
    "a result that cannot be read": End((once(says_nonsense), once(fatal)), retried),
    "emulator trouble, then fatal": End((once(writes_and_fails(EmulatorLostError("x"))), once(fatal)), retried),
    "asks, policy": End((once(acts_and_asks()), once(not_reached)), answered(), 1),
    "asks without the emulator, policy": End((once(acts_and_asks(keep=False)), once(not_reached)), answered(), 1),
    "asks, then fatal": End((once(acts_and_asks()), once(fatal)), answered(retried)),
    "asks, nobody answers": End((once(acts_and_asks(within_s=0.3)),), retried),
    "asks without the emulator, nobody answers": End((once(acts_and_asks(keep=False, within_s=0.3)),), retried),
    "asks, cancelled": End((once(acts_and_asks()),), controlled("cancel", amid=False)),
    "asks, cancelled by force": End((once(acts_and_asks()),), controlled("cancel", amid=False, force=True)),
    "asks, terminated": End((once(acts_and_asks()),), terminated(amid=False)),
    "asks without the emulator, terminated": End((once(acts_and_asks(keep=False)),), terminated(amid=False)),
    "asks, paused, fatal": End((once(acts_and_asks()), once(completes), once(fatal)), paused_and_gone_on),
    "cancelled by force": End((Writes,), controlled("cancel", amid=True, force=True)),
    "cancelled by force, deaf": End((Deaf,), controlled("cancel", amid=True, force=True)),
    "cancelled, tells nothing": End((EndsAsCancelled,), controlled("cancel", amid=True)),
    "paused, tells nothing": End((EndsAsCancelled,), paused_amid),
    "terminated": End((Hold,), terminated(amid=True)),
    "its emulator lost, cancelled": End((Deaf,), lost_and_cancelled),
}


@pytest.mark.parametrize("name", ENDS)
async def test_whoever_tries_it_again_knows_that_it_may_have_acted(
    here: World, task: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    end = ENDS[name]
    if end.drive is lost_and_cancelled:
        monkeypatch.setattr(here.planner, "timing", IMPATIENT_TASKS)
    plays = [make() for make in end.plays]
    policy = {"policy": {"retries": end.retries, "backoff_s": 0}}
    await here.submit(task, *plays, completes, completes, params={"stages": [COLLECT], **policy})
    await end.drive(here, task, plays)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    tries = [work for work in here.stages.of(task) if work.stage is not None]
    assert tries[-1].wrote_under > 0
    assert tries[-1].wrote_under in {work.lease for work in tries}
