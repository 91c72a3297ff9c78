"""A world whose API gets no request from these tests."""

from collections.abc import Iterator

import pytest

from droidherd.cli.local.embedded import EmbeddedTemporal
from tests.api.world import World


@pytest.fixture(scope="session")
def herd(temporal_server: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    temporal_server.add_namespace("contract")
    with World(temporal_server.address, "contract", tmp_path_factory.mktemp("contract")) as one:
        one.work()
        yield one
