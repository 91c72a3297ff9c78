"""Emulators whose host can do something for them: the steps, orders of people, on and off."""

import asyncio
from datetime import UTC, datetime, timedelta

from droidherd.domain.messages import Health
from droidherd.testing.skipping import until
from tests.replay.scenario import DISPATCHER, EMULATOR, HOST, TASK, Setting, scenario
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import POOL, World

LATER = Setting(joined=False)
LAZY = Setting(
    pool=POOL.model_copy(update={"idle_stop_s": 0.5}),
    timing=IMPATIENT_TASKS.model_copy(update={"startup_lead_s": 60.0}),
)
SHORT = Setting(short=True)


async def _did(world: World, *steps: str) -> None:
    async def there() -> bool | None:
        return True if world.recoveries.of("e1") == [*steps] else None

    await until(there, f"e1 to be recovered by {steps}")


async def _tell(world: World) -> None:
    """What the host can do is said with the next thing it sees."""
    world.allow_recovery(restarts=2)
    await world.sees("e1", Health.SUSPECT)
    await world.emulator_is("e1", "suspect")
    await world.sees("e1", Health.GOOD)
    await world.emulator_is("e1", "up")


@scenario("down, and restarted through its controller", keep=(EMULATOR, HOST, DISPATCHER))
async def restarted(world: World) -> None:
    await _tell(world)
    await world.sees("e1", Health.DOWN)
    await _did(world, "restart")
    await world.sees("e1", Health.GOOD, boot="boot-2")
    await world.emulator_is("e1", "up")


@scenario("down, and back before anything was done for it", keep=(EMULATOR,))
async def back_by_itself(world: World) -> None:
    world.allow_recovery(reconnect_s=60.0)
    await world.sees("e1", Health.DOWN)
    await world.emulator_is("e1", "down")
    await world.sees("e1", Health.GOOD)
    await world.emulator_is("e1", "up")


@scenario(
    "unfit: every step of the steps, quarantine, evidence, released by a person",
    keep=(EMULATOR, DISPATCHER),
    setting=LATER,
)
async def recovery_steps(world: World) -> None:
    world.allow_recovery(restarts=1)
    world.gates.evidence["e1"] = ["the launcher has no focus"] * 4
    await world.register("e1")
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "quarantined")
    await _did(world, "reconnect", "restart_app", "restart", "evidence")
    await world.control_emulator("e1", "release", "new disk")
    await world.emulator_is("e1", "up")


@scenario(
    "restarts are forgiven at once, but only to who was up since: it is given up", keep=(EMULATOR,), setting=LATER
)
async def never_up(world: World) -> None:
    world.allow_recovery(restarts=1, forgive_s=0.001)
    world.gates.evidence["e1"] = ["the launcher has no focus"] * 4
    await world.register("e1")
    await world.serve_host()
    await world.join()
    await world.emulator_is("e1", "quarantined")
    await _did(world, "reconnect", "restart_app", "restart", "evidence")


@scenario("a worker is replaced while an emulator boots: the boot is ordered again", keep=(EMULATOR,))
async def boot_given_up(world: World) -> None:
    await _tell(world)
    hold = world.recoveries.holding["e1"] = asyncio.Event()
    await world.sees("e1", Health.DOWN)
    await _did(world, "restart")
    await world.join(2)
    await world.sees("e1", Health.DOWN, incarnation=2)
    await _did(world, "restart", "restart")
    await world.sees("e1", Health.GOOD, boot="boot-2", incarnation=2)
    await world.emulator_is("e1", "up")
    hold.set()


@scenario(
    "back by itself while its host restarts it: nobody may have it until that is settled", keep=(EMULATOR, DISPATCHER)
)
async def back_while_restarted(world: World) -> None:
    await _tell(world)
    hold = world.recoveries.holding["e1"] = asyncio.Event()
    await world.sees("e1", Health.DOWN)
    await _did(world, "restart")
    await world.sees("e1", Health.GOOD)
    await world.emulator_is("e1", "draining")
    hold.set()
    await world.emulator_is("e1", "up")


@scenario("every order of a person to an emulator", keep=(EMULATOR, DISPATCHER))
async def operator_orders(world: World) -> None:
    await _tell(world)
    await world.control_emulator("e1", "quarantine", "why not")
    await _did(world, "evidence")
    for action, state in (
        ("release", "up"),
        ("recover", "up"),
        ("drain", "draining"),
        ("undrain", "up"),
    ):
        await world.control_emulator("e1", action, "why not")
        await world.emulator_is("e1", state)
    await world.control_emulator("e1", "restart")
    await world.sees("e1", Health.GOOD, boot="boot-2")
    await world.emulator_is("e1", "up")


@scenario(
    "idle and switched off, then on for a task, then on before a task's time",
    keep=(EMULATOR, DISPATCHER, TASK),
    setting=LAZY,
)
async def off_and_on(world: World) -> None:
    await _tell(world)
    await _did(world, "stop")
    await world.emulator_is("e1", "stopped")
    await world.sees("e1", Health.DOWN)
    await world.submit("before")
    await _did(world, "stop", "start")
    await world.sees("e1", Health.GOOD, boot="boot-2")
    await world.ended("before")
    await _did(world, "stop", "start", "stop")
    await world.sees("e1", Health.DOWN)
    await world.submit("task", not_before=datetime.now(UTC) + timedelta(seconds=3))
    await _did(world, "stop", "start", "stop", "start")
    await world.sees("e1", Health.GOOD, boot="boot-3")
    await world.ended("task")


@scenario("nobody knows whether it was switched off: once more", keep=(EMULATOR, DISPATCHER), setting=LAZY)
async def stopped_once_more(world: World) -> None:
    silence = world.recoveries.silent["e1"] = asyncio.Event()
    await _tell(world)
    await _did(world, "stop", "stop")
    await world.emulator_is("e1", "stopped")
    silence.set()


@scenario("an emulator continues as new while it is being recovered", keep=(EMULATOR,), setting=SHORT)
async def recovery_continued(world: World) -> None:
    await _tell(world)
    for n in range(2, 6):
        await world.sees("e1", Health.DOWN)
        await world.control_emulator("e1", "restart")
        await world.sees("e1", Health.GOOD, boot=f"boot-{n}")
        await world.emulator_is("e1", "up")
