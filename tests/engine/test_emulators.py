"""Emulators as clients see them: what their hosts found last moves on while nothing changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.engine.connection import EngineConfig
from droidherd.engine.emulators import EmulatorsClient
from droidherd.engine.queue import QueueClient
from tests.workflows.world import World, until, wake

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADDRESS = "127.0.0.1:5777"


async def test_the_last_good_probe_moves_on_without_an_event(here: World):
    await wake(here)
    config = EngineConfig(pool=here.pool)
    emulators = EmulatorsClient(here.client, config, QueueClient(here.client, config))
    await here.emulator_is("e1", "up")
    host = here.client.get_workflow_handle(names.host_id(here.host))
    events = (await host.describe()).history_length
    good_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=9)
    found = replace(here.presence.last_seen["e1"], address=ADDRESS, good_at_ms=int(good_at.timestamp() * 1000))
    here.presence.last_seen["e1"] = found  # as probes that are answered find it: no news

    async def listed() -> EmulatorView | None:
        page = await emulators.page(here.pool)
        one = next(one for one in page.emulators if one.emulator_id == "e1")
        return one if one.last_good_probe == good_at else None

    assert ADDRESS == (await until(listed, "the list to show the probe")).address
    view = await emulators.view("e1")
    assert (good_at, ADDRESS) == (view.last_good_probe, view.address)
    assert events == (await host.describe()).history_length
