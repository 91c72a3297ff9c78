"""What a task does after a stage did not complete. Pure: from what happened to what comes next."""

from dataclasses import dataclass
from enum import StrEnum

from droidherd.domain.errors import ClickLoopError, StageTimeoutError, StuckError, Verdict


class FailureCause(StrEnum):
    """What the engine or the emulator said about a stage that did not complete."""

    ERROR = "error"
    """The stage said so itself, with a type and a verdict."""
    SILENT = "silent"
    """Its heartbeats stopped."""
    NOT_STARTED = "not_started"
    """Nobody took it from the emulator's queue in time."""
    TOO_LONG = "too_long"
    REVOKED = "revoked"
    """The dispatcher asked for the lease back."""
    RESTARTED = "restarted"
    """The worker that ran it is gone, a new one is there."""


class Next(StrEnum):
    """What comes next."""

    AGAIN = "again"
    """The same stage on the same emulator, under a higher token."""
    MOVE = "move"
    """Another emulator, the same ticket, no attempt counted."""
    RETRY = "retry"
    ASK = "ask"
    """A person."""
    FAIL = "fail"


FENCED = "FencedError"
"""The emulator itself says that the lease is over."""
TIMED_OUT = frozenset({StageTimeoutError.__name__, StuckError.__name__, ClickLoopError.__name__})
"""Errors which say that time ran out: that of the attempt, or that in which something has to move."""
DELAY_MAX_S = 300.0
"""No delay that grows, and none that a server asks for, is longer."""
KEY_AGAIN_S = 10.0
"""After this it is tried for the first time whether a key that was missing is back."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left to a task."""

    tries_left: int
    """Of this stage under this lease."""
    moves_left: int
    retries_left: int
    timeouts_only: bool = False
    """Whether they are for attempts that ran out of time, and for no others."""


def react(trouble: FailureCause, kind: str, verdict: str, budget: Budget) -> Next:
    """An error nobody classified is final: it is a bug, and repeating a bug helps nobody.

    Trouble of the emulator is borne for a while on the same lease, where the journal says what happened already;
    whether the emulator is lost, its host and the dispatcher decide.
    """
    if trouble in (FailureCause.NOT_STARTED, FailureCause.REVOKED) or kind == FENCED:
        return _move(budget)
    if trouble in (FailureCause.SILENT, FailureCause.RESTARTED) or verdict == Verdict.INFRASTRUCTURE:
        return Next.AGAIN if budget.tries_left > 0 else _move(budget)
    if trouble is FailureCause.ERROR and verdict == Verdict.HUMAN:
        return Next.ASK
    if trouble is FailureCause.TOO_LONG or verdict == Verdict.RETRYABLE:
        timed_out = trouble is FailureCause.TOO_LONG or kind in TIMED_OUT
        return Next.RETRY if budget.retries_left > 0 and (timed_out or not budget.timeouts_only) else Next.FAIL
    return Next.FAIL


def _move(budget: Budget) -> Next:
    return Next.MOVE if budget.moves_left > 0 else Next.FAIL


def again_s(troubles: int) -> float:
    """Before the same stage runs again on the same emulator, after so many troubles in a row."""
    return min(0.25 * 2.0 ** (troubles - 1), 5.0)


def key_again_s(tries: int) -> float:
    """Before it is tried again whether a key is back that was missing so many times in a row."""
    return min(KEY_AGAIN_S * 2.0 ** min(tries - 1, 9), DELAY_MAX_S)


def delay_s(kind: str, base_s: float, attempt: int, asked_s: float = 0.0) -> float:
    """Before the next attempt; `attempt` is the one that failed, counted from 1. What a server `asked` for counts."""
    if asked_s > 0:
        return min(asked_s, DELAY_MAX_S)
    if kind == "exponential":
        return min(base_s * 2.0 ** (attempt - 1), DELAY_MAX_S)
    return base_s


def backoff_problem(kind: str, base_s: float) -> str:
    """Empty, or why no delay can be as this policy says."""
    if kind == "exponential" and base_s > DELAY_MAX_S:
        return f"an exponential delay is at most {DELAY_MAX_S:g} s and cannot begin with {base_s:g}; a fixed one can"
    return ""
