"""How messages travel: two of a task directly, a dispatcher's in bags; and what becomes of those that do not arrive."""

from collections import Counter
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client

from activities.post import PostActivities
from droidherd.contracts.post import Bag, Fate, Receipts
from droidherd.domain.lifecycle import TaskState
from tests.workflows.plays import DeadLine
from tests.workflows.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Clumsy(PostActivities):
    """Loses the first letter of each kind."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.lost: set[str] = set()

    @activity.defn
    async def post(self, bag: Bag) -> Receipts:
        kept = tuple(one for one in bag.letters if one.signal in self.lost)
        fates = iter((await super().post(Bag(letters=kept))).fates)
        told = tuple(next(fates) if one.signal in self.lost else Fate.FAILED for one in bag.letters)
        self.lost.update(one.signal for one in bag.letters)
        return Receipts(fates=told)


async def signals(workflow: Any) -> Counter[str]:
    history = await workflow.fetch_history()
    return Counter(
        event.workflow_execution_signaled_event_attributes.signal_name
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
    )


async def test_a_task_on_its_way_costs_its_dispatcher_one_question_and_one_last_word(here: World, task: str):
    await here.submit(task)
    assert TaskState.COMPLETED is (await here.ended(task)).state
    said = await signals(here.task(task))
    assert Counter({"grant": 1}) == said
    history = await here.dispatcher().fetch_history()
    mine = [
        event.workflow_execution_signaled_event_attributes
        for event in history.events
        if task in str(event.workflow_execution_signaled_event_attributes.input)
    ]
    assert [("done", "")] == [(one.signal_name, one.external_workflow_execution.workflow_id) for one in mine]


async def test_what_cannot_be_said_directly_is_said_by_a_signal(client: Client, task: str):
    line = DeadLine()
    async with world(client, "e1", direct=line.all()) as here:
        await here.submit(task)
        assert TaskState.COMPLETED is (await here.ended(task)).state
        heard = await signals(here.dispatcher())
        assert Counter({"ask": 1, "part": 1}) == line.tried
        assert (1, 1) == (heard["enqueue"], heard["done"])
        await here.idle()


async def test_a_letter_that_did_not_arrive_goes_into_a_later_bag(client: Client, task: str):
    clumsy = Clumsy(client)
    async with world(client, "e1", post=clumsy) as here:
        await here.submit(task)
        assert TaskState.COMPLETED is (await here.ended(task)).state
        assert "grant" in clumsy.lost
        await here.idle()
