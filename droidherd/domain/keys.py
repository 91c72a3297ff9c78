"""What tasks hold beside their emulator: accounts, mutexes, places against duplicates.

Keys are promises of a region; lanes and capacities are promises of a pool (`board`). With one pool a dispatcher keeps
both. A task whose keys are busy is parked here and comes back to its bucket with its ticket.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

Order = tuple[int, int]
"""(priority or 0, ticket): smaller goes first."""


def account_key(account: str) -> str:
    return f"a:{account}"


def mutex_key(name: str) -> str:
    return f"m:{name}"


@dataclass(slots=True)
class Keys:
    """Who holds which key and who waits for it."""

    held: dict[str, str] = field(default_factory=dict)
    """key → task that holds it."""
    parked: dict[str, list[tuple[Order, str]]] = field(default_factory=dict)
    """key → tasks waiting for it, in order."""
    places: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """(account, task type) → tasks queued for it."""

    def busy(self, keys: Iterable[str], task_id: str) -> str:
        """The first of these keys that somebody else holds, or an empty text."""
        return next((key for key in keys if self.held.get(key, task_id) != task_id), "")

    def take(self, keys: Iterable[str], task_id: str) -> None:
        for key in keys:
            self.held[key] = task_id

    def free(self, keys: Iterable[str], task_id: str) -> None:
        for key in keys:
            if self.held.get(key) == task_id:
                del self.held[key]

    def park(self, key: str, order: Order, task_id: str) -> None:
        insort(self.parked.setdefault(key, []), (order, task_id))

    def unpark(self, key: str, order: Order, task_id: str) -> None:
        line = self.parked.get(key, [])
        if (order, task_id) in line:
            line.remove((order, task_id))
            if not line:
                del self.parked[key]

    def next_parked(self, key: str) -> str:
        """Take the first task out of the line of a key that became free; an empty text when nobody waits."""
        line = self.parked.get(key)
        if not line or key in self.held:
            return ""
        _, task_id = line.pop(0)
        if not line:
            del self.parked[key]
        return task_id

    def duplicate(self, account: str, task_type: str, task_id: str) -> tuple[str, str]:
        """(reason, holder) when this task must be refused, else two empty texts."""
        if not account:
            return "", ""
        holder = self.held.get(account_key(account), task_id)
        if holder != task_id:
            return "account_running", holder
        other = next((t for t in self.places.get((account, task_type), ()) if t != task_id), "")
        return ("duplicate", other) if other else ("", "")

    def queue(self, account: str, task_type: str, task_id: str) -> None:
        """Remember a queued place."""
        if account:
            self.places.setdefault((account, task_type), {})[task_id] = None

    def leave(self, account: str, task_type: str, task_id: str) -> None:
        """Give a queued place back."""
        place = self.places.get((account, task_type))
        if place is not None and task_id in place:
            del place[task_id]
            if not place:
                del self.places[account, task_type]
