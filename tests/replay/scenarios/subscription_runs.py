"""Runs of subscriptions: how they end, and what they hand on."""

from droidherd.contracts import names
from droidherd.contracts.subscriptions import SubscriptionRunState
from droidherd.contracts.tasks import OperatorRequest
from droidherd.domain.errors import FlowError
from tests.replay.scenario import scenario
from tests.workflows.plays import Hold, fails
from tests.workflows.subscription_runs import LONG_AGO, due, ended, subscription, task_id
from tests.workflows.world import World, until

DAILY = "daily"
RUN = "subscription-run/daily-2026-01-02T03:04:06Z"


@scenario("a run of a subscription: its task completes, and what was missed before it is handed on", keep=(RUN,))
async def subscription_run_completed(world: World) -> None:
    handle = await due(world, subscription(DAILY, catch_up=LONG_AGO), before=ended(10, missed=7))
    await handle.result()


@scenario("its task fails: the run completes all the same", keep=(RUN,))
async def subscription_run_of_a_failed_task(world: World) -> None:
    await (await due(world, subscription(DAILY), fails(FlowError("no such screen")))).result()


@scenario("told to stop while its task runs", keep=(RUN,))
async def subscription_run_stopped(world: World) -> None:
    hold = Hold()
    handle = await due(world, subscription(DAILY), hold)
    await hold.began.wait()
    await handle.signal(names.Signal.CANCEL, OperatorRequest(actor="system:subscription", reason="deleted"))
    await handle.result()


@scenario("told to stop before it began: no task", keep=(RUN,))
async def subscription_run_stopped_before_it_began(world: World) -> None:
    handle = await world.client.start_workflow(
        names.Workflow.SUBSCRIPTION_RUN,
        subscription(DAILY),
        id=RUN,
        task_queue=names.QUEUE,
        start_signal=names.Signal.CANCEL,
        start_signal_args=[OperatorRequest(actor="ann")],
    )
    await handle.result()


@scenario("cancelled on the engine: it waits for the end of its task, and completes", keep=(RUN,))
async def subscription_run_cancelled_by_the_engine(world: World) -> None:
    hold = Hold()
    handle = await due(world, subscription(DAILY, overlap="cancel_other"), hold)
    await hold.began.wait()
    await handle.cancel()
    await handle.result()


@scenario("somebody has the name of its task: the task gets a mark", keep=(RUN,))
async def subscription_run_with_a_name_that_is_taken(world: World) -> None:
    await world.submit(task_id(DAILY))
    await world.ended(task_id(DAILY))
    await (await due(world, subscription(DAILY))).result()


@scenario("what was missed cannot be counted: the run goes on", keep=(RUN,))
async def subscription_run_without_catch_up(world: World) -> None:
    await (await due(world, subscription(DAILY, every_s=0, cron="* * * * *", time_zone="Mars/Base"))).result()


@scenario("its task waits for too long: it is reported, and cancelled as its subscription wants", keep=(RUN,))
async def subscription_run_of_a_stuck_task(world: World) -> None:
    hold = Hold()
    await world.submit("holder", hold, account=DAILY)
    await hold.began.wait()
    spec = subscription(DAILY).task.model_copy(update={"on_busy": "queue"})
    await (await due(world, subscription(DAILY, task=spec, stuck_after_s=1, on_stuck="cancel"))).result()
    hold.let_go.set()


@scenario("its task is paused for too long, reported, and goes on", keep=(RUN,))
async def subscription_run_of_a_task_that_goes_on(world: World) -> None:
    hold = Hold()
    handle = await due(world, subscription(DAILY, stuck_after_s=1), hold)
    await hold.began.wait()
    await world.control(task_id(DAILY), "pause")

    async def reported() -> bool | None:
        memo = await (await handle.describe()).memo_value(names.MEMO_SUBSCRIPTION_RUN, type_hint=SubscriptionRunState)
        return memo.stuck is not None or None

    await until(reported, "the report")
    await world.control(task_id(DAILY), "resume")
    await handle.result()
