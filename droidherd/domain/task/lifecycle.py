"""The life of a task: a table with one door.

`transition` is the only way to a new state. It returns the state and the audit record; an illegal pair raises.
What a person asked for and what takes effect at the next boundary (`Intent`) stands beside the state, not in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from droidherd.domain.errors import IllegalTransitionError


class TaskStatus(StrEnum):
    """Where a task is."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    RETRY_PENDING = "retry_pending"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    ROLLBACK_PENDING = "rollback_pending"
    ROLLBACK_RUNNING = "rollback_running"
    ROLLBACK_COMPLETED = "rollback_completed"
    ROLLBACK_FAILED = "rollback_failed"


class TaskEvent(StrEnum):
    """What happened to a task."""

    ADMITTED = "admitted"
    REJECTED = "rejected"
    GRANTED = "granted"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRY = "retry"
    """This attempt failed and another one follows after its delay."""
    DELAY_OVER = "delay_over"
    LEASE_LOST = "lease_lost"
    RESCHEDULED = "rescheduled"
    """It did what it could for now and says itself when it wants to run next."""
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    PERSON_ASKED = "person_asked"
    PERSON_ANSWERED = "person_answered"
    PERSON_ANSWERED_LATER = "person_answered_later"
    """Answered after the emulator had been freed by policy: back into line."""
    MANUAL_RETRY = "manual_retry"
    ROLLBACK_ASKED = "rollback_asked"
    ROLLBACK_STARTED = "rollback_started"
    ROLLBACK_DONE = "rollback_done"
    ROLLBACK_BROKE = "rollback_broke"


class TaskNote(StrEnum):
    """A line of a task's audit that changes no state."""

    CREATED = "created"
    """Who submitted what: always the first line."""
    INTERRUPTED = "interrupted"
    """What ran on an emulator did not come to its end there, why, and where it runs again."""
    STAGES_REPEATED = "stages_repeated"
    """What ran on another emulator runs again on this one, and why."""
    BROKEN_OFF = "broken_off"
    """Its workflow was terminated, or timed out; another run wrote that down."""
    RESET = "reset"
    """Its workflow was reset in Temporal, which changed nothing."""


class Intent(StrEnum):
    """What was asked for and takes effect at the next boundary. The stronger wins, in either order."""

    NONE = ""
    PAUSE = "pause"
    CANCEL = "cancel"
    FORCE = "force"
    """Cancel without waiting for what runs, and without its cleanup."""


class TaskAction(StrEnum):
    """What a person may ask of a task, in the words of the API, the CLI and the workflow."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    ANSWER = "answer"
    PRIORITIZE = "prioritize"
    RETRY = "retry"
    ROLLBACK = "rollback"


S, E = TaskStatus, TaskEvent

FINAL = frozenset({S.COMPLETED, S.FAILED, S.CANCELLED, S.REJECTED, S.ROLLBACK_COMPLETED, S.ROLLBACK_FAILED})
"""States in which no workflow runs for the task."""

_CANCELLABLE = tuple(s for s in TaskStatus if s not in FINAL)
_PAUSABLE = (S.PENDING, S.QUEUED, S.RUNNING, S.RETRY_PENDING, S.WAITING)

TABLE: dict[tuple[TaskStatus, TaskEvent], TaskStatus] = {
    (S.PENDING, E.ADMITTED): S.QUEUED,
    (S.PENDING, E.REJECTED): S.REJECTED,
    (S.PENDING, E.FAILED): S.FAILED,
    (S.QUEUED, E.GRANTED): S.RUNNING,
    (S.QUEUED, E.FAILED): S.FAILED,
    (S.QUEUED, E.LEASE_LOST): S.PENDING,
    (S.RUNNING, E.COMPLETED): S.COMPLETED,
    (S.RUNNING, E.FAILED): S.FAILED,
    (S.RUNNING, E.RETRY): S.RETRY_PENDING,
    (S.RUNNING, E.LEASE_LOST): S.PENDING,
    (S.RUNNING, E.RESCHEDULED): S.PENDING,
    (S.RUNNING, E.PERSON_ASKED): S.WAITING,
    (S.RETRY_PENDING, E.DELAY_OVER): S.PENDING,
    (S.WAITING, E.PERSON_ANSWERED): S.RUNNING,
    (S.WAITING, E.PERSON_ANSWERED_LATER): S.PENDING,
    (S.WAITING, E.LEASE_LOST): S.PENDING,
    (S.WAITING, E.FAILED): S.FAILED,
    (S.PAUSED, E.RESUMED): S.PENDING,
    (S.PAUSED, E.FAILED): S.FAILED,
    (S.FAILED, E.MANUAL_RETRY): S.PENDING,
    (S.CANCELLED, E.MANUAL_RETRY): S.PENDING,
    (S.COMPLETED, E.ROLLBACK_ASKED): S.ROLLBACK_PENDING,
    (S.FAILED, E.ROLLBACK_ASKED): S.ROLLBACK_PENDING,
    (S.CANCELLED, E.ROLLBACK_ASKED): S.ROLLBACK_PENDING,
    (S.ROLLBACK_FAILED, E.ROLLBACK_ASKED): S.ROLLBACK_PENDING,
    (S.ROLLBACK_PENDING, E.ROLLBACK_STARTED): S.ROLLBACK_RUNNING,
    (S.ROLLBACK_RUNNING, E.ROLLBACK_DONE): S.ROLLBACK_COMPLETED,
    (S.ROLLBACK_RUNNING, E.ROLLBACK_BROKE): S.ROLLBACK_FAILED,
    (S.ROLLBACK_RUNNING, E.LEASE_LOST): S.ROLLBACK_PENDING,
    **{(state, E.CANCELLED): S.CANCELLED for state in _CANCELLABLE},
    **{(state, E.PAUSED): S.PAUSED for state in _PAUSABLE},
}


@dataclass(frozen=True, slots=True)
class Transition:
    """One line of the audit: when, from where, to where, by whom, why."""

    at_ms: int
    before: TaskStatus
    event: TaskEvent
    after: TaskStatus
    actor: str
    reason: str


def may(state: TaskStatus, event: TaskEvent) -> bool:
    """Whether the table has this pair."""
    return (state, event) in TABLE


_EVENTS: dict[TaskAction, tuple[TaskEvent, ...]] = {
    TaskAction.CANCEL: (E.CANCELLED,),
    TaskAction.PAUSE: (E.PAUSED,),
    TaskAction.RESUME: (E.RESUMED,),
    TaskAction.ANSWER: (E.PERSON_ANSWERED,),
    TaskAction.PRIORITIZE: (E.GRANTED, E.ROLLBACK_STARTED),
    TaskAction.RETRY: (E.MANUAL_RETRY,),
    TaskAction.ROLLBACK: (E.ROLLBACK_ASKED,),
}
"""What the table must have for an action to be possible. Whoever may be given an emulator stands in line."""


def possible(state: TaskStatus, intent: Intent = Intent.NONE) -> tuple[TaskAction, ...]:
    """What a person may ask of a task as it is now."""
    return tuple(action for action in TaskAction if _is_possible(action, state, intent))


def _is_possible(action: TaskAction, state: TaskStatus, intent: Intent) -> bool:
    leads = any(may(state, event) for event in _EVENTS[action])
    if action is TaskAction.CANCEL:
        return leads
    if action is TaskAction.PAUSE:
        return leads and intent in {Intent.NONE, Intent.PAUSE}
    if action is TaskAction.RESUME and intent is Intent.PAUSE:
        return True  # taken back before its boundary
    if action is TaskAction.ROLLBACK:
        # What has not ended is cancelled first. What is being taken back is not taken back twice.
        under_way = may(state, E.ROLLBACK_STARTED) or may(state, E.ROLLBACK_DONE)
        return leads or (may(state, E.CANCELLED) and not under_way)
    return leads and not intent


def refusal(action: str, state: TaskStatus, intent: Intent, left: Iterable[str]) -> str:
    """That an action is not possible, and what is, for people."""
    asked_for = f" with {intent} asked for" if intent else ""
    nothing = "nothing; submit it anew" if state in FINAL else "nothing"
    return f"{action} is not possible while {state}{asked_for}; possible now: {', '.join(left) or nothing}"


def transition(state: TaskStatus, event: TaskEvent, now_ms: int, actor: str, reason: str) -> Transition:
    """The one door to a new state."""
    after = TABLE.get((state, event))
    if after is None:
        allowed = ", ".join(sorted(e for s, e in TABLE if s == state)) or "nothing"
        raise IllegalTransitionError(
            f"{event} is not possible while {state}", to="task", remedy=f"possible now: {allowed}"
        )
    return Transition(now_ms, state, event, after, actor, reason)


def combine(present: Intent, asked: Intent) -> Intent:
    """What holds after one more request: the stronger one, whatever came first."""
    if asked is Intent.NONE:
        return Intent.NONE if present is Intent.PAUSE else present
    return max(present, asked, key=(Intent.NONE, Intent.PAUSE, Intent.CANCEL, Intent.FORCE).index)


_FAILURES = (S.FAILED, S.ROLLBACK_COMPLETED)
"""A failure that was taken back by policy leaves the emulator as it was, and is a failure all the same."""


def why_chain_ends(state: TaskStatus, *, critical: bool, by_policy: bool) -> str:
    """Why nothing follows a task that ended; empty when the next link may.

    `by_policy`: no person asked for the rollback that there was.
    """
    if state is S.COMPLETED:
        return ""
    if state in _FAILURES and (state is S.FAILED or by_policy):
        return "it is critical, and failed" if critical else ""
    return f"it is {state}"
