"""Requests that nobody thought of, made from the OpenAPI document: 2,000 in `make test-more`, 20,000 in `make long`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from droidherd.cli.local.embedded import EmbeddedTemporal
from tests.api.fuzz import fuzz
from tests.api.world import World

KEY = "fuzzers-key"
SIZES = [
    pytest.param(2, 2_000, id="2000"),
    pytest.param(330, 20_000, id="20000", marks=pytest.mark.long),
]
"""Examples per operation, and how many requests that are at least."""


@pytest.fixture(scope="module")
def locked(temporal_server: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same API behind a key."""
    temporal_server.add_namespace("api-fuzz")
    with World(temporal_server.address, "api-fuzz", tmp_path_factory.mktemp("fuzz"), key=KEY) as one:
        one.work()
        yield one


@pytest.mark.parametrize(("examples", "least"), SIZES)
def test_a_fuzzer_finds_nothing_without_a_key(world: World, tmp_path: Path, examples: int, least: int):
    found = fuzz(world.url, tmp_path, examples=examples)
    assert 0 == found.code, found.report[-20_000:]
    assert least <= found.requests


@pytest.mark.parametrize(("examples", "least"), SIZES)
def test_a_fuzzer_finds_nothing_behind_a_key(locked: World, tmp_path: Path, examples: int, least: int):
    found = fuzz(locked.url, tmp_path, examples=examples, key=KEY)
    assert 0 == found.code, found.report[-20_000:]
    assert least <= found.requests
