"""How long what has ended is kept. Pure: how a task ended and when in, keep or remove out."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from droidherd.domain.task.lifecycle import TaskStatus

DAY_MS = 86_400_000

BEFORE = "before-"
"""How the names of artifacts begin that hold what was there before a change: a rollback needs them."""

_COMPLETED = (TaskStatus.COMPLETED, TaskStatus.CANCELLED, TaskStatus.ROLLBACK_COMPLETED)
_REJECTED = (TaskStatus.REJECTED,)
_NEVER_TAKEN_BACK = (TaskStatus.ROLLBACK_COMPLETED, TaskStatus.REJECTED)


@dataclass(frozen=True, slots=True)
class Run:
    """The last run of a task as the engine knows it."""

    task_id: str
    run_id: str
    state: str
    """What the task wrote down last; may be anything, or nothing."""
    closed_ms: int = 0
    """0: it is open."""
    broken: bool = False
    """Terminated, or ended by the engine's own time limit: it could not write down its end."""

    @property
    def open(self) -> bool:
        return self.closed_ms == 0

    @property
    def ending(self) -> str:
        """How it counts. Who could not write down an end, or wrote none, has failed."""
        known = self.state in {*_COMPLETED, *_REJECTED, TaskStatus.ROLLBACK_FAILED}
        return self.state if known and not self.broken else TaskStatus.FAILED.value


class TaskRuns(StrEnum):
    """What Temporal still has of a task."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"
    """Not even a history."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Tasks that may be due: they wrote down one of these states, and closed before that moment."""

    states: tuple[str, ...]
    before_ms: int
    others: bool = False
    """Not one of these states, or broken."""


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days after its end a task is kept, with its artifacts."""

    completed_days: float = 7.0
    failed_days: float = 30.0
    rejected_days: float = 1.0

    def days(self, ending: str) -> float:
        if ending in _COMPLETED:
            return self.completed_days
        return self.rejected_days if ending in _REJECTED else self.failed_days

    def due(self, run: Run, now_ms: int) -> bool:
        """Whether this task is to be removed. Never one that is open."""
        return not run.open and now_ms - run.closed_ms >= self.days(run.ending) * DAY_MS

    def cohorts(self, now_ms: int) -> tuple[Cohort, ...]:
        """Where to look: no task is in two of them. What is found there is judged by `due`."""

        def before(days: float) -> int:
            return now_ms - int(days * DAY_MS)

        completed, rejected = (tuple(state.value for state in states) for states in (_COMPLETED, _REJECTED))
        return (
            Cohort(completed, before(self.completed_days)),
            Cohort(rejected, before(self.rejected_days)),
            Cohort((*completed, *rejected), before(self.failed_days), others=True),
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """The artifacts of one task in a store."""

    task_id: str
    size: int
    changed_ms: int
    """When something in it last changed."""
    before: int = 0
    """Bytes of it that a rollback would need."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A folder of artifacts whose task has ended."""

    closed_ms: int
    folder: Folder
    ending: str

    @property
    def spare(self) -> int:
        """Bytes that nothing needs any more. As long as a task can be taken back, what that takes is not among them."""
        return self.folder.size - (0 if self.ending in _NEVER_TAKEN_BACK else self.folder.before)


def shed(stored: Sequence[Stored], excess_bytes: int) -> Iterator[Stored]:
    """Whose spare bytes go so that the rest fits: of the tasks that ended first, and no more than that."""
    for one in sorted(stored, key=lambda one: (one.closed_ms, one.folder.task_id)):
        if excess_bytes <= 0:
            return
        if one.spare > 0:
            excess_bytes -= one.spare
            yield one


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the tasks of a cohort."""

    runs: tuple[Run, ...]
    cursor: str = ""
    """Where the next page begins; empty: there is none."""


class Archive(Protocol):
    """The tasks the engine keeps. Everything may be repeated."""

    async def closed(self, cohort: Cohort, cursor: str) -> Page: ...
    async def newest(self, task_id: str) -> Run | None:
        """The run of this task that began last; None: the engine knows no such task."""
        ...

    async def earlier(self, task_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """All closed runs of each task, oldest first."""
        ...

    async def delete(self, task_id: str, run_id: str) -> None:
        """Let the engine forget a closed run."""
        ...


class Shelf(Protocol):
    """An artifact store, as seen by a cleanup."""

    def ours(self) -> str:
        """Empty, or why nothing but known tasks' artifacts may be removed here."""
        ...

    def purge(self) -> None:
        """Finish removals that were broken off."""
        ...

    def folders(self) -> Generator[Folder]: ...
    def size(self, task_id: str) -> int: ...
    def remove(self, task_id: str) -> int:
        """Remove everything a task left; how many bytes that were. Nothing there: 0."""
        ...

    def thin(self, task_id: str) -> int:
        """Remove everything but what a rollback needs; how many bytes that were."""
        ...
