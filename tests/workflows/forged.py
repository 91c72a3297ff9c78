"""What somebody else answers in the place of an activity's worker, and what becomes of the workflow that waits for it.

.venv/bin/python -m tests.workflows.forged     play all of it on a server of its own, and print the table (or --json)
"""

import asyncio
import itertools
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from google.protobuf.duration_pb2 import Duration
from temporalio import activity, workflow
from temporalio import client as sdk
from temporalio import worker as sdk_worker
from temporalio.api.common.v1 import Payload
from temporalio.api.common.v1 import Payloads as PayloadList
from temporalio.api.failure.v1 import ActivityFailureInfo, ApplicationFailureInfo, Failure, TimeoutFailureInfo
from temporalio.api.workflowservice.v1 import (
    RecordActivityTaskHeartbeatRequest,
    RespondActivityTaskCompletedRequest,
    RespondActivityTaskFailedRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError
from typing_extensions import override

from droidherd.contracts.delivery import BatchResult
from droidherd.contracts.engine import EarlierRun, PoolSettings, Predecessor
from droidherd.contracts.fleet import GateResult, PresenceEnd, RecoveryResult
from droidherd.contracts.maintenance import CleanupStats, Hosts
from droidherd.contracts.stage import Captured, StageReport, StageWork, UndoReport
from droidherd.contracts.subscriptions import WaitingTask
from droidherd.contracts.tasks import Rollback
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.domain.messages import Health
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.garbage import (
    MAY_BE_VALID,
    Table,
    failed_tasks,
    is_locked,
    payload,
    play_alone,
    rubbish,
    with_interceptors,
)
from tests.workflows.plays import Play, completes
from tests.workflows.subscription_runs import due, subscription
from tests.workflows.world import World, until, world
from workflows import options, subscription_run
from workflows.subscription_run import SubscriptionRunWorkflow
from workflows.task import running

RETURNS: Mapping[str, Any] = {
    "read_pool": PoolSettings,
    "find_predecessor": Predecessor,
    "find_orders": StandingOrders,
    "deliver": BatchResult,
    "presence": PresenceEnd,
    "pass_gate": GateResult,
    "recover": RecoveryResult,
    "find_earlier_run": EarlierRun,
    "run_stage": StageReport,
    "capture_before": Captured,
    "undo_stage": UndoReport,
    "request_cancel": None,
    "remove_tasks": CleanupStats,
    "list_hosts": Hosts,
    "sweep_artifacts": CleanupStats,
    "settle_missed_runs": CatchUp,
    "look_at_task": WaitingTask,
    "await_task": str,
}
"""Every activity that a server hands out, and what it returns. The others are local: no server hears of them."""


@dataclass(frozen=True)
class Forgery:
    """What is sent instead of an activity's own answer."""

    sort: str
    result: tuple[Payload, ...] = ()
    failure: Failure | None = None

    async def send(self, client: Client, token: bytes) -> None:
        service, namespace = client.workflow_service, client.namespace
        if self.failure is None:
            result = PayloadList(payloads=self.result) if self.result else None
            await service.respond_activity_task_completed(
                RespondActivityTaskCompletedRequest(task_token=token, namespace=namespace, result=result)
            )
            return
        await service.record_activity_task_heartbeat(
            RecordActivityTaskHeartbeatRequest(
                task_token=token, namespace=namespace, details=PayloadList(payloads=[payload(b"\xff{"), payload(b"7")])
            )
        )
        await service.respond_activity_task_failed(
            RespondActivityTaskFailedRequest(task_token=token, namespace=namespace, failure=self.failure)
        )


def failures(*, large: bool) -> Iterator[Failure]:
    """That say what the SDK or a workflow cannot take."""
    details = [b'{"garbage": 1}', b'{"verdict": "human", "message": "?", "question": {"text": 7}}', b"\xff\xfe{", b"17"]
    details.append(
        b'{"verdict": "human", "message": "?", "question": {"text": "?", "step": "1", "choices": ["a"], '
        b'"within_s": 1e300}}'
    )
    details.append(b'{"verdict": "retryable", "message": "?", "retry_after_s": 1e999}')
    for data in details if large else details[:2]:
        info = ApplicationFailureInfo(
            type="StuckError", non_retryable=True, details=PayloadList(payloads=[payload(data)])
        )
        yield Failure(message="forged", application_failure_info=info)
    info = ApplicationFailureInfo(type="x" * 30_000, non_retryable=True, category=99)  # type: ignore[arg-type]
    yield Failure(message="x" * 100_000, application_failure_info=info)
    if not large:
        return
    delay = ApplicationFailureInfo(type="x", non_retryable=True, next_retry_delay=Duration(seconds=300_000_000_000))
    yield Failure(message="a long delay", application_failure_info=delay)
    inner = Failure(message="a time-out", timeout_failure_info=TimeoutFailureInfo(timeout_type=99))  # type: ignore[arg-type]
    strange = ActivityFailureInfo(retry_state=99)  # type: ignore[arg-type]
    for cause in (inner, Failure(message="nested", activity_failure_info=strange, cause=inner), Failure()):
        info = ApplicationFailureInfo(type="StuckError", non_retryable=True)
        hidden = payload(b"\xff{")
        yield Failure(message="forged", application_failure_info=info, cause=cause, encoded_attributes=hidden)


def forgeries(name: str, *, large: bool = True) -> Iterator[Forgery]:
    for sort, given in rubbish(RETURNS[name] or str, large=large):
        # One with a foreign key is waited for (docs/security.md).
        if is_locked(given) or sort == "too many":
            continue
        if name not in LIES or sort not in MAY_BE_VALID:
            yield Forgery(sort, tuple(given))
    for failure in failures(large=large):
        yield Forgery("failure", failure=failure)


def forges(client: Client, data: bytes) -> Play:
    """Somebody else completes the stage while its worker is at it."""

    async def play(_: StageWork) -> StageReport:
        await Forgery("", (payload(data),)).send(client, activity.info().task_token)
        return activity.raise_complete_async()

    return play


class Forger(sdk.Interceptor, sdk_worker.Interceptor):
    """Answers in the place of the activities that it was told of, once each, before they begin."""

    def __init__(self, client: Client) -> None:
        """`client`: of whoever forges."""
        self.client = client
        self.planned: dict[str, list[Forgery]] = defaultdict(list)
        self.sent: list[tuple[str, str, str]] = []

    @override
    def intercept_activity(self, next: sdk_worker.ActivityInboundInterceptor) -> sdk_worker.ActivityInboundInterceptor:
        return _Forging(next, self)


class _Forging(sdk_worker.ActivityInboundInterceptor):
    def __init__(self, next: sdk_worker.ActivityInboundInterceptor, forger: Forger) -> None:  # noqa: A002 - the SDK's
        super().__init__(next)
        self._forger = forger

    @override
    async def execute_activity(self, input: sdk_worker.ExecuteActivityInput) -> Any:
        info = activity.info()
        planned = self._forger.planned[info.activity_type]
        if info.is_local or not planned:
            return await super().execute_activity(input)
        forgery = planned.pop(0)
        self._forger.sent.append((info.workflow_type or "", info.activity_type, forgery.sort))
        try:
            await forgery.send(self._forger.client, info.task_token)
        except RPCError as error:  # Temporal itself refuses what is too large
            raise RuntimeError("refused") from error
        return activity.raise_complete_async()


def _at_once(_troubles: int) -> float:
    return 0.05


@contextmanager
def hurried() -> Generator[None]:
    """Pauses are short, and a run of a subscription continues as new once."""

    def must_continue(_: SubscriptionRunWorkflow) -> bool:
        return workflow.info().continued_run_id is None

    with (
        patch.object(options, "PRESENCE_BACKOFF_S", 0.05),
        patch.object(options, "SENDING_BACKOFF_S", 0.05),
        patch.object(options, "SWEEP_START", options.seconds(0.5)),
        patch.object(options, "CANCEL_PATIENCE", options.seconds(0.1)),
        patch.object(running, "again_s", _at_once),
        patch.object(subscription_run, "LOOK_AGAIN_S", 0.05),
        patch.object(SubscriptionRunWorkflow, "_must_continue", must_continue),
    ):
        yield


LIES = ("presence", "deliver", "find_orders", "read_pool")
"""That a host left in order, that a message arrived, or what people ordered, nobody can tell from the truth."""
AT_ONCE = ("read_pool", "find_predecessor", "find_orders", "deliver", "presence")
"""Asked for as soon as there is a pool, and again and again until they are answered."""


@dataclass
class Campaign:
    """Everything in which activities run, with forged answers."""

    forger: Forger
    large: bool = True
    """All of them. If not: another result for each activity, and another failure."""
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def plan(self, *names: str) -> None:
        for name in names:
            found, at = list(forgeries(name, large=self.large)), list(RETURNS).index(name)
            if not self.large:
                results = [one for one in found if one.failure is None]
                found = [results[at % len(results)], found[len(results) + at % (len(found) - len(results))]]
            self.forger.planned[name] = found

    def is_done(self, *names: str) -> bool:
        return not any(self.forger.planned[name] for name in names)

    async def play(self, here: World) -> None:
        await asyncio.gather(self.tasks(here), self.cleanups(here), self.runs(here))
        await self.cancels(here)
        await self.emulators(here)  # they take none after some gates: no task could run any more

        async def done() -> bool | None:
            return self.is_done(*RETURNS) or None

        await until(done, "everything forged to be sent", 60)

    async def tasks(self, here: World) -> None:
        for name in ("find_earlier_run", "run_stage", "capture_before", "undo_stage"):
            self.plan(name)
            while not self.is_done(name):
                task = await self._submit(here)
                await self._ends(here, task)
                if name == "undo_stage":
                    await here.again(task, Rollback(actor="anna"))
                    await self._ends(here, task)

    async def _submit(self, here: World, **spec: Any) -> str:
        task = f"forged{next(self.numbers)}"
        change = {"name": "set", "changes": [{"step": "1", "thing": "setting", "name": "global/x"}]}
        await here.submit(task, params={"stages": [change]}, **spec)
        return task

    async def _ends(self, here: World, task: str) -> None:
        """A question that was forged, too, nobody answers."""
        asked = False

        async def closed() -> bool | None:
            nonlocal asked
            if (await here.task(task).describe()).status is not WorkflowExecutionStatus.RUNNING:
                return True
            if not asked and (await here.view(task)).question is not None:
                asked = True
                await here.ask(task, "cancel")
            return None

        try:
            await until(closed, f"{task} to end", 60)
        except TimeoutError:
            view, page = await here.view(task), await here.queue()
            text = (
                f"{task} is {view.state}: {view.why}; {page.emulators} emulators, {page.free} free, {page.running} run"
            )
            raise AssertionError(text) from None

    async def emulators(self, here: World) -> None:
        """Each new boot has a gate; each restart is a step of the host."""
        self.plan("pass_gate", "recover")
        here.allow_recovery(restarts=1_000)
        while not self.is_done("pass_gate", "recover"):
            await here.sees("e2", Health.GOOD, boot=f"boot-{next(self.numbers)}")
            await here.control_emulator("e2", "release")
            await here.control_emulator("e2", "restart")
            await asyncio.sleep(0.1)

    async def cleanups(self, here: World) -> None:
        steps = ("remove_tasks", "list_hosts", "sweep_artifacts")
        self.plan(*steps)
        while not self.is_done(*steps):
            handle = await here.start_cleanup(f"maintenance/forged{next(self.numbers)}", dry_run=True)
            await asyncio.gather(handle.result(), return_exceptions=True)

    async def runs(self, here: World) -> None:
        steps = ("settle_missed_runs", "look_at_task", "await_task")
        self.plan(*steps)
        while not self.is_done(*steps):
            handle = await due(here, subscription(f"sub{next(self.numbers)}", stuck_after_s=1), completes)
            await handle.result()

    async def cancels(self, here: World) -> None:
        self.plan("request_cancel")
        handle = await here.submit("cancelled", not_before=datetime(2100, 1, 1, tzinfo=UTC))
        await here.ask("cancelled", "cancel")
        await asyncio.gather(handle.result(), return_exceptions=True)


async def play(client: Client, *, large: bool = True) -> Table:
    """Every activity with forged answers. Afterwards everything has to go on."""
    table, forger = Table(), Forger(client)
    campaign = Campaign(forger, large)
    campaign.plan(*AT_ONCE)
    with hurried():
        async with world(with_interceptors(client, forger), "e1", "e2") as here:
            await campaign.play(here)
            await here.submit("honest", completes)
            if (state := (await here.ended("honest")).state) is not TaskStatus.COMPLETED:
                table.wedged.append(f"an honest task has {state}")
    for kind, name, sort in forger.sent:
        table.add(kind, name, sort)
    async for run in client.list_workflows():
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        table.wedged += [f"{run.id}: {why}" for why in failed_tasks(history)]
    return table


if __name__ == "__main__":
    sys.exit(asyncio.run(play_alone(play)))
