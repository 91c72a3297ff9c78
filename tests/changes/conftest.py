from collections.abc import Generator
from pathlib import Path

import pytest

from tests.changes.world import World
from tests.emulator.farm import Farm, small_farm


@pytest.fixture(scope="session")
def change_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("changes")) as farm:
        yield farm


@pytest.fixture
def world(change_farm: Farm, tmp_path: Path) -> Generator[World]:
    world = World(change_farm.emulator("virtual-1"), tmp_path)
    world.clear()
    with world.open:
        yield world
    change_farm.control.clear_fault("virtual-1")
