"""What befalls a task on its emulator: trouble, moves, restarts, the deck."""

import asyncio
from dataclasses import replace

from droidherd.contracts.plan import TaskTiming
from droidherd.domain.errors import EmulatorLostError, FencedError, NotReleasedError
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import DISPATCHER, TASK, Setting, scenario
from tests.workflows.plays import AwaitsTurn, Deaf, Hold, Play, Silent, completes, fails
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import World

TWO = Setting(emulators=("e1", "e2"))
ACCOUNT = [{"name": "collect", "effect": "account"}]

lost = fails(EmulatorLostError("does not answer", to="e1"), clean=False)
fenced = fails(FencedError("another lease holds it", to="e1"), clean=False)


@scenario("trouble of the emulator is borne on the same lease")
async def trouble_is_borne(world: World) -> None:
    await world.submit("task", lost, lost, completes)
    await world.ended("task")


@scenario("trouble that does not end: the task moves and keeps its ticket", setting=TWO)
async def trouble_without_end_moves(world: World) -> None:
    await world.submit("task", *[lost] * 8, completes)
    await world.ended("task")


@scenario("the emulator says that the lease is over", setting=TWO)
async def fenced_moves(world: World) -> None:
    await world.submit("task", fenced, completes)
    await world.ended("task")
    await world.idle()


@scenario(
    "it loses its emulator more often than a task may",
    setting=Setting(emulators=("e1", "e2"), timing=IMPATIENT_TASKS.model_copy(update={"moves": 1})),
)
async def moves_exhausted(world: World) -> None:
    await world.submit("task", fenced, fenced)
    await world.ended("task")


@scenario("after a move, what lives on the emulator is done again there", setting=TWO)
async def moved_after_a_stage(world: World) -> None:
    stages = [{"name": "open"}, {"name": "collect", "effect": "account"}, {"name": "leave"}]
    await world.submit("task", completes, completes, fenced, params={"stages": stages})
    await world.ended("task")


@scenario("what must not act twice comes back to the emulator whose journal knows it", setting=TWO)
async def bound_to_its_emulator(world: World) -> None:
    await world.submit("task", fenced, account="42", params={"stages": ACCOUNT})
    await world.ended("task")


@scenario("heartbeats stop: the stage runs again under a higher token")
async def silent(world: World) -> None:
    await world.submit("task", Silent(), completes)
    await world.ended("task")


@scenario("a host vanished between grant and start", setting=Setting(joined=False))
async def not_started(world: World) -> None:
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "up")
    await world.submit("task")
    await world.reached("task", TaskStatus.RUNNING)
    world.owns("e1", "e2")
    await world.serve("e2")
    await world.sees("e2", Health.GOOD)
    await world.ended("task")


@scenario("its emulator goes down; the stage stops in time and the task moves", setting=TWO)
async def revoked_down(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.sees(world.stages.of("task")[0].emulator_id, Health.DOWN)
    await world.ended("task")


@scenario("its emulator goes down; the stage does not listen and is given up", setting=TWO)
async def revoked_and_deaf(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf)
    await deaf.began.wait()
    await world.sees(world.stages.of("task")[0].emulator_id, Health.DOWN)
    await world.ended("task")
    deaf.let_go.set()


@scenario("its emulator goes down; the stage completes all the same and counts", setting=TWO)
async def revoked_but_completed(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf)
    await deaf.began.wait()
    await world.sees(world.stages.of("task")[0].emulator_id, Health.DOWN)
    await world.signalled("task", "revoked")
    deaf.let_go.set()
    await world.ended("task")


@scenario("its emulator restarts under it", setting=TWO)
async def rebooted(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.sees(world.stages.of("task")[0].emulator_id, Health.GOOD, boot="boot-2")
    await world.ended("task")


@scenario("a new worker took the host over: the stage is lost by word and runs again")
async def worker_restarted(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.join(2)
    await world.tried("task", 2)
    hold.let_go.set()
    await world.ended("task")


@scenario("its worker drains: the stage stops though nobody asked, and goes on at the next worker")
async def worker_drained(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    await world.emulator_workers["e1"].shutdown()
    await world.serve("e1")
    await world.ended("task")


TWO_STAGES = {"stages": [{"name": "open"}, {"name": "collect"}]}


@scenario("cancelled before the turn of a later stage came: a cleanup of its own")
async def cancelled_before_its_turn(world: World) -> None:
    awaits = AwaitsTurn()
    await world.submit("task", completes, awaits, params=TWO_STAGES)
    await awaits.began.wait()
    await world.control("task", "cancel")
    await world.ended("task")


@scenario("its worker ended before the turn of a later stage came: reset, moved", keep=(TASK, DISPATCHER))
async def turned_away(world: World) -> None:
    awaits = AwaitsTurn()
    await world.submit("task", completes, awaits, params=TWO_STAGES)
    await awaits.began.wait()
    awaits.let_go.set()
    await world.ended("task")


async def on_deck(world: World, *plays: Play) -> Hold:
    """`first` runs on e1 and is about to end, `task` stands behind it on the emulator's queue."""
    await world.submit("warm", completes)
    await world.ended("warm")
    hold = Hold()
    await world.submit("first", hold)
    await hold.began.wait()
    await world.submit("task", *plays)
    await world.reached("task", TaskStatus.RUNNING)
    return hold


@scenario("on deck: its stage stands on the queue before the emulator is free", keep=(TASK, "first", DISPATCHER))
async def deck(world: World) -> None:
    hold = await on_deck(world)
    hold.let_go.set()
    await world.ended("task")


@scenario("on deck, and the one before has not let go on the emulator yet: ask, then again")
async def deck_not_released(world: World) -> None:
    not_yet = fails(NotReleasedError("lease 1 did not end", to="e1"))
    hold = await on_deck(world, not_yet, not_yet, completes)
    hold.let_go.set()
    await world.ended("task")


@scenario("taken off deck through no fault of its own: no move is counted", keep=(TASK, DISPATCHER))
async def taken_off_deck(world: World) -> None:
    hold = await on_deck(world)
    await world.emulator("e1").signal("drain", {"actor": "anna", "reason": "updates"})
    await world.reached("task", TaskStatus.QUEUED)
    await world.emulator("e1").signal("undrain", {"actor": "anna"})
    hold.let_go.set()
    await world.ended("task")


@scenario("on deck behind something slow, then an emulator comes free elsewhere", keep=(TASK, DISPATCHER))
async def stolen_from_deck(world: World) -> None:
    hold = await on_deck(world)
    await world.serve("e2")
    world.owns("e1", "e2")
    await world.sees("e2", Health.GOOD)
    await world.ended("task")
    hold.let_go.set()


@scenario(
    "the lease runs out: revoked, fenced, freed",
    keep=(TASK, DISPATCHER),
    setting=Setting(timing=TaskTiming(heartbeat_timeout_s=1.0, lease_ttl_s=0.2, cleanup_s=0.3, lease_margin_s=0.3)),
)
async def lease_expired(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, params={"policy": {"time_limit_s": 0.5}})
    await deaf.began.wait()
    await world.signalled("task", "revoked")
    await asyncio.sleep(0.5)
    deaf.let_go.set()
    await world.ended("task")
    await world.idle()


async def paused_after_a_stage(world: World) -> str:
    """Its first stage completed. Returns the emulator, which somebody else holds until `busy` lets go."""
    hold = Hold()
    await world.submit("task", completes, hold, params=TWO_STAGES)
    await hold.began.wait()
    home = (await world.view("task")).emulator
    await world.control("task", "pause")
    await world.reached("task", TaskStatus.PAUSED)
    return home


@scenario("resumed: it waits for the emulator on which its stages completed", setting=TWO, keep=(TASK, DISPATCHER))
async def waits_for_the_emulator_of_its_stages(world: World) -> None:
    home, busy = await paused_after_a_stage(world), Hold()
    await world.submit("busy", busy, emulator=home)
    await busy.began.wait()
    await world.control("task", "resume")
    await world.reached("task", TaskStatus.QUEUED)
    busy.let_go.set()
    await world.ended("task")


@scenario("the emulator that it waits for goes down: it asks for any other", setting=TWO, keep=(TASK, DISPATCHER))
async def the_emulator_of_its_stages_dies(world: World) -> None:
    home, busy = await paused_after_a_stage(world), Deaf()
    await world.submit("busy", busy, emulator=home)
    await busy.began.wait()
    await world.control("task", "resume")
    await world.reached("task", TaskStatus.QUEUED)
    await world.sees(home, Health.DOWN)
    await world.ended("task")
    busy.let_go.set()


@scenario(
    "its emulator restarts while its worker is dead: fenced, it does not wait for a try that nobody runs",
    setting=TWO,
    keep=(TASK, DISPATCHER, "emulator/e1", "emulator/e2"),
)
async def rebooted_without_a_worker(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf)
    await deaf.began.wait()
    emulator = world.stages.of("task")[0].emulator_id
    seen = world.presence.last_seen[emulator]
    world.presence.last_seen[emulator] = replace(seen, boot="boot-2")
    await world.join(2)
    await world.ended("task")
    deaf.let_go.set()
