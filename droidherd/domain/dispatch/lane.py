"""A named queue of a pool: how many of its tasks run at once, in which order they go, whether it is paused."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from droidherd.domain.columns import DERIVED

SYSTEM = "system:"
"""What the product does by itself has an actor that begins like this: `system:disk_full`."""
LANES = ("account", "anonymous")
"""The lanes that exist by default."""
CAPACITY = 100
PRIORITIES = 16
"""More than there are: of two with the same age the more urgent one goes first."""
KEPT_BY_HAND = 100
"""Lanes that are kept although nobody is in them, because somebody set something there."""


def is_system(actor: str) -> bool:
    return actor.startswith(SYSTEM)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Who goes first inside a bucket: the earlier ticket; or the smaller priority, then the earlier ticket."""

    by_priority: bool = False
    ageing: int = 0
    """How many later ones may overtake a task for each step of priority between them. 0: no limit."""

    def rank(self, priority: int, ticket: int) -> int:
        """Smaller goes first; equals by ticket. It never changes while a task waits, so lines stay sorted."""
        if not self.by_priority:
            return 0
        return (priority * self.ageing + ticket) * PRIORITIES + priority if self.ageing else priority


@dataclass(frozen=True, slots=True)
class LaneRules:
    """How lanes are by the settings of the pool, unless somebody sets it otherwise by hand."""

    capacities: Mapping[str, int] = field(default_factory=dict)
    by_priority: tuple[str, ...] = ()
    """Lanes ordered by priority; `*`: all of them."""
    ageing: int = 0

    def capacity(self, lane: str) -> int:
        return self.capacities.get(lane, CAPACITY)

    def ordering(self, lane: str) -> Ordering:
        return Ordering(lane in self.by_priority or "*" in self.by_priority, self.ageing)


@dataclass(slots=True)
class Lane:
    """A queue with its own capacity, its own order and its own pause switch."""

    name: str
    capacity: int = CAPACITY
    weight: int = 1
    ordering: Ordering = Ordering()
    paused_by: str = ""
    paused_why: str = ""
    in_use: int = field(default=0, metadata=DERIVED)
    waiting: int = field(default=0, metadata=DERIVED)
    """Tasks in line, parked ones included: a lane with any is not forgotten."""
    turns: int = 0
    """How many of its weight it has used in this round."""
    capacity_by: str = ""
    """Who set the capacity by hand; empty: the settings."""
    ordering_by: str = ""

    def open(self) -> bool:
        return not self.paused_by and self.in_use < self.capacity

    def obey(self, rules: LaneRules) -> None:
        """Be as the settings say, where nobody said otherwise."""
        if not self.capacity_by:
            self.capacity = rules.capacity(self.name)
        if not self.ordering_by:
            self.ordering = rules.ordering(self.name)

    def pause(self, actor: str, why: str) -> bool:
        """Whether it did anything: the system overrules nobody, and saying it twice is saying it once."""
        same = self.paused_by == actor and why in ("", self.paused_why)
        if same or (self.paused_by and is_system(actor)):
            return False
        self.paused_by, self.paused_why = actor, why
        return True

    def resume(self, actor: str) -> bool:
        """Whether it did anything: the system takes back what it did itself, and nothing else."""
        if is_system(actor) and self.paused_by != actor:
            return False
        held = bool(self.paused_by)
        self.paused_by = self.paused_why = ""
        return held
