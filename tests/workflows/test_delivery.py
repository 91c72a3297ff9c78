"""`Delivery`: what a workflow's one loop puts on its way, and what becomes of it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from activities.delivery import DeliveryActivities
from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.contracts.delivery import DeliveryResult
from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox
from tests.workflows.conftest import namespace_client
from workflows.delivery import Delivery

pytestmark = pytest.mark.asyncio(loop_scope="module")


@workflow.defn(name=names.Workflow.EMULATOR)
class Listener:
    """Stands where an emulator would: ends when it heard the token 0."""

    @workflow.init
    def __init__(self, given: object = None) -> None:
        self.heard: list[int] = []

    @workflow.run
    async def run(self, given: object = None) -> list[int]:
        await workflow.wait_condition(lambda: 0 in self.heard)
        return self.heard

    @workflow.signal
    def reset(self, message: m.Reset) -> None:
        self.heard.append(message.token)


@workflow.defn
class Speaker:
    """Says tokens to targets, and returns what became of each."""

    @workflow.init
    def __init__(self, batched: bool, sayings: list[tuple[str, int]]) -> None:
        outbox: Outbox[m.Reset] = Outbox()
        for target, token in sayings:
            outbox.put(target, m.Reset(token))
        self.delivery = Delivery(outbox, batched=batched)

    @workflow.run
    async def run(self, batched: bool, sayings: list[tuple[str, int]]) -> list[tuple[str, int, DeliveryResult]]:
        outcomes: list[tuple[str, int, DeliveryResult]] = []
        while not self.delivery.is_idle():
            await workflow.wait_condition(self.delivery.is_due)
            outcomes += [(one.target, one.message.token, one.result) for one in self.delivery.settle()]
            await self.delivery.send()
        return outcomes


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(client: Client) -> AsyncGenerator[None]:
    activities = DeliveryActivities(client).all()
    async with Worker(
        client,
        task_queue=names.FLEET_QUEUE,
        workflows=[Listener, Speaker],
        activities=activities,
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(temporal_server: EmbeddedTemporal) -> Client:
    return await namespace_client(temporal_server)


@pytest.mark.parametrize("batched", [True, False])
async def test_each_target_hears_its_messages_in_order_though_one_must_be_started(client: Client, batched: bool):
    targets = [f"emulator/{'b' if batched else 's'}{n}" for n in range(3)]
    await client.start_workflow(Listener.run, id=targets[0], task_queue=names.FLEET_QUEUE)
    sayings = [(target, token) for token in (3, 2, 1, 0) for target in targets]
    speaker = await client.start_workflow(
        Speaker.run, args=[batched, sayings], id=f"speaker-{batched}", task_queue=names.FLEET_QUEUE
    )
    outcomes = await speaker.result()
    heard = await asyncio.gather(*(client.get_workflow_handle(one, result_type=list[int]).result() for one in targets))
    assert [[3, 2, 1, 0]] * 3 == heard
    assert {DeliveryResult.DELIVERED} == {result for _, _, result in outcomes}
    replayer = Replayer(
        workflows=[Speaker], data_converter=client.data_converter, workflow_runner=UnsandboxedWorkflowRunner()
    )
    await replayer.replay_workflow(await speaker.fetch_history())


@pytest.mark.parametrize("batched", [True, False])
async def test_a_message_to_nobody_is_dropped_and_reported(client: Client, batched: bool):
    outcomes = await client.execute_workflow(
        Speaker.run, args=[batched, [("nobody", 7)]], id=f"to-nobody-{batched}", task_queue=names.FLEET_QUEUE
    )
    assert [("nobody", 7, DeliveryResult.NOT_FOUND)] == outcomes
