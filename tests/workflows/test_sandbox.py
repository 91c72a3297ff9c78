"""The sandbox workflows run in is the SDK's: what would not replay is refused."""

import time

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import Worker

from tests.workflows.world import until
from workflows.sandbox import PASSED_THROUGH, LeanSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUEUE = "sandbox"


@workflow.defn
class ReadsTheClock:
    @workflow.run
    async def run(self) -> float:
        return time.time()


async def test_a_workflow_that_reads_the_clock_is_refused(client: Client, task: str):
    runner = LeanSandbox.passing(*PASSED_THROUGH)
    async with Worker(client, task_queue=QUEUE, workflows=[ReadsTheClock], workflow_runner=runner):
        handle = await client.start_workflow(ReadsTheClock.run, id=task, task_queue=QUEUE)

        async def refused() -> str | None:
            events = (await handle.fetch_history()).events
            failed = [e for e in events if e.event_type is EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
            return failed[0].workflow_task_failed_event_attributes.failure.message if failed else None

        assert "time.time" in await until(refused, "the workflow task to fail")
        await handle.terminate()
