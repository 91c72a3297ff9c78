"""A worker with a good emulator and a device that turns hostile: the good one's tasks go on, and the worker lives."""

import asyncio
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.domain.messages import Health, Seen
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe_loop import ProbedHost, ProbeLoop, ProbeTiming
from droidherd.virtual.process import VirtualFleet
from tests.adb import hostile
from tests.adb.hostile import HostileDevice, hostile_device
from tests.emulator.farm import small_farm
from tests.support.farm import Farm, farm, until

GOOD, BAD = "virtual-1", "hostile"
TURNS = (
    (hostile.PROTOCOL[0], "garbage"),
    (hostile.PROTOCOL[2], "endless"),
    (hostile.PROTOCOL[3], "huge"),
    (hostile.SHELLS[0], "endless"),
    (hostile.SHELLS[0], "huge"),
    (hostile.SHELLS[1], "nothing"),
    (hostile.SHELLS[2], "garbage"),
    (hostile.SHELLS[3], "slowly"),
)
WORKER_MAX_BYTES = 700 << 20
ADB_MAX_BYTES = 128 << 20
LOG_MAX_BYTES = 8 << 20


async def state_of(client: Client, emulator: str) -> str:
    handle = client.get_workflow_handle(names.emulator_id(emulator))
    return str((await handle.query(names.Query.VIEW, result_type=EmulatorView)).state)


async def is_in(client: Client, emulator: str, *states: str) -> None:
    async def there() -> str | None:
        found = await state_of(client, emulator)
        return found if found in states else None

    await until(there, f"{emulator} to be {states}", 240.0)


def peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) << 10


async def _play(place: Farm, device: HostileDevice) -> None:
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    Inventory(place.data).add(InventoryEntry(emulator_id=BAD, address=device.address))
    await is_in(client, BAD, "up")
    for number, (step, manner) in enumerate(TURNS):
        device.turn(step, manner)
        device.drop()
        await place.submit(client, f"t{number}", "check", emulator=GOOD)
        view = await place.ended(client, f"t{number}")
        seen = view.state, [attempt.emulator for attempt in view.attempts]
        assert (TaskStatus.COMPLETED, [GOOD]) == seen, (step.name, manner)
        await is_in(client, BAD, "suspect", "down", "quarantined")
        place.worker.check()
    assert "up" == await state_of(client, GOOD)


@pytest.mark.skipif(os.name != "posix", reason="reads /proc")
async def test_a_worker_serves_the_good_emulator_whatever_the_other_one_answers(tmp_path: Path) -> None:
    with (
        farm(tmp_path, 1, in_memory=True) as place,
        VirtualFleet.start(state=tmp_path / "behind", count=1) as behind,
        hostile_device(behind.addresses["virtual-1"]) as device,
    ):
        await asyncio.wait_for(_play(place, device), 500)
        assert WORKER_MAX_BYTES > peak_bytes(place.worker.pid)
        adb = json.loads((place.data / "adb" / "adb-server.json").read_text())["pid"]
        assert ADB_MAX_BYTES > peak_bytes(adb)
        logs = [place.worker.log, place.data / "adb" / "adb-server.log"]
        assert LOG_MAX_BYTES > sum(log.stat().st_size for log in logs)
        for line in place.worker.log.read_text(encoding="utf-8").splitlines():
            assert line.isprintable(), line[:300]
            assert isinstance(json.loads(line), dict), line[:300]


async def test_a_device_that_silences_the_adb_server_is_left_alone(tmp_path: Path) -> None:
    """It asks for signatures without end. The server is started again, and the good emulator comes back to stay."""
    healths: dict[str, list[Health]] = {GOOD: [], BAD: []}

    async def tell(news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
        for seen in news:
            healths[seen.emulator_id].append(seen.health)

    async def until_true(true: Callable[[], bool]) -> None:
        async def ask() -> bool | None:
            return true() or None

        await until(ask, "it to be so", 180.0)

    with small_farm(tmp_path) as place, hostile_device(place.fleet.addresses[GOOD]) as device:
        device.turn(hostile.PROTOCOL[1], "endless")
        inventory = Inventory(tmp_path)
        inventory.add(InventoryEntry(emulator_id=GOOD, address=place.fleet.addresses[GOOD]))
        with ThreadPoolExecutor(4) as threads:
            host = ProbedHost("h", "default")
            rounds = ProbeLoop(host, place.server, inventory, ProbeTiming(1.0, 2.0, 10.0), threads)
            watching = asyncio.create_task(rounds.run(tell, 1))
            await until_true(lambda: healths[GOOD][-1:] == [Health.GOOD])
            inventory.add(InventoryEntry(emulator_id=BAD, address=device.address))
            await until_true(lambda: rounds._silences.get(BAD, 0) > 2)
            await until_true(lambda: healths[GOOD][-1:] == [Health.GOOD])
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    assert Health.GOOD not in healths[BAD]
