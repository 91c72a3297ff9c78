import os
from collections.abc import Generator

import pytest

from droidherd.adb.server import AdbServer
from droidherd.virtual.process import VirtualFleet
from tests.emulator.farm import Farm, One


@pytest.fixture(scope="session")
def flow_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    """One virtual emulator behind a real adb server."""
    root = tmp_path_factory.mktemp("flows")
    with (
        VirtualFleet.start(state=root / "virtual", count=1) as fleet,
        AdbServer(0, root / "adb", environment=os.environ) as server,
        fleet.control() as control,
    ):
        yield Farm(fleet, server, control)


@pytest.fixture
def one(flow_farm: Farm) -> Generator[One]:
    """At the launcher, signed out, with nothing collected."""
    emulator = flow_farm.emulator("virtual-1")
    emulator.adb.shell(emulator.address, "pm clear com.example.herd; input keyevent KEYCODE_HOME", 10.0)
    emulator.mark()
    yield emulator
    flow_farm.control.clear_fault("virtual-1")
