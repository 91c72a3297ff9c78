"""What the door asks of the engine, as a port. `gateway.py` is its only adapter."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from droidherd.contracts.accounts import AccountAsk, AccountRecord, AccountWish
from droidherd.contracts.fleet import CareOrder, EmulatorView, FrameTaken
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.contracts.names import Update
from droidherd.contracts.queue import (
    AccountsPage,
    AuditPage,
    AuditQuery,
    DisabledPage,
    DisabledQuery,
    EmulatorsPage,
    Order,
    Ordered,
    Places,
    PlacesQuery,
    QueuePage,
    QueueQuery,
    StatsPage,
)
from droidherd.contracts.tasks import Admission, Ask, Control, Rollback, TaskSpec, TaskView
from droidherd.domain.audit import Deed


class EngineError(Exception):
    """Something the engine, or what runs on it, refused."""


class AwayError(EngineError):
    """The engine does not answer."""


class BrokenError(EngineError):
    """The engine stumbled over the request."""


class OverloadedError(EngineError):
    """The engine answers that it has too much to do."""


class SilentError(EngineError):
    """The engine answers, but no worker did in time."""


class MissingError(EngineError):
    """There is nothing of this name."""


class TakenError(EngineError):
    """The id belongs to another task already."""


class KeyReusedError(EngineError):
    """The same idempotency key came with another request before."""


class NoFrameError(EngineError):
    """The emulator, or its host, gave no frame."""


class CursorError(EngineError):
    """A page cursor that was not made for this list."""


class IllegalError(EngineError):
    """The task is in a state in which this is not possible."""

    def __init__(self, message: str, now: "Reading") -> None:
        """`now` is the task as it stands."""
        super().__init__(message)
        self.now = now


@dataclass(frozen=True, slots=True)
class Request:
    """One submission, ready to be started."""

    task_id: str
    spec: TaskSpec
    digest: str
    """Of the request's body: the same key with another body is a mistake."""
    key: str
    """Digest of the idempotency key; empty: a repeat is a conflict."""
    ask_id: str
    """Of the question for the verdict: the engine answers the same one with what it answered before."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission."""

    task_id: str
    admission: Admission | None
    """None: the task is durable, but the verdict is late."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A task as it was read."""

    view: TaskView
    open: bool = True
    """Its workflow still runs."""
    stale: bool = False
    """No worker answered: this is what the task wrote down last."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which tasks to list."""

    types: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    account: str = ""
    lane: str = ""
    pool: str = ""
    emulator: str = ""
    subscription: str = ""
    labels: tuple[str, ...] = ()
    open: bool = False
    """Only those that have not ended, whatever state they wrote down last."""

    def said(self) -> str:
        """As they stand in a query."""
        many = {"type": self.types, "state": self.states, "label": self.labels}
        one = {name: getattr(self, name) for name in ("account", "lane", "pool", "emulator", "subscription")}
        pairs = [(name, value) for name, values in many.items() for value in values]
        return " ".join(f"{name}={value}" for name, value in (*pairs, *one.items()) if value)


@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: tuple[TaskView, ...] = ()
    cursor: str = ""
    """Empty: this was the last page."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    records: tuple[AccountRecord, ...] = ()
    cursor: str = ""
    """Empty: this was the last page."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether work can be taken on, part by part: an empty text is good."""

    parts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def good(self) -> bool:
        return not any(self.parts.values())


@dataclass(frozen=True, slots=True)
class Cleanup:
    """One cleanup."""

    id: str
    run_id: str
    state: str
    """running, completed, failed, canceled, terminated, timed_out."""
    report: CleanupReport | None = None
    """What went. None: it is not over, or broke off."""


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """What an emulator showed a moment ago."""

    content: bytes
    """JPEG."""
    taken: FrameTaken


class Onlooker(Protocol):
    """Looks at emulators. Like `Engine`: bounded in time, raises an EngineError."""

    async def frame(self, emulator_id: str) -> LiveFrame: ...


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedule of cleanups."""

    next: tuple[datetime, ...] = ()
    paused: bool = False
    note: str = ""


class Maintenance(Protocol):
    """Like `Engine`: bounded in time, raises an EngineError."""

    async def cleanup(self, wanted: CleanupInput, seconds: float) -> Cleanup:
        """Start one, and wait so long for its end."""
        ...

    async def recent(self) -> tuple[Cleanup, ...]: ...
    async def timetable(self) -> Timetable | None: ...


class Engine(Protocol):
    """Every method is bounded in time and raises an EngineError when the answer is no."""

    async def submit(self, request: Request) -> Submitted: ...
    async def view(self, task_id: str) -> Reading: ...
    async def audit(self, task_id: str) -> Reading:
        """Like `view`, with the events also of a task that ended."""
        ...

    async def wait_end(self, task_id: str, seconds: float) -> None:
        """Return when the task ended, or after so many seconds."""
        ...

    async def tasks(self, filters: Filters, cursor: str, limit: int) -> TaskPage: ...
    async def count(self, filters: Filters) -> int: ...
    async def control(self, task_id: str, control: Control, request_id: str) -> Reading | None:
        """The task after the change; None: nobody answered in time, the wish is durable."""
        ...

    async def again(self, task_id: str, ask: Ask, rollback: Rollback | None) -> Reading:
        """A new run of a task that ended: tried again, or taken back."""
        ...

    async def queue(self, pool: str, query: QueueQuery) -> QueuePage: ...
    async def places(self, pool: str, query: PlacesQuery) -> Places: ...
    async def emulators(self, pool: str) -> EmulatorsPage: ...
    async def emulator(self, emulator_id: str) -> EmulatorView: ...
    async def care(self, emulator_id: str, order: CareOrder) -> Ordered:
        """Give an emulator an order; `done` is false when it refuses."""
        ...

    async def knows_emulator(self, emulator_id: str) -> bool: ...
    async def knows_pool(self, pool: str) -> bool: ...
    async def stats(self, pool: str) -> StatsPage: ...
    async def pool_audit(self, pool: str, query: AuditQuery) -> AuditPage: ...
    async def last_run(self, account: str) -> TaskView | None: ...
    async def order(self, pool: str, update: Update, order: Order) -> Ordered: ...
    async def configure(self) -> None:
        """Tell the dispatcher of our own pool what the settings are now."""
        ...

    async def ready(self) -> Ready: ...


class Book(Protocol):
    """The audit of a pool, as far as the door writes it. Bounded in time as the rest of the engine is."""

    async def note(self, pool: str, deed: Deed) -> None:
        """Durable when it returns, also while no worker runs. Of a pool that is gone: in our own's."""
        ...


class Accounts(Protocol):
    """Accounts: their records, and what their pool says of them. Bounded in time as the rest of the engine is."""

    async def records(self, cursor: str, limit: int) -> RecordPage: ...
    async def record(self, account: str) -> AccountRecord | None: ...
    async def records_of(self, accounts: list[str]) -> list[AccountRecord | None]: ...
    async def set(self, account: str, wish: AccountWish, request_id: str) -> AccountRecord:
        """Make the record, or replace it."""
        ...

    async def remove(self, account: str, ask: AccountAsk, request_id: str) -> AccountRecord: ...
    async def states(self, pool: str, accounts: tuple[str, ...]) -> AccountsPage: ...
    async def disabled(self, pool: str, query: DisabledQuery) -> DisabledPage: ...
