"""How attempts of each task type ended, how long they ran and how long they waited. Exact counts in constant space.

A lease is counted when its holder reports for the first time how it ended. So a repeated report counts once, and a
report that was lost counts when it is repeated.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from math import ceil

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import Entry

RATIO = 1.2
"""Of one bound to the next. A percentile is told as the middle of its bucket: at most 9.6 % off."""
BOUNDS_S: tuple[float, ...] = tuple(accumulate(repeat(RATIO, 88), lambda bound, ratio: bound * ratio, initial=0.01))
"""Upper bounds of the buckets, from 10 ms to a little more than a day. Behind the last one comes everything longer."""
TYPES = 64
OTHER = "other"
"""Where task types go that are used least, once there are more than TYPES."""
UNREPORTED = 512
OUTCOMES = {"completed": "completed", "failed": "failed", "retry": "retries", "cancelled": "cancelled"}
"""What a holder may report → what is counted. Anything else (moved to another emulator, paused) was no end."""


@dataclass(slots=True)
class Histogram:
    """Durations, by bucket. Buckets nobody fell into take no space."""

    count: int = 0
    seconds: float = 0.0
    buckets: dict[int, int] = field(default_factory=dict[int, int])

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


def _middle_s(at: int) -> float:
    """Of a bucket: as far from its lower bound as from its upper one, by ratio."""
    if at in (0, len(BOUNDS_S)):
        return BOUNDS_S[max(at - 1, 0)]
    return float(BOUNDS_S[at] / RATIO**0.5)


@dataclass(slots=True)
class AttemptStats:
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

    def merge(self, other: "AttemptStats") -> None:
        for name in OUTCOMES.values():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.run.merge(other.run)
        self.wait.merge(other.wait)

    @classmethod
    def from_sums(cls, count: int, completed: int, seconds: float, waited_s: float = 0.0) -> "AttemptStats":
        """Of attempts of which only the sums are known: each took as long as their mean."""
        stats = cls(completed, count - completed)
        if count:
            stats.run.add(seconds / count, count)
            stats.wait.add(waited_s / count, count)
        return stats


@dataclass(frozen=True, slots=True)
class CountedLease:
    """One lease, as far as it is counted."""

    task_type: str
    waited_s: float = -1.0
    """Negative: nobody knows."""


@dataclass(slots=True)
class PoolStats:
    """All task types of a pool, and the leases that ended without a report of their holder, which may yet come."""

    by_type: dict[str, AttemptStats] = field(default_factory=dict)
    unreported: dict[int, CountedLease] = field(default_factory=dict)
    """Token → what to count it as."""
    own: int = 0
    """Leases with a greater token were granted by us: off the board means that they were counted, or are unreported."""
    foreign: dict[int, None] = field(default_factory=dict[int, None])
    """Of those from before our memory, the ones that were counted: as few as there were leases then."""
    since_ms: int = 0
    """When counting began."""

    def of(self, task_type: str) -> AttemptStats:
        """Of one type; an empty one when nothing is known."""
        return self.by_type.get(task_type) or AttemptStats()

    def total(self) -> AttemptStats:
        total = AttemptStats()
        for stats in self.by_type.values():
            total.merge(stats)
        return total

    def add(self, lease: CountedLease, outcome: str, seconds: float) -> None:
        """An attempt ended."""
        name = OUTCOMES.get(outcome)
        if name is None:
            return
        stats = self.by_type.setdefault(lease.task_type, AttemptStats())
        setattr(stats, name, getattr(stats, name) + 1)
        if name != "cancelled":
            stats.run.add(max(seconds, 0.0))
            if lease.waited_s >= 0:
                stats.wait.add(lease.waited_s)
        self._fold(lease.task_type)

    def await_report(self, token: int, lease: CountedLease) -> None:
        """A lease is over and its holder has not reported how it ended."""
        self.unreported[token] = lease
        if len(self.unreported) > UNREPORTED:
            del self.unreported[next(iter(self.unreported))]

    def report(self, token: int, outcome: str, seconds: float) -> None:
        """A report of a lease that is off the board: news only when it was not reported before."""
        lease = self.unreported.pop(token, None)
        if lease is None:
            return
        self.add(lease, outcome, seconds)
        if lease.waited_s < 0:
            self.remember(token)

    def remember(self, token: int) -> None:
        """This foreign lease is counted, should it come back."""
        self.foreign[token] = None
        if len(self.foreign) > UNREPORTED:
            del self.foreign[next(iter(self.foreign))]

    def _fold(self, newest: str) -> None:
        """The type used least gives its place up, so that there is room for names nobody can foresee."""
        named = [name for name in self.by_type if name not in (OTHER, newest)]
        if len(named) < TYPES:
            return
        least = min(named, key=lambda name: self.by_type[name].count)
        self.by_type.setdefault(OTHER, AttemptStats()).merge(self.by_type.pop(least))


class Statistics:
    """Counts each lease once, by the first report of its holder. Owns the statistics and `Entry.counted`."""

    def __init__(self, stats: PoolStats) -> None:
        self._stats = stats

    def report(self, entry: Entry | None, done: m.Done) -> None:
        """How a lease ended, as its holder reports it. `entry`: it still stands on the board."""
        if not done.token and not done.outcome:
            return
        lease = entry.lease if entry is not None else None
        if entry is not None and lease is not None and done.token in (0, lease.token):
            if not entry.counted:
                entry.counted = True
                self._stats.add(_as_counted(entry), done.outcome, done.seconds)
            if entry.adopted:
                self._stats.remember(lease.token)
        elif done.token:
            self._stats.report(done.token, done.outcome, done.seconds)

    def on_ended(self, entry: Entry, lease: m.Lease) -> None:
        """A lease leaves the board. Nobody reported how it ended: that may yet come."""
        if not entry.counted:
            self._stats.await_report(lease.token, _as_counted(entry))

    def on_adopted(self, entry: Entry, token: int, *, rebuilding: bool) -> None:
        """A lease that stands here again ended once: its end is counted already, or still to be reported."""
        counted = self._stats.unreported.pop(token, None)
        ours = not rebuilding and token > self._stats.own
        entry.counted = counted is None and (ours or token in self._stats.foreign)
        entry.adopted = counted is None or counted.waited_s < 0
        if counted is not None and counted.waited_s >= 0:
            entry.since_ms = entry.granted_ms - round(counted.waited_s * 1000)


def _as_counted(entry: Entry) -> CountedLease:
    waited_s = -1.0 if entry.adopted else max(entry.granted_ms - entry.since_ms, 0) / 1000
    return CountedLease(entry.ask.task_type, waited_s)
