import os
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.adb.server import AdbServer
from droidherd.virtual.process import VirtualFleet
from tests.emulator.farm import Farm, One


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    root: Path = tmp_path_factory.mktemp("farm")
    with (
        VirtualFleet.start(state=root / "virtual", count=2) as fleet,
        AdbServer(0, root / "adb", environment=os.environ) as server,
        fleet.control() as control,
    ):
        yield Farm(fleet, server, control)


@pytest.fixture
def one(farm: Farm) -> Generator[One]:
    yield farm.emulator("virtual-1")
    farm.control.clear_fault("virtual-1")


@pytest.fixture
def other(farm: Farm) -> Generator[One]:
    yield farm.emulator("virtual-2")
    farm.control.clear_fault("virtual-2")
