"""One server that skips time per module; each test brings its own answers."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from droidherd.testing.skipping import Herd, skipped_time


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def herd() -> AsyncGenerator[Herd]:
    """Knows the types of the gallery, by their flows."""
    async with skipped_time() as here:
        yield here
