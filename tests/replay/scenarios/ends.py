"""How tasks end: completed, failed, rejected, expired."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio.client import WorkflowExecutionStatus

from droidherd.contracts import names
from droidherd.domain.errors import FlowError, ScreenNotReachedError, ServerBusyError, StageTimeoutError
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import TasksClient
from tests.replay.scenario import DISPATCHER, TASK, Setting, scenario
from tests.workflows.forged import forges
from tests.workflows.plays import Deaf, Hold, NothingDirect, breaks, completes, fails, is_unknown_to_us
from tests.workflows.world import POOL, World, until

SETTLE_S = 61.0
"""A pool refuses what none of its emulators can run, once this has passed since the last one joined."""

missed = fails(ScreenNotReachedError("rewards did not appear", to="e1"))


@scenario("somebody forged the result of a stage: it runs again")
async def result_forged(world: World) -> None:
    await world.submit("task", forges(world.client, b'{"garbage": 1}'))
    await world.ended("task")


@scenario("one stage, completed: the path of most tasks")
async def one_stage(world: World) -> None:
    await world.submit("task", account="42", labels={"team": "a"}, params={"tab": "gift"})
    await world.admission("task")
    await world.ended("task")


@scenario("three stages in a row; the last one tells the dispatcher that it is the last")
async def several_stages(world: World) -> None:
    stages = [{"name": "open"}, {"name": "collect", "effect": "account"}, {"name": "leave"}]
    await world.submit("task", params={"stages": stages})
    await world.ended("task")


@scenario("the first task of all starts the dispatcher itself", setting=Setting(joined=False))
async def no_dispatcher_yet(world: World) -> None:
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    await world.serve_host()
    await world.serve("e1")
    await world.join()
    await world.ended("task")


@scenario("a retryable failure, its delay, then success")
async def retry_then_success(world: World) -> None:
    await world.submit("task", missed, completes, params={"policy": {"retries": 2, "backoff_s": 0.1}})
    await world.ended("task")


@scenario("every retry used up, with exponential delays")
async def retries_exhausted(world: World) -> None:
    policy = {"retries": 2, "backoff": "exponential", "backoff_s": 0.1}
    await world.submit("task", missed, missed, missed, params={"policy": policy})
    await world.ended("task")


@scenario("a busy server says how long to wait, and that is the delay")
async def retry_after(world: World) -> None:
    busy = fails(ServerBusyError("answered 503", after_s=0.2, to="files.example.com"))
    await world.submit("task", busy, completes, params={"policy": {"retries": 1, "backoff_s": 60}})
    await world.ended("task")


@scenario("retries on timeout alone: the first attempt is, the second is not")
async def retries_on_timeout(world: World) -> None:
    late = fails(StageTimeoutError("not done within 3m", to="step 1"))
    policy = {"retries": 5, "retry_on": "timeout", "backoff_s": 0.1}
    await world.submit("task", late, missed, params={"policy": policy})
    await world.ended("task")


@scenario("a failure that is final, left clean")
async def final_failure(world: World) -> None:
    await world.submit("task", fails(FlowError("no such screen")), params={"policy": {"retries": 3}})
    await world.ended("task")


@scenario("a final failure that left the emulator dirty: it is reset before the next grant")
async def final_failure_left_dirty(world: World) -> None:
    await world.submit("task", fails(FlowError("no such screen"), clean=False))
    await world.ended("task")
    await world.idle()


@scenario("an error nobody classified is final: a bug")
async def unclassified(world: World) -> None:
    await world.submit("task", breaks, params={"policy": {"retries": 3}})
    await world.ended("task")


@scenario("a failure without our details, as a foreign worker would report it")
async def foreign_failure(world: World) -> None:
    await world.submit("task", is_unknown_to_us)
    await world.ended("task")


@scenario("a stage outlasts its limit and counts as an attempt")
async def too_long(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, completes, params={"policy": {"time_limit_s": 0.1, "retries": 1, "backoff_s": 0}})

    async def given_up() -> bool | None:
        return True if any(one.outcome for one in (await world.view("task")).attempts) else None

    await until(given_up, "the first attempt to fail")
    deaf.let_go.set()
    await world.ended("task")


@scenario("parameters the task type does not know: failed before it was queued")
async def bad_parameters(world: World) -> None:
    await world.submit("task", params={"wrong": True})
    await world.ended("task")


@scenario("the same account and type waits already")
async def rejected_duplicate(world: World) -> None:
    await world.order("pause_lane", lane="account", actor="anna", reason="release")
    await world.submit("first", account="42")
    await world.admission("first")
    await world.submit("task", account="42")
    await world.ended("task")


@scenario("answered by signals alone", keep=(TASK, DISPATCHER), setting=Setting(delivery=NothingDirect))
async def answered_by_signals(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


@scenario(
    "nobody answered in time, so it was answered by signals",
    setting=Setting(delivery=partial(NothingDirect, silent_s=30)),
)
async def answered_too_late(world: World) -> None:
    await world.submit("task")
    await world.ended("task")


@scenario("refused by a signal", setting=Setting(delivery=NothingDirect))
async def refused_by_a_signal(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("first", account="42")
    await world.reached("first", TaskStatus.QUEUED)
    await world.submit("task", account="42")
    await world.ended("task")


@scenario("the account runs already")
async def rejected_account_running(world: World) -> None:
    hold = Hold()
    await world.submit("first", hold, account="42")
    await hold.began.wait()
    await world.submit("task", account="42")
    await world.ended("task")
    hold.let_go.set()


@scenario("the queue is full", setting=Setting(pool=POOL.model_copy(update={"limit": 1})))
async def rejected_queue_full(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("first")
    await world.admission("first")
    await world.submit("task")
    await world.ended("task")


@scenario("no emulator of the pool can run it")
async def rejected_cannot_be_satisfied(world: World) -> None:
    await asyncio.sleep(SETTLE_S)
    await world.submit("task", requires=["android=99"])
    await world.ended("task")


@scenario("no emulator was free before it expired")
async def expired_in_line(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task", expires_at=datetime.now(UTC) + timedelta(seconds=1))
    await world.ended("task")


@scenario("its last moment lies before its first")
async def expired_before_its_time(world: World) -> None:
    now = datetime.now(UTC)
    await world.submit("task", not_before=now + timedelta(hours=1), expires_at=now + timedelta(seconds=0.3))
    await world.ended("task")


@scenario("it waits for its time, then runs")
async def not_before(world: World) -> None:
    await world.submit("task", not_before=datetime.now(UTC) + timedelta(seconds=0.5))
    await world.ended("task")


@scenario("terminated while it ran: a crash, with all that stands in the memo", setting=Setting())
async def terminated(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.task("task").terminate("test")
    await world.idle()
    config = EngineConfig(pool=world.pool)
    tasks = TasksClient(world.client, config, QueueClient(world.client, config))

    async def written_down() -> bool | None:
        await tasks.write_down_ends()
        return (await world.task("task").describe()).status is WorkflowExecutionStatus.FAILED or None

    await until(written_down, "its end to be written down")


@scenario(
    "nobody answers for longer than it waits for an answer: it asks again",
    setting=Setting(pool=POOL.model_copy(update={"repeat_min_s": 0.3})),
)
async def asks_again(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task", expires_at=datetime.now(UTC) + timedelta(seconds=20))
    await asyncio.sleep(1.0)
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


UNREADABLE = ("unreadable-1", "unreadable-2", "unreadable-3", "no good id")


@scenario("an input that says nothing we know, none at all, or an id nobody can carry: failed", keep=UNREADABLE)
async def unreadable(world: World) -> None:
    inputs = ["nonsense", {"spec": {"account": "no type"}}, {"spec": {"type": "sample"}}]
    for task_id, given in zip((UNREADABLE[0], UNREADABLE[1], UNREADABLE[3]), inputs, strict=True):
        await world.client.start_workflow(names.Workflow.TASK, given, id=task_id, task_queue=names.QUEUE)
    await world.client.start_workflow(names.Workflow.TASK, id=UNREADABLE[2], task_queue=names.QUEUE)
    for task_id in UNREADABLE:
        await world.ended(task_id)


@scenario("a second start under the id of a task that ended, by a client that did not have it refused: rejected")
async def already_run(world: World) -> None:
    await world.submit("task")
    await world.ended("task")
    await world.submit("task")
    await world.ended("task")


@scenario("runs of a task that ended, refused for its state, and for what they are given: it stays as it ended")
async def refused_again(world: World) -> None:
    await world.submit("task")
    await world.ended("task")
    await world.again("task")
    await world.ended("task")
    await world.client.start_workflow(names.Workflow.TASK, "nonsense", id="task", task_queue=names.QUEUE)
    await world.ended("task")
