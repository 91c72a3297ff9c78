"""A worker process takes its host's place, also while the host's workflow has trouble of its own."""

import asyncio

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.contracts import names
from droidherd.contracts.fleet import HostInput, Join
from droidherd.engine import hosts
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import UnavailableError
from tests.workflows.world import until, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOIN = Join(host_id="h1", incarnation=1, machine="m1", worker="w1@m1")


@workflow.defn(name=names.Workflow.HOST)
class Stumbling:
    """Loses each of its workflow tasks."""

    @workflow.run
    async def run(self, host: HostInput) -> None:
        raise RuntimeError(host.host_id)


async def test_a_host_joins_although_its_workflow_lost_its_last_tasks(client: Client):
    host = await client.start_workflow(
        names.Workflow.HOST, HostInput(host_id="h1"), id=names.host_id("h1"), task_queue=names.FLEET_QUEUE
    )

    async def no_update() -> RPCError | None:
        try:
            await asyncio.wait_for(host.execute_update(names.Update.JOIN, JOIN), 1.0)
        except RPCError as error:
            return error if error.status is RPCStatusCode.FAILED_PRECONDITION else None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            return None
        return None

    bare = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=names.FLEET_QUEUE, workflows=[Stumbling], workflow_runner=bare):
        refused = await until(no_update, "the engine to take no update")
    assert "Workflow Task in failed state" in str(refused)
    joining = asyncio.create_task(hosts.HostsClient(client, EngineConfig()).join(JOIN))
    async with world(client):
        assert (await joining).accepted


async def test_a_host_whose_workflow_nobody_runs_learns_it_in_time(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hosts, "JOIN_TIMEOUT_S", 1.0)
    with pytest.raises(UnavailableError, match="does a worker with the role `workflow` run"):
        await hosts.HostsClient(client, EngineConfig()).join(JOIN)
