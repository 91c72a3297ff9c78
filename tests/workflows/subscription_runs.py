"""Runs in tests and recordings: started as their schedule would."""

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.common.v1 import Payloads, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from droidherd.contracts import names
from droidherd.contracts.subscriptions import Subscription, SubscriptionRunState
from droidherd.contracts.tasks import TaskSpec
from droidherd.domain.schedule.catchup import CatchUp
from tests.workflows.plays import Play
from tests.workflows.world import World

DUE = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
LONG_AGO = CatchUp(DUE - timedelta(hours=1))


def subscription(name: str, **more: Any) -> Subscription:
    known = CatchUp(DUE - timedelta(seconds=2))
    spec = TaskSpec(type="sample", account=name, mutex=("other",), priority=5)
    given = {"id": name, "task": spec, "every_s": 2, "created_at": DUE, "catch_up": known, **more}
    return Subscription.model_validate(given)


def task_id(name: str) -> str:
    return f"{name}.20260102T030406Z"


async def due(here: World, one: Subscription, *plays: Play, before: object = None) -> "WorkflowHandle[Any, Any]":
    """As its schedule starts it: with the time behind its id, and the result of the run before."""
    here.stages.plays[task_id(one.id)] = list(plays)
    converter = here.client.data_converter
    request = StartWorkflowExecutionRequest(
        namespace=here.client.namespace,
        workflow_id=f"{names.subscription_run_id(one.id)}-2026-01-02T03:04:06Z",
        workflow_type=WorkflowType(name=names.Workflow.SUBSCRIPTION_RUN),
        task_queue=TaskQueue(name=names.QUEUE),
        input=Payloads(payloads=await converter.encode([one])),
        request_id=one.id,
    )
    if before is not None:
        request.last_completion_result.CopyFrom(Payloads(payloads=await converter.encode([before])))
    await here.client.workflow_service.start_workflow_execution(request)
    return here.client.get_workflow_handle(request.workflow_id, result_type=SubscriptionRunState)


def ended(seconds_ago: float, missed: int = 0) -> SubscriptionRunState:
    """The run before, that was due so long ago and ended half a second later."""
    then = DUE - timedelta(seconds=seconds_ago)
    catch_up = CatchUp(then, missed=missed)
    return SubscriptionRunState(
        scheduled_at=then, started_at=then, ended_at=then + timedelta(seconds=0.5), catch_up=catch_up
    )
