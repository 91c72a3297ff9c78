from collections.abc import Generator

import pytest

from tests.emulator.farm import Farm, One, small_farm


@pytest.fixture(scope="session")
def flow_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("flows")) as farm:
        yield farm


@pytest.fixture
def one(flow_farm: Farm) -> Generator[One]:
    """At the launcher, signed out, with nothing collected."""
    emulator = flow_farm.emulator("virtual-1")
    emulator.adb.shell(emulator.address, "pm clear com.example.herd; input keyevent KEYCODE_HOME", 10.0)
    emulator.mark()
    yield emulator
    flow_farm.control.clear_fault("virtual-1")
