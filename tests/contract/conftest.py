"""A world whose API gets no request from these tests."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from droidherd.cli.local.embedded import EmbeddedTemporal
from tests.api.world import World


@pytest.fixture(scope="session")
def herd(temporal_server: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    temporal_server.add_namespace("contract")
    with World(temporal_server.address, "contract", tmp_path_factory.mktemp("contract")) as one:
        one.work()
        yield one


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate", Path(__file__).parents[2] / "docs" / "schemas" / "generate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
