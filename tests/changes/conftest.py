import os
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.adb.server import AdbServer
from droidherd.virtual.process import VirtualFleet
from tests.changes.world import World
from tests.emulator.farm import Farm


@pytest.fixture(scope="session")
def change_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    """One virtual emulator behind a real adb server."""
    root = tmp_path_factory.mktemp("changes")
    with (
        VirtualFleet.start(state=root / "virtual", count=1) as fleet,
        AdbServer(0, root / "adb", environment=os.environ) as server,
        fleet.control() as control,
    ):
        yield Farm(fleet, server, control)


@pytest.fixture
def world(change_farm: Farm, tmp_path: Path) -> Generator[World]:
    world = World(change_farm.emulator("virtual-1"), tmp_path)
    world.clear()
    with world.open:
        yield world
    change_farm.control.clear_fault("virtual-1")
