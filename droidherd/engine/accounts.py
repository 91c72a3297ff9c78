"""Records of accounts in Temporal: listed, set and removed; and a cache of them for workers."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountActionRequest, AccountInput, AccountRecord, AccountState, SetAccount
from droidherd.contracts.inbound import TEXT
from droidherd.contracts.names import Attribute, Update, Workflow
from droidherd.domain.errors import InfrastructureError, LockedRecordError
from droidherd.domain.ids import PATTERN, RULES, is_id
from droidherd.engine import memos
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import (
    RPC_S,
    CursorError,
    MissingKeyError,
    NotFoundError,
    NoWorkerError,
    RequestFailedError,
    limit_call,
)
from droidherd.engine.task_options import keywords
from droidherd.engine.visibility import BROKEN_QUERY, as_cursor, from_cursor, is_foreign, quote, running
from droidherd.engine.workflow_calls import WorkflowCalls, discard_start

log = logging.getLogger("droidherd.engine")
EVERY = running(Workflow.ACCOUNT)
BROKEN = frozenset(
    {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT, WorkflowExecutionStatus.FAILED}
)
"""How an account's workflow never ends by itself. What was set for the account still holds."""
AT_ONCE = 16
CACHED_S = 5.0
CACHED = 10_000
RUNS_READ = 100
"""Runs of one account that are looked at, to find the newest of ours."""
READ_S = 15.0
RESTORE_S = 30.0


@dataclass(frozen=True, slots=True)
class RecordPage:
    records: tuple[AccountRecord, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Of these accounts, whose record says nothing, why it cannot be read. Also of those that have no possible name."""
    cursor: str = ""
    """Empty: this was the last page."""


class AccountsClient:
    """The records of accounts. Every method is bounded in time, and raises an EngineError."""

    def __init__(self, client: Client, config: EngineConfig) -> None:
        """`config.region` goes with each new record."""
        self._client = client
        self._config = config
        self._calls = WorkflowCalls(client, config)

    async def page(self, cursor: str, limit: int) -> RecordPage:
        token = from_cursor(cursor, EVERY)
        pages = self._client.list_workflows(EVERY, page_size=limit, next_page_token=token)
        try:
            async with limit_call(RPC_S):
                await pages.fetch_next_page()
        except (NotFoundError, RequestFailedError) as error:
            if token is None:
                raise
            raise CursorError("the cursor has expired: start again at the first page") from error
        found = [await _read(one) for one in pages.current_page or ()]
        unreadable = {record.account: why for record, why in found if record is not None and why}
        for account, why in unreadable.items():
            log.warning("the record of account %r %s", account, why)
        records = tuple(record for record, _ in found if record is not None)
        return RecordPage(records, unreadable, as_cursor(pages.next_page_token, EVERY))

    async def record(self, account: str) -> AccountRecord | None:
        try:
            async with limit_call(RPC_S):
                return await read_record(self._client, account)
        except NotFoundError:
            return None

    async def records_of(self, accounts: list[str]) -> list[AccountRecord | None]:
        """Some at a time."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(account: str) -> AccountRecord | None:
            async with gate:
                return await self.record(account)

        return await asyncio.gather(*map(one, accounts))

    async def set(self, account: str, request: SetAccount, request_id: str) -> AccountRecord:
        """Make the record, or replace it."""
        operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            Workflow.ACCOUNT.value, AccountInput(), **self._options(account)
        )
        try:
            async with limit_call(self._config.answer_s, worker=True):
                return await self._client.execute_update_with_start_workflow(
                    Update.SET.value,
                    request,
                    start_workflow_operation=operation,
                    id=request_id,
                    result_type=AccountRecord,
                )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise NoWorkerError("no worker answered in time") from error
        except WorkflowUpdateFailedError as error:
            raise RequestFailedError(f"account {account} could not be set: {error.cause}") from error
        finally:
            await discard_start(operation)

    async def remove(self, account: str, request: AccountActionRequest, request_id: str) -> AccountRecord:
        """What cannot be read was not made by droidherd: its workflow is terminated."""
        try:
            async with limit_call(RPC_S):
                found = await self._client.get_workflow_handle(names.account_id(account)).describe()
                foreign = found.status is WorkflowExecutionStatus.RUNNING and is_foreign(found, Workflow.ACCOUNT)
                if not foreign:
                    found = await _newest_run(self._client, names.account_id(account))
                record, why = await _read(found) if foreign or _counts(found) else (None, "")
                if record is not None and (why or foreign):
                    why = why or "was written by somebody else"
                    reason = f"account removed by {request.actor}; its record {why}"[:TEXT]
                    await self._client.get_workflow_handle(found.id, run_id=found.run_id).terminate(reason=reason)
                    return record
        except NotFoundError:
            record = None
        if record is None:
            raise NotFoundError(f"no record of account `{account}`")
        return await self._calls.update(names.account_id(account), Update.REMOVE, request, request_id, AccountRecord)

    async def restore_ended(self, since: datetime | None) -> tuple[str, ...]:
        """Start the workflows of accounts again that somebody ended, since that time or ever. Returns their names."""
        query = f"WorkflowType = {quote(Workflow.ACCOUNT)} AND ExecutionStatus IN {BROKEN_QUERY}"
        if since is not None:
            query += f" AND CloseTime > '{since:%Y-%m-%dT%H:%M:%SZ}'"
        restored: list[str] = []
        async with limit_call(RESTORE_S):
            ids = {one.id: None async for one in self._client.list_workflows(query, page_size=1000)}
            for workflow_id in ids:
                try:
                    restored += await self._start_ended(workflow_id)
                except MissingKeyError as error:
                    log.warning("%s is started again later: %s", workflow_id, error)
        return tuple(restored)

    async def restore(self, workflow_id: str) -> None:
        """Start one again that somebody ended and then hid behind a workflow of their own."""
        async with limit_call(RESTORE_S):
            await self._start_ended(workflow_id)

    async def _start_ended(self, workflow_id: str) -> list[str]:
        """Its name, if it was ended and is started again."""
        found = await _newest_run(self._client, workflow_id)
        record, why = await _read(found) if _counts(found) and found.status in BROKEN else (None, "")
        if record is None or why:
            return []
        await start_again(self._client, self._config, record)
        return [record.account]

    def _options(self, account: str) -> dict[str, Any]:
        return options_of(account, self._config)


def options_of(account: str, config: EngineConfig) -> dict[str, Any]:
    """How its workflow is started."""
    return {
        "id": names.account_id(account),
        "task_queue": names.FLEET_QUEUE,
        "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
        "search_attributes": keywords({Attribute.ACCOUNT_ID: account, Attribute.REGION: config.region}),
        "static_summary": f"account {account}",
    }


async def start_again(client: Client, config: EngineConfig, record: AccountRecord) -> None:
    """Start an account's workflow with a record that it had, unless it runs."""
    await client.start_workflow(
        Workflow.ACCOUNT.value,
        AccountInput(state=AccountState(record=record)),
        task_timeout=timedelta(seconds=config.workflow_task_s),
        memo={names.MEMO_ACCOUNT: record.model_dump(mode="json", exclude_defaults=True)},
        **options_of(record.account, config),
    )


class CachedAccounts:
    """Records of accounts, kept for some seconds: every task that is planned reads one. For any thread.

    That an account has no record is kept for as long. Implements `droidherd.credentials.AccountReader`.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, cached_s: float = CACHED_S) -> None:
        """`loop` is the client's."""
        self._client = client
        self._loop = loop
        self._cached_s = cached_s
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, AccountRecord | None]] = {}

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:
        with self._lock:
            at_s, known = self._known.get(account, (-self._cached_s, None))
        if not fresh and time.monotonic() - at_s < self._cached_s:
            return known
        record = self._fetch(account)
        with self._lock:
            self._known.pop(account, None)
            if len(self._known) >= CACHED:
                del self._known[next(iter(self._known))]
            self._known[account] = (time.monotonic(), record)
        return record

    def _fetch(self, account: str) -> AccountRecord | None:
        reading = asyncio.run_coroutine_threadsafe(self._read(account), self._loop)
        try:
            return reading.result(READ_S)
        except (NoAnswerError, RPCError) as error:
            reading.cancel()
            what = f"its record cannot be read: {type(error).__name__}"
            raise InfrastructureError(what, to=f"account {account}", remedy="does Temporal answer?") from error
        except MissingKeyError as error:
            raise LockedRecordError(str(error), to=f"account {account}") from error

    async def _read(self, account: str) -> AccountRecord | None:
        try:
            return await read_record(self._client, account)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise


async def read_record(client: Client, account: str) -> AccountRecord | None:
    """The record in the memo of an account's workflow; None when that was removed. RPCError: there is none.

    Somebody who ends the workflow removes nothing: a worker starts it again.
    """
    found = await _newest_run(client, names.account_id(account))
    return (await _read(found))[0] if _counts(found) else None


async def _newest_run(client: Client, workflow_id: str) -> WorkflowExecution:
    """The newest run of an account that is ours and was not reset: the memo of one that was is as old as that point."""
    found = await client.get_workflow_handle(workflow_id).describe()
    is_known = is_id(workflow_id.removeprefix(names.account_id("")))
    if not is_known or (found.status is not WorkflowExecutionStatus.FAILED and not is_foreign(found, Workflow.ACCOUNT)):
        return found
    ours = f"WorkflowType = {quote(Workflow.ACCOUNT)} AND TaskQueue = {quote(names.FLEET_QUEUE)}"
    query = f"WorkflowId = {quote(workflow_id)} AND {ours} AND ExecutionStatus != 'Failed'"
    async for run in client.list_workflows(query, page_size=10, limit=RUNS_READ):
        if not is_foreign(run, Workflow.ACCOUNT):
            return await client.get_workflow_handle(workflow_id, run_id=run.run_id).describe()
    return found


def _counts(known: WorkflowExecution) -> bool:
    """Whether what its memo says of an account holds."""
    alive = known.status is WorkflowExecutionStatus.RUNNING or known.status in BROKEN
    return alive and not is_foreign(known, Workflow.ACCOUNT)


async def _read(known: WorkflowExecution) -> tuple[AccountRecord | None, str]:
    """The record in a memo, and why that cannot be read, for then it is empty. None: the account is about to close."""
    name = known.id.removeprefix(names.account_id(""))
    record, why = await memos.read_or_why(known, names.MEMO_ACCOUNT, AccountRecord)
    if not is_id(name):
        why = f"cannot be read: an account {RULES[PATTERN]}"
    elif record is not None and record.account != name:
        why = f"cannot be read: it is that of account {record.account}"
    return (AccountRecord.model_construct(account=name), why) if why else (record, "")
