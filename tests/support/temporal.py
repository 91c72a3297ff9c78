"""One embedded engine for the whole test run, and a namespace of its own for whoever asks."""

import itertools
import os
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.engine.connection import CONVERTER

NEW_NAMESPACES = {"system.forceSearchAttributesCacheRefreshOnRead": True}
"""As a development server has it: a namespace made a moment ago is served at once, for three reads more per start."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """In memory, tuned as in production, but that a namespace may be made for each test."""
    folder = tmp_path_factory.mktemp("temporal")
    with EmbeddedTemporal.start(folder, in_memory=True, dynamic_config=NEW_NAMESPACES) as engine:
        yield engine


@pytest.fixture
def temporal_namespace(temporal_server: EmbeddedTemporal) -> str:
    """The name of a namespace nobody else uses, with all search attributes."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    temporal_server.add_namespace(name)
    return name


@pytest.fixture
async def temporal_client(temporal_server: EmbeddedTemporal, temporal_namespace: str) -> Client:
    return await Client.connect(temporal_server.address, namespace=temporal_namespace, data_converter=CONVERTER)
