"""The pool's dispatcher: grants, orders of people, holders that vanish, its own end and return."""

import asyncio

from droidherd.contracts import names
from droidherd.contracts.queue import DispatcherInput, QueueSettings
from droidherd.domain.errors import FencedError, ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import DISPATCHER, EMULATOR, TASK, Setting, scenario
from tests.workflows.plays import Hold, completes, fails
from tests.workflows.world import POOL, World

LATER = Setting(joined=False)
TWO = Setting(emulators=("e1", "e2"))
SHORT = Setting(emulators=("e1", "e2"), pool=POOL.model_copy(update={"continue_after": 8}))


async def wake(world: World) -> None:
    """As the gateway does before it relies on a dispatcher."""
    await world.client.start_workflow(
        names.Workflow.DISPATCHER,
        DispatcherInput(pool=world.pool),
        id=DISPATCHER,
        task_queue=names.FLEET_QUEUE,
        start_signal=names.Signal.WAKE,
    )


@scenario("eight tasks of two lanes and three accounts on two emulators", keep=(DISPATCHER,), setting=TWO)
async def grants(world: World) -> None:
    for n in range(8):
        if n % 2:
            await world.submit(f"t{n}", priority=1 + n % 3, account=f"a{n % 3}", on_busy="queue")
        else:
            await world.submit(f"t{n}", priority=1 + n % 3, mutex=["m"])
    await asyncio.gather(*(world.ended(f"t{n}") for n in range(8)))


@scenario("every order of a person, each sent twice", keep=(DISPATCHER, TASK))
async def orders(world: World) -> None:
    for request in ("r1", "r1"):
        await world.order("pause_lane", lane="anonymous", actor="anna", reason="release", request_id=request)
    await world.submit("t1")
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    for request in ("r2", "r2"):
        await world.order("prioritize", task_id="task", priority=1, actor="anna", request_id=request)
    await world.order("prioritize", task_id="nobody", priority=1, actor="anna")
    await world.control("task", "pause")
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "resume")
    await world.reached("task", TaskStatus.QUEUED)
    for capacity in (0, 1):
        await world.order("set_capacity", lane="anonymous", capacity=capacity, actor="anna", request_id=f"c{capacity}")
    await world.order("reset_lane", lane="anonymous", actor="anna")
    await world.order("resume_lane", actor="anna", request_id="r3")
    await world.ended("task")
    await world.ended("t1")


@scenario(
    "settings and an order change while tasks wait; a mutex is held for too long", keep=(DISPATCHER,), setting=TWO
)
async def set_anew(world: World) -> None:
    hold = Hold()
    await world.submit("first", hold, mutex=["shop"])
    await hold.began.wait()
    await world.order("pause_lane", lane="anonymous", actor="anna", reason="release")
    for n in range(3):
        await world.submit(f"t{n}", priority=3 - n, mutex=["shop"])
        await world.reached(f"t{n}", TaskStatus.QUEUED)
    await world.order("set_order", lane="anonymous", order="priority", ageing=5, actor="anna")
    await world.order("set_order", actor="anna")
    settings = QueueSettings(limit=100, capacities={"account": 2, "anonymous": 2}, mutex_hold_s=1.0)
    await world.dispatcher().signal(names.Signal.CONFIGURE, settings)
    await world.order("resume_lane", lane="anonymous", actor="anna")
    await asyncio.gather(*(world.ended(f"t{n}") for n in range(3)))
    hold.let_go.set()
    await world.ended("first")


@scenario("a lane at its capacity", keep=(DISPATCHER,), setting=TWO)
async def capacity(world: World) -> None:
    await world.order("set_capacity", lane="account", capacity=1, actor="anna")
    hold = Hold()
    await world.submit("first", hold, account="1")
    await hold.began.wait()
    await world.submit("task", account="2")
    await world.reached("task", TaskStatus.QUEUED)
    await world.submit("other")
    await world.ended("other")
    hold.let_go.set()
    await world.ended("task")


@scenario("a holder was terminated: looked at, fenced, reset, freed", keep=(DISPATCHER, EMULATOR))
async def holder_closed(world: World) -> None:
    hold = Hold()
    await world.submit("first", hold)
    await hold.began.wait()
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    await world.task("first").terminate("test")
    hold.let_go.set()
    await world.ended("task")


@scenario("a grant to a task that was terminated in line comes back at once", keep=(DISPATCHER,))
async def granted_to_nobody(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("first")
    await world.submit("task")
    await world.reached("first", TaskStatus.QUEUED)
    await world.reached("task", TaskStatus.QUEUED)
    await world.task("first").terminate("test")
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


@scenario("it continues as new with tasks in line and running", keep=(DISPATCHER, TASK), setting=SHORT)
async def dispatcher_continued(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await asyncio.gather(*(world.submit(f"t{n}", completes) for n in range(8)))
    await asyncio.gather(*(world.ended(f"t{n}") for n in range(8)))
    hold.let_go.set()
    await world.ended("task")


@scenario(
    "terminated with tasks in line and running: its successor takes over from its snapshot",
    keep=(DISPATCHER, TASK, "t1"),
)
async def dispatcher_rebuilt(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.submit("t1")
    await world.reached("t1", TaskStatus.QUEUED)
    await world.order("pause_lane", lane="account", actor="anna", reason="release")
    await world.dispatcher().terminate("test")
    await wake(world)
    hold.let_go.set()
    await world.ended("task")
    await world.ended("t1")


@scenario("a command comes before it found its predecessor, and waits for that", keep=(DISPATCHER,))
async def commanded_while_it_begins(world: World) -> None:
    await world.order("pause_lane", lane="account", actor="anna", request_id="r1")
    await world.dispatcher().terminate("test")
    await wake(world)
    await world.order("pause_lane", lane="account", actor="anna", request_id="r1")
    await world.submit("task")
    await world.ended("task")


@scenario(
    "nothing is left of its predecessor: it asks every task and every emulator before it grants anything",
    keep=(DISPATCHER, TASK, "t1", EMULATOR),
)
async def dispatcher_rebuilt_blind(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.submit("t1")
    await world.reached("t1", TaskStatus.QUEUED)
    await world.loses_its_dispatcher()
    await wake(world)
    hold.let_go.set()
    await world.ended("task")
    await world.ended("t1")


@scenario(
    "nothing is left of its predecessor, and what a task asked before it was prioritized comes first",
    keep=(DISPATCHER, TASK),
    setting=LATER,
)
async def priority_sent_again(world: World) -> None:
    for name in ("t1", "task"):
        await world.submit(name)
        await world.reached(name, TaskStatus.QUEUED)
    await world.order("prioritize", task_id="task", priority=1, actor="anna")
    await world.is_prioritized("task")
    await world.loses_its_dispatcher()
    await world.takes_over(await world.asked_at_first("task"))
    await world.is_prioritized("task")
    await world.serve_host()
    await world.serve("e1")
    await world.join()
    await world.ended("task")
    await world.ended("t1")


@scenario("granted by somebody who knows nothing of its priority, and fenced: it comes back with it")
async def priority_kept(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task", fails(FencedError("another lease holds it"), clean=False), completes)
    await world.reached("task", TaskStatus.QUEUED)
    await world.order("prioritize", task_id="task", priority=1, actor="anna")
    await world.is_prioritized("task")
    await world.is_granted("task", "e1")
    await world.tried("task", 1)
    await world.reached("task", TaskStatus.QUEUED)
    await world.is_prioritized("task")
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


@scenario("granted for an attempt that is over: it gives that back and says again what it waits for now")
async def granted_for_before(world: World) -> None:
    missed = fails(ScreenNotReachedError("rewards did not appear"))
    await world.submit("task", missed, completes, params={"policy": {"retries": 1, "backoff_s": 3}})
    await world.tried("task", 1)
    await world.order("pause_lane", actor="anna")
    await world.reached("task", TaskStatus.QUEUED)
    await world.is_granted("task", "e1")
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


@scenario("prioritized where it stood before: it says so where it stands", keep=(DISPATCHER, TASK))
async def priority_comes_late(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    await world.is_preferred("task")
    await world.is_prioritized("task")
    await world.order("resume_lane", actor="anna")
    await world.ended("task")
