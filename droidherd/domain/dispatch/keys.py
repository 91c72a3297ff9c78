"""What tasks hold beside their emulator: accounts, mutexes, places against duplicates.

Keys are promises of a region; lanes and capacities are promises of a pool (`board`). With one pool a dispatcher keeps
both. A task whose keys are busy is parked here and comes back to its bucket with its ticket.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from droidherd.domain.columns import DERIVED

Rank = tuple[int, int]
"""(rank in its lane, ticket): smaller goes first."""

Line = tuple[str, tuple[str, ...]]
"""The bucket a parked task belongs to: (lane, requirements)."""

SUBSCRIPTION_MUTEX = "subscription."
"""How the mutexes of subscriptions begin."""


def account_key(account: str) -> str:
    return f"a:{account}"


def mutex_key(name: str) -> str:
    return f"m:{name}"


def subscription_mutex(subscription: str) -> str:
    """Held by each task of a subscription, and by nobody else."""
    return f"{SUBSCRIPTION_MUTEX}{subscription}"


def why_reserved(mutex: str) -> str:
    """Why a submission may not name this mutex; empty: it may."""
    if not mutex.startswith(SUBSCRIPTION_MUTEX):
        return ""
    return f"mutexes that begin with `{SUBSCRIPTION_MUTEX}` belong to the tasks of subscriptions; choose another name"


DISABLED_MAX = 1_000
"""Accounts that may be disabled at once."""


@dataclass(frozen=True, slots=True)
class DisabledKey:
    """Nobody is given this key any more, and who said so."""

    actor: str
    why: str
    since_ms: int


@dataclass(slots=True)
class Keys:
    """Who holds which key and who waits for it."""

    held: dict[str, str] = field(default_factory=dict[str, str], metadata=DERIVED)
    """key → task that holds it."""
    parked: dict[str, dict[Line, list[tuple[Rank, str]]]] = field(
        default_factory=dict[str, dict[Line, list[tuple[Rank, str]]]], metadata=DERIVED
    )
    """key → bucket → its tasks waiting for the key, in order."""
    queued: dict[tuple[str, str], dict[str, None]] = field(
        default_factory=dict[tuple[str, str], dict[str, None]], metadata=DERIVED
    )
    """(account, task type) → tasks queued for it."""
    disabled: dict[str, DisabledKey] = field(default_factory=dict[str, DisabledKey])
    """Keys nobody is given: those of disabled accounts. Who holds one keeps it."""

    def busy(self, keys: Iterable[str], task_id: str) -> str:
        """The first of these keys that is disabled or that another task holds, or an empty text."""
        return next((key for key in keys if key in self.disabled or self.held.get(key, task_id) != task_id), "")

    def take(self, keys: Iterable[str], task_id: str) -> None:
        for key in keys:
            self.held[key] = task_id

    def free(self, keys: Iterable[str], task_id: str) -> None:
        for key in keys:
            if self.held.get(key) == task_id:
                del self.held[key]

    def park(self, key: str, line: Line, rank: Rank, task_id: str) -> None:
        insort(self.parked.setdefault(key, {}).setdefault(line, []), (rank, task_id))

    def unpark(self, key: str, line: Line, rank: Rank, task_id: str) -> None:
        lines = self.parked.get(key, {})
        tasks = lines.get(line, [])
        at = bisect_left(tasks, (rank, task_id))
        if at < len(tasks) and tasks[at] == (rank, task_id):
            del tasks[at]
            self._drop_empty(key, line)

    def next_parked(self, key: str) -> list[str]:
        """Take the first task of each bucket out of the lines of a key that became free.

        Of each bucket, since the first one of all may stand in a lane that is paused: it must not delay the others.
        """
        lines = self.parked.get(key)
        if not lines or key in self.held or key in self.disabled:
            return []
        woken = [task_id for _, task_id in sorted(tasks.pop(0) for tasks in lines.values())]
        for line in list(lines):
            self._drop_empty(key, line)
        return woken

    def _drop_empty(self, key: str, line: Line) -> None:
        lines = self.parked[key]
        if not lines[line]:
            del lines[line]
        if not lines:
            del self.parked[key]

    def duplicate(self, account: str, task_type: str, task_id: str) -> tuple[str, str]:
        """(reason, holder) when this task must be refused, else two empty texts."""
        if not account:
            return "", ""
        holder = self.held.get(account_key(account), task_id)
        if holder != task_id:
            return "account_running", holder
        other = next((t for t in self.queued.get((account, task_type), ()) if t != task_id), "")
        return ("duplicate", other) if other else ("", "")

    def queue(self, account: str, task_type: str, task_id: str) -> None:
        """Remember that this task is queued."""
        if account:
            self.queued.setdefault((account, task_type), {})[task_id] = None

    def leave(self, account: str, task_type: str, task_id: str) -> None:
        """It is queued no longer."""
        tasks = self.queued.get((account, task_type))
        if tasks is not None and task_id in tasks:
            del tasks[task_id]
            if not tasks:
                del self.queued[account, task_type]
