"""Fixtures of this room."""

from collections.abc import Iterator

import pytest

from tests.architecture import source


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Let the syntax trees go with the file that needed them: a million objects make each collection take seconds."""
    yield
    source.product.cache_clear()
    source.everything.cache_clear()
