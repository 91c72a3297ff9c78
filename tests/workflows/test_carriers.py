"""How messages travel: two of a task directly, a dispatcher's in batches; and what becomes of losses."""

from collections import Counter
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from typing_extensions import override

from activities.delivery import DeliveryActivities
from droidherd.contracts.delivery import Batch, BatchResult, DeliveryResult
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import NothingDirect
from tests.workflows.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


class LosesTheFirst(DeliveryActivities):
    """Of each kind of message."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.lost: set[str] = set()

    @activity.defn
    @override
    async def deliver(self, batch: Batch) -> BatchResult:
        kept = tuple(one for one in batch.envelopes if one.signal in self.lost)
        results = iter((await super().deliver(Batch(envelopes=kept))).results)
        outcomes = tuple(next(results) if one.signal in self.lost else DeliveryResult.FAILED for one in batch.envelopes)
        self.lost.update(one.signal for one in batch.envelopes)
        return BatchResult(results=outcomes)


async def signals(workflow: Any) -> Counter[str]:
    history = await workflow.fetch_history()
    return Counter(
        event.workflow_execution_signaled_event_attributes.signal_name
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
    )


async def test_a_task_costs_its_dispatcher_one_question_and_one_last_word(here: World, task: str):
    await here.submit(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    received = await signals(here.task(task))
    assert Counter({"grant": 1}) == received
    history = await here.dispatcher().fetch_history()
    mine = [
        event.workflow_execution_signaled_event_attributes
        for event in history.events
        if task in str(event.workflow_execution_signaled_event_attributes.input)
    ]
    assert [("done", "")] == [(one.signal_name, one.external_workflow_execution.workflow_id) for one in mine]


async def test_what_cannot_be_sent_directly_is_sent_by_a_signal(client: Client, task: str):
    delivery = NothingDirect(client)
    async with world(client, "e1", delivery=delivery) as here:
        await here.submit(task)
        assert TaskStatus.COMPLETED is (await here.ended(task)).state
        heard = await signals(here.dispatcher())
        assert Counter({"ask_dispatcher": 1, "deliver": 1}) == delivery.tried
        assert (1, 1) == (heard["enqueue"], heard["done"])
        await here.idle()


async def test_a_message_that_did_not_arrive_goes_into_a_later_batch(client: Client, task: str):
    delivery = LosesTheFirst(client)
    async with world(client, "e1", delivery=delivery) as here:
        await here.submit(task)
        assert TaskStatus.COMPLETED is (await here.ended(task)).state
        assert "grant" in delivery.lost
        await here.idle()
