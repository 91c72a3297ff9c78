"""How a task's end looks from outside: the workflow's status, its result or details, memo, attributes, details."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.exceptions import ApplicationError, CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.queue import AccountView
from droidherd.contracts.tasks import ArtifactView, RollbackRequest, TaskInput, TaskSpec, TaskView
from droidherd.domain.errors import FlowError, ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskAction, TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import IdTakenError
from droidherd.engine.queue import QueueClient
from droidherd.engine.task_options import NewTask
from droidherd.engine.tasks import TasksClient
from tests.workflows.plays import Hold, Play, breaks, completes, fails, is_unknown_to_us
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

Status = WorkflowExecutionStatus
missed = fails(ScreenNotReachedError("rewards did not appear", to="e1", remedy="look at the frame"))


async def memo(world: World, task_id: str) -> TaskView:
    description = await world.task(task_id).describe()
    return await description.memo_value(names.MEMO_TASK, type_hint=TaskView)


async def failure(world: World, task_id: str) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as raised:
        await world.task(task_id).result()
    assert isinstance(raised.value.cause, ApplicationError)
    return raised.value.cause


async def test_a_completed_task_is_a_completed_workflow_with_its_view_as_result(here: World, task: str):
    await here.submit(task, account="42", params={"tab": "gift"})
    view = await here.client.get_workflow_handle(task, result_type=TaskView).result()
    assert (TaskStatus.COMPLETED, "42", {"tab": "gift"}) == (view.state, view.account, view.params)
    assert ["completed"] == [stage.state for stage in view.stages]
    (attempt,) = view.attempts
    assert (1, "h1", "w1", "completed") == (attempt.n, attempt.host, attempt.worker, attempt.outcome)
    assert (ArtifactView(name="1-0.png", size=7, content_type="image/png"),) == attempt.artifacts
    assert ["created", "admitted", "granted", "completed"] == [line.event for line in view.events]
    assert ["pending", "pending", "queued", "running"] == [line.before for line in view.events]
    assert ["somebody", *["droidherd"] * 3] == [line.actor for line in view.events]


async def test_events_begin_with_who_submitted_what_and_tell_no_secret(here: World, task: str):
    await here.submit(task, account="42", actor="ann", params={"tab": "gift", "api_token": "s3cret"})
    first = (await here.ended(task)).events[0]
    expected = 'sample for account 42 with {"tab": "gift", "api_token": "***"}'
    assert ("created", "ann", expected) == (first.event, first.actor, first.reason)


async def test_the_memo_keeps_the_outcome_for_readers_without_a_worker(here: World, task: str):
    await here.submit(task)
    await here.ended(task)
    kept = await memo(here, task)
    assert (TaskStatus.COMPLETED, "completed", ()) == (kept.state, kept.attempts[-1].outcome, kept.events)


@pytest.mark.parametrize(
    ("plays", "policy", "expected"),
    [
        ([fails(FlowError("no such screen"))], {"retries": 3}, ("FlowError", 1)),
        ([breaks], {"retries": 3}, ("UnclassifiedError", 1)),
        ([is_unknown_to_us], {"retries": 3}, ("ForeignError", 1)),
        ([missed], {"retries": 0}, ("ScreenNotReachedError", 1)),
        ([missed, missed, missed], {"retries": 2, "backoff_s": 0}, ("ScreenNotReachedError", 3)),
    ],
    ids=["final", "bug", "foreign", "no-retries", "retries-used-up"],
)
async def test_a_failed_task_is_a_failed_workflow_with_its_view_as_details(
    here: World, task: str, plays: list[Play], policy: dict[str, float], expected: tuple[str, int]
):
    kind, tries = expected
    await here.submit(task, *plays, params={"policy": policy})
    cause = await failure(here, task)
    view = TaskView.model_validate(cause.details[0])
    assert (kind, TaskStatus.FAILED, kind) == (cause.type, view.state, view.error.kind if view.error else "")
    assert [*range(1, tries + 1)] == [one.n for one in view.attempts]
    assert (TaskStatus.FAILED, tries) == ((await memo(here, task)).state, len(here.stages.of(task)))


async def test_of_a_failed_task_the_stage_that_failed_says_so(here: World, task: str):
    stages = [{"name": "open"}, {"name": "collect"}, {"name": "leave"}]
    await here.submit(task, completes, missed, params={"stages": stages})
    cause = await failure(here, task)
    for view in (TaskView.model_validate(cause.details[0]), await here.view(task), await memo(here, task)):
        assert ["completed", "failed", "waiting"] == [stage.state for stage in view.stages]


@pytest.mark.parametrize("answer", ["repeated", "lost"])
async def test_a_retry_whose_start_was_repeated_meets_its_own_run_and_is_done(
    here: World, task: str, answer: str, monkeypatch: pytest.MonkeyPatch
):
    hold, tasks = Hold(), tasks_of(here)
    await here.submit(task, missed, hold)
    await here.ended(task)
    start = here.client.start_workflow

    async def twice(*args: Any, **options: Any) -> Any:
        await start(*args, **options)
        return await start(*args, **options)

    async def unheard(*args: Any, **options: Any) -> Any:
        await start(*args, **options)
        raise RPCError("the answer is lost", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(here.client, "start_workflow", {"repeated": twice, "lost": unheard}[answer])
    now = await tasks.again(task, TaskAction.RETRY, RollbackRequest(actor="anna"))
    assert now.open
    hold.let_go.set()
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


async def test_a_submission_whose_start_was_repeated_is_not_refused(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    ask = here.client.execute_update_with_start_workflow

    async def twice(*args: Any, **options: Any) -> Any:
        await ask(*args, **options)
        raise WorkflowAlreadyStartedError(task, names.Workflow.TASK)

    monkeypatch.setattr(here.client, "execute_update_with_start_workflow", twice)
    new = NewTask(task, TaskSpec(type="sample", pool=here.pool), "digest", "", "mine")
    assert (await tasks_of(here).submit(new)).admission is not None
    await here.ended(task)
    with pytest.raises(IdTakenError):
        await tasks_of(here).submit(replace(new, update_id="another"))


async def test_a_failure_says_what_happened_to_what_and_what_to_do_next(here: World, task: str):
    await here.submit(task, missed)
    view = TaskView.model_validate((await failure(here, task)).details[0])
    error = view.error
    assert error is not None
    assert ("e1: rewards did not appear", "look at the frame") == (error.message, error.remedy)
    assert error == view.attempts[-1].error


async def test_a_failed_attempt_and_the_one_that_completed_both_stand_in_the_view(here: World, task: str):
    await here.submit(task, missed, completes, params={"policy": {"retries": 1, "backoff_s": 0}})
    view = await here.ended(task)
    assert [(1, "failed"), (2, "completed")] == [(one.n, one.outcome) for one in view.attempts]
    events = ["created", "admitted", "granted", "retry", "delay_over", "admitted", "granted", "completed"]
    assert events == [line.event for line in view.events]


async def test_bad_parameters_fail_the_task_before_it_is_queued(here: World, task: str):
    await here.submit(task, params={"wrong": True})
    cause = await failure(here, task)
    assert ("BadParametersError", True) == (cause.type, "wrong is not a parameter of it" in cause.message)
    view = TaskView.model_validate(cause.details[0])
    assert (["created", "failed"], ()) == ([line.event for line in view.events], view.attempts)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("nonsense", "the argument must be"),
        ({"spec": {"account": "42"}}, "spec.type is missing"),
        ({"spec": {"type": "sample", "priority": 11}}, "spec.priority is 11; it must be"),
        ({"spec": {"type": "../etc"}}, "spec.type is '../etc'; it must "),
        (None, "it takes one argument"),
    ],
    ids=["text", "no-type", "out-of-range", "bad-name", "nothing"],
)
async def test_an_input_that_cannot_be_read_fails_and_names_the_field(
    here: World, task: str, given: object, expected: str
):
    await here.client.start_workflow(names.Workflow.TASK, given, id=task, task_queue=names.QUEUE)
    view = TaskView.model_validate((await failure(here, task)).details[0])
    message = view.error.message if view.error else ""
    assert (TaskStatus.FAILED, expected) == (view.state, message[: len(expected)])


@pytest.mark.parametrize("task_id", ["with space", "a/b", "x" * 65, "naïve", 'quote"'])
async def test_an_id_that_is_not_possible_fails_the_task(here: World, task_id: str):
    await here.submit(task_id)
    view = TaskView.model_validate((await failure(here, task_id)).details[0])
    assert "a task id must have 1 to 64 characters" in (view.error.message if view.error else "")


async def test_a_duplicate_is_rejected_with_the_task_that_holds_the_place(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-holder", hold, account=task)
    await hold.began.wait()
    admission = await here.submit_and_wait(task, account=task)
    assert (TaskStatus.REJECTED, "account_running", f"{task}-holder") == (
        admission.state,
        admission.reason,
        admission.holder,
    )
    cause = await failure(here, task)
    assert ("account_running", Status.FAILED) == (cause.type, (await here.task(task).describe()).status)
    assert 0 == (await here.view(task)).attempt, "it was never attempted"
    hold.let_go.set()


async def test_one_account_twice_may_wait_when_the_submitter_says_so(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-first", hold, account=task)
    await hold.began.wait()
    await here.submit(task, account=task, on_busy="queue")
    admission = await here.admission(task)
    assert (TaskStatus.QUEUED, 1) == (admission.state, admission.position)
    assert f"account {task} is busy with task {task}-first" == (await here.view(task)).why
    hold.let_go.set()
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


@pytest.mark.parametrize("channel", ["signal", "update", "engine"])
async def test_a_cancelled_task_is_a_canceled_workflow_whoever_asked(here: World, task: str, channel: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    if channel == "signal":
        await here.ask(task, "cancel")
    elif channel == "update":
        await here.control(task, "cancel")
    else:
        await here.task(task).cancel()
    view = await here.ended(task)
    with pytest.raises(WorkflowFailureError) as raised:
        await here.task(task).result()
    assert isinstance(raised.value.cause, CancelledError)
    assert (TaskStatus.CANCELLED, "temporal" if channel == "engine" else "anna") == (view.state, view.events[-1].actor)
    assert (Status.CANCELED, "cancelled") == (
        (await here.task(task).describe()).status,
        (await memo(here, task)).attempts[-1].outcome,
    )


async def test_a_terminated_task_shows_in_its_memo_what_it_was_doing(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold, account=task)
    await hold.began.wait()
    await here.task(task).terminate("test")
    kept = await memo(here, task)
    assert (TaskStatus.RUNNING, task, here.stages.of(task)[0].emulator_id) == (kept.state, kept.account, kept.emulator)
    hold.let_go.set()


def tasks_of(here: World) -> TasksClient:
    config = EngineConfig(pool=here.pool)
    return TasksClient(here.client, config, QueueClient(here.client, config))


async def written_down(here: World, task: str) -> TaskView:
    """Its newest run says how it ended, in its query, its memo and its attributes."""
    tasks = tasks_of(here)

    async def there() -> TaskView | None:
        assert [] == await tasks.write_down_ends()
        description = await here.task(task).describe()
        return await memo(here, task) if description.status is Status.FAILED else None

    kept = await until(there, f"the end of {task} to be written down")
    view = await here.view(task)
    found = (await here.task(task).describe()).typed_search_attributes
    shown = [pair.value for pair in found if pair.key.name == "TaskState"]
    assert (TaskStatus.FAILED, TaskStatus.FAILED, ["failed"]) == (kept.state, view.state, shown)
    assert kept.attempts == view.attempts
    return view


async def test_that_a_task_was_terminated_is_written_down(here: World, task: str):
    hold, stages = Hold(), [{"name": "open", "effect": "account"}, {"name": "collect"}]
    await here.submit(task, completes, hold, account=task, params={"stages": stages})
    await hold.began.wait()
    await here.task(task).terminate(reason="test")
    hold.let_go.set()
    view = await written_down(here, task)
    assert (view.error.kind if view.error else "", [one.outcome for one in view.attempts]) == (
        "terminated",
        ["terminated"],
    )
    assert ["completed", "failed"] == [one.state for one in view.stages]
    last = [(one.before, one.event, one.actor) for one in view.events[-2:]]
    assert [("running", "failed", "temporal"), ("failed", "broken_off", "system:terminated")] == last

    async def free() -> bool | None:
        known = await here.dispatcher().query(names.Query.ACCOUNT, task, result_type=AccountView)
        return None if known.is_running or known.is_queued else True

    await until(free, "its account to be free")
    here.stages.plays[task] = [completes]
    await tasks_of(here).again(task, TaskAction.RETRY, RollbackRequest(actor="anna"))
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    assert ["open", "collect", "collect"] == [work.stage.name for work in here.stages.of(task) if work.stage]


async def test_a_task_terminated_before_it_ran_is_written_down(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await here.submit(task)
    await here.reached(task, TaskStatus.QUEUED)
    await here.task(task).terminate("test")
    view = await written_down(here, task)
    assert ((), "broken_off") == (view.attempts, view.events[-1].event)
    await here.order("resume_lane", actor="anna")


async def test_a_schedule_of_temporals_own_starts_tasks(here: World, task: str):
    start = ScheduleActionStartWorkflow(
        names.Workflow.TASK, TaskInput(spec=TaskSpec(type="sample")), id=task, task_queue=names.QUEUE
    )
    schedule = await here.client.create_schedule(f"by-{task}", Schedule(action=start, spec=ScheduleSpec()))
    await schedule.trigger()

    async def started() -> str | None:
        actions = (await schedule.describe()).info.recent_actions
        started = actions[0].action if actions else None
        return started.workflow_id if isinstance(started, ScheduleActionExecutionStartWorkflow) else None

    name = await until(started, "the schedule to start a task")
    assert name.startswith(f"{task}-20")
    assert name.endswith("Z")
    assert TaskStatus.COMPLETED is (await here.ended(name)).state
    await schedule.delete()


async def test_lists_find_a_task_by_its_attributes(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold, account=task, labels={"team": "a", "run": "7"})
    await hold.began.wait()
    found = (await here.task(task).describe()).typed_search_attributes
    shown = {pair.key.name: pair.value for pair in found}
    tags = shown.pop("Tags")
    assert ["run=7", "team=a"] == sorted(tags)
    expected = {"TaskState": "running", "TaskType": "sample", "AccountId": task, "PoolId": "default"}
    expected |= {"Lane": "account", "EmulatorId": here.stages.of(task)[0].emulator_id}
    assert expected == {name: value for name, value in shown.items() if name in expected}
    hold.let_go.set()
    await here.ended(task)
    found = (await here.task(task).describe()).typed_search_attributes
    assert "completed" == next(pair.value for pair in found if pair.key.name == "TaskState")


async def test_the_details_in_the_web_ui_read_like_a_story(here: World, task: str):
    hold = Hold()
    named = [{"name": "open"}, {"name": "collect"}]
    await here.submit(task, completes, hold, account=task, params={"stages": named})
    await hold.began.wait()
    emulator = here.stages.of(task)[0].emulator_id
    head, dates, stages, events = (await here.details(task)).split("\n\n")
    assert f"**running**: sample for account {task}, attempt 1 on emulator {emulator}" == head
    assert re.fullmatch(r"- submitted: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", dates)
    assert "- stage open: completed\n- stage collect: running" == stages
    assert events.endswith(" UTC: queued → running, by droidherd")
    hold.let_go.set()
    await here.ended(task)
    assert (await here.details(task)).startswith(f"**completed**: sample for account {task}, attempt 1")


async def test_a_task_that_waits_says_why_in_its_details(here: World, task: str):
    await here.order("pause_lane", lane="anonymous", actor="anna", reason="release")
    await here.submit(task)
    await here.reached(task, TaskStatus.QUEUED)
    assert "waits: lane anonymous is paused by anna: release" in await here.details(task)
    await here.order("resume_lane", actor="anna")
    await here.ended(task)


async def test_a_start_that_makes_no_sense_any_more_fails_as_expired(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await here.submit(task, expires_at=datetime.now(UTC) + timedelta(seconds=0.5))
    view = await here.ended(task)
    await here.order("resume_lane", actor="anna")
    assert (TaskStatus.FAILED, "expired", ()) == (view.state, view.error.kind if view.error else "", view.attempts)
