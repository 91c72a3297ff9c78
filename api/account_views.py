"""Accounts over HTTP: what is asked, what is answered."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from api.figures import NOT_ALL
from api.schemas import SOMEBODY, Line, Refused, Wish
from droidherd.contracts.accounts import AccountRecord, AccountWish
from droidherd.contracts.queue import AccountView
from droidherd.contracts.subscriptions import SubscriptionRow
from droidherd.contracts.tasks import TaskView
from droidherd.domain.lifecycle import TaskState

NEXT = (TaskState.QUEUED, TaskState.PENDING, TaskState.RETRY_PENDING)
"""States of a task that is still to run."""


class AccountBody(AccountWish):
    """The body of a PUT: the record from now on, whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    note: Line = ""
    actor: Line = SOMEBODY
    reason: Line = ""


class Disabling(Wish):
    """The body of disable. It may be left out."""

    tasks: Literal["keep", "cancel"] = Field(
        default="keep", description="keep: what runs goes on, what waits stays in line; cancel: all of it ends"
    )


class DisabledOut(BaseModel):
    by: str
    reason: str
    since: datetime


class NextRun(BaseModel):
    """What runs next for an account."""

    task: str = ""
    subscription: str = Field(default="", description="that will submit a task `at` this time")
    state: TaskState | None = None
    at: datetime | None = Field(default=None, description="none: as soon as it gets an emulator")


class AccountRow(BaseModel):
    """An account in a list."""

    account: str
    state: Literal["running", "disabled", "queued", "idle"]
    record: AccountRecord | None = Field(
        default=None, description="the emulator it is bound to, where its credentials are; none: nobody set it"
    )
    disabled: DisabledOut | None = None
    is_queued: bool
    is_running: bool
    emulator: str = Field(default="", description="where it runs now")
    running_task: str = ""
    queued_tasks: tuple[str, ...] = ()

    @classmethod
    def of(cls, now: AccountView, record: AccountRecord | None, **more: object) -> Self:
        """By its dispatcher's word and its own record."""
        off = now.disabled
        since = off and {"by": off.by, "reason": off.reason, "since": _moment(off.since_ms)}
        return cls.model_validate({**dict(now), "record": record, "state": _state(now), "disabled": since, **more})


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


class AccountOrdered(BaseModel):
    """What became of an order, and of the tasks it was to end."""

    done: bool = True
    detail: str = ""
    tasks: list[str] = []
    refused: list[Refused] = []
    more: bool = False


def ran_on(last: TaskView | None) -> str:
    """Where its last run was."""
    return next((one.emulator for one in reversed(last.attempts) if one.emulator), "") if last else ""


def planned(subscriptions: Iterable[SubscriptionRow]) -> list[NextRun]:
    """When each is due next; one that is paused is not."""
    return [NextRun(subscription=one.id, at=min(one.next_times)) for one in subscriptions if one.next_times]


def next_of(tasks: Iterable[TaskView], due: Sequence[NextRun] = ()) -> NextRun | None:
    """The earliest of what waits and of what will be submitted."""
    waiting = [NextRun(task=one.task_id, state=one.state, at=_at(one)) for one in tasks if one.state in NEXT]
    return min((*waiting, *due), key=lambda one: one.at.timestamp() if one.at else 0.0, default=None)


def _at(task: TaskView) -> datetime | None:
    return task.not_before if task.state is TaskState.PENDING else None


def _state(now: AccountView) -> str:
    if now.is_running:
        return "running"
    if now.disabled is not None:
        return "disabled"
    return "queued" if now.is_queued else "idle"


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
