"""Point 2 of taking back: whenever the worker dies amid the changes, the emulator becomes again what it was."""

import asyncio
import random
from pathlib import Path

from tests.chaos.rollback import furnish, rehearse, write_flows
from tests.support.door import door
from tests.support.farm import farm

EMULATORS = 3


async def test_what_a_task_changed_is_taken_back_byte_for_byte_though_its_worker_died(tmp_path: Path) -> None:
    chance = random.Random(11)
    with farm(tmp_path, EMULATORS, flows=write_flows(tmp_path / "flows")) as place, door(place) as api:
        await furnish(place)
        calm = await asyncio.wait_for(rehearse(place, api, chance, "calm", kill=False), 400)
        killed = await asyncio.wait_for(rehearse(place, api, chance, "killed", kill=True), 400)
    assert [] == [each for each in calm + killed if not each.good]
    assert any(each.struck for each in killed)
