"""Somebody starts a workflow of their own under the id of a service: it is ended, and the service goes on."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError

from droidherd.contracts import names
from droidherd.contracts.accounts import SetAccount
from droidherd.contracts.fleet import EmulatorInput, Join
from droidherd.contracts.names import Workflow
from droidherd.contracts.queue import AuditPage, AuditQuery, DispatcherInput, PoolEvent
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine import replacement
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import UnavailableError
from droidherd.engine.hosts import HostsClient
from droidherd.engine.queue import QueueClient
from droidherd.engine.replacement import FOREIGN_BY, ForeignRuns
from droidherd.engine.tasks import TasksClient
from droidherd.engine.visibility import foreigners
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = EngineConfig(answer_s=0.3)
NOBODYS_QUEUE: dict[str, Any] = {"task_queue": "nobody"}
LATER: dict[str, Any] = {"task_queue": names.FLEET_QUEUE, "start_delay": timedelta(hours=20)}
OURS: dict[str, Any] = {"task_queue": names.FLEET_QUEUE}


async def squat(here: World, workflow_id: str, kind: str, start: object, **options: Any) -> WorkflowHandle[Any, Any]:
    """In the place of the service."""
    run = here.client.get_workflow_handle(workflow_id)

    async def started() -> WorkflowHandle[Any, Any] | None:
        await run.terminate()
        try:
            return await here.client.start_workflow(kind, start, id=workflow_id, **options)
        except WorkflowAlreadyStartedError:
            return None  # the service was faster

    return await until(started, "the service to be gone")


async def ended(here: World) -> None:
    queue = QueueClient(here.client, CONFIG)
    runs = ForeignRuns(here.client, CONFIG, queue)

    async def some() -> bool | None:
        return await runs.end() > 0 or None

    await until(some, "the foreign run to be ended")


async def last_replaced(here: World) -> PoolEvent:
    query = AuditQuery(action="replaced", actor=FOREIGN_BY)
    page = await here.dispatcher().query(names.Query.AUDIT, query, result_type=AuditPage)
    return page.events[0]


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        pytest.param(Workflow.DISPATCHER, NOBODYS_QUEUE, "on the queue nobody", id="on-a-queue-of-nobody"),
        pytest.param(Workflow.DISPATCHER, LATER, "on the queue droidherd-fleet, to start at 2", id="to-begin-tomorrow"),
        pytest.param("Foo", OURS, "a Foo on the queue droidherd-fleet", id="of-another-type"),
    ],
)
async def test_a_foreign_workflow_with_a_dispatchers_id_is_ended(
    here: World, task: str, kind: str, options: dict[str, Any], says: str
):
    await squat(here, here.dispatcher().id, kind, DispatcherInput(pool=here.pool, snapshot="{}"), **options)
    await ended(here)
    await here.submit(task)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state
    entry = await last_replaced(here)
    assert here.dispatcher().id == entry.detail
    assert says in entry.reason
    assert ("to start at" in says) is ("to start at" in entry.reason)


class ClockBehind(datetime):
    """Of a machine that is 20 minutes behind Temporal's."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - timedelta(minutes=20)


async def test_a_worker_whose_clock_is_behind_ends_no_healthy_service(
    here: World, task: str, monkeypatch: pytest.MonkeyPatch
):
    await here.submit(task)
    await here.ended(task)
    query = foreigners(datetime.now(UTC) - timedelta(minutes=19))

    async def listed() -> bool | None:
        return here.dispatcher().id in {run.id async for run in here.client.list_workflows(query)} or None

    await until(listed, "the dispatcher to be listed")
    monkeypatch.setattr(replacement, "datetime", ClockBehind)
    runs = ForeignRuns(here.client, CONFIG, QueueClient(here.client, CONFIG))
    assert 0 == await runs.end()
    assert WorkflowExecutionStatus.RUNNING is (await here.dispatcher().describe()).status


async def test_a_task_says_since_when_its_dispatcher_does_not_answer(here: World, task: str):
    tasks = TasksClient(here.client, CONFIG, QueueClient(here.client, CONFIG))
    await squat(here, here.dispatcher().id, Workflow.DISPATCHER, DispatcherInput(pool=here.pool), **NOBODYS_QUEUE)
    await here.submit(task)

    async def says() -> str | None:
        reading = await tasks.view(task)
        return reading.view.why or None

    assert f"the dispatcher of pool {here.pool} has not answered since 2" in await until(says, "the task to say why")
    await ended(here)
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


async def test_a_foreign_workflow_under_an_emulators_id_is_ended(here: World):
    await here.register("e7")
    foreign = await squat(here, names.emulator_id("e7"), Workflow.EMULATOR, EmulatorInput(emulator_id="e7"), **LATER)
    await ended(here)
    assert WorkflowExecutionStatus.TERMINATED is (await foreign.describe()).status


async def test_a_worker_whose_hosts_id_a_dispatcher_has_is_not_refused(here: World):
    start = DispatcherInput(pool="h9")
    await here.client.start_workflow(Workflow.DISPATCHER, start, id=names.host_id("h9"), task_queue=names.FLEET_QUEUE)
    hosts, join = HostsClient(here.client, CONFIG), Join(host_id="h9", incarnation=1, machine="m", worker="w")
    with pytest.raises(UnavailableError, match="no workflow of ours"):
        await hosts.join(join)
    await ended(here)
    assert (await hosts.join(join)).accepted
    await here.client.get_workflow_handle(names.host_id("h9")).terminate()


async def test_an_account_is_restored_later_when_that_fails_at_first(here: World, monkeypatch: pytest.MonkeyPatch):
    accounts, restore = AccountsClient(here.client, EngineConfig()), AccountsClient.restore
    await accounts.set("late", SetAccount(note="kept", actor="ann", pool=here.pool), "r1")
    await squat(here, names.account_id("late"), "Foo", None, **NOBODYS_QUEUE)

    async def fails_once(self: AccountsClient, workflow_id: str) -> None:
        monkeypatch.setattr(AccountsClient, "restore", restore)
        raise UnavailableError("Temporal does not answer")

    monkeypatch.setattr(AccountsClient, "restore", fails_once)
    runs = ForeignRuns(here.client, CONFIG, QueueClient(here.client, CONFIG))

    async def found() -> bool | None:
        return await runs.end() > 0 or None

    await until(found, "the foreign run to be ended")
    assert 0 == await runs.end()
    account = await here.client.get_workflow_handle(names.account_id("late")).describe()
    assert WorkflowExecutionStatus.RUNNING is account.status
    await here.client.get_workflow_handle(names.account_id("late")).terminate()


async def test_an_account_behind_a_foreign_run_that_somebody_ended_is_restored(here: World):
    accounts = AccountsClient(here.client, EngineConfig())
    await accounts.set("behind", SetAccount(note="kept", actor="ann", pool=here.pool), "r1")
    foreign = await squat(here, names.account_id("behind"), "Foo", None, **NOBODYS_QUEUE)
    assert (record := await accounts.record("behind")) is not None
    assert "kept" == record.note
    await foreign.terminate()

    async def restored() -> bool | None:
        return "behind" in await accounts.restore_ended(None) or None

    await until(restored, "the account to be restored")
    await here.client.get_workflow_handle(names.account_id("behind")).terminate()


async def test_an_account_behind_a_foreign_workflow_keeps_its_record(here: World):
    accounts = AccountsClient(here.client, EngineConfig())
    await accounts.set("hidden", SetAccount(note="kept", actor="ann", pool=here.pool), "r1")
    await squat(here, names.account_id("hidden"), "Foo", None, **NOBODYS_QUEUE)
    await ended(here)
    record = await accounts.record("hidden")
    assert record is not None
    assert "kept" == record.note
    await here.client.get_workflow_handle(names.account_id("hidden")).terminate()
