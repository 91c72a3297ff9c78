"""One world per module: its tests share a pool of two emulators, and each leaves it idle."""

import itertools
import os
from collections.abc import AsyncGenerator, Iterator

import pytest
import pytest_asyncio
from temporalio.client import Client

from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from droidherd.engine.connection import CONVERTER
from tests.support.temporal import NEW_NAMESPACES
from tests.workflows.world import World, world

_numbers = itertools.count(1)


async def namespace_client(server: EmbeddedTemporal) -> Client:
    """A client in a namespace of its own."""
    name = f"workflows-{os.getpid()}-{next(_numbers)}"
    server.add_namespace(name)
    return await Client.connect(server.address, namespace=name, data_converter=CONVERTER)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(temporal_server: EmbeddedTemporal) -> AsyncGenerator[World]:
    async with world(await namespace_client(temporal_server), "e1", "e2") as here:
        yield here


@pytest_asyncio.fixture(loop_scope="module")
async def here(shared: World) -> AsyncGenerator[World]:
    """The shared world. Idle before and after."""
    yield shared
    await shared.idle()


@pytest_asyncio.fixture(loop_scope="module")
async def client(temporal_server: EmbeddedTemporal) -> Client:
    """For a world of one's own."""
    return await namespace_client(temporal_server)


@pytest.fixture
def task(request: pytest.FixtureRequest) -> str:
    """An id nobody else uses."""
    return f"t{next(_numbers)}"


AT_ONCE = {
    **NEW_NAMESPACES,
    "history.transferProcessorUpdateAckInterval": "100ms",
    "history.visibilityProcessorUpdateAckInterval": "100ms",
}
"""The engine forgets a run only when its queues are past the run's end, which it writes down every half minute."""


@pytest.fixture(scope="session")
def prompt_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """As in production, but that it forgets what ended just now."""
    profile = Profile(port=ports.free(), database=None, dynamic_config=AT_ONCE)
    with EmbeddedTemporal.start(tmp_path_factory.mktemp("temporal"), in_memory=True, profile=profile) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def prompt(prompt_engine: EmbeddedTemporal) -> Client:
    """In a namespace of its own."""
    name = f"keep-{next(_numbers)}"
    prompt_engine.add_namespace(name)
    return await Client.connect(prompt_engine.address, namespace=name, data_converter=CONVERTER)
