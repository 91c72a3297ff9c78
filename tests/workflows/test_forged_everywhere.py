"""Every activity, completed and failed by somebody else. The whole table is `python -m tests.workflows.forged`."""

import pytest
from temporalio.client import Client

from tests.workflows import forged

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_forged_answer_of_an_activity_wedges_a_workflow(client: Client):
    table = await forged.play(client, large=False)
    assert [] == [ascii(one) for one in table.wedged]
    assert set(forged.RETURNS) == {name for _, name, _ in table.cells}
