from collections.abc import Generator
from pathlib import Path

import pytest

from tests.changes.world import World
from tests.emulator.farm import Farm, small_farm
from tests.handlers.server import Site, serving


@pytest.fixture(scope="session")
def handler_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("handlers")) as farm:
        yield farm


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as one:
        yield one


@pytest.fixture
def world(handler_farm: Farm, tmp_path: Path, site: Site) -> Generator[World]:
    world = World(handler_farm.emulator("virtual-1"), tmp_path, allow=(site.address,))
    world.clear()
    world.shell("pm uninstall com.example.fetched")
    world.shell("for s in droidherd_account droidherd_account.com.example.herd; do settings delete global $s; done")
    with world.open:
        yield world
    handler_farm.control.clear_fault("virtual-1")
