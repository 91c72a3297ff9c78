"""A task goes back to the emulator on which its stages completed, and says so where it cannot."""

import pytest
from temporalio.client import Client

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Deaf, Hold, completes, fails
from tests.workflows.timing import TASK_TIMING
from tests.workflows.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")
TWO = {"stages": [{"name": "first"}, {"name": "second"}]}
not_reached = fails(ScreenNotReachedError("home did not appear"))


def stages_of(here: World, task: str) -> list[tuple[str, str]]:
    """Each try: stage and emulator."""
    return [(work.stage.name, work.emulator_id) for work in here.stages.of(task) if work.stage]


async def pauses_after_its_first_stage(here: World, task: str) -> str:
    """And somebody else has its emulator then. Returns that emulator."""
    hold = Hold()
    await here.submit(task, completes, hold, params=TWO)
    await hold.began.wait()
    home = (await here.view(task)).emulator
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    return home


async def test_a_resumed_task_waits_for_the_emulator_of_its_stages(here: World, task: str):
    home = await pauses_after_its_first_stage(here, task)
    busy = Hold()
    await here.submit(f"{task}-other", busy, emulator=home)
    await busy.began.wait()
    await here.control(task, "resume")
    await here.reached(task, TaskStatus.QUEUED)
    busy.let_go.set()
    view = await here.ended(task)
    assert TaskStatus.COMPLETED == view.state
    assert [("first", home), ("second", home), ("second", home)] == stages_of(here, task)
    assert [] == [line for line in view.events if line.event == "stages_repeated"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_task_goes_elsewhere_at_once_when_the_emulator_of_its_stages_dies(
    here: World, task: str, *, waits: bool
):
    """In line when it dies, or coming there afterwards."""
    home = await pauses_after_its_first_stage(here, task)
    busy = Deaf()
    await here.submit(f"{task}-other", busy, type_=f"{task}-lasts", emulator=home)  # nobody is on deck behind it
    await busy.began.wait()
    if waits:
        await here.control(task, "resume")
        await here.reached(task, TaskStatus.QUEUED)
    await here.sees(home, Health.DOWN)
    await here.emulator_is(home, "down")
    if not waits:
        await here.control(task, "resume")
    view = await here.ended(task)
    busy.let_go.set()
    (other,) = {"e1", "e2"} - {home}
    assert [("first", home), ("second", home), ("first", other), ("second", other)] == stages_of(here, task)
    (line,) = [line for line in view.events if line.event == "stages_repeated"]
    assert f"first run again, second begins anew on {other}: {home} is down (answers no probe)" == line.reason
    await here.sees(home, Health.GOOD)
    await here.emulator_is(home, "up")
    await here.ended(f"{task}-other")


async def test_a_task_tried_again_by_hand_does_not_repeat_what_completed(here: World, task: str):
    await here.submit(task, completes, not_reached, params=TWO)
    assert TaskStatus.FAILED == (await here.ended(task)).state
    await here.again(task)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, None) == (view.state, view.error)
    assert ["first", "second", "second"] == [name for name, _ in stages_of(here, task)]
    assert 1 == len({emulator for _, emulator in stages_of(here, task)})


async def test_a_task_that_waited_long_enough_says_which_stages_run_again(client: Client):
    async with world(client, "e1", "e2", timing=TASK_TIMING.model_copy(update={"home_wait_s": 0.5})) as here:
        home = await pauses_after_its_first_stage(here, "task")
        busy = Hold()
        await here.submit("other", busy, emulator=home)
        await busy.began.wait()
        await here.control("task", "resume")
        view = await here.ended("task")
        busy.let_go.set()
        assert TaskStatus.COMPLETED == view.state
        (line,) = [line for line in view.events if line.event == "stages_repeated"]
        assert f"{home} was not free within 0.5 s" in line.reason
        assert line.reason.startswith("first run again")
