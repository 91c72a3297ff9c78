import asyncio
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.lifeline import EngineLifeline
from droidherd.contracts.stage import WROTE

Ending = tuple[Any, Any]


class Engine:
    """A client whose engine confirms every beat."""

    def __init__(self) -> None:
        self.beats = 0
        self.details: list[tuple[object, ...]] = []

    def get_async_activity_handle(self, *, task_token: bytes) -> "Engine":
        return self

    async def heartbeat(self, *details: object, rpc_timeout: object = None) -> None:
        self.beats += 1
        self.details.append(details)


async def beaten(engine: Engine, heartbeat_timeout_s: float) -> int:
    """Beat twice, a little apart, as a stage does. Returns how often the SDK was told."""
    heartbeats: list[object] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: heartbeats.append(details)
    loop = asyncio.get_running_loop()

    def stage() -> None:
        ending = cast("Ending", (None, None))
        life = EngineLifeline(cast("Client", engine), loop, 1.0, heartbeat_timeout_s, ending)
        life.send("begins")()
        life.send("acts")()

    await asyncio.to_thread(environment.run, stage)
    return len(heartbeats)


@pytest.mark.parametrize(("heartbeat_timeout_s", "heartbeats"), [(15.0, 0), (0.0, 2)])
async def test_the_sdk_gets_heartbeats_only_of_a_stage_that_lasts(heartbeat_timeout_s: float, heartbeats: int):
    engine = Engine()
    assert (heartbeats, 2) == (await beaten(engine, heartbeat_timeout_s), engine.beats)


@pytest.mark.parametrize("heartbeat_timeout_s", [15.0, 0.0])
async def test_every_beat_behind_the_first_intent_says_that_the_stage_wrote(heartbeat_timeout_s: float):
    engine, environment = Engine(), ActivityEnvironment()
    heard: list[tuple[object, ...]] = []
    environment.on_heartbeat = lambda *details: heard.append(details)
    loop = asyncio.get_running_loop()

    def stage() -> None:
        life = EngineLifeline(cast("Client", engine), loop, 0.0, heartbeat_timeout_s, cast("Ending", (None, None)))
        life.send("begins")()
        life.begin_writing()
        life.beat("acts")

    await asyncio.to_thread(environment.run, stage)
    assert [("begins",), ("writes", WROTE), ("acts", WROTE)] == engine.details
    # What the SDK was heard before, and sends late, may not hide it.
    assert heard == (
        [] if heartbeat_timeout_s else [("begins",), ("writes", WROTE), ("writes", WROTE), ("acts", WROTE)]
    )
