"""Accounts over HTTP: request bodies and answers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from api.bodies import SOMEBODY, ActionRequest, Line
from api.queue.schemas import NOT_ALL
from api.tasks.schemas import RefusedTask
from droidherd.contracts.accounts import CREDENTIALS_MAX, AccountRecord, Credentials
from droidherd.contracts.base import MaybeId
from droidherd.contracts.queue import AccountView
from droidherd.contracts.subscriptions import SubscriptionRow
from droidherd.contracts.tasks import MASK, TaskView
from droidherd.domain.task.lifecycle import TaskStatus

NEXT = (TaskStatus.QUEUED, TaskStatus.PENDING, TaskStatus.RETRY_PENDING)
"""States of a task that is still to run."""


CREDENTIALS: JsonDict = {
    "maxProperties": CREDENTIALS_MAX,
    "propertyNames": {"pattern": "^[a-z][a-z0-9_]{0,47}$"},
    "additionalProperties": {
        "type": "string",
        "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\\u0000\\r\\n]{1,400})$",
    },
}
"""What the contract checks, as a schema says it."""


class AccountRequest(BaseModel):
    """The body of a PUT: the record from now on, whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    emulator: MaybeId = Field(default="", description="its tasks run on this one only; empty: on any")
    credentials: Credentials = Field(default_factory=dict, json_schema_extra=CREDENTIALS)
    note: Line = ""
    actor: Line = SOMEBODY
    reason: Line = ""


class DisableRequest(ActionRequest):
    """The body of disable. It may be left out."""

    tasks: Literal["keep", "cancel"] = Field(
        default="keep", description="keep: running and queued tasks stay; cancel: all of them end"
    )


class DisabledOut(BaseModel):
    by: str
    reason: str
    since: datetime


class NextRun(BaseModel):
    """What runs next for an account."""

    task: str = ""
    subscription: str = Field(default="", description="that will submit a task `at` this time")
    state: TaskStatus | None = None
    at: datetime | None = Field(default=None, description="none: as soon as it gets an emulator")


class AccountRow(BaseModel):
    """An account in a list."""

    id: str
    account: str
    state: Literal["running", "disabled", "queued", "idle"]
    record: AccountRecord | None = Field(
        default=None, description="the emulator it is bound to, where its credentials are; none: it has no record"
    )
    unreadable: str = Field(default="", description="why its record cannot be read; DELETE removes it")
    disabled: DisabledOut | None = None
    is_queued: bool
    is_running: bool
    emulator: str = Field(default="", description="where it runs now")
    running_task: str = ""
    queued_tasks: tuple[str, ...] = ()
    queued_types: tuple[str, ...] = ()

    @classmethod
    def of(cls, now: AccountView, record: AccountRecord | None, **more: object) -> Self:
        """From what its dispatcher knows and from its own record."""
        off = now.disabled
        since = off and {"by": off.by, "reason": off.reason, "since": off.since}
        return cls.model_validate(
            {**dict(now), "id": now.account, "record": record, "state": _state(now), "disabled": since, **more}
        )

    def shown(self, *, operates: bool) -> Self:
        """As the caller may see it: where credentials are kept, those who only read need not know."""
        if operates or self.record is None:
            return self
        masked = self.record.model_copy(update={"credentials": dict.fromkeys(self.record.credentials, MASK)})
        return self.model_copy(update={"record": masked})


class AccountOut(AccountRow):
    """One account, whole."""

    rebuilding: bool = Field(default=False, description=NOT_ALL)
    last_run: TaskView | None = None
    last_emulator: str = ""
    next_run: NextRun | None = None


class AccountList(BaseModel):
    accounts: list[AccountRow]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")
    rebuilding: bool = Field(default=False, description=NOT_ALL)


class AccountChanged(BaseModel):
    """What became of a command, and of the tasks it was to cancel."""

    done: bool = True
    detail: str = ""
    tasks: list[str] = []
    refused: list[RefusedTask] = []
    more: bool = False


def ran_on(last: TaskView | None) -> str:
    """Where its last run was."""
    return next((one.emulator for one in reversed(last.attempts) if one.emulator), "") if last else ""


def next_runs(subscriptions: Iterable[SubscriptionRow]) -> list[NextRun]:
    """The next run of each subscription that is not paused."""
    return [NextRun(subscription=one.id, at=min(one.next_times)) for one in subscriptions if one.next_times]


def next_of(tasks: Iterable[TaskView], due: Sequence[NextRun] = ()) -> NextRun | None:
    """The earliest of the tasks that wait and of those that will be submitted."""
    waiting = [NextRun(task=one.task_id, state=one.state, at=_at(one)) for one in tasks if one.state in NEXT]
    return min((*waiting, *due), key=lambda one: one.at.timestamp() if one.at else 0.0, default=None)


def _at(task: TaskView) -> datetime | None:
    return task.not_before if task.state is TaskStatus.PENDING else None


def _state(now: AccountView) -> str:
    if now.is_running:
        return "running"
    if now.disabled is not None:
        return "disabled"
    return "queued" if now.is_queued else "idle"
