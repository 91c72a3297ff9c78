"""How long interrupted tasks stand still after a worker's restart, from the emulators' journals."""

import asyncio
import random
import time

from temporalio.api.enums.v1 import TimeoutType
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.domain.task.lifecycle import TaskStatus
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
        return True if states.count(TaskStatus.RUNNING) == len(tasks) else None

    await until(all_run, "every emulator to be at work")
    await asyncio.sleep(chance.uniform(0.2, 1.0))
    place.worker.kill()
    started_s = time.monotonic()
    place.worker.start()
    for task_id in tasks:
        await place.ended(client, task_id)
    return [gap for x in tasks.values() if (gap := _first_tap_after(place, x, started_s)) is not None]


async def signals_sent_to_dead_caches(client: Client) -> list[str]:
    """What made the dispatcher's workflow tasks that a dead worker's cache was waited for in vain, if a signal did."""
    history = await client.get_workflow_handle(names.dispatcher_id("default")).fetch_history()
    by_id = {event.event_id: event for event in history.events}
    in_vain = [
        event.workflow_task_timed_out_event_attributes.scheduled_event_id
        for event in history.events
        if event.workflow_task_timed_out_event_attributes.timeout_type == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
    ]
    causes = (by_id[number - 1].workflow_execution_signaled_event_attributes.signal_name for number in in_vain)
    return [cause for cause in causes if cause]


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
