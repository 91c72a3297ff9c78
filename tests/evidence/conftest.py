from collections.abc import Generator

import pytest

from tests.emulator.farm import One, small_farm


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Generator[One]:
    with small_farm(tmp_path_factory.mktemp("evidence")) as farm:
        yield farm.emulator("virtual-1")
