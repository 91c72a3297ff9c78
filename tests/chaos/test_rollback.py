"""Point 2 of taking back: whenever the worker dies amid the changes, the emulator becomes again what it was."""

import asyncio
import random
from pathlib import Path

from tests.chaos.rollback import furnish, rehearse, write_flows
from tests.support.api_server import api_server
from tests.support.farm import farm

EMULATORS = 3


async def test_changes_are_taken_back_byte_for_byte_though_the_worker_died(tmp_path: Path) -> None:
    chance = random.Random(11)
    with farm(tmp_path, EMULATORS, flows=write_flows(tmp_path / "flows")) as place, api_server(place) as api:
        await furnish(place)
        calm = await asyncio.wait_for(rehearse(place, api, chance, "calm", kill=False), 400)
        killed = await asyncio.wait_for(rehearse(place, api, chance, "killed", kill=True), 400)
    assert [] == [each for each in calm + killed if not each.good]
    assert any(each.struck for each in killed)
