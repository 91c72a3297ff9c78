"""Point 2 of the foundation: whatever is struck down, nothing is lost and nothing happens twice."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from droidherd.contracts import names
from droidherd.contracts.queue import CommandResult, OperatorCommand
from droidherd.domain.task.lifecycle import TaskStatus
from tests.chaos import strikes
from tests.chaos.judge import Judgement, attended, judge, wrong
from tests.chaos.replayed import diverged
from tests.chaos.resume import signals_sent_to_dead_caches
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parent / "flows"
EMULATORS = 3
TASKS = 6

SMALL = {
    "worker": strikes.worker,
    "engine": strikes.engine,
    "engine_away": strikes.engine_away(6.0),
    "adb_server": strikes.adb_server,
    "emulator": strikes.emulator,
    "reboot": strikes.reboot,
    "fleet": strikes.fleet,
    "dispatcher": strikes.dispatcher,
    "emulator_workflows": strikes.emulator_workflows,
    "host_workflow": strikes.host_workflow,
    "host": strikes.everything_of_the_host,
}


@pytest.mark.parametrize("victim", SMALL)
async def test_no_task_is_lost_and_no_effect_happens_twice_when_one_dies(victim: str, tmp_path: Path) -> None:
    with farm(tmp_path, EMULATORS, flows=FLOWS) as place:
        judgements = await asyncio.wait_for(rehearse(place, SMALL[victim], random.Random(7), "r0"), 400)
        assert ([], []) == (wrong(judgements, victim), await diverged(place))
        if victim == "worker":
            causes = await signals_sent_to_dead_caches(await place.client())
            assert names.Signal.CONFIGURE not in causes, "who starts again waits for nobody's cache"


async def rehearse(place: Farm, strike: strikes.Strike, chance: random.Random, name: str) -> list[Judgement]:
    """One round: tasks run and wait, the blow falls, everybody ends."""
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    began_s = time.monotonic()
    places = {f"{name}-{i}": 2.0 + 3.0 * i for i in range(TASKS)}
    for i, (task_id, x) in enumerate(places.items()):
        await place.submit(client, task_id, "pace", params={"x": x}, account=f"a{i}")
    await until(lambda: _some_run(place, list(places)), "tasks to run")
    await asyncio.sleep(chance.uniform(0.1, 1.2))
    await strike(place, chance)
    ends = {t: await attended(place, client, t, x, began_s) for t, x in places.items()}
    return [await judge(place, client, ends[t], x, began_s) for t, x in places.items()]


async def _some_run(place: Farm, tasks: list[str]) -> bool | None:
    client = await place.client()
    states = [(await place.view(client, t)).state for t in tasks]
    return True if states.count(TaskStatus.RUNNING) >= EMULATORS else None


async def test_an_operators_pause_survives_the_death_of_the_dispatcher(tmp_path: Path) -> None:
    with farm(tmp_path, 1, flows=FLOWS) as place:
        client = await place.client()
        await place.wake(client)
        await place.all_up(client)
        handle = client.get_workflow_handle(names.dispatcher_id("default"))
        order = OperatorCommand(request_id="1", actor="operator", reason="maintenance", lane="account")
        assert (await handle.execute_update(names.Update.PAUSE_LANE, order, result_type=CommandResult)).done
        await place.submit(client, "waits", "tap_once", account="a")
        await place.reached(client, "waits", TaskStatus.QUEUED)
        await handle.terminate("struck down by a test")
        await place.submit(client, "goes", "tap_once")
        assert TaskStatus.COMPLETED == (await place.ended(client, "goes")).state
        assert TaskStatus.QUEUED == (await place.view(client, "waits")).state
        order = OperatorCommand(request_id="2", actor="operator", lane="account")
        await handle.execute_update(names.Update.RESUME_LANE, order, result_type=CommandResult)
        assert TaskStatus.COMPLETED == (await place.ended(client, "waits")).state
