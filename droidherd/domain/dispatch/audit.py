"""What happened in a pool: the ring of live events, and beside it, kept for longer, who did what and why."""

from collections import deque
from dataclasses import dataclass, field

from droidherd.domain.dispatch.lane import is_system

EVENTS = 2_000
AUDIT_ENTRIES = 500
"""Of people, and as many of the system: what the system does never pushes out what people did."""
TEXT_MAX = 200
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
class AuditEntry:
    """Something somebody did to the pool, or to what belongs to it."""

    kind: str
    actor: str
    reason: str = ""
    lane: str = ""
    task_id: str = ""
    emulator_id: str = ""
    detail: str = ""
    once: str = ""
    """The id of the request behind it: an entry with the same id is written once."""

    def event(self, cursor: int, at_ms: int) -> Event:
        return Event(
            cursor,
            at_ms,
            self.kind[:TEXT_MAX],
            self.task_id[:TEXT_MAX],
            self.emulator_id[:TEXT_MAX],
            self.detail[:TEXT_MAX],
            (self.actor or "somebody")[:TEXT_MAX],
            self.reason[:TEXT_MAX],
            self.lane[:TEXT_MAX],
        )


@dataclass(slots=True)
class EventRing:
    """The last live events of a pool. Readers remember the cursor of the last event they have read."""

    cursor: int = 0
    """Of the newest event."""
    events: deque[Event] = field(default_factory=deque[Event])

    def __post_init__(self) -> None:
        self.events = deque(self.events, EVENTS)

    def append(self, at_ms: int, kind: str, task_id: str = "", emulator_id: str = "", detail: str = "") -> None:
        """Something happened by itself."""
        self.cursor += 1
        self.events.append(Event(self.cursor, at_ms, kind, task_id, emulator_id, detail[:TEXT_MAX]))

    def append_entry(self, entry: AuditEntry, at_ms: int) -> Event:
        """Somebody did something."""
        self.cursor += 1
        event = entry.event(self.cursor, at_ms)
        self.events.append(event)
        return event

    def since(self, cursor: int) -> tuple[Event, ...]:
        """Every event after this cursor that is still kept."""
        return tuple(event for event in self.events if event.cursor > cursor)

    def newest(self, count: int) -> "EventRing":
        return EventRing(self.cursor, deque([*self.events][-count:]))


@dataclass(slots=True)
class AuditLog:
    """Who did what: people and the system apart."""

    by_people: deque[Event] = field(default_factory=deque[Event])
    by_system: deque[Event] = field(default_factory=deque[Event])

    def __post_init__(self) -> None:
        self.by_people = deque(self.by_people, AUDIT_ENTRIES)
        self.by_system = deque(self.by_system, AUDIT_ENTRIES)

    def keep(self, event: Event) -> None:
        (self.by_system if is_system(event.actor) else self.by_people).append(event)

    def newest(self, count: int) -> "AuditLog":
        return AuditLog(deque([*self.by_people][-count:]), deque([*self.by_system][-count:]))


class AuditRecorder:
    """Writes what somebody did into the live events and into the audit."""

    def __init__(self, events: EventRing, log: AuditLog) -> None:
        self._events, self._log = events, log

    def record(self, entry: AuditEntry, now_ms: int) -> None:
        self._log.keep(self._events.append_entry(entry, now_ms))

    def show(self, entry: AuditEntry, now_ms: int) -> None:
        """In the live events alone: one of many that share one audit entry."""
        self._events.append_entry(entry, now_ms)
