"""An account's record: made, replaced, removed, continued as new; and what it is to the tasks of the account."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from temporalio.client import WithStartWorkflowOperation, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountActionRequest, AccountInput, AccountRecord, SetAccount
from droidherd.contracts.queue import AuditPage, AuditQuery
from droidherd.contracts.tasks import OperatorRequest
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.accounts import AccountsClient, CachedAccounts
from droidherd.engine.connection import EngineConfig
from tests.workflows.plays import Hold
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = {"password": "env:ANN_PASSWORD"}


async def change(here: World, account: str, *, after: int = 300, **fields: Any) -> AccountRecord:
    start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        names.Workflow.ACCOUNT,
        AccountInput(continue_after=after),
        id=names.account_id(account),
        task_queue=names.FLEET_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    asked = AccountActionRequest(**{"pool": here.pool, **dict(fields.pop("ask", OperatorRequest()))})
    return await here.client.execute_update_with_start_workflow(
        names.Update.SET, SetAccount(**fields, **dict(asked)), start_workflow_operation=start, result_type=AccountRecord
    )


def handle(here: World, account: str) -> "WorkflowHandle[Any, Any]":
    return here.client.get_workflow_handle(names.account_id(account))


async def written(here: World, account: str) -> AccountRecord | None:
    return await asyncio.to_thread(CachedAccounts(here.client, asyncio.get_running_loop()).read, account)


async def test_what_was_set_is_read_without_a_worker_and_is_gone_when_removed(here: World) -> None:
    made = await change(here, "w1", emulator="e1", credentials=SECRET, ask=OperatorRequest(actor="bob", reason="new"))
    assert ("w1", "e1", SECRET, "bob") == (made.account, made.emulator, made.credentials, made.changed_by)
    assert made == await written(here, "w1")
    await handle(here, "w1").execute_update(names.Update.REMOVE, {"actor": "bob", "pool": here.pool})

    async def closed() -> bool | None:
        status = (await handle(here, "w1").describe()).status
        return True if status is WorkflowExecutionStatus.COMPLETED else None

    await until(closed, "the account to be closed")
    assert None is await written(here, "w1")
    await change(here, "w1", note="again")
    assert "again" == (await written(here, "w1") or made).note


async def test_what_becomes_of_a_record_stands_in_the_audit_also_when_it_is_gone(here: World) -> None:
    await change(here, "w6", credentials=SECRET, ask=OperatorRequest(actor="bob", reason="new"))
    await handle(here, "w6").execute_update(names.Update.REMOVE, {"actor": "cem", "reason": "left", "pool": here.pool})
    await handle(here, "w6").result()
    page = await here.dispatcher().query(names.Query.AUDIT, AuditQuery(), result_type=AuditPage)
    lines = [(one.kind, one.actor, one.reason, one.detail) for one in page.events if one.detail.startswith("w6")]
    assert [
        ("account_removed", "cem", "left", "w6"),
        ("account_set", "bob", "new", "w6: bound to no emulator; credentials: password"),
    ] == lines


async def test_the_same_record_again_is_no_second_line_in_the_audit(here: World) -> None:
    made = await change(here, "w8", note="mine", credentials=SECRET, ask=OperatorRequest(actor="bob"))
    assert made == await change(here, "w8", note="mine", credentials=SECRET, ask=OperatorRequest(actor="cem"))
    await change(here, "w8", note="yours", credentials=SECRET, ask=OperatorRequest(actor="cem"))

    async def audit_actors() -> list[str] | None:
        page = await here.dispatcher().query(names.Query.AUDIT, AuditQuery(action="account_set"), result_type=AuditPage)
        actors = [one.actor for one in page.events if one.detail.startswith("w8:")]
        return actors if actors[:1] == ["cem"] else None

    assert ["cem", "bob"] == await until(audit_actors, "the audit to know of the last change")


async def test_a_repeated_entry_counts_once_and_one_without_actor_is_somebodys(here: World) -> None:
    for _ in range(2):
        await here.dispatcher().signal(names.Signal.AUDIT_ENTRY, AuditEntry("tended", "", detail="w7", once="r-7"))
    page = await here.dispatcher().query(names.Query.AUDIT, AuditQuery(action="tended"), result_type=AuditPage)
    assert [("somebody", "w7")] == [(one.actor, one.detail) for one in page.events]


async def test_after_many_changes_it_continues_as_new_with_its_record(here: World) -> None:
    for number in range(5):
        await change(here, "w2", after=2, note=f"change {number}")

    async def continued() -> AccountRecord | None:
        found = await handle(here, "w2").describe()
        runs = [one async for one in here.client.list_workflows(f"WorkflowId = '{found.id}'")]
        return await written(here, "w2") if len(runs) > 1 else None

    assert "change 4" == (await until(continued, "the account to continue as new")).note
    assert "change 4" == (await handle(here, "w2").query(names.Query.VIEW, result_type=AccountRecord)).note


async def test_what_was_set_outlives_an_end_that_somebody_made(here: World) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    accounts = AccountsClient(here.client, EngineConfig(pool=here.pool))
    made = await change(here, "w9", emulator="e1", credentials=SECRET)
    await handle(here, "w9").terminate("by hand")
    assert made == await written(here, "w9")

    async def restored() -> bool | None:
        return True if "w9" in await accounts.restore_ended(began) else None

    await until(restored, "the account to be started again")
    assert made == await handle(here, "w9").query(names.Query.VIEW, result_type=AccountRecord)
    assert made == await written(here, "w9")
    assert "w9" not in await accounts.restore_ended(began)
    await handle(here, "w9").execute_update(names.Update.REMOVE, {"actor": "bob", "pool": here.pool})
    await handle(here, "w9").result()
    assert ((), None) == (await accounts.restore_ended(began), await written(here, "w9"))


async def test_a_record_is_known_for_a_while_unless_it_is_asked_anew(here: World) -> None:
    accounts = CachedAccounts(here.client, asyncio.get_running_loop(), cached_s=3600.0)
    assert None is await asyncio.to_thread(accounts.read, "w3")
    await change(here, "w3", note="made")
    assert None is await asyncio.to_thread(accounts.read, "w3")
    fresh = await asyncio.to_thread(lambda: accounts.read("w3", fresh=True))
    assert (fresh, "made") == (await asyncio.to_thread(accounts.read, "w3"), fresh.note if fresh else "")


async def test_a_bound_task_waits_for_its_emulator_one_that_names_another_does_not(here: World) -> None:
    hold = Hold()
    await here.submit("holder", hold, emulator="e1")
    await hold.began.wait()
    await here.submit("bound", params={"bound": "e1"})
    await here.reached("bound", TaskStatus.QUEUED)
    await here.submit("named", params={"bound": "e1"}, emulator="e2")
    assert "e2" == (await here.ended("named")).attempts[-1].emulator
    hold.let_go.set()
    assert "e1" == (await here.ended("bound")).attempts[-1].emulator
    await here.ended("holder")


async def test_a_secret_is_refused_without_being_repeated(here: World) -> None:
    with pytest.raises(ValidationError) as refused:
        SetAccount(credentials={"password": "hunter2"})
    assert ("hunter2" in str(refused.value), "env:NAME" in str(refused.value)) == (False, True)


async def test_a_disabled_account_waits_in_line_through_the_dispatchers_end(here: World) -> None:
    assert (await here.order("disable_account", account="w5", actor="bob", reason="banned")).done
    await here.submit("t5", account="w5")
    assert "account w5 is disabled by bob: banned" == (await here.reached("t5", TaskStatus.QUEUED)).why
    await here.dispatcher().terminate("test")

    async def back() -> bool | None:
        page = await here.queue()
        return True if [one.task_id for one in page.queue if "disabled by bob" in one.blocked_by] else None

    await here.client.start_workflow(
        names.Workflow.DISPATCHER,
        {"pool": here.pool},
        id=names.dispatcher_id(here.pool),
        task_queue=names.FLEET_QUEUE,
        start_signal=names.Signal.WAKE,
    )
    await until(back, "the successor to know who is disabled")
    assert not (await here.order("disable_account", actor="bob")).done
    assert (await here.order("enable_account", account="w5", actor="bob")).done
    await here.ended("t5")
    await here.idle()
