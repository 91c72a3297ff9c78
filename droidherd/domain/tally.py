"""How attempts of each task type ended, how long they ran and how long they waited. Exact counts in constant space.

A lease is counted when its holder says for the first time how it ended. So what is repeated counts once, and what was
lost counts when it is said again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from math import ceil
from typing import Any

RATIO = 1.2
"""Of one bound to the next. A percentile is told as the middle of its bucket: at most 9.6 % off."""
BOUNDS_S: tuple[float, ...] = tuple(accumulate(repeat(RATIO, 88), lambda bound, ratio: bound * ratio, initial=0.01))
"""Upper bounds of the buckets, from 10 ms to a little more than a day. Behind the last one comes everything longer."""
TYPES = 64
OTHER = "other"
"""Where task types go that are used least, once there are more than TYPES."""
UNSPOKEN = 512
OUTCOMES = {"completed": "completed", "failed": "failed", "retry": "retries", "cancelled": "cancelled"}
"""What a holder may say → what is counted. Anything else (moved to another emulator, paused) was no end."""


@dataclass(slots=True)
class Histogram:
    """Durations, by bucket. Buckets nobody fell into take no space."""

    count: int = 0
    seconds: float = 0.0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, seconds: float, times: int = 1) -> None:
        self.count += times
        self.seconds += seconds * times
        at = bisect_left(BOUNDS_S, seconds)
        self.buckets[at] = self.buckets.get(at, 0) + times

    def merge(self, other: "Histogram") -> None:
        self.count += other.count
        self.seconds += other.seconds
        for at, times in other.buckets.items():
            self.buckets[at] = self.buckets.get(at, 0) + times

    def mean_s(self) -> float | None:
        return self.seconds / self.count if self.count else None

    def quantile_s(self, share: float) -> float | None:
        """The smallest duration that at least this share of all did not exceed. None: there were none."""
        left = max(1, ceil(share * self.count - 1e-9))
        for at in sorted(self.buckets):
            left -= self.buckets[at]
            if left <= 0:
                return _middle_s(at)
        return None

    def up_to(self, positions: Iterable[int]) -> list[int]:
        """How many fell into the bucket at each of these positions or into one before it."""
        return [sum(times for at, times in self.buckets.items() if at <= position) for position in positions]

    def row(self) -> list[Any]:
        """For a snapshot."""
        return [self.seconds, [[at, self.buckets[at]] for at in sorted(self.buckets)]]

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Histogram":
        seconds, pairs = row
        buckets = {int(at): int(times) for at, times in pairs}
        return cls(sum(buckets.values()), seconds, buckets)


def _middle_s(at: int) -> float:
    """Of a bucket: as far from its lower bound as from its upper one, by ratio."""
    if at in (0, len(BOUNDS_S)):
        return BOUNDS_S[max(at - 1, 0)]
    return float(BOUNDS_S[at] / RATIO**0.5)


@dataclass(slots=True)
class Tally:
    """What is known of one task type."""

    completed: int = 0
    failed: int = 0
    """For good: no attempt followed."""
    retries: int = 0
    """Attempts that failed and were followed by another one."""
    cancelled: int = 0
    run: Histogram = field(default_factory=Histogram)
    """Of attempts that ended by themselves. How long somebody let one run before cancelling it says nothing."""
    wait: Histogram = field(default_factory=Histogram)
    """From admission to the emulator, of the same attempts; but for leases from before our memory."""

    @property
    def count(self) -> int:
        """Attempts that ended."""
        return self.completed + self.failed + self.retries + self.cancelled

    def success_rate(self) -> float | None:
        """Of the tasks that ended by themselves, how many completed."""
        ended = self.completed + self.failed
        return self.completed / ended if ended else None

    def merge(self, other: "Tally") -> None:
        for name in OUTCOMES.values():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.run.merge(other.run)
        self.wait.merge(other.wait)

    def row(self) -> list[Any]:
        """For a snapshot."""
        return [self.completed, self.failed, self.retries, self.cancelled, self.run.row(), self.wait.row()]

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Tally":
        """From a row, also of the older kind: count, completed, seconds, seconds waited."""
        if not isinstance(row[-1], list):
            return cls.known(*row)
        *counts, run, wait = row
        return cls(*counts, run=Histogram.of(run), wait=Histogram.of(wait))

    @classmethod
    def known(cls, count: int, completed: int, seconds: float, waited_s: float = 0.0) -> "Tally":
        """Of attempts of which only the sums are known: each took as long as their mean."""
        tally = cls(completed, count - completed)
        if count:
            tally.run.add(seconds / count, count)
            tally.wait.add(waited_s / count, count)
        return tally


@dataclass(frozen=True, slots=True)
class Stint:
    """One lease, as far as it is counted."""

    task_type: str
    waited_s: float = -1.0
    """Negative: nobody knows."""


@dataclass(slots=True)
class Tallies:
    """All task types of a pool, and the leases that ended without a word of their holder, who may yet speak."""

    by_type: dict[str, Tally] = field(default_factory=dict)
    unspoken: dict[int, Stint] = field(default_factory=dict)
    """Token → what to count it as."""
    own: int = 0
    """Leases with a greater token were granted by us: off the board means that they were counted, or are unspoken."""
    foreign: dict[int, None] = field(default_factory=dict)
    """Of those from before our memory, the ones that were counted: as few as there were leases then."""
    since_ms: int = 0
    """When counting began."""

    def of(self, task_type: str) -> Tally:
        """Of one type; an empty one when nothing is known."""
        return self.by_type.get(task_type) or Tally()

    def total(self) -> Tally:
        total = Tally()
        for tally in self.by_type.values():
            total.merge(tally)
        return total

    def add(self, stint: Stint, outcome: str, seconds: float) -> None:
        """An attempt ended."""
        name = OUTCOMES.get(outcome)
        if name is None:
            return
        tally = self.by_type.setdefault(stint.task_type, Tally())
        setattr(tally, name, getattr(tally, name) + 1)
        if name != "cancelled":
            tally.run.add(max(seconds, 0.0))
            if stint.waited_s >= 0:
                tally.wait.add(stint.waited_s)
        self._fold(stint.task_type)

    def owe(self, token: int, stint: Stint) -> None:
        """A lease is over and its holder has not said how it ended."""
        self.unspoken[token] = stint
        if len(self.unspoken) > UNSPOKEN:
            del self.unspoken[next(iter(self.unspoken))]

    def hear(self, token: int, outcome: str, seconds: float) -> None:
        """What is said of a lease that is off the board: news only when it was not said before."""
        stint = self.unspoken.pop(token, None)
        if stint is None:
            return
        self.add(stint, outcome, seconds)
        if stint.waited_s < 0:
            self.remember(token)

    def remember(self, token: int) -> None:
        """This foreign lease is counted, should it come back."""
        self.foreign[token] = None
        if len(self.foreign) > UNSPOKEN:
            del self.foreign[next(iter(self.foreign))]

    def _fold(self, newest: str) -> None:
        """The type used least gives its place up, so that there is room for names nobody can foresee."""
        named = [name for name in self.by_type if name not in (OTHER, newest)]
        if len(named) < TYPES:
            return
        least = min(named, key=lambda name: self.by_type[name].count)
        self.by_type.setdefault(OTHER, Tally()).merge(self.by_type.pop(least))
