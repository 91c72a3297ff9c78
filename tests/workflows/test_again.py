"""Tasks that ended and go on: tried again, or taken back. And tasks nobody waits for."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from droidherd.contracts import names
from droidherd.contracts.names import Signal
from droidherd.contracts.tasks import Rollback, RollbackRequest
from droidherd.domain.errors import CommandFailedError, ScreenNotReachedError
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskAction, TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import IllegalStateError, TasksClient
from tests.workflows.plays import AwaitsTurn, Deaf, Hold, again_in, asks, completes, fails, meets_locked_record
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

not_reached = fails(ScreenNotReachedError("home did not appear"))


def changing(*settings: str) -> dict[str, object]:
    """Parameters of a task whose stages change one setting each."""
    return {
        "stages": [
            {"name": f"set-{name}", "changes": [{"step": "1", "thing": "setting", "name": name}]} for name in settings
        ]
    }


def arrows(events: object) -> list[str]:
    return [line.event for line in events]  # type: ignore[attr-defined]


# --- tried again --------------------------------------------------------------------------------------------------


async def test_a_failed_task_is_tried_again_under_its_id_and_shows_both_runs(here: World, task: str):
    await here.submit(task, not_reached, completes)
    first = await here.ended(task)
    await here.again(task)
    second = await here.ended(task)
    assert (TaskStatus.FAILED, TaskStatus.COMPLETED) == (first.state, second.state)
    assert [(1, "failed"), (2, "completed")] == [(one.n, one.outcome) for one in second.attempts]
    assert [first.run_id, second.run_id] == [one.run for one in second.attempts]
    assert "manual_retry" in arrows(second.events)
    assert first.events == second.events[: len(first.events)]
    assert ("anna", "once more") == next((e.actor, e.reason) for e in second.events if e.event == "manual_retry")


async def test_tried_again_it_has_all_its_retries_and_the_first_delay_again(here: World, task: str):
    policy = {"retries": 1, "backoff": "exponential", "backoff_s": 0.2}
    await here.submit(task, not_reached, not_reached, not_reached, completes, params={"policy": policy})
    assert TaskStatus.FAILED is (await here.ended(task)).state
    await here.again(task)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 4) == (view.state, view.attempt)


async def test_tried_again_what_lives_in_the_account_is_not_repeated(here: World, task: str):
    stages = [{"name": "collect", "effect": "account"}, {"name": "leave"}]
    await here.submit(task, completes, not_reached, params={"stages": stages})
    await here.ended(task)
    await here.again(task)
    await here.ended(task)
    assert ["collect", "leave", "leave"] == [work.stage.name for work in here.stages.of(task) if work.stage]


async def test_what_it_did_is_known_beyond_a_run_that_was_never_planned(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    stages = [{"name": "collect", "effect": "account"}, {"name": "leave"}]
    await here.submit(task, completes, not_reached, params={"stages": stages})
    await here.ended(task)
    with monkeypatch.context() as locked:
        locked.setattr(here.planner, "lacks_key", True)
        await here.again(task)
        await here.waits_for_key(task)
        await here.control(task, "cancel")
        await here.ended(task)
    await here.again(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    assert ["collect", "leave", "leave"] == [work.stage.name for work in here.stages.of(task) if work.stage]


async def test_a_rollback_whose_worker_lacks_a_key_can_be_cancelled(here: World, task: str):
    await here.submit(task, params=changing("a"))
    await here.ended(task)
    here.stages.back[task] = [meets_locked_record]
    await here.again(task, Rollback(actor="anna"))
    view = await here.waits_for_key(task)
    assert (TaskStatus.ROLLBACK_PENDING, "") == (view.state, view.emulator)
    await here.control(task, "cancel")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state


async def test_a_cancelled_task_can_be_tried_again(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    await here.control(task, "cancel")
    await here.ended(task)
    await here.again(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


async def refusal(here: World, task: str, given: object) -> str:
    """Of a start under the id of a task that ended, as any client may send it."""
    run = await here.client.start_workflow(names.Workflow.TASK, given, id=task, task_queue=names.QUEUE)
    with pytest.raises(WorkflowFailureError) as failed:
        await run.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert "BadParametersError" == failed.value.cause.type
    return failed.value.cause.message


def tasks_of(here: World) -> TasksClient:
    config = EngineConfig(pool=here.pool)
    return TasksClient(here.client, config, QueueClient(here.client, config))


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "state": ({}, {}, "again: retry is not possible while completed; possible now: rollback"),
    "account": ({"account": "other"}, {}, "again: the spec must be that of the task that ended; account is another"),
    "labels": ({"labels": {"a": "b"}}, {}, "again: the spec must be that of the task that ended; labels is another"),
    "type": ({"type": "other"}, {"action": "rollback"}, "type is another"),
    "unreadable": ({"typo": 1}, {}, "spec.typo is not known here"),
}


@pytest.mark.parametrize(
    "sort",
    ["state", "labels", *(pytest.param(one, marks=pytest.mark.more) for one in ("account", "type", "unreadable"))],
)
async def test_a_run_that_is_refused_leaves_the_task_as_it_ended(here: World, task: str, sort: str):
    name, (spec, again, message) = f"{task}/a", REFUSALS[sort]
    here.stages.things["e1", name] = "before"
    await here.submit(task, here.stages.sets("ours"), params=changing(name), emulator="e1")
    ended = await here.ended(task)
    past = ended.model_dump(mode="json")
    given = {"spec": {"type": "sample", "emulator": "e1", "params": changing(name), **spec}}
    assert message in await refusal(here, task, {**given, "again": {"past": past, **again}})
    assert ended == await here.view(task)
    tasks = tasks_of(here)
    read = (await tasks.audit(task)).view
    assert (TaskStatus.COMPLETED, ended.events) == (read.state, read.events)
    with pytest.raises(IllegalStateError):
        await tasks.again(task, TaskAction.RETRY, RollbackRequest(actor="anna"))
    await tasks.again(task, TaskAction.ROLLBACK, RollbackRequest(actor="anna"))
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert "before" == here.stages.things["e1", name]
    assert 1 == len(here.stages.of(task))


async def test_a_run_that_is_refused_starts_nothing_that_follows(here: World, task: str):
    chain: dict[str, Any] = {"then": [{"type": "sample"}], "critical": False}
    await here.submit(task, completes, **chain)
    await here.ended(task)
    ended = await here.view(task)
    given = {"spec": {"type": "sample", **chain}, "again": {"past": ended.model_dump(mode="json")}}
    await refusal(here, task, given)
    events = (await here.task(task).fetch_history()).events
    assert not [e for e in events if e.HasField("start_child_workflow_execution_initiated_event_attributes")]
    assert (f"{task}.2", ended) == (ended.following, await here.view(task))


# --- nobody waits -------------------------------------------------------------------------------------------------


async def test_a_forced_cancel_waits_for_nothing_and_fences_before_freeing_account(here: World, task: str):
    deaf = Deaf()
    await here.submit(task, deaf, account=task)
    await deaf.began.wait()
    await here.control(task, "cancel")
    await here.control(task, "cancel", force=True)
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, False) == (view.state, deaf.let_go.is_set())
    token, where = view.attempts[0].token, view.attempts[0].emulator
    await here.submit(f"{task}-next", completes, account=task)
    await here.ended(f"{task}-next")
    assert token <= max(gate.fence for gate in here.gates.seen if gate.emulator_id == where)
    deaf.let_go.set()


async def test_forced_while_it_waits_in_line_it_is_cancelled_like_any_other(here: World, task: str):
    await here.order("pause_lane", lane="anonymous", actor="anna", reason="test")
    await here.submit(task)
    await here.reached(task, TaskStatus.QUEUED)
    await here.control(task, "cancel", force=True)
    await here.order("resume_lane", lane="anonymous", actor="anna")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, ()) == (view.state, view.attempts)


# --- taken back ---------------------------------------------------------------------------------------------------


async def test_a_completed_task_is_taken_back_change_by_change_the_last_one_first(here: World, task: str):
    sets = here.stages.sets
    await here.submit(task, sets("1"), sets("2"), params=changing(f"{task}/a", f"{task}/b"))
    where = (await here.ended(task)).attempts[0].emulator
    assert ("1", "2") == (here.stages.things[where, f"{task}/a"], here.stages.things[where, f"{task}/b"])
    await here.again(task, Rollback())
    view = await here.ended(task)
    assert TaskStatus.ROLLBACK_COMPLETED is view.state
    assert ("", "") == (here.stages.things[where, f"{task}/a"], here.stages.things[where, f"{task}/b"])
    mine = [work for work in here.stages.undos if work.task_id == task]
    assert [f"set-{task}/b", f"set-{task}/a"] == [work.undo.stage for work in mine]
    assert [(where, False), (where, True)] == [(work.emulator_id, work.last) for work in mine]
    assert ["rollback_asked", "rollback_started", "rollback_done"] == arrows(view.events)[-3:]
    assert all(entry.undone for entry in view.undo)


async def test_values_are_captured_by_an_activity_of_its_own_before_first_change(here: World, task: str):
    name = f"{task}/a"
    here.stages.things["e1", name] = "before"
    await here.submit(task, here.stages.sets("after"), params=changing(name), emulator="e1")
    view = await here.ended(task)
    assert [("before", "after")] == [(one.before[0].value, one.after[0].value) for one in view.undo]
    history = await here.task(task).fetch_history()
    scheduled = [e.activity_task_scheduled_event_attributes.activity_type.name for e in history.events]
    assert ["capture_before", "run_stage"] == [name for name in scheduled if name in ("capture_before", "run_stage")]


async def test_a_retried_stage_keeps_the_values_from_before_its_first_try(here: World, task: str):
    name = f"{task}/a"
    here.stages.things["e1", name] = "before"
    broken = here.stages.sets("half", not_reached)
    await here.submit(
        task,
        broken,
        here.stages.sets("after"),
        params={**changing(name), "policy": {"retries": 1, "backoff_s": 0}},
        emulator="e1",
    )
    view = await here.ended(task)
    assert ["before"] == [one.before[0].value for one in view.undo]
    assert 1 == len([work for work in here.stages.captures if work.task_id == task])


async def test_foreign_changes_stop_the_rollback_and_force_restores_all_the_same(here: World, task: str):
    name = f"{task}/a"
    await here.submit(task, here.stages.sets("ours"), params=changing(name), emulator="e1")
    await here.ended(task)
    here.stages.things["e1", name] = "theirs"
    await here.again(task, Rollback())
    broke = await here.ended(task)
    assert TaskStatus.ROLLBACK_FAILED is broke.state
    assert broke.error is not None
    assert f"stage set-{name}, step 1: setting {name} on e1 is theirs" in broke.error.message
    assert "theirs" == here.stages.things["e1", name]
    await here.again(task, Rollback(force=True))
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert "" == here.stages.things["e1", name]


@pytest.mark.parametrize("force", [True, False])
async def test_a_rollback_that_is_asked_by_a_signal_is_forced_if_it_says_so(here: World, task: str, force: bool):
    first, second, hold = f"{task}/a", f"{task}/b", Hold()
    await here.submit(task, here.stages.sets("ours"), hold, params=changing(first, second), emulator="e1")
    await hold.began.wait()
    here.stages.things["e1", first] = "theirs"
    await here.task(task).signal(Signal.ROLLBACK, RollbackRequest(actor="anna", force=force))
    view = await here.ended(task)
    ends = (TaskStatus.ROLLBACK_COMPLETED, "") if force else (TaskStatus.ROLLBACK_FAILED, "theirs")
    assert ends == (view.state, here.stages.things["e1", first])


async def test_an_undo_gets_the_stage_that_changed_things_under_the_same_flow(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    name = f"{task}/a"
    here.stages.back[task] = [fails(CommandFailedError("no", rc=1))]
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    lease = (await here.ended(task)).attempts[0].token
    await here.again(task, Rollback())
    await here.ended(task)
    monkeypatch.setattr(here.planner, "flow_hash", "another")
    await here.again(task, Rollback())
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    undos = [work for work in here.stages.undos if work.task_id == task]
    assert [f"set-{name}", ""] == [work.stage.name if work.stage else "" for work in undos]
    assert [(lease, "0123")] * 2 == [(work.undo.lease, work.undo.flow_hash) for work in undos]


async def test_a_failed_rollback_names_stage_and_goes_on_there_when_asked_again(here: World, task: str):
    first, second = f"{task}/a", f"{task}/b"
    sets = here.stages.sets
    here.stages.back[task] = [completes, fails(CommandFailedError("step 1: no", rc=1))]
    await here.submit(task, sets("1"), sets("2"), params=changing(first, second), emulator="e1")
    await here.ended(task)
    await here.again(task, Rollback())
    broke = await here.ended(task)
    assert TaskStatus.ROLLBACK_FAILED is broke.state
    assert broke.error is not None
    assert f"undo of stage set-{first} on e1: step 1: no" == broke.error.message
    assert ("1", "") == (here.stages.things["e1", first], here.stages.things["e1", second])
    await here.again(task, Rollback())
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    undone_stages = [work.undo.stage for work in here.stages.undos if work.task_id == task]
    assert [f"set-{second}", f"set-{first}", f"set-{first}"] == undone_stages


async def test_a_rollback_asks_nobody(here: World, task: str):
    name = f"{task}/a"
    here.stages.back[task] = [asks()]
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    await here.ended(task)
    await here.again(task, Rollback())
    view = await here.ended(task)
    assert (TaskStatus.ROLLBACK_FAILED, None) == (view.state, view.question)
    assert view.error is not None
    assert f"undo of stage set-{name} on e1: did it pay?" == view.error.message


async def test_a_capture_whose_turn_never_came_kept_nothing_and_is_run_anew(here: World, task: str):
    name, awaits = f"{task}/a", AwaitsTurn()
    here.stages.before[task] = [awaits]
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    await awaits.began.wait()
    await here.control(task, "pause")
    paused = await here.reached(task, TaskStatus.PAUSED)
    assert () == paused.undo
    await here.control(task, "resume")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, len(view.undo))
    assert 2 == len([work for work in here.stages.captures if work.task_id == task])


async def test_an_undo_whose_turn_never_came_took_nothing_back_and_is_run_anew(here: World, task: str):
    name, awaits = f"{task}/a", AwaitsTurn()
    here.stages.back[task] = [awaits]
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    await here.ended(task)
    await here.again(task, Rollback())
    await awaits.began.wait()
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, False) == (view.state, view.undo[0].undone)
    await here.again(task, Rollback())
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert "" == here.stages.things["e1", name]


async def test_a_task_that_runs_is_stopped_and_taken_back_in_the_same_breath(here: World, task: str):
    hold = Hold()
    await here.submit(
        task,
        here.stages.sets("1"),
        here.stages.sets("2", hold),
        params=changing(f"{task}/a", f"{task}/b"),
        emulator="e1",
    )
    await hold.began.wait()
    await here.control(task, "rollback", reason="wrong config")
    view = await here.ended(task)
    assert TaskStatus.ROLLBACK_COMPLETED is view.state
    assert ["cancelled", "rollback_asked", "rollback_started", "rollback_done"] == arrows(view.events)[-4:]
    assert ("", "") == (here.stages.things["e1", f"{task}/a"], here.stages.things["e1", f"{task}/b"])


async def test_a_task_that_fails_is_taken_back_when_its_submitter_asked_for_it(here: World, task: str):
    name = f"{task}/a"
    await here.submit(
        task, here.stages.sets("half", not_reached), params=changing(name), emulator="e1", on_failure="rollback"
    )
    view = await here.ended(task)
    assert (TaskStatus.ROLLBACK_COMPLETED, "policy") == (view.state, view.events[-3].actor)


async def test_a_task_that_failed_before_it_changed_anything_stays_failed(here: World, task: str):
    await here.submit(task, not_reached, on_failure="rollback")
    assert TaskStatus.FAILED is (await here.ended(task)).state


async def test_a_task_that_changed_nothing_is_taken_back_without_an_emulator(here: World, task: str):
    await here.submit(task, completes)
    attempts = len((await here.ended(task)).attempts)
    await here.again(task, Rollback())
    view = await here.ended(task)
    assert (TaskStatus.ROLLBACK_COMPLETED, attempts) == (view.state, len(view.attempts))


async def test_what_was_changed_on_two_emulators_is_taken_back_on_both(here: World, task: str):
    from tests.workflows.test_stays import fenced

    name = f"{task}/a"
    stages = [*changing(name)["stages"], {"name": "look"}]  # type: ignore[misc]
    sets = here.stages.sets
    await here.submit(task, sets("1"), fenced, sets("1"), completes, params={"stages": stages})
    view = await here.ended(task)
    assert {"e1", "e2"} == {one.emulator for one in view.undo}
    await here.again(task, Rollback())
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert ["", ""] == [here.stages.things[one, name] for one in ("e1", "e2")]


async def test_a_rollback_can_be_cancelled_while_it_waits_and_asked_for_again(here: World, task: str):
    name = f"{task}/a"
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    await here.ended(task)
    await here.order("pause_lane", lane="anonymous", actor="anna", reason="test")
    await here.again(task, Rollback())
    await here.reached(task, TaskStatus.ROLLBACK_PENDING)
    paused = "lane anonymous is paused by anna: test"

    async def in_lists() -> bool | None:
        memo = await (await here.task(task).describe()).memo()
        return paused == memo["task"].get("why") or None

    await until(in_lists, "lists to say why it waits")
    assert paused == (await here.view(task)).why
    await here.control(task, "cancel")
    assert TaskStatus.CANCELLED is (await here.ended(task)).state
    await here.order("resume_lane", lane="anonymous", actor="anna")
    await here.again(task, Rollback())
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert "" == here.stages.things["e1", name]


async def test_what_a_cancelled_rollback_took_back_is_done_again_by_a_retry(here: World, task: str):
    name, deaf = f"{task}/b", Deaf()
    first, second = changing(f"{task}/a", name)["stages"]  # type: ignore[misc]
    stages = [first, {**second, "effect": "account"}, {"name": "leave"}]
    sets = here.stages.sets
    here.stages.back[task] = [completes, deaf]
    await here.submit(task, sets("1"), sets("2"), not_reached, params={"stages": stages}, emulator="e1")
    assert TaskStatus.FAILED is (await here.ended(task)).state
    await here.again(task, Rollback())
    await deaf.began.wait()
    await here.control(task, "cancel", force=True)
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, [False, True]) == (view.state, [one.undone for one in view.undo])
    deaf.let_go.set()
    here.stages.plays[task] = [sets("1"), sets("2")]
    await here.again(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    assert "2" == here.stages.things["e1", name]


async def test_a_rollback_asks_for_the_emulator_that_was_changed_by_any_name(here: World, task: str):
    name = f"{task}/a"
    await here.submit(
        task, here.stages.sets("1"), params=changing(name), emulator="e1", requires=["android=14"], account=task
    )
    await here.ended(task)
    known = here.presence.last_seen["e1"]
    there = tuple(label for label in known.labels if not label.startswith("android"))
    here.presence.last_seen["e1"] = replace(known, labels=there)
    await here.sees("e1", Health.GOOD)
    await here.again(task, Rollback())
    view = await here.ended(task)
    here.presence.last_seen["e1"] = known
    await here.sees("e1", Health.GOOD)
    assert (TaskStatus.ROLLBACK_COMPLETED, "") == (view.state, here.stages.things["e1", name])


async def test_a_retry_goes_on_counting_its_rounds(here: World, task: str):
    await here.submit(task, again_in(timedelta(hours=6)), completes)
    while (await here.view(task)).rounds == 0:
        await here.reached(task, TaskStatus.PENDING)
    await here.control(task, "cancel")
    await here.ended(task)
    await here.again(task)
    view = await here.ended(task)
    rounds = [work.rounds for work in here.stages.of(task)]
    assert (TaskStatus.COMPLETED, 1, [0, 1]) == (view.state, view.rounds, rounds)


async def test_forced_rollback_goes_on_without_lost_emulator_and_says_what_is_left(here: World, task: str):
    from tests.workflows.test_stays import fenced

    sets, name = here.stages.sets, f"{task}/a"
    await here.submit(task, sets("1"), fenced, sets("1"), sets("2"), params=changing(name, f"{task}/b"))
    ended = await here.ended(task)
    before, gone = (attempt.emulator for attempt in ended.attempts)
    await here.order("pause_lane", actor="anna")
    await here.again(task, Rollback(force=True))
    await here.refuses(task, "cannot_be_satisfied")
    await here.order("resume_lane", actor="anna")
    view = await here.ended(task)
    assert TaskStatus.ROLLBACK_FAILED is view.state
    assert view.error is not None
    left = f"stage set-{name} on {gone}, stage set-{task}/b on {gone}"
    assert f"all is taken back but {left}: gone from the pool" == view.error.message
    assert ("", "1") == (here.stages.things[before, name], here.stages.things[gone, name])
    await here.again(task, Rollback(force=True))
    assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended(task)).state
    assert "" == here.stages.things[gone, name]


async def test_a_rollback_on_an_emulator_that_is_gone_names_it_and_what_to_do(here: World, task: str):
    name = f"{task}/a"
    await here.submit(task, here.stages.sets("1"), params=changing(name), emulator="e1")
    await here.ended(task)
    await here.order("pause_lane", actor="anna")
    await here.again(task, Rollback())
    await here.refuses(task, "cannot_be_satisfied")
    await here.order("resume_lane", actor="anna")
    view = await here.ended(task)
    assert TaskStatus.ROLLBACK_FAILED is view.state
    assert view.error is not None
    assert f"undo of stage set-{name} on e1: emulator e1 is not in pool default" == view.error.message
    assert view.error.remedy.startswith("connect e1 again, then roll back once more; or roll back with force")


async def test_a_task_that_lost_too_many_emulators_may_lose_one_more_in_rollback(here: World, task: str):
    from tests.workflows.test_stays import fenced

    name = f"{task}/a"
    moves = here.planner.timing.moves
    stages = [*changing(name)["stages"], {"name": "look"}]  # type: ignore[misc]
    here.stages.back[task] = [fenced]
    await here.submit(
        task,
        here.stages.sets("1"),
        *[fenced] * (moves + 1),
        params={"stages": stages},
        emulator="e1",
        on_failure="rollback",
    )
    view = await here.ended(task)
    assert (TaskStatus.ROLLBACK_COMPLETED, "") == (view.state, here.stages.things["e1", name])


async def test_a_stage_begun_again_without_a_report_of_its_changes_is_marked(here: World, task: str):
    name, hold = f"{task}/a", Deaf()
    broken = here.stages.sets("half", not_reached)
    await here.submit(
        task, broken, hold, params={**changing(name), "policy": {"retries": 1, "backoff_s": 0}}, emulator="e1"
    )
    await hold.began.wait()
    await here.control(task, "cancel", force=True)
    view = await here.ended(task)
    hold.let_go.set()
    assert [(True, ["half"])] == [(one.unsaid, [value.value for value in one.after]) for one in view.undo]


async def test_what_handlers_take_back_is_known_of_a_stage_that_never_completed(here: World, task: str):
    by_handler = {"call": {"by": "associate", "with": {}, "undo": True}}
    [stage] = changing(f"{task}/a")["stages"]  # type: ignore[misc]
    params = {"stages": [{**stage, "undo": [{"key": {"name": "home"}}, by_handler]}]}
    await here.submit(task, not_reached, completes, params=params, emulator="e1")
    assert [(by_handler,)] == [one.steps for one in (await here.ended(task)).undo]
    await here.again(task)
    assert [2] == [len(one.steps) for one in (await here.ended(task)).undo]


async def test_the_undo_log_survives_a_terminate(here: World, task: str):
    hold, name = Hold(), f"{task}/a"
    await here.submit(task, here.stages.sets("1", hold), params=changing(name), emulator="e1")
    await hold.began.wait()

    async def kept() -> list[dict[str, Any]] | None:
        memo = await (await here.task(task).describe()).memo()
        return memo.get("task", {}).get("undo") or None

    before = await until(kept, "the undo log to be in the memo")
    await here.task(task).terminate("a crash")
    assert WorkflowExecutionStatus.TERMINATED == (await here.task(task).describe()).status
    assert before == await kept()
    assert [f"set-{name}"] == [one["stage"] for one in before]
    hold.let_go.set()
