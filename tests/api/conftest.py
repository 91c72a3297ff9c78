"""One world for the room; an HTTP client of it."""

import secrets
from collections.abc import Iterator

import httpx
import pytest

from droidherd.cli.local.embedded import EmbeddedTemporal
from tests.api.world import World


@pytest.fixture(scope="session")
def world(temporal_server: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    temporal_server.add_namespace("api-world")
    with World(temporal_server.address, "api-world", tmp_path_factory.mktemp("api")) as one:
        one.work()
        yield one


@pytest.fixture
def http(world: World) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, timeout=120) as client:
        yield client


@pytest.fixture
def name(http: httpx.Client) -> Iterator[str]:
    """Of a subscription that is gone after the test, and of its account."""
    one = f"s{secrets.token_hex(3)}"
    yield one
    http.delete(f"/api/subscriptions/{one}", params={"tasks": "cancel"})
