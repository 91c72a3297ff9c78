"""Accounts: their records, whether they are disabled, what they do."""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from api.account_views import (
    AccountBody,
    AccountList,
    AccountOrdered,
    AccountOut,
    AccountRow,
    Disabling,
    next_of,
    planned,
    ran_on,
)
from api.bodies import json_body, optional, parsed
from api.engine import Filters
from api.errors import Kind, ProblemError, invalid
from api.house import Caller, Home, House, plain, pool_of
from api.routes.answers import answer, answers, body
from api.routes.bulk import carried_out, chosen_of
from api.routes.filters import Name
from api.schedules import RowFilters
from api.schemas import Wish
from api.signing import signed
from droidherd.contracts.accounts import AccountAsk, AccountRecord, AccountWish
from droidherd.contracts.names import Update
from droidherd.contracts.queue import DisabledQuery, Order
from droidherd.contracts.tasks import Ask
from droidherd.domain.references import Places

router: Final = APIRouter(prefix="/api/accounts", tags=["accounts"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)
OPEN_READ: Final = 100
"""Open tasks, and subscriptions, of an account that are looked at for the next run."""


async def _account(account: str) -> str:
    return plain(account, "account")


Account = Annotated[str, Depends(_account)]


@router.get("", responses=answers(AccountList, *_READ))
async def accounts(
    house: Home,
    pool: Name = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
    disabled: bool | None = None,
) -> Response:
    """Accounts with a record, newest first; `disabled=true`: those that are disabled, by name, with or without one."""
    where = pool or house.settings.host.pool
    if disabled:
        return answer(await _disabled(house, where, cursor, limit))
    page = await house.accounts.records(cursor, limit)
    now = await house.accounts.states(where, tuple(one.account for one in page.records))
    rows = [AccountRow.of(view, record) for view, record in zip(now.accounts, page.records, strict=True)]
    wanted = [one for one in rows if disabled is None or one.disabled is None]
    return answer(AccountList(accounts=wanted, cursor=page.cursor, rebuilding=now.rebuilding))


async def _disabled(house: House, pool: str, cursor: str, limit: int) -> AccountList:
    page = await house.accounts.disabled(pool, DisabledQuery(after=cursor, limit=limit))
    records = await house.accounts.records_of([one.account for one in page.accounts])
    rows = [AccountRow.of(view, record) for view, record in zip(page.accounts, records, strict=True)]
    return AccountList(accounts=rows, cursor=page.next_after, rebuilding=page.rebuilding)


@router.get("/{account}", responses=answers(AccountOut, *_READ))
async def account(house: Home, account: Account, pool: Name = "") -> Response:
    """Whether it waits, runs or is disabled, where it is bound to, its last and its next run."""
    return answer(await _whole(house, pool, account, await house.accounts.record(account)))


async def _whole(house: House, pool: str, name: str, record: AccountRecord | None) -> AccountOut:
    now = await house.accounts.states(pool or house.settings.host.pool, (name,))
    last = await house.engine.last_run(name)
    waiting = await house.engine.tasks(Filters(account=name, open=True), "", OPEN_READ)
    recurring, _ = await house.schedules.page(RowFilters(account=name), "", OPEN_READ)
    following = next_of(waiting.tasks, planned(recurring))
    more: dict[str, Any] = {"last_run": last, "last_emulator": ran_on(last), "next_run": following}
    more |= {"rebuilding": now.rebuilding}
    return AccountOut.of(now.accounts[0], record, **more)


@router.put("/{account}", responses=answers(AccountOut, *_READ), openapi_extra=body(AccountBody, required=True))
async def put(house: Home, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Bind it to an emulator, say where its credentials are. The record is replaced as a whole."""
    wanted = signed(parsed(AccountBody, await json_body(request)), caller)
    _check_references(house, wanted.credentials)
    if wanted.emulator and not await house.engine.knows_emulator(wanted.emulator):
        raise invalid("emulator", f"there is no emulator {wanted.emulator}")
    words = wanted.model_dump(include={"emulator", "credentials", "note"})
    ask = AccountAsk(actor=wanted.actor, reason=wanted.reason, pool=await pool_of(house, pool))
    wish = AccountWish(**words, ask=ask)
    record = await house.accounts.set(account, wish, secrets.token_hex(12))
    return answer(await _whole(house, pool, account, record))


@router.delete("/{account}", responses=answers(AccountRecord, *_READ), openapi_extra=body(Wish))
async def remove(house: Home, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Forget its record. Its tasks go on, bound to nothing; one that is disabled stays so."""
    wish = signed(await optional(Wish, request), caller)
    ask = AccountAsk(**dict(wish), pool=await pool_of(house, pool))
    return answer(await house.accounts.remove(account, ask, secrets.token_hex(12)))


@router.post(
    "/{account}/disable", responses=answers(AccountOrdered, *_READ, Kind.REFUSED), openapi_extra=body(Disabling)
)
async def disable(house: Home, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant it nothing any more. What runs goes on and what waits stays in line, unless they are to be cancelled."""
    wish = signed(await optional(Disabling, request), caller)
    ask = Ask(actor=wish.actor, reason=wish.reason)
    done = await _order(house, pool, Update.DISABLE_ACCOUNT, account, ask)
    if wish.tasks == "cancel":
        done = await _cancelled(house, account, ask)
    return answer(done)


@router.post("/{account}/enable", responses=answers(AccountOrdered, *_READ, Kind.REFUSED), openapi_extra=body(Wish))
async def enable(house: Home, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant again: what waited goes on with its place in line."""
    wish = signed(await optional(Wish, request), caller)
    return answer(await _order(house, pool, Update.ENABLE_ACCOUNT, account, Ask(**dict(wish))))


def _check_references(house: House, credentials: Mapping[str, str]) -> None:
    """By the same rule as the worker that would follow them, so that nobody waits for a task to say no."""
    places = Places(house.settings.credentials.env_prefix, house.settings.credentials.directory)
    for name, reference in credentials.items():
        if remedy := places.refusal(reference):
            raise invalid("credentials", f"{name}: {reference} may not be read: {remedy}")


async def _order(house: House, pool: str, update: Update, account: str, ask: Ask) -> AccountOrdered:
    order = Order(request_id=secrets.token_hex(12), account=account, **dict(ask))
    done = await house.engine.order(pool or house.settings.host.pool, update, order)
    if not done.done:
        raise ProblemError(Kind.REFUSED, done.detail or "the dispatcher refused")
    return AccountOrdered(detail=done.detail)


async def _cancelled(house: House, account: str, ask: Ask) -> AccountOrdered:
    """Everything of it that has not ended."""
    filters = Filters(account=account, open=True)
    chosen, following = await chosen_of(house, filters)
    done, refused = await carried_out(house, "cancel", filters, chosen, ask)
    return AccountOrdered(tasks=done, refused=refused, more=bool(following))
