"""One server that skips time per module; each test brings its own answers."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from droidherd.flows.catalogue import Catalogue
from droidherd.testing.skipping import Herd, skipped_time
from tests.testing.table import TABLE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def herd() -> AsyncGenerator[Herd]:
    """Knows every type of the table: by its flow, or, where there is none, by its policy."""
    flows = set(Catalogue().names())
    async with skipped_time(types={row.type: row.policy for row in TABLE if row.type not in flows}) as here:
        yield here
