"""Pause, resume and cancel: what they do, what is refused, who wins."""

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from droidherd.contracts import names
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.contracts.tasks import Rollback, TaskView
from droidherd.domain.errors import BadParametersError, FencedError, ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Deaf, Hold, again_in, completes, fails, meets_locked_record
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWO = {"stages": [{"name": "open", "effect": "account"}, {"name": "leave"}]}


async def refused(world: World, task_id: str, action: str) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await world.control(task_id, action)
    assert isinstance(raised.value.cause, ApplicationError)
    assert names.ILLEGAL_TRANSITION == raised.value.cause.type
    return raised.value.cause.message


async def running(world: World, task_id: str) -> Deaf:
    """In its first stage of two, which does not listen."""
    deaf = Deaf()
    await world.submit(task_id, deaf, params=TWO)
    await deaf.began.wait()
    return deaf


async def test_what_is_not_possible_is_refused_with_the_present_state(here: World, task: str):
    deaf = await running(here, task)
    expected = "resume is not possible while running; possible now: cancel, pause, rollback"
    assert expected == await refused(here, task, "resume")
    await here.control(task, "cancel")
    expected = "pause is not possible while running with cancel asked for; possible now: cancel, rollback"
    assert expected == await refused(here, task, "pause")
    deaf.let_go.set()
    await here.ended(task)


async def test_what_was_asked_of_a_task_that_fails_just_then_is_not_asked_for_ever(here: World, task: str):
    deaf = Deaf(end=fails(BadParametersError("never any good")))
    await here.submit(task, deaf)
    await deaf.began.wait()
    assert "cancel" == (await here.control(task, "cancel")).intent
    deaf.let_go.set()
    view = await here.ended(task)
    assert (TaskStatus.FAILED, "") == (view.state, view.intent)


async def test_who_waits_for_a_key_to_be_planned_hears_what_is_asked(here: World, task: str):
    await here.submit(task, params={"locked": True})
    await here.waits_for_key(task)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await here.waits_for_key(task)
    await here.control(task, "cancel", force=True)
    assert TaskStatus.CANCELLED is (await here.ended(task)).state


async def test_who_waits_for_a_key_to_be_planned_has_nothing_to_take_back(here: World, task: str):
    await here.submit(task, params={"locked": True})
    await here.waits_for_key(task)
    await here.control(task, "rollback")
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state


async def test_a_stage_whose_worker_lacks_a_key_frees_its_emulator_and_waits(here: World, task: str):
    await here.submit(task, meets_locked_record, completes)
    view = await here.waits_for_key(task)
    assert ("", 1, ["lost"]) == (view.emulator, view.attempt, [one.outcome for one in view.attempts])
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    assert 1 == len(here.stages.of(task))
    await here.control(task, "resume")
    assert (TaskStatus.COMPLETED, 1) == ((view := await here.ended(task)).state, view.attempt)


async def test_a_stage_that_waits_for_a_key_is_cancelled_at_once(here: World, task: str):
    await here.submit(task, meets_locked_record)
    await here.waits_for_key(task)
    await here.control(task, "cancel")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state
    assert 1 == len(here.stages.of(task))


async def test_two_cancels_both_succeed_and_leave_one_line(here: World, task: str):
    deaf = await running(here, task)
    for actor in ("anna", "ben"):
        view = await here.control(task, "cancel", actor=actor)
        assert ("cancel", TaskStatus.RUNNING) == (view.intent, view.state)
    deaf.let_go.set()
    view = await here.ended(task)
    cancelled = [line for line in view.events if line.event == "cancelled"]
    assert ["anna"] == [line.actor for line in cancelled]


async def test_a_task_that_waits_for_its_next_round_can_be_cancelled_there(here: World, task: str):
    await here.submit(task, again_in(timedelta(hours=6)))
    view = await here.reached(task, TaskStatus.PENDING)
    while view.rounds == 0:
        view = await here.reached(task, TaskStatus.PENDING)
    assert view.why.startswith("not before ")
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, 1) == (view.state, len(view.attempts))


@pytest.mark.parametrize("order", [("pause", "cancel"), ("cancel", "pause")])
async def test_cancel_wins_over_pause_in_either_order(here: World, task: str, order: tuple[str, str]):
    deaf = await running(here, task)
    for signal in order:
        await here.ask(task, signal)
    deaf.let_go.set()
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, []) == (view.state, [line for line in view.events if line.event == "paused"])


async def test_a_pause_taken_back_in_time_leaves_no_trace(here: World, task: str):
    deaf = await running(here, task)
    assert "pause" == (await here.control(task, "pause")).intent
    assert "" == (await here.control(task, "resume")).intent
    deaf.let_go.set()
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, len(view.attempts))
    assert ["created", "admitted", "granted", "completed"] == [line.event for line in view.events]


async def test_a_pause_frees_the_emulator_and_completed_stages_are_not_repeated(here: World, task: str):
    deaf = await running(here, task)
    await here.control(task, "pause", reason="lunch")
    deaf.let_go.set()
    view = await here.reached(task, TaskStatus.PAUSED)
    assert ("", "paused by anna: lunch") == (view.emulator, view.why)
    await here.idle()
    await here.control(task, "resume")
    view = await here.ended(task)
    ran = [(work.stage.name if work.stage else "cleanup", work.last) for work in here.stages.of(task)]
    assert [("open", False), ("cleanup", True), ("leave", True)] == ran
    assert ["paused", "completed"] == [one.outcome for one in view.attempts]
    assert [1, 1] == [one.n for one in view.attempts]


@pytest.mark.parametrize("between", [True, False])
async def test_a_pause_taken_back_after_it_has_stopped_is_shown_as_it_was(here: World, task: str, between: bool):
    """Between two stages while it cleans up, or in a stage that has stopped and says so late."""
    stopped = StageReport(outcome=StageOutcome.STOPPED, worker="w1", released=True)

    async def says_late(work: StageWork) -> StageReport:
        return stopped

    first, leaves = Deaf(), Deaf() if between else Deaf(end=says_late)
    await here.submit(task, *([first, leaves] if between else [leaves]), params=TWO if between else {})
    await (first if between else leaves).began.wait()
    await here.control(task, "pause")
    if between:
        first.let_go.set()
        await leaves.began.wait()
    await here.control(task, "resume")
    leaves.let_go.set()
    view = await here.ended(task)
    assert ["paused", "completed"] == [one.outcome for one in view.attempts]
    assert ["resumed at once"] == [line.reason for line in view.events if line.event == "lease_lost"]


async def test_a_stage_that_listens_stops_at_once_and_runs_again_after_the_resume(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 2) == (view.state, len(here.stages.of(task)))


async def test_a_resumed_task_draws_a_new_ticket(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    for name in (task, f"{task}-b"):
        await here.submit(name)
        await here.reached(name, TaskStatus.QUEUED)
    assert [task, f"{task}-b"] == [row.task_id for row in (await here.queue()).queue]
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await here.reached(task, TaskStatus.QUEUED)
    assert [f"{task}-b", task] == [row.task_id for row in (await here.queue()).queue]
    await here.order("resume_lane", actor="anna")
    for name in (task, f"{task}-b"):
        await here.ended(name)


async def test_a_task_that_waits_for_its_time_can_be_paused_and_cancelled(here: World, task: str):
    moment = datetime.now(UTC) + timedelta(days=1)
    await here.submit(task, not_before=moment)
    assert TaskStatus.PENDING is (await here.admission(task)).state
    assert f"not before {moment:%Y-%m-%d %H:%M:%S} UTC" == (await here.view(task)).why
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (["created", "paused", "cancelled"], ()) == ([line.event for line in view.events], view.attempts)


async def test_a_task_paused_between_attempts_waits_for_the_next_when_resumed(here: World, task: str):
    missed = fails(ScreenNotReachedError("no"))
    await here.submit(task, missed, params={"policy": {"retries": 1, "backoff_s": 3600}})
    await here.reached(task, TaskStatus.RETRY_PENDING)
    await here.control(task, "pause")
    paused = await here.reached(task, TaskStatus.PAUSED)
    resumed = await here.control(task, "resume")
    over = next(line.at for line in paused.events if line.event == "retry") + timedelta(hours=1)
    assert (TaskStatus.PENDING, "", over) == (resumed.state, resumed.why, resumed.not_before)
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, 2, [1]) == (view.state, view.attempt, [one.n for one in view.attempts])


async def test_priority_outlives_a_pause_and_a_lost_memory_and_is_audited(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    for name in (f"{task}-a", task):
        await here.submit(name, priority=6)
        await here.reached(name, TaskStatus.QUEUED)
    await here.order("prioritize", task_id=task, priority=3, actor="anna")

    async def has_priority() -> bool | None:
        return (await here.view(task)).priority == 3 or None

    await until(has_priority, "the task to hear of it")
    written = await (await here.task(task).describe()).memo_value(names.MEMO_TASK, type_hint=TaskView)
    assert (3, True) == (written.priority, written.prioritized > 0)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await here.reached(task, TaskStatus.QUEUED)
    assert [(task, 3), (f"{task}-a", 6)] == [(row.task_id, row.priority) for row in (await here.queue()).queue]
    await here.order("resume_lane", actor="anna")
    await here.ended(f"{task}-a")
    await here.ended(task)
    await here.again(task, Rollback())
    taken_back = await here.ended(task)
    assert (3, written.prioritized) == (taken_back.priority, taken_back.prioritized)


async def test_priority_outlives_a_grant_by_a_dispatcher_that_knew_nothing_of_it(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await here.submit(task, fails(FencedError("another lease holds it"), clean=False), completes)
    await here.reached(task, TaskStatus.QUEUED)
    await here.order("prioritize", task_id=task, priority=1, actor="anna")
    await here.is_prioritized(task)
    await here.is_granted(task, "e1")
    await here.tried(task, 1)
    await here.reached(task, TaskStatus.QUEUED)
    await here.is_prioritized(task)
    await here.order("resume_lane", actor="anna")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1, True) == (view.state, view.priority, view.prioritized > 0)


async def test_priority_of_an_earlier_request_is_sent_with_the_present_one(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await here.submit(task)
    await here.reached(task, TaskStatus.QUEUED)
    await here.is_preferred(task)
    await here.is_prioritized(task)
    await here.order("resume_lane", actor="anna")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1, 9) == (view.state, view.priority, view.prioritized)


async def test_a_task_cancelled_between_two_attempts_had_one(here: World, task: str):
    policy = {"retries": 1, "backoff_s": 3600}
    await here.submit(task, fails(ScreenNotReachedError("no")), params={"policy": policy})
    view = await here.reached(task, TaskStatus.RETRY_PENDING)
    assert "attempt 2 in 3600 s" == view.why
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, 1, 1) == (view.state, view.attempt, len(view.attempts))


async def test_an_account_is_free_while_its_task_is_paused(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold, account=task)
    await hold.began.wait()
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.submit(f"{task}-b", account=task)
    assert TaskStatus.COMPLETED is (await here.ended(f"{task}-b")).state
    await here.control(task, "cancel")
    await here.ended(task)
