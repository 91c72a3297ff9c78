"""What lies hours and days ahead of a task."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio import activity

from droidherd.contracts import names
from droidherd.contracts.queue import OperatorCommand
from droidherd.contracts.stage import StageReport, StageWork
from droidherd.contracts.tasks import TaskView
from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.testing.answers import again_in, asks, completes, fails
from droidherd.testing.skipping import Herd, StandIn, skipped_time
from tests.handlers.test_registry import Greet
from tests.testing.conftest import SharedHerd

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOMENT = timedelta(minutes=1)
"""What messages may take, by a clock that runs on while they travel."""


@pytest_asyncio.fixture(loop_scope="module")
async def e1(shared: SharedHerd) -> StandIn:
    return await shared.emulator("e1")


def at(view: TaskView, event: str) -> datetime:
    return next(line.at for line in view.events if line.event == event)


def starts(view: TaskView) -> list[datetime]:
    return [one.started for one in view.attempts if one.started]


async def test_a_task_starts_at_its_time_and_not_before(herd: Herd, e1: StandIn):
    moment = await herd.now() + timedelta(days=30)
    task = await herd.submit("check", not_before=moment)
    await herd.skip(timedelta(days=29, hours=23))
    assert (TaskStatus.PENDING, ()) == ((await task.view()).state, (await task.view()).attempts)
    view = await task.result()
    assert TaskStatus.COMPLETED == view.state
    assert moment <= starts(view)[0] < moment + MOMENT


async def test_a_task_that_reschedules_itself_runs_days_later_at_the_time_it_named(herd: Herd, e1: StandIn):
    wanted: list[datetime] = []

    async def in_three_days(work: StageWork) -> StageReport:
        wanted.append(activity.info().started_time + timedelta(days=3))
        return await again_in(timedelta(days=3))(work)

    e1.answers = [in_three_days, fails(ScreenNotReachedError("not there")), in_three_days]
    task = await herd.submit("check")
    view = await task.result()
    first, retried, last = starts(view)[1:]
    assert wanted[0] <= first < wanted[0] + MOMENT
    assert timedelta(seconds=5) <= retried - first < MOMENT
    assert wanted[1] <= last < wanted[1] + MOMENT
    assert (TaskStatus.COMPLETED, 2, [1, 2, 3, 4]) == (view.state, view.rounds, [one.n for one in view.attempts])
    assert [timedelta(seconds=5)] == await task.delays()


PATIENCE = [(False, timedelta(days=2)), (True, timedelta(minutes=20))]
"""Whether the emulator is kept meanwhile, and for how long: a lease is looked at every five seconds."""


@pytest.mark.parametrize(("keep", "patience"), PATIENCE)
async def test_a_person_who_does_not_answer_in_time_ends_the_task(
    herd: Herd, e1: StandIn, keep: bool, patience: timedelta
):
    e1.answers = [asks(keep=keep, within_s=patience.total_seconds())]
    view = await (await herd.submit("check")).result()
    waited = at(view, "failed") - at(view, "person_asked")
    assert (TaskStatus.FAILED, "NobodyAnsweredError") == (view.state, view.error and view.error.kind)
    assert patience <= waited < patience + MOMENT


@pytest.mark.parametrize(("keep", "patience"), PATIENCE)
async def test_a_person_may_answer_until_the_end(herd: Herd, e1: StandIn, keep: bool, patience: timedelta):
    e1.answers = [asks(keep=keep, within_s=patience.total_seconds()), completes]
    task = await herd.submit("check")
    await task.reached(TaskStatus.WAITING)
    await herd.skip(patience - 2 * MOMENT)
    assert TaskStatus.WAITING == (await task.view()).state
    await task.control("answer", choice="yes")
    view = await task.result()
    assert (TaskStatus.COMPLETED, {"3": "yes"}) == (view.state, e1.seen[-1].answers)


async def test_a_start_that_makes_no_sense_any_more_is_given_up_at_its_time(herd: Herd, e1: StandIn):
    expires = await herd.now() + timedelta(days=2)
    dispatcher = herd.client.get_workflow_handle(names.dispatcher_id("default"))
    await dispatcher.execute_update(names.Update.PAUSE_LANE, OperatorCommand(lane="anonymous"))
    view = await (await herd.submit("check", expires_at=expires)).result()
    await dispatcher.execute_update(names.Update.RESUME_LANE, OperatorCommand(lane="anonymous"))
    assert (TaskStatus.FAILED, ()) == (view.state, view.attempts)
    assert expires <= at(view, "failed") < expires + MOMENT


async def test_a_pause_of_a_week_costs_nothing(herd: Herd, e1: StandIn):
    e1.answers = [fails(ScreenNotReachedError("not there")), completes]
    task = await herd.submit("scan")
    await task.reached(TaskStatus.RETRY_PENDING)
    await task.control("pause")
    await herd.skip(timedelta(days=7))
    assert TaskStatus.PAUSED == (await task.view()).state
    await task.control("resume")
    view = await task.result()
    assert (TaskStatus.COMPLETED, 2) == (view.state, view.attempt)


async def test_a_bound_account_runs_on_its_emulator_and_waits_while_it_is_disabled(herd: Herd, e1: StandIn):
    e2 = await herd.emulator("e2")
    await herd.account("ann", emulator="e2", disabled="on holiday")
    task = await herd.submit("check", account="ann")
    assert "account ann is disabled by somebody: on holiday" == (await task.reached(TaskStatus.QUEUED)).why
    await herd.account("ann", emulator="e2")
    view = await task.result()
    assert (TaskStatus.COMPLETED, ["e2"]) == (view.state, [one.emulator for one in view.attempts])
    assert [task.handle.id] == [work.task_id for work in e2.seen]


TYPES_A_PIN = """
flow: unlock
app: com.example.herd
stages: [{stage: enter, steps: [{start_app: {}}, {type: {text: {secret: pin}}}]}]
"""


async def test_a_flow_types_only_what_the_record_of_its_account_names(tmp_path: Path):
    (tmp_path / "unlock").mkdir()
    (tmp_path / "unlock" / "flow.yaml").write_text(TYPES_A_PIN)
    async with skipped_time([tmp_path]) as herd:
        await herd.emulator("e1")
        await herd.account("ben", credentials={"password": "env:BEN_PASSWORD"})
        refused = await (await herd.submit("unlock", account="ben")).result()
        assert (TaskStatus.FAILED, True) == (refused.state, "has no credential pin" in str(refused.error))
        await herd.account("ben", credentials={"pin": "env:BEN_PIN"})
        assert TaskStatus.COMPLETED == (await (await herd.submit("unlock", account="ben")).result()).state


async def test_a_retry_that_is_paused_and_resumed_keeps_what_is_left_of_its_delay(herd: Herd, e1: StandIn):
    e1.answers = [fails(ScreenNotReachedError("not there")), completes]
    task = await herd.submit("scan", policy={"backoff_s": 600})
    failed = await task.reached(TaskStatus.RETRY_PENDING)
    await task.control("pause")
    await task.reached(TaskStatus.PAUSED)
    await herd.skip(timedelta(seconds=200))
    resumed = await task.control("resume")
    assert (TaskStatus.PENDING, "") == (resumed.state, resumed.why)
    view = await task.result()
    assert timedelta(seconds=600) <= starts(view)[1] - at(failed, "retry") < timedelta(seconds=600) + MOMENT


async def test_a_task_may_call_a_handler_that_no_package_offers(tmp_path: Path):
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "flow.yaml").write_text(
        "flow: hello\nstages: [{stage: greet, steps: [{call: {by: greet, with: {who: ann}}}]}]\n"
    )
    async with skipped_time([tmp_path], handlers=[Greet()]) as own:
        emulator = await own.emulator("e1")
        assert TaskStatus.COMPLETED == (await (await own.submit("hello")).result()).state
    stage = emulator.captures[0].stage
    assert ["global/from_handler"] == [change.name for change in (stage.changes if stage else ())]
