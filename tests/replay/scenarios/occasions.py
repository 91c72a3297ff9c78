"""Runs of subscriptions: how they end, and what they hand on."""

from droidherd.contracts import names
from droidherd.contracts.tasks import Ask
from droidherd.domain.errors import FlowError
from tests.replay.scenario import scenario
from tests.workflows.occasions import LONG_AGO, due, ended, subscription, task_id
from tests.workflows.plays import Hold, fails
from tests.workflows.world import World

DAILY = "daily"
OCCASION = "occasion/daily-2026-01-02T03:04:06Z"


@scenario("a run of a subscription: its task completes, and what was missed before it is handed on", keep=(OCCASION,))
async def occasion_completed(world: World) -> None:
    handle = await due(world, subscription(DAILY, reckoning=LONG_AGO), before=ended(10, missed=7))
    await handle.result()


@scenario("its task fails: the run completes all the same", keep=(OCCASION,))
async def occasion_of_a_failed_task(world: World) -> None:
    await (await due(world, subscription(DAILY), fails(FlowError("no such screen")))).result()


@scenario("told to stop while its task runs", keep=(OCCASION,))
async def occasion_stopped(world: World) -> None:
    hold = Hold()
    handle = await due(world, subscription(DAILY), hold)
    await hold.began.wait()
    await handle.signal(names.Signal.CANCEL, Ask(actor="system:subscription", reason="deleted"))
    await handle.result()


@scenario("told to stop before it began: no task", keep=(OCCASION,))
async def occasion_stopped_before_it_began(world: World) -> None:
    handle = await world.client.start_workflow(
        names.Workflow.OCCASION,
        subscription(DAILY),
        id=OCCASION,
        task_queue=names.QUEUE,
        start_signal=names.Signal.CANCEL,
        start_signal_args=[Ask(actor="ann")],
    )
    await handle.result()


@scenario("cancelled on the engine: it waits for the end of its task, and completes", keep=(OCCASION,))
async def occasion_cancelled_by_the_engine(world: World) -> None:
    hold = Hold()
    handle = await due(world, subscription(DAILY, overlap="cancel_other"), hold)
    await hold.began.wait()
    await handle.cancel()
    await handle.result()


@scenario("somebody has the name of its task: the task gets a mark", keep=(OCCASION,))
async def occasion_with_a_name_that_is_taken(world: World) -> None:
    await world.submit(task_id(DAILY))
    await world.ended(task_id(DAILY))
    await (await due(world, subscription(DAILY))).result()


@scenario("what was missed cannot be reckoned up: the run goes on", keep=(OCCASION,))
async def occasion_without_books(world: World) -> None:
    await (await due(world, subscription(DAILY, every_s=0, cron="* * * * *", time_zone="Mars/Base"))).result()
