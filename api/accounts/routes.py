"""Accounts: their records, whether they are disabled, what they do."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from api.accounts.schemas import (
    AccountChanged,
    AccountList,
    AccountOut,
    AccountRequest,
    AccountRow,
    DisableRequest,
    next_of,
    next_runs,
    ran_on,
)
from api.answers import answer, answers, body
from api.bodies import ActionRequest, optional, require_body, with_actor
from api.errors import Kind, invalid
from api.queue import routes as queue
from api.state import App, AppState, Caller, Operates, path_id
from api.tasks.bulk import apply_to_each, choose
from api.tasks.filters import Name
from droidherd.contracts.accounts import AccountActionRequest, AccountRecord, SetAccount
from droidherd.contracts.names import Update
from droidherd.contracts.queue import AccountView, DisabledQuery
from droidherd.contracts.tasks import OperatorRequest
from droidherd.domain import ids
from droidherd.engine.schedules import SubscriptionFilters
from droidherd.engine.visibility import TaskFilters

router: Final = APIRouter(prefix="/api/accounts", tags=["accounts"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)
OPEN_READ: Final = 100
"""How many open tasks, and subscriptions, of an account are searched for its next run."""


async def _account(account: str) -> str:
    return path_id(account, "account")


Account = Annotated[str, Depends(_account)]


@router.get("", responses=answers(AccountList, *_READ))
async def accounts(
    app: App,
    operates: Operates,
    *,
    pool: Name = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
    disabled: bool | None = None,
) -> Response:
    """Accounts with a record, newest first; `disabled=true`: those that are disabled, by name, with or without one."""
    if disabled:
        found = await _disabled(app, pool or app.pool, cursor, limit)
    else:
        found = await _page(app, pool or app.pool, cursor, limit, enabled_only=disabled is not None)
    return answer(found.model_copy(update={"accounts": [one.shown(operates=operates) for one in found.accounts]}))


@router.get("/{account}", responses=answers(AccountOut, *_READ))
async def account(app: App, account: Account, operates: Operates, pool: Name = "") -> Response:
    """Whether it waits, runs or is disabled, which emulator it is bound to, its last and its next run."""
    return answer((await _describe(app, pool, account, await app.accounts.record(account))).shown(operates=operates))


@router.put("/{account}", responses=answers(AccountOut, *_READ), openapi_extra=body(AccountRequest, required=True))
async def put(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Bind it to an emulator, say where its credentials are. The record is replaced as a whole."""
    wanted = with_actor(await require_body(AccountRequest, request), caller)
    record = await _set_record(app, pool, account, wanted)
    return answer(await _describe(app, pool, account, record))


@router.delete("/{account}", responses=answers(AccountRecord, *_READ), openapi_extra=body(ActionRequest))
async def remove(app: App, account: str, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Delete its record. Its tasks continue, bound to no emulator; an account that is disabled stays disabled.

    A record that cannot be read is removed with its workflow, whatever name somebody gave it.
    """
    wanted = with_actor(await optional(ActionRequest, request), caller)
    by = AccountActionRequest(**dict(wanted), pool=await app.pool_of(pool))
    return answer(await app.accounts.remove(account, by, secrets.token_hex(12)))


@router.post(
    "/{account}/disable", responses=answers(AccountChanged, *_READ, Kind.REFUSED), openapi_extra=body(DisableRequest)
)
async def disable(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant it no emulators. Running and queued tasks stay as they are, unless they are to be cancelled."""
    wanted = with_actor(await optional(DisableRequest, request), caller)
    done = await _command(app, pool, Update.DISABLE_ACCOUNT, account, wanted.ask)
    if wanted.tasks == "cancel":
        done = await _cancel_all(app, account, wanted.ask)
    return answer(done)


@router.post(
    "/{account}/enable", responses=answers(AccountChanged, *_READ, Kind.REFUSED), openapi_extra=body(ActionRequest)
)
async def enable(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant it emulators again: queued tasks continue at their position."""
    wanted = with_actor(await optional(ActionRequest, request), caller)
    return answer(await _command(app, pool, Update.ENABLE_ACCOUNT, account, wanted.ask))


async def _page(app: AppState, pool: str, cursor: str, limit: int, *, enabled_only: bool) -> AccountList:
    """Accounts with a record."""
    found = await app.accounts.page(cursor, limit)
    now = await app.queue.accounts(pool, tuple(one.account for one in found.records if ids.is_id(one.account)))
    known = {one.account: one for one in now.accounts}
    rows = [
        AccountRow.of(
            known.get(one.account) or AccountView(account=one.account, is_queued=False, is_running=False),
            None if (why := found.unreadable.get(one.account, "")) else one,
            unreadable=why,
        )
        for one in found.records
    ]
    wanted = [one for one in rows if not enabled_only or one.disabled is None]
    return AccountList(accounts=wanted, cursor=found.cursor, rebuilding=now.rebuilding)


async def _disabled(app: AppState, pool: str, cursor: str, limit: int) -> AccountList:
    """Disabled accounts, with or without a record."""
    if cursor and not ids.is_file_name(cursor, ids.ID_MAX):
        raise invalid("cursor", "not a valid cursor: pass the `cursor` of the page before, unchanged")
    found = await app.queue.disabled(pool, DisabledQuery(after=cursor, limit=limit))
    records = await app.accounts.records_of([one.account for one in found.accounts])
    rows = [AccountRow.of(view, record) for view, record in zip(found.accounts, records, strict=True)]
    return AccountList(accounts=rows, cursor=found.next_after, rebuilding=found.rebuilding)


async def _describe(app: AppState, pool: str, account: str, record: AccountRecord | None) -> AccountOut:
    """One account, whole."""
    now = await app.queue.accounts(pool or app.pool, (account,))
    last = await app.tasks.last_run(account)
    waiting = await app.tasks.page(TaskFilters(account=account, open=True), "", OPEN_READ)
    recurring, _ = await app.subscriptions.page(SubscriptionFilters(account=account), "", OPEN_READ)
    following = next_of(waiting.tasks, next_runs(recurring))
    more: dict[str, Any] = {"last_run": last, "last_emulator": ran_on(last), "next_run": following}
    return AccountOut.of(now.accounts[0], record, **more, rebuilding=now.rebuilding)


async def _set_record(app: AppState, pool: str, account: str, wanted: AccountRequest) -> AccountRecord:
    """Replace the record. References are checked by the rule of the worker that will follow them."""
    for name, reference in wanted.credentials.items():
        if remedy := app.settings.allowed_references.refusal(reference):
            raise invalid("credentials", f"{name}: {reference} may not be read: {remedy}")
    if wanted.emulator and not await app.emulators.exists(wanted.emulator):
        raise invalid("emulator", f"no emulator `{wanted.emulator}`")
    fields = wanted.model_dump(include={"emulator", "credentials", "note"})
    by = AccountActionRequest(actor=wanted.actor, reason=wanted.reason, pool=await app.pool_of(pool))
    return await app.accounts.set(account, SetAccount(**fields, **dict(by)), secrets.token_hex(12))


async def _command(app: AppState, pool: str, update: Update, account: str, ask: OperatorRequest) -> AccountChanged:
    """Disable or enable it."""
    done = await queue.command(app, pool, update, {"account": account, **dict(ask)})
    return AccountChanged(detail=done.detail)


async def _cancel_all(app: AppState, account: str, ask: OperatorRequest) -> AccountChanged:
    """Cancel all of its open tasks."""
    filters = TaskFilters(account=account, open=True)
    chosen, following = await choose(app, filters)
    done, refused = await apply_to_each(app, "cancel", filters, chosen, ask)
    return AccountChanged(tasks=done, refused=refused, more=bool(following))
