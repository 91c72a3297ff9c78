"""How much a pool writes into its histories while nothing happens."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.delivery import DeliveryActivities
from droidherd.contracts import names
from droidherd.contracts.engine import Holders, PoolWork, Predecessor
from droidherd.contracts.queue import DispatcherInput, PoolSettings
from droidherd.domain import messages as m
from droidherd.engine.connection import CONVERTER
from droidherd.testing.skipping import program, until
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.guard import GuardedRunner

EVENTS_PER_HOUR = 20


@workflow.defn
class Holder:
    """A task that holds its emulator and says nothing."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def grant(self, grant: m.Grant) -> None: ...


@activity.defn
async def read_pool(work: PoolWork) -> PoolSettings:
    return PoolSettings()


@activity.defn
async def find_predecessor(work: PoolWork) -> Predecessor:
    return Predecessor()


async def length(dispatcher: "WorkflowHandle[DispatcherWorkflow, None]") -> int:
    return (await dispatcher.describe()).history_length


async def test_a_dispatcher_with_a_held_lease_writes_few_events_in_an_hour():
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=program(), data_converter=CONVERTER
    )
    async with environment:
        client = environment.client
        async with Worker(
            client,
            task_queue=names.FLEET_QUEUE,
            workflows=[DispatcherWorkflow, Holder],
            activities=[read_pool, find_predecessor, *DeliveryActivities(client).all()],
            workflow_runner=GuardedRunner(),
        ):
            with environment.auto_time_skipping_disabled():
                holder = await client.start_workflow(Holder.run, id="t1", task_queue=names.FLEET_QUEUE)
                dispatcher = await client.start_workflow(
                    DispatcherWorkflow.run,
                    DispatcherInput(pool="quiet"),
                    id=names.dispatcher_id("quiet"),
                    task_queue=names.FLEET_QUEUE,
                )
                up = m.Announce("e1", "h1", 1, 1, m.EmulatorStatus.UP, boot="b1")
                await dispatcher.signal(DispatcherWorkflow.announce, up)
                run = holder.first_execution_run_id or ""
                ask = m.Enqueue(m.Key("t1", run, 1), 1, "anonymous", "check", hold_s=24 * 3600.0)
                await dispatcher.signal(DispatcherWorkflow.enqueue, ask)

                async def holders() -> dict[str, str]:
                    return (await dispatcher.query(names.Query.HOLDERS, "h1", result_type=Holders)).holders

                async def held() -> bool | None:
                    return await holders() == {"t1": run} or None

                await until(held, "the lease to be granted")
                before = await length(dispatcher)
                for _ in range(4):
                    await environment.sleep(timedelta(minutes=15))
                    await holders()
                assert EVENTS_PER_HOUR >= await length(dispatcher) - before
