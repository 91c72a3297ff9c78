"""What happened in a pool: the live events, and beside them, kept for longer, who did what and why."""

from dataclasses import dataclass

EVENTS = 2_000
DEEDS = 500
"""Of people, and as many of the system: what the system does never pushes out what people did."""
SAID = 200
"""Characters of a name or a reason that are kept."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the live view, and of the audit when it has an actor."""

    cursor: int
    at_ms: int
    kind: str
    task_id: str
    emulator_id: str = ""
    detail: str = ""
    actor: str = ""
    """Who did it, when somebody did: a person, or `system:` and why."""
    reason: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something somebody did to the pool, or to what belongs to it."""

    kind: str
    actor: str
    reason: str = ""
    lane: str = ""
    task_id: str = ""
    emulator_id: str = ""
    detail: str = ""
    once: str = ""
    """Of the request behind it: said again, it counts once."""

    def event(self, cursor: int, at_ms: int) -> Event:
        return Event(
            cursor,
            at_ms,
            self.kind[:SAID],
            self.task_id[:SAID],
            self.emulator_id[:SAID],
            self.detail[:SAID],
            (self.actor or "somebody")[:SAID],
            self.reason[:SAID],
            self.lane[:SAID],
        )
