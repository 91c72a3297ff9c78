"""What befalls a task on its emulator, and what it does then."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from temporalio import activity

from droidherd.contracts.stage import StageReport, StageWork
from droidherd.domain.errors import EmulatorLostError, FencedError, NotReleasedError
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import AwaitsTurn, Deaf, Hold, Play, Silent, completes, fails
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

lost = fails(EmulatorLostError("does not answer"), clean=False)
fenced = fails(FencedError("another lease holds it"), clean=False)
ACCOUNT_ONLY = {"stages": [{"name": "collect", "effect": "account"}]}


def rank(work: StageWork) -> tuple[int, int]:
    """What decides on the emulator who outranks whom."""
    return work.lease, work.tries


async def test_infrastructure_errors_are_retried_on_the_lease_with_a_higher_token(here: World, task: str):
    await here.submit(task, lost, completes)
    view = await here.ended(task)
    first, second = here.stages.of(task)
    assert (first.lease, first.emulator_id) == (second.lease, second.emulator_id)
    assert rank(first) < rank(second)
    assert (["completed"], 1) == ([one.outcome for one in view.attempts], view.attempt)


async def test_a_task_cancelled_after_a_failed_try_cleans_up_before_it_lets_go(here: World, task: str):
    await here.submit(task, lost, lost, lost, lost, lost, lost)
    await here.tried(task, 2)
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert TaskStatus.CANCELLED is view.state
    assert here.stages.of(task)[-1].stage is None  # the cleanup that stands alone


TWO = {"stages": [{"name": "open"}, {"name": "collect"}]}


async def test_cancelled_before_its_turn_after_a_stage_that_ran_it_cleans_up(here: World, task: str):
    awaits = AwaitsTurn()
    await here.submit(task, completes, awaits, params=TWO)
    await awaits.began.wait()
    await here.control(task, "cancel")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state
    assert ["open", "collect", ""] == [work.stage.name if work.stage else "" for work in here.stages.of(task)]


async def test_cancelled_before_its_turn_with_nothing_done_nothing_is_cleaned_up(here: World, task: str):
    awaits = AwaitsTurn()
    await here.submit(task, awaits)
    await awaits.began.wait()
    await here.control(task, "cancel")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state
    assert 1 == len(here.stages.of(task))


async def test_cancelled_while_nobody_takes_its_next_stage_it_cleans_up_later(here: World, task: str):
    leaving: list[asyncio.Task[None]] = []

    async def completes_on_a_worker_that_leaves(work: StageWork) -> StageReport:
        leaving.append(asyncio.create_task(here.emulator_workers["e1"].shutdown()))
        with contextlib.suppress(asyncio.CancelledError):
            for _ in range(20):  # a worker that is told to end takes nothing new
                activity.heartbeat()
                await asyncio.sleep(0.05)
        return await completes(work)

    await here.submit(task, completes_on_a_worker_that_leaves, params=TWO, emulator="e1")
    await here.tried(task, 2)
    await asyncio.gather(*leaving)
    await here.control(task, "cancel")
    await here.tried(task, 3)
    await here.serve("e1")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state
    assert ["open", ""] == [work.stage.name if work.stage else "" for work in here.stages.of(task)]


async def test_worker_that_ends_before_its_turn_leaves_what_ran_before_to_be_reset(here: World, task: str):
    awaits = AwaitsTurn()
    await here.submit(task, completes, awaits, params=TWO)
    await awaits.began.wait()
    awaits.let_go.set()
    view = await here.ended(task)
    assert (["lost", "completed"], 1) == ([one.outcome for one in view.attempts], view.attempt)
    fences = [gate.fence for gate in here.gates.seen if gate.emulator_id == view.attempts[0].emulator]
    assert view.attempts[0].token <= max(fences)


async def test_a_started_task_goes_on_after_the_time_until_which_it_had_to_start(here: World, task: str):
    expires = datetime.now(UTC) + timedelta(seconds=4)

    async def fenced_too_late_to_start(work: StageWork) -> StageReport:
        while datetime.now(UTC) < expires:
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return await fenced(work)

    await here.submit(task, fenced_too_late_to_start, expires_at=expires)
    view = await here.ended(task)
    assert [TaskStatus.COMPLETED, "lost", "completed"] == [view.state, *(one.outcome for one in view.attempts)]


async def test_a_lost_lease_moves_the_task_and_counts_no_attempt(here: World, task: str):
    await here.submit(task, fenced, completes)
    view = await here.ended(task)
    first, second = here.stages.of(task)
    assert {"e1", "e2"} == {first.emulator_id, second.emulator_id}
    assert rank(first) < rank(second)
    assert [(1, "lost"), (1, "completed")] == [(one.n, one.outcome) for one in view.attempts]


async def test_after_a_move_only_what_lived_on_the_emulator_is_done_again(here: World, task: str):
    stages = [{"name": "open"}, {"name": "collect", "effect": "account"}, {"name": "leave"}]
    await here.submit(task, completes, completes, fenced, params={"stages": stages})
    await here.ended(task)
    ran = [work.stage.name if work.stage else "" for work in here.stages.of(task)]
    assert ["open", "collect", "leave", "open", "leave"] == ran


async def test_a_stage_that_must_not_act_twice_comes_back_to_its_emulator(here: World, task: str):
    await here.submit(task, fenced, account=task, params=ACCOUNT_ONLY)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, len({one.emulator for one in view.attempts}))


async def test_a_task_that_loses_its_emulator_too_often_fails(here: World, task: str):
    plays: list[Play] = [fenced] * 11
    await here.submit(task, *plays)
    view = await here.ended(task)
    assert (TaskStatus.FAILED, 11) == (view.state, len(view.attempts))
    assert "FencedError" == (view.error.kind if view.error else "")


async def test_a_silent_worker_costs_no_attempt(here: World, task: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(here.planner, "timing", IMPATIENT_TASKS)
    await here.submit(task, Silent(), completes)
    view = await here.ended(task)
    first, second = here.stages.of(task)
    assert (first.lease, 1) == (second.lease, view.attempt)
    assert rank(first) < rank(second)
    (line,) = [line for line in view.events if line.event == "interrupted"]
    assert line.reason.endswith("its worker fell silent; it runs again there")
    assert first.emulator_id in line.reason


async def test_an_emulator_that_goes_down_loses_its_task_to_another(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    emulator = here.stages.of(task)[0].emulator_id
    await here.sees(emulator, Health.DOWN)
    view = await here.ended(task)
    assert [(emulator, "lost"), (view.attempts[1].emulator, "completed")] == [
        (one.emulator, one.outcome) for one in view.attempts
    ]
    other = view.attempts[1].emulator
    assert emulator != other
    stage = view.stages[0].name
    reasons = {line.event: line.reason for line in view.events}
    taken = f"emulator {emulator} was taken back: down"
    assert (
        f"{stage} on {emulator} of host h1, try 1: {taken}; the task asks for an emulator again"
        == reasons["interrupted"]
    )
    assert f"{stage} begins anew on {other}: emulator {emulator} was lost" == reasons["stages_repeated"]
    await here.sees(emulator, Health.GOOD)
    await here.emulator_is(emulator, "up")


async def test_a_stage_that_completes_while_its_lease_is_wanted_back_counts(here: World, task: str):
    deaf = Deaf()
    await here.submit(task, deaf)
    await deaf.began.wait()
    emulator = here.stages.of(task)[0].emulator_id
    await here.sees(emulator, Health.DOWN)
    await here.emulator_is(emulator, "down")
    deaf.let_go.set()
    view = await here.ended(task)
    assert (["completed"], 1) == ([one.outcome for one in view.attempts], len(here.stages.of(task)))
    await here.sees(emulator, Health.GOOD)
    await here.emulator_is(emulator, "up")


async def test_a_suspect_emulator_keeps_its_task_and_gets_no_other(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    emulator = here.stages.of(task)[0].emulator_id
    for one in ("e1", "e2"):
        await here.sees(one, Health.SUSPECT)
        await here.emulator_is(one, "suspect")
    await here.submit(f"{task}-b")
    await here.reached(f"{task}-b", TaskStatus.QUEUED)
    why = (await here.view(f"{task}-b")).why
    assert why.startswith("none of the 2 emulators that could run it is up: ")
    assert "e1 is suspect" in why
    assert "e2 is suspect" in why
    hold.let_go.set()
    assert [emulator] == [one.emulator for one in (await here.ended(task)).attempts]
    for one in ("e1", "e2"):
        await here.sees(one, Health.GOOD)
    assert TaskStatus.COMPLETED is (await here.ended(f"{task}-b")).state


async def test_a_task_behind_one_that_did_not_let_go_asks_and_goes_on(here: World, task: str):
    await here.sees("e2", Health.DOWN)
    await here.emulator_is("e2", "down")
    await here.submit(f"{task}-warm", type_=task)
    await here.ended(f"{task}-warm")
    hold = Hold()
    await here.submit(f"{task}-first", hold, type_=task)
    await hold.began.wait()
    not_yet = fails(NotReleasedError("not yet"))
    await here.submit(task, not_yet, not_yet, completes, type_=task)
    await here.reached(task, TaskStatus.RUNNING)
    assert (f"{task}-first", task) == await seats(here)
    hold.let_go.set()
    view = await here.ended(task)
    ahead = here.stages.of(f"{task}-first")[0].lease
    assert [ahead, ahead, 0] == [work.after for work in here.stages.of(task)]
    assert [(1, "completed")] == [(one.n, one.outcome) for one in view.attempts]
    await here.sees("e2", Health.GOOD)
    await here.emulator_is("e2", "up")


async def seats(here: World) -> tuple[str, str]:
    view = await here.emulator_is("e1", "up")
    return view.task, view.on_deck


async def test_a_draining_emulator_gives_back_who_is_on_deck_and_keeps_who_runs(here: World, task: str):
    await here.sees("e2", Health.DOWN)
    await here.emulator_is("e2", "down")
    await here.submit(f"{task}-warm", type_=task)
    await here.ended(f"{task}-warm")
    hold = Hold()
    await here.submit(f"{task}-first", hold, type_=task)
    await hold.began.wait()
    await here.submit(task, type_=task)
    await here.reached(task, TaskStatus.RUNNING)
    await here.emulator("e1").signal("drain", {"actor": "anna"})
    await here.reached(task, TaskStatus.QUEUED)
    view = await here.emulator_is("e1", "draining")
    assert (f"{task}-first", "") == (view.task, view.on_deck)
    hold.let_go.set()
    assert TaskStatus.COMPLETED is (await here.ended(f"{task}-first")).state
    assert TaskStatus.QUEUED is (await here.view(task)).state
    await here.emulator("e1").signal("undrain", {"actor": "anna"})
    assert [1, 1] == [one.n for one in (await here.ended(task)).attempts]
    await here.sees("e2", Health.GOOD)
    await here.emulator_is("e2", "up")


async def test_an_emulator_left_dirty_is_reset_before_the_next_task(here: World, task: str):
    before = len(here.gates.seen)
    await here.submit(task, fails(FencedError("late"), clean=False), completes)
    await here.ended(task)
    await here.idle()
    dirty = here.stages.of(task)[0]
    fences = [(gate.emulator_id, gate.fence, gate.full) for gate in here.gates.seen[before:]]
    assert (dirty.emulator_id, dirty.lease, False) in fences


async def test_nobody_takes_the_stage_so_the_task_goes_elsewhere(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(here.planner, "timing", IMPATIENT_TASKS)
    worker = here.emulator_workers["e1"]
    await worker.shutdown()
    await here.submit(task, emulator="", requires=["emulator_id=e1"])
    await here.reached(task, TaskStatus.RUNNING)

    async def moved() -> bool | None:
        return True if [one.outcome for one in (await here.view(task)).attempts][:1] == ["lost"] else None

    await until(moved, "the task to lose its emulator")
    await here.serve("e1")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempts[-1].n)
