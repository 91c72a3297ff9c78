"""Emulators and hosts: gates, presence, owners, leaving, continuing as new."""

import asyncio
from dataclasses import replace

from droidherd.domain.errors import FencedError
from droidherd.domain.fleet.emulator import GATE_TRIES
from droidherd.domain.messages import Health, RecoveryPolicy
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import DISPATCHER, EMULATOR, HOST, TASK, Setting, scenario
from tests.workflows.plays import Hold, completes, fails
from tests.workflows.world import World, wake

LATER = Setting(joined=False)
SHORT = Setting(short=True)
TWO = Setting(emulators=("e1", "e2"))


@scenario("a host joins, its emulator passes the gate and the pool hears of it", keep=(HOST, EMULATOR, DISPATCHER))
async def joined(world: World) -> None:
    await world.emulator_is("e1", "up")


@scenario("the gate fails, then passes", keep=(EMULATOR,), setting=LATER)
async def gate_failed(world: World) -> None:
    world.gates.evidence["e1"] = ["the launcher has no focus"]
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "up")


@scenario("the gate fails again and again: quarantined, until it restarted", keep=(EMULATOR,), setting=LATER)
async def quarantined(world: World) -> None:
    world.gates.evidence["e1"] = ["the launcher has no focus"] * GATE_TRIES
    await world.register("e1")
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "quarantined")
    await world.sees("e1", Health.GOOD, boot="boot-2")
    await world.emulator_is("e1", "up")


@scenario("left dirty by a task: reset before the next one", keep=(EMULATOR,))
async def reset_after_task(world: World) -> None:
    await world.submit("first", fails(FencedError("another lease holds it"), clean=False), completes)
    await world.ended("first")
    await world.idle()


@scenario("drained and taken back", keep=(EMULATOR, DISPATCHER))
async def drained(world: World) -> None:
    await world.emulator("e1").signal("drain", {"actor": "anna", "reason": "updates"})
    await world.emulator_is("e1", "draining")
    await world.emulator("e1").signal("undrain", {"actor": "anna"})
    await world.emulator_is("e1", "up")


@scenario("a report from far ahead of the clock is outdone", keep=(EMULATOR, HOST, DISPATCHER))
async def outdone(world: World) -> None:
    await world.emulator_is("e1", "up")
    began = (await world.emulator("e1").describe()).start_time
    ahead = int(began.timestamp() * 1000) + 80_000_000
    down = {"incarnation": ahead, "seq": ahead, "host_id": world.host, "emulator_id": "e1", "boot": "x"}
    await world.emulator("e1").signal("seen", {**down, "health": "down", "pool": world.pool})
    await world.emulator_is("e1", "up")
    await world.dispatcher().signal("announce", {**down, "state": "down"})
    await world.emulator_is("e1", "up")


@scenario("suspect, good again, restarted, down, gone", keep=(EMULATOR, HOST))
async def every_health(world: World) -> None:
    for health, boot, state in (
        (Health.SUSPECT, "", "suspect"),
        (Health.GOOD, "", "up"),
        (Health.GOOD, "boot-2", "up"),
        (Health.LEAVING, "", "draining"),
        (Health.GOOD, "", "up"),
        (Health.DOWN, "", "down"),
        (Health.GOOD, "boot-3", "up"),
        (Health.LEFT, "", "retired"),
    ):
        await world.sees("e1", health, boot=boot)
        await world.emulator_is("e1", state)


@scenario("a worker is replaced while a gate runs: the gate runs again at the new one", keep=(EMULATOR,), setting=LATER)
async def gate_given_up(world: World) -> None:
    hold = world.gates.holding["e1"] = asyncio.Event()
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "recovering")
    await world.join(2)
    await world.emulator_is("e1", "up")
    hold.set()


@scenario("a second host sees it too and waits until the first lost it", keep=(EMULATOR, "host/h2"))
async def owner_changed(world: World) -> None:
    await world.join(1, host="h2", machine="m2")
    first = world.presence.last_seen["e1"]
    await world.presence.tell(1, replace(first, host_id="h2", address="127.0.0.1:30000"))
    await world.submit("task")
    await world.ended("task")
    await world.sees("e1", Health.DOWN)
    await world.presence.tell(1, replace(first, host_id="h2", address="127.0.0.1:30000"))
    await world.serve_host("h2")
    await world.emulator_is("e1", "up")


@scenario("a second machine under the same id is refused, an older worker too", keep=(HOST,))
async def join_refused(world: World) -> None:
    await world.join(2, machine="m2")
    await world.join(0)
    await world.join(1)


@scenario("presence falls silent and comes back: suspect, nothing revoked", keep=(HOST, EMULATOR))
async def presence_lost_and_back(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    world.presence.silent.set()
    await world.emulator_is("e1", "suspect")
    world.presence.silent.clear()
    await world.emulator_is("e1", "up")
    hold.let_go.set()
    await world.ended("task")


@scenario("the host is gone: suspect, then down; a new worker brings it back", keep=(HOST, EMULATOR, TASK))
async def host_gone_and_back(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    world.presence.silent.set()
    if world.host_worker is not None:
        await world.host_worker.shutdown()
    await world.emulator_is("e1", "down")
    await world.reached("task", TaskStatus.QUEUED)
    world.presence.silent.clear()
    await world.serve_host()
    await world.join(2)
    await world.emulator_is("e1", "up")
    await world.ended("task")


@scenario("a new worker takes over from a living one of the same machine", keep=(HOST, EMULATOR))
async def worker_replaced(world: World) -> None:
    await world.join(2)
    await world.submit("task")
    await world.ended("task")


@scenario("a worker leaves in order: its emulators retire", keep=(HOST, EMULATOR, DISPATCHER))
async def left(world: World) -> None:
    world.presence.leaving.set()
    await world.emulator_is("e1", "retired")


@scenario("taken off the list while its worker is down: it has left when a worker is back, and its task moves",
          keep=(HOST, DISPATCHER, TASK), setting=TWO)  # fmt: skip
async def taken_off_the_list(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    gone = world.stages.of("task")[0].emulator_id
    del world.presence.last_seen[gone]
    await world.join(2)
    await world.emulator_is(gone, "retired")
    await world.ended("task")


@scenario("what its host let go belongs to another one that could start it", keep=(EMULATOR,))
async def inherited(world: World) -> None:
    await world.join(1, host="h2", machine="m2")
    first = world.presence.last_seen["e1"]
    await world.presence.tell(
        1, replace(first, host_id="h2", health=Health.DOWN, boot="", recovery=RecoveryPolicy(controller="avd"))
    )
    await world.sees("e1", Health.LEFT)
    await world.emulator_is("e1", "down")


@scenario("a host moves to another pool: the old one hears of it, and its task waits there",
          keep=(EMULATOR, DISPATCHER, TASK))  # fmt: skip
async def moved_to_another_pool(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()
    world.presence.moves_to("other")
    world.pool = "other"
    await wake(world)
    await world.join(2)
    await world.emulator_is("e1", "up")
    await world.reached("task", TaskStatus.QUEUED)


@scenario("host, emulator, dispatcher and tasks continue as new, again and again",
          keep=(HOST, EMULATOR, DISPATCHER), setting=SHORT)  # fmt: skip
async def all_continued(world: World) -> None:
    for n in range(6):
        await world.submit(f"t{n}")
        await world.ended(f"t{n}")
        await world.sees("e1", Health.SUSPECT)
        await world.emulator_is("e1", "suspect")
        await world.sees("e1", Health.GOOD)
        await world.emulator_is("e1", "up")


async def _long(world: World, *then: str) -> None:
    """A history so long that the engine suggests to continue: paused and resumed until it does."""
    for _ in range(5):
        await world.control("task", "pause")
        await world.reached("task", TaskStatus.PAUSED)
        await world.control("task", "resume")
        await world.reached("task", TaskStatus.QUEUED)
    for action in then:
        await world.control("task", action)


@scenario("a task continues as new while it waits in line", setting=SHORT)
async def task_continued_in_line(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task", account="42")
    await world.reached("task", TaskStatus.QUEUED)
    await _long(world)
    await world.order("resume_lane", actor="anna")
    await world.ended("task")


@scenario("a task continues as new while it is paused, and is cancelled there", setting=SHORT)
async def task_continued_paused(world: World) -> None:
    await world.order("pause_lane", actor="anna")
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)
    await _long(world, "pause", "cancel")
    await world.ended("task")


@scenario("a task continues as new between two attempts, and keeps what it had done", setting=SHORT)
async def task_continued_between_attempts(world: World) -> None:
    missed = fails(FencedError("another lease holds it"), clean=True)
    stages = [{"name": f"s{n}", "effect": "account", "on_ambiguous": "repeat"} for n in range(6)]
    plays = [play for _ in range(6) for play in (completes, missed)]
    await world.submit("task", *plays, params={"stages": stages})
    await world.ended("task")


@scenario("a task continues as new while it waits for a key to be planned", setting=SHORT)
async def task_continued_without_key(world: World) -> None:
    await world.submit("task", params={"locked": True})
    first = (await world.waits_for_key("task")).run_id
    while (await world.waits_for_key("task")).run_id == first:
        await world.task("task").signal("nobody_knows_this")
    await world.control("task", "cancel")
    await world.ended("task")
