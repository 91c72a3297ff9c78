"""One embedded engine for the whole test run, and a namespace of its own for whoever asks."""

import itertools
import os
from collections.abc import Iterator

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.cli.embedded import EmbeddedTemporal

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """In memory, tuned as in production."""
    with EmbeddedTemporal.start(tmp_path_factory.mktemp("temporal"), in_memory=True) as engine:
        yield engine


@pytest.fixture
def temporal_namespace(temporal_server: EmbeddedTemporal) -> str:
    """The name of a namespace nobody else uses, with all search attributes."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    temporal_server.add_namespace(name)
    return name


@pytest.fixture
async def temporal_client(temporal_server: EmbeddedTemporal, temporal_namespace: str) -> Client:
    return await Client.connect(
        temporal_server.address, namespace=temporal_namespace, data_converter=pydantic_data_converter
    )
