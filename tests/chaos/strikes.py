"""What can be struck down, and how it comes back. One function per victim; each returns when the blow has fallen."""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable

import psutil
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from tests.support.farm import Farm

STOPPED_S = (5.0, 40.0)

Strike = Callable[[Farm, random.Random], Awaitable[None]]


async def worker(farm: Farm, chance: random.Random) -> None:
    """kill -9, and a new one at once, as a supervisor would."""
    farm.worker.kill()
    await asyncio.sleep(chance.uniform(0.0, 0.3))
    farm.worker.start()


async def engine(farm: Farm, chance: random.Random) -> None:
    """kill -9 of the Temporal server, restarted on the same file."""
    await asyncio.to_thread(farm.engine.kill)
    await asyncio.to_thread(farm.engine.restart)


def engine_away(seconds: float) -> Strike:
    async def strike(farm: Farm, chance: random.Random) -> None:
        await asyncio.to_thread(farm.engine.kill)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(farm.engine.restart)

    return strike


async def adb_server(farm: Farm, chance: random.Random) -> None:
    """kill -9 of the adb server; the worker brings it back."""
    content = json.loads((farm.data / "adb" / "adb-server.json").read_text())
    os.kill(content["pid"], signal.SIGKILL)


async def emulator(farm: Farm, chance: random.Random) -> None:
    """One virtual emulator dies and boots again."""
    victim = chance.choice(farm.emulators)
    with farm.control() as control:
        await asyncio.to_thread(control.kill, victim)
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        await asyncio.to_thread(control.start, victim)


async def reboot(farm: Farm, chance: random.Random) -> None:
    """One virtual emulator reboots by itself: its properties are gone, its files are not."""
    with farm.control() as control:
        await asyncio.to_thread(control.reboot, chance.choice(farm.emulators))


async def fleet(farm: Farm, chance: random.Random) -> None:
    """The whole process of the virtual emulators."""
    await asyncio.to_thread(farm.fleet.kill)
    await asyncio.sleep(chance.uniform(0.0, 0.5))
    await asyncio.to_thread(farm.fleet.restart)


async def stop_for(pid: int, seconds: float) -> None:
    """SIGSTOP, and after a while SIGCONT. It may be ended meanwhile, by who takes it for hung."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.suspend()
        try:
            await asyncio.sleep(seconds)
        finally:
            process.resume()


async def stopped_worker(farm: Farm, chance: random.Random) -> None:
    await stop_for(farm.worker.pid, chance.uniform(*STOPPED_S))


async def stopped_engine(farm: Farm, chance: random.Random) -> None:
    await stop_for(farm.engine.pid, chance.uniform(*STOPPED_S))


async def stopped_adb_server(farm: Farm, chance: random.Random) -> None:
    content = json.loads((farm.data / "adb" / "adb-server.json").read_text())
    await stop_for(content["pid"], chance.uniform(*STOPPED_S))


async def stopped_fleet(farm: Farm, chance: random.Random) -> None:
    """The whole process of the virtual emulators."""
    await stop_for(farm.fleet.pid, chance.uniform(*STOPPED_S))


async def dispatcher(farm: Farm, chance: random.Random) -> None:
    """`terminate` on the dispatcher's workflow."""
    await terminate(await farm.client(), names.dispatcher_id("default"))


async def emulator_workflows(farm: Farm, chance: random.Random) -> None:
    """`terminate` on the workflows of all emulators."""
    client = await farm.client()
    for emulator_id in farm.emulators:
        await terminate(client, names.emulator_id(emulator_id))


async def emulator_workflow(farm: Farm, chance: random.Random) -> None:
    """`terminate` on the workflow of one of them."""
    await terminate(await farm.client(), names.emulator_id(chance.choice(farm.emulators)))


async def host_workflow(farm: Farm, chance: random.Random) -> None:
    """`terminate` on the workflow of the host."""
    await terminate(await farm.client(), names.host_id("local"))


async def terminate(client: Client, workflow_id: str) -> None:
    try:
        await client.get_workflow_handle(workflow_id).terminate("ended by a test")
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def everything_of_the_host(farm: Farm, chance: random.Random) -> None:
    """The worker and its adb server together."""
    with contextlib.suppress(psutil.Error, FileNotFoundError, ProcessLookupError):
        await adb_server(farm, chance)
    await worker(farm, chance)
