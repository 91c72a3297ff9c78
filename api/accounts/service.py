"""What the routes of accounts do."""

import secrets
from typing import Any, Final

from api.accounts.schemas import (
    AccountChanged,
    AccountList,
    AccountOut,
    AccountRequest,
    AccountRow,
    next_of,
    planned,
    ran_on,
)
from api.errors import invalid
from api.queue import routes as queue
from api.state import AppState
from api.tasks.bulk import apply_to_each, choose
from droidherd.contracts.accounts import AccountActionRequest, AccountRecord, SetAccount
from droidherd.contracts.names import Update
from droidherd.contracts.queue import DisabledQuery
from droidherd.contracts.tasks import OperatorRequest
from droidherd.engine.schedules import SubscriptionFilters
from droidherd.engine.visibility import TaskFilters

OPEN_READ: Final = 100
"""How many open tasks, and subscriptions, of an account are searched for its next run."""


async def page(app: AppState, pool: str, cursor: str, limit: int, *, enabled_only: bool) -> AccountList:
    """Accounts with a record."""
    found = await app.accounts.page(cursor, limit)
    now = await app.queue.accounts(pool, tuple(one.account for one in found.records))
    rows = [AccountRow.of(view, record) for view, record in zip(now.accounts, found.records, strict=True)]
    wanted = [one for one in rows if not enabled_only or one.disabled is None]
    return AccountList(accounts=wanted, cursor=found.cursor, rebuilding=now.rebuilding)


async def disabled(app: AppState, pool: str, cursor: str, limit: int) -> AccountList:
    """Disabled accounts, with or without a record."""
    found = await app.queue.disabled(pool, DisabledQuery(after=cursor, limit=limit))
    records = await app.accounts.records_of([one.account for one in found.accounts])
    rows = [AccountRow.of(view, record) for view, record in zip(found.accounts, records, strict=True)]
    return AccountList(accounts=rows, cursor=found.next_after, rebuilding=found.rebuilding)


async def read(app: AppState, pool: str, account: str, record: AccountRecord | None) -> AccountOut:
    """One account, whole."""
    now = await app.queue.accounts(pool or app.pool, (account,))
    last = await app.tasks.last_run(account)
    waiting = await app.tasks.page(TaskFilters(account=account, open=True), "", OPEN_READ)
    recurring, _ = await app.subscriptions.page(SubscriptionFilters(account=account), "", OPEN_READ)
    following = next_of(waiting.tasks, planned(recurring))
    more: dict[str, Any] = {"last_run": last, "last_emulator": ran_on(last), "next_run": following}
    return AccountOut.of(now.accounts[0], record, **more, rebuilding=now.rebuilding)


async def set_record(app: AppState, pool: str, account: str, wanted: AccountRequest) -> AccountRecord:
    """Replace the record. References are checked by the rule of the worker that will follow them."""
    for name, reference in wanted.credentials.items():
        if remedy := app.settings.allowed_references.refusal(reference):
            raise invalid("credentials", f"{name}: {reference} may not be read: {remedy}")
    if wanted.emulator and not await app.emulators.exists(wanted.emulator):
        raise invalid("emulator", f"no emulator `{wanted.emulator}`")
    fields = wanted.model_dump(include={"emulator", "credentials", "note"})
    by = AccountActionRequest(actor=wanted.actor, reason=wanted.reason, pool=await app.pool_of(pool))
    return await app.accounts.set(account, SetAccount(**fields, request=by), secrets.token_hex(12))


async def command(app: AppState, pool: str, update: Update, account: str, ask: OperatorRequest) -> AccountChanged:
    """Disable or enable it."""
    done = await queue.command(app, pool, update, {"account": account, **dict(ask)})
    return AccountChanged(detail=done.detail)


async def cancel_all(app: AppState, account: str, ask: OperatorRequest) -> AccountChanged:
    """Cancel all of its open tasks."""
    filters = TaskFilters(account=account, open=True)
    chosen, following = await choose(app, filters)
    done, refused = await apply_to_each(app, "cancel", filters, chosen, ask)
    return AccountChanged(tasks=done, refused=refused, more=bool(following))
