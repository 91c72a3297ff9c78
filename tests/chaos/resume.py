"""How long interrupted tasks stand still after a worker's restart, from the emulators' journals."""

import asyncio
import random
import time

from droidherd.domain.lifecycle import TaskState
from tests.chaos.judge import WIDTH
from tests.support.farm import Farm, until


async def resume_after_restart_s(place: Farm, chance: random.Random, name: str) -> list[float]:
    """Kill the worker while every emulator is at work, start it again; per emulator: seconds to the next tap."""
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    tasks = {f"{name}-{i}": 2.0 + 3.0 * i for i in range(len(place.emulators))}
    for i, (task_id, x) in enumerate(tasks.items()):
        await place.submit(client, task_id, "pace", params={"x": x}, account=f"{name}-{i}")

    async def all_run() -> bool | None:
        states = [(await place.view(client, t)).state for t in tasks]
        return True if states.count(TaskState.RUNNING) == len(tasks) else None

    await until(all_run, "every emulator to be at work")
    await asyncio.sleep(chance.uniform(0.2, 1.0))
    place.worker.kill()
    started_s = time.monotonic()
    place.worker.start()
    for task_id in tasks:
        await place.ended(client, task_id)
    return [gap for x in tasks.values() if (gap := _first_tap_after(place, x, started_s)) is not None]


def _first_tap_after(place: Farm, x: float, after_s: float) -> float | None:
    column = round(WIDTH * x / 100)
    taps = [
        command.monotonic_s
        for emulator in place.emulators
        for command in place.journal(emulator)
        if command.argv[:2] == ("input", "tap")
        and abs(int(command.argv[2]) - column) <= 1
        and command.monotonic_s > after_s
    ]
    return min(taps) - after_s if taps else None
