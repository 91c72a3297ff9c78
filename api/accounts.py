"""Accounts on the engine: their records, and what a pool's dispatcher says of them."""

import asyncio
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecution, WorkflowExecutionStatus
from temporalio.client import WorkflowUpdateFailedError as RefusedUpdateError
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError as UnansweredError
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy

from api import engine as e
from api.asking import asking
from api.gateway import ENGINE_S, Gateway
from api.starting import KEYWORD, House
from api.visibility import Status, as_cursor, from_cursor, quoted
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountAsk, AccountInput, AccountRecord, AccountWish
from droidherd.contracts.names import Attribute, Query, Update, Workflow
from droidherd.contracts.queue import AccountsPage, AccountsQuery, DisabledPage, DisabledQuery

EVERY = f"WorkflowType = {quoted(Workflow.ACCOUNT)} AND ExecutionStatus = {quoted(Status.RUNNING)}"
AT_ONCE = 16


class Accounts:
    """Implements `api.engine.Accounts`."""

    def __init__(self, client: Client, house: House, gateway: Gateway) -> None:
        """`gateway`: how pools are asked."""
        self._client = client
        self._house = house
        self._gateway = gateway

    # --- records ----------------------------------------------------------------------------------------------

    async def records(self, cursor: str, limit: int) -> e.RecordPage:
        token = from_cursor(cursor, EVERY)
        pages = self._client.list_workflows(EVERY, page_size=limit, next_page_token=token)
        try:
            async with asking(ENGINE_S):
                await pages.fetch_next_page()
        except (e.MissingError, e.BrokenError) as error:
            if token is None:
                raise
            raise e.CursorError("the cursor is too old, or is not one of ours") from error
        found = [await _written(one) for one in pages.current_page or ()]
        return e.RecordPage(tuple(one for one in found if one is not None), as_cursor(pages.next_page_token, EVERY))

    async def record(self, account: str) -> AccountRecord | None:
        try:
            async with asking(ENGINE_S):
                found = await self._client.get_workflow_handle(names.account_id(account)).describe()
        except e.MissingError:
            return None
        open_ = found.workflow_type == Workflow.ACCOUNT and found.status is WorkflowExecutionStatus.RUNNING
        return await _written(found) if open_ else None

    async def records_of(self, accounts: list[str]) -> list[AccountRecord | None]:
        """Some at a time."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(account: str) -> AccountRecord | None:
            async with gate:
                return await self.record(account)

        return await asyncio.gather(*map(one, accounts))

    async def set(self, account: str, wish: AccountWish, request_id: str) -> AccountRecord:
        operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            Workflow.ACCOUNT.value, AccountInput(), **self._options(account)
        )
        try:
            async with asking(self._house.answer_s, worker=True):
                return await self._client.execute_update_with_start_workflow(
                    Update.SET.value,
                    wish,
                    start_workflow_operation=operation,
                    id=request_id,
                    result_type=AccountRecord,
                )
        except UnansweredError as error:
            raise e.SilentError("no worker answered in time") from error
        except RefusedUpdateError as error:
            raise e.BrokenError(f"account {account} could not be set: {error.cause}") from error
        finally:
            # The SDK keeps a failure in a future as well; left alone, it is reported as never looked at.
            kept = asyncio.ensure_future(operation.workflow_handle())
            kept.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(0)
            kept.cancel()

    async def remove(self, account: str, ask: AccountAsk, request_id: str) -> AccountRecord:
        if await self.record(account) is None:
            raise e.MissingError(f"account {account} has no record")
        handle = self._client.get_workflow_handle(names.account_id(account))
        return await self._gateway.update(handle, Update.REMOVE, ask, request_id, AccountRecord)

    def _options(self, account: str) -> dict[str, Any]:
        keywords = {Attribute.ACCOUNT_ID: account, Attribute.REGION: self._house.region}
        pairs: list[SearchAttributePair[Any]] = [
            SearchAttributePair(KEYWORD[name], value) for name, value in keywords.items() if value
        ]
        return {
            "id": names.account_id(account),
            "task_queue": names.FLEET_QUEUE,
            "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
            "search_attributes": TypedSearchAttributes(pairs),
            "static_summary": f"account {account}",
        }

    # --- what the dispatcher says -----------------------------------------------------------------------------

    async def states(self, pool: str, accounts: tuple[str, ...]) -> AccountsPage:
        return await self._gateway.ask_pool(pool, Query.ACCOUNTS, AccountsQuery(accounts=accounts), AccountsPage)

    async def disabled(self, pool: str, query: DisabledQuery) -> DisabledPage:
        return await self._gateway.ask_pool(pool, Query.DISABLED, query, DisabledPage)


async def _written(known: WorkflowExecution) -> AccountRecord | None:
    """What it wrote down; of one that wrote nothing readable at least its name. None: it is about to close."""
    try:
        return await known.memo_value(names.MEMO_ACCOUNT, None, type_hint=AccountRecord)
    except (ValueError, TypeError, RuntimeError):
        return AccountRecord.model_construct(account=known.id.removeprefix(names.account_id("")))
