"""How many files of the product one tap enters, from `run_stage` to its report, and how deep its stack goes.

A reader who follows a tap opens these files. What raises a figure here is a layer: it has to be worth it.
"""

import asyncio
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from activities.stage import StageActivities
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.emulator.cameras import Cameras
from tests.changes.world import World
from tests.emulator.farm import Farm, small_farm

ROOT = Path(__file__).parents[2]
PRODUCT = tuple(f"{ROOT / name}/" for name in ("activities", "api", "droidherd", "workflows"))
FILES_MAX = 45
DEPTH_MAX = 24


@dataclass
class Followed:
    """The calls of one thread into the product."""

    files: set[str] = field(default_factory=set)
    deepest: tuple[str, ...] = ()
    """The deepest stack, outermost function first."""
    _stack: list[str] = field(default_factory=list)

    def event(self, frame: FrameType, kind: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PRODUCT):
            return
        if kind == "call":
            file = code.co_filename.removeprefix(f"{ROOT}/")
            self.files.add(file)
            self._stack.append(f"{file}: {code.co_qualname}")
            self.deepest = max(self.deepest, tuple(self._stack), key=len)
        elif kind == "return":
            self._stack.pop()


class Temporal:
    """Confirms every beat at once."""

    def get_async_activity_handle(self, *, task_token: bytes) -> "Temporal":
        return self

    async def heartbeat(self, *_: object, **__: object) -> None:
        pass


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("path")) as farm:
        yield farm


@pytest.fixture
def loop() -> Generator[asyncio.AbstractEventLoop]:
    """Where the client lives: on a thread of its own, as in a worker."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_path_of_a_tap_is_short(farm: Farm, tmp_path: Path, loop: asyncio.AbstractEventLoop):
    """As in production: cameras are chosen, frames are buffered, a failure would be recorded."""
    world = World(farm.emulator("virtual-1"), tmp_path)
    world.gallery("tap_once")
    services = world.services()
    stages = StageActivities(
        replace(services, cameras=Cameras.all_of(services.adb)), cast("Any", Temporal()), loop, beat_every_s=0.5
    )
    followed = Followed()

    def follow(work: StageWork) -> StageReport:
        sys.setprofile(followed.event)
        try:
            return stages.run_stage(work)
        finally:
            sys.setprofile(None)

    environment, lease = ActivityEnvironment(), world.one.lease
    with world.open:
        # Of the first one a worker remembers how the emulator is seen, and the flow.
        environment.run(stages.run_stage, world.work(last=True, lease=lease))
        report = environment.run(follow, world.work(last=True, lease=lease + 1))
    assert StageOutcome.COMPLETED is report.outcome
    assert 2 == len(world.one.did("input tap"))
    assert len(followed.files) <= FILES_MAX, "\n".join(sorted(followed.files))
    assert len(followed.deepest) <= DEPTH_MAX, "\n".join(followed.deepest)
