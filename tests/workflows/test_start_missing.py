"""Whoever starts what is missing has nothing to do with how it ends."""

import gc

import pytest
from temporalio.client import Client

from tests.workflows.world import wake, world


async def test_that_a_dispatcher_was_terminated_is_no_error_of_who_started_it(
    temporal_client: Client, caplog: pytest.LogCaptureFixture
):
    async with world(temporal_client, "e1") as here:
        await here.submit("task")
        await here.ended("task")
        await here.dispatcher().terminate("struck down by a test")
        await wake(here)
        await here.submit("another")
        await here.ended("another")
    gc.collect()
    assert "never retrieved" not in caplog.text
