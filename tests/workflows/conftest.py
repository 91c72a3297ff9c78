"""One world per module: its tests share a pool of two emulators, and each leaves it idle."""

import itertools
import os
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.cli.embedded import EmbeddedTemporal
from tests.workflows.world import World, world

_numbers = itertools.count(1)


async def _client(server: EmbeddedTemporal) -> Client:
    name = f"workflows-{os.getpid()}-{next(_numbers)}"
    server.add_namespace(name)
    return await Client.connect(server.address, namespace=name, data_converter=pydantic_data_converter)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(temporal_server: EmbeddedTemporal) -> AsyncGenerator[World]:
    async with world(await _client(temporal_server), "e1", "e2") as here:
        yield here


@pytest_asyncio.fixture(loop_scope="module")
async def here(shared: World) -> AsyncGenerator[World]:
    """The shared world. Idle before and after."""
    yield shared
    await shared.idle()


@pytest_asyncio.fixture(loop_scope="module")
async def client(temporal_server: EmbeddedTemporal) -> Client:
    """For a world of one's own."""
    return await _client(temporal_server)


@pytest.fixture
def task(request: pytest.FixtureRequest) -> str:
    """An id nobody else uses."""
    return f"t{next(_numbers)}"
