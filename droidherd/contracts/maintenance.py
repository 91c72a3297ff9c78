"""What passes when what is old is removed: who asked for it, how far it came, what went."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from droidherd.contracts.base import Contract, Id, Request
from droidherd.contracts.tasks import Text

LISTED = 200
"""Removals that a report names; the others are counted."""
TROUBLES = 20


class CleanupInput(Request):
    """Input of `MaintenanceWorkflow`."""

    actor: Text = "somebody"
    reason: Text = ""
    dry_run: bool = False
    """Only say what would go."""
    pool: Id = "default"
    """In whose audit it stands."""


class RemovalReason(StrEnum):
    """Why something went."""

    AGE = "age"
    """The task ended long enough ago: it went with its artifacts."""
    ORPHAN = "orphan"
    """Artifacts of a task the engine does not know."""
    SIZE = "size"
    """Artifacts that did not fit any more; the task itself stays."""


class Removal(Contract):
    """One removal."""

    task_id: str
    why: RemovalReason
    state: str = ""
    age_s: float = 0.0
    """Since the task ended; of an orphan: since something in it last changed."""
    bytes: int = 0
    """Of its artifacts."""


class CleanupStats(Contract):
    """What went, or would go."""

    tasks: dict[str, int] = Field(default_factory=dict)
    """How many tasks, by the state they ended in."""
    orphans: int = 0
    shed: int = 0
    """Tasks whose artifacts went because the store was too large."""
    bytes: int = 0
    removed: tuple[Removal, ...] = ()
    more: int = 0
    """Removals beyond those that are named."""
    troubles: tuple[str, ...] = ()
    """What could not be removed, and why. It is tried again next time."""

    def with_one(self, one: Removal) -> "CleanupStats":
        fits = len(self.removed) < LISTED
        tasks = (
            {**self.tasks, one.state: self.tasks.get(one.state, 0) + 1} if one.why is RemovalReason.AGE else self.tasks
        )
        return self.model_copy(
            update={
                "tasks": tasks,
                "orphans": self.orphans + (one.why is RemovalReason.ORPHAN),
                "shed": self.shed + (one.why is RemovalReason.SIZE),
                "bytes": self.bytes + one.bytes,
                "removed": (*self.removed, one) if fits else self.removed,
                "more": self.more + (not fits),
            }
        )

    def with_trouble(self, text: str) -> "CleanupStats":
        return self.model_copy(update={"troubles": (*self.troubles, text[:500])[:TROUBLES]})

    def plus(self, other: "CleanupStats") -> "CleanupStats":
        removed = (*self.removed, *other.removed)
        names = sorted({*self.tasks, *other.tasks})
        return CleanupStats(
            tasks={name: self.tasks.get(name, 0) + other.tasks.get(name, 0) for name in names},
            orphans=self.orphans + other.orphans,
            shed=self.shed + other.shed,
            bytes=self.bytes + other.bytes,
            removed=removed[:LISTED],
            more=self.more + other.more + len(removed[LISTED:]),
            troubles=(*self.troubles, *other.troubles)[:TROUBLES],
        )

    def describe(self) -> str:
        """In one line."""
        tasks = ", ".join(f"{count} {state}" for state, count in self.tasks.items()) or "no tasks"
        return f"{tasks}, artifacts of {self.orphans} unknown and {self.shed} older tasks, {self.bytes} bytes"


class CleanupWork(Contract):
    """Input of `remove_tasks` and `sweep_artifacts`."""

    now_ms: int
    """One moment for all of it, however long it takes and however often it begins again."""
    dry_run: bool = False


class CleanupProgress(Contract):
    """How far it came: what a heartbeat carries, so that whoever goes on begins there."""

    cohort: int = 0
    cursor: str = ""
    stats: CleanupStats = CleanupStats()


class Hosts(Contract):
    """Result of `list_hosts`: each has a store of its own, or shares one."""

    hosts: tuple[Id, ...] = ()


class CleanupReport(Contract):
    """The answer of the query `view`, and the result of the workflow."""

    actor: str = ""
    reason: str = ""
    dry_run: bool = False
    started_at: datetime
    ended_at: datetime | None = None
    """None: it is still under way."""
    stats: CleanupStats = CleanupStats()
