"""Accounts: their records, whether they are disabled, what they do."""

import secrets
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from api.accounts import service
from api.accounts.schemas import AccountChanged, AccountList, AccountOut, AccountRequest, DisableRequest
from api.answers import answer, answers, body
from api.bodies import ActionRequest, optional, required, signed
from api.errors import Kind
from api.state import App, Caller, path_id
from api.tasks.filters import Name
from droidherd.contracts.accounts import AccountActionRequest, AccountRecord
from droidherd.contracts.names import Update

router: Final = APIRouter(prefix="/api/accounts", tags=["accounts"])

_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)


async def _account(account: str) -> str:
    return path_id(account, "account")


Account = Annotated[str, Depends(_account)]


@router.get("", responses=answers(AccountList, *_READ))
async def accounts(
    app: App,
    pool: Name = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=2000)] = "",
    disabled: bool | None = None,
) -> Response:
    """Accounts with a record, newest first; `disabled=true`: those that are disabled, by name, with or without one."""
    if disabled:
        return answer(await service.disabled(app, pool or app.pool, cursor, limit))
    return answer(await service.page(app, pool or app.pool, cursor, limit, enabled_only=disabled is not None))


@router.get("/{account}", responses=answers(AccountOut, *_READ))
async def account(app: App, account: Account, pool: Name = "") -> Response:
    """Whether it waits, runs or is disabled, which emulator it is bound to, its last and its next run."""
    return answer(await service.read(app, pool, account, await app.accounts.record(account)))


@router.put("/{account}", responses=answers(AccountOut, *_READ), openapi_extra=body(AccountRequest, required=True))
async def put(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Bind it to an emulator, say where its credentials are. The record is replaced as a whole."""
    wanted = signed(await required(AccountRequest, request), caller)
    record = await service.set_record(app, pool, account, wanted)
    return answer(await service.read(app, pool, account, record))


@router.delete("/{account}", responses=answers(AccountRecord, *_READ), openapi_extra=body(ActionRequest))
async def remove(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Delete its record. Its tasks continue, bound to no emulator; an account that is disabled stays disabled."""
    wanted = signed(await optional(ActionRequest, request), caller)
    by = AccountActionRequest(**dict(wanted), pool=await app.pool_of(pool))
    return answer(await app.accounts.remove(account, by, secrets.token_hex(12)))


@router.post(
    "/{account}/disable", responses=answers(AccountChanged, *_READ, Kind.REFUSED), openapi_extra=body(DisableRequest)
)
async def disable(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant it no emulators. Running and queued tasks stay as they are, unless they are to be cancelled."""
    wanted = signed(await optional(DisableRequest, request), caller)
    done = await service.command(app, pool, Update.DISABLE_ACCOUNT, account, wanted.ask)
    if wanted.tasks == "cancel":
        done = await service.cancel_all(app, account, wanted.ask)
    return answer(done)


@router.post(
    "/{account}/enable", responses=answers(AccountChanged, *_READ, Kind.REFUSED), openapi_extra=body(ActionRequest)
)
async def enable(app: App, account: Account, caller: Caller, request: Request, pool: Name = "") -> Response:
    """Grant it emulators again: queued tasks continue at their position."""
    wanted = signed(await optional(ActionRequest, request), caller)
    return answer(await service.command(app, pool, Update.ENABLE_ACCOUNT, account, wanted.ask))
