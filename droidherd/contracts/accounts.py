"""The record of an account: where it runs, and where its credentials are kept. Never the credentials themselves."""

import re
from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import AfterValidator, ConfigDict, Field

from droidherd.contracts.base import Contract, EntityState, Id, MaybeId, Request
from droidherd.contracts.tasks import OperatorRequest, Text
from droidherd.domain.dispatch.audit import AuditEntry

CREDENTIALS_MAX = 16
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\0\r\n]{1,400}")


def _check_references(given: dict[str, str]) -> dict[str, str]:
    """What is refused is not repeated: somebody may have sent the secret itself."""
    if len(given) > CREDENTIALS_MAX:
        raise ValueError(f"at most {CREDENTIALS_MAX} credentials")
    for name, reference in given.items():
        if _NAME.fullmatch(name) is None:
            raise ValueError("a credential's name has lower case letters, digits and _, beginning with a letter")
        if _REFERENCE.fullmatch(reference) is None:
            raise ValueError(f"{name} must be env:NAME or file:/path; the secret itself does not belong here")
    return given


Credentials = Annotated[dict[str, str], AfterValidator(_check_references)]
"""Name → where a worker finds it: `env:NAME` or `file:/path`."""


class AccountActionRequest(OperatorRequest):
    """Who orders it, why, and in which pool's audit it stands. Argument of the update `remove`."""

    pool: Id = "default"


class SetAccount(AccountActionRequest):
    """An account's record from now on, whole. Argument of the update `set`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    emulator: MaybeId = ""
    """Its tasks run on this one only; empty: on any."""
    credentials: Credentials = Field(default_factory=dict)
    note: Text = ""


class AccountRecord(Contract):
    """What is written down about an account. The memo `account`, and the answer of `set`, `remove` and `view`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    account: Id
    emulator: str = ""
    credentials: Credentials = Field(default_factory=dict)
    note: str = ""
    changed_at: datetime | None = None
    changed_by: str = ""
    reason: str = ""


class AccountState(EntityState):
    """Everything that is known of one account."""

    record: AccountRecord
    removed: bool = False
    """It ends as soon as its pool's audit knows."""
    outbox: dict[str, list[AuditEntry]] = Field(default_factory=dict)


class AccountInput(Request):
    """Input of `AccountWorkflow`. A client starts one with `{}`, and `set` in the same call."""

    state: AccountState | None = None
    """Of the run before. Of a client only the record is taken: a worker starts an account again that somebody ended."""
    continue_after: int = Field(default=300, ge=1, le=1_000)
    """Continue as new after so many changes."""
