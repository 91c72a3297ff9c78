"""Every activity, completed and failed by somebody else. The whole table is `python -m tests.workflows.forged`."""

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from droidherd.domain.replay import ReplayRecord
from tests.workflows import forged
from tests.workflows.garbage import payload, with_interceptors
from tests.workflows.world import until, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_forged_answer_of_an_activity_wedges_a_workflow(client: Client):
    table = await forged.play(client, large=False)
    assert [] == [ascii(one) for one in table.wedged]
    assert set(forged.RETURNS) == {name for _, name, _ in table.cells}


async def test_a_run_with_two_results_which_the_core_cannot_read_is_replaced(client: Client):
    forger = forged.Forger(client)
    two = (payload(b'{"garbage": 1}'), payload(b"2"))
    async with world(with_interceptors(client, forger), "e1", record=ReplayRecord(limit=2)) as here:
        forger.planned["run_stage"] = [forged.Forgery("two", two)]
        await here.submit("two")

        async def ended() -> "WorkflowExecutionStatus | None":
            status = (await here.task("two").describe()).status
            return status if status is not WorkflowExecutionStatus.RUNNING else None

        assert WorkflowExecutionStatus.TERMINATED is await until(ended, "the task to be replaced", 60)
