"""Every error droidherd raises on purpose, each with its verdict.

The verdict decides what happens to the task; it sits on the class and nowhere else. A message says what
happened, `to` says to what, `remedy` says what to do next.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from droidherd.domain.text import visible

TEXT_MAX = 4_000
"""Characters of what an error says. It may quote an emulator, and what does not fit into a message wedges its task."""


class Verdict(StrEnum):
    """What an error means for the task that met it."""

    INFRASTRUCTURE = "infrastructure"
    RETRYABLE = "retryable"
    FINAL = "final"
    HUMAN = "human"


class DroidherdError(Exception):
    """Base of every error with a verdict."""

    verdict: ClassVar[Verdict] = Verdict.FINAL

    def __init__(self, what: str, *, to: str = "", remedy: str = "") -> None:
        """`what` happened, `to` what, and the `remedy`."""
        self.what = _whole(what)
        self.to = _whole(to)
        self.remedy = _whole(remedy)
        super().__init__(self.what)

    def locate(self, place: str) -> None:
        """Say where in the work it was met."""
        self.what = _whole(f"{place}: {self.what}")

    def __str__(self) -> str:
        """One line for people."""
        text = f"{self.to}: {self.what}" if self.to else self.what
        return f"{text} ({self.remedy})" if self.remedy else text


def _whole(text: str) -> str:
    """What went wrong goes over wires, into files and to terminals: no half of a character, and nothing to obey."""
    return _cut(visible(_cut(text)))


def _cut(text: str) -> str:
    end = TEXT_MAX // 2
    return text if len(text) <= TEXT_MAX else f"{text[:end]} … ({len(text)} characters) … {text[-end:]}"


# --- infrastructure: a new lease, a budget of its own, no attempt is counted ---------------------------------


class InfrastructureError(DroidherdError):
    verdict: ClassVar[Verdict] = Verdict.INFRASTRUCTURE


class NotSentError(InfrastructureError):
    """The request surely never reached the emulator: try again freely."""


class UnknownOutcomeError(InfrastructureError):
    """The request may or may not have been carried out, now or later: observe before anything else."""


class InvalidFrameError(InfrastructureError):
    """A frame that is truncated, uniform or of the wrong size. Never the same as "not found"."""


class FencedError(InfrastructureError):
    """The emulator refused: another lease, or nobody, holds it."""


class LateError(InfrastructureError):
    """The emulator refused: the deadline of the guard had passed when the line ran."""


class NotReleasedError(InfrastructureError):
    """On deck, but the lease before has not said on the emulator that it ended."""


class StillBusyError(InfrastructureError):
    """Its turn on the emulator did not come in time. It touched nothing."""


class EmulatorLostError(InfrastructureError):
    """The emulator does not answer, or another one answers at its address."""


class ServerSilencedError(EmulatorLostError):
    """The adb server answered nobody any more while it connected this emulator."""


class LockedRecordError(InfrastructureError):
    """A record is encrypted with a key that this worker does not have. The emulator is well."""


class AbandonedError(InfrastructureError):
    """The engine gave this try up; nothing more may be done in its name."""


# --- retryable: the next attempt by the type's policy --------------------------------------------------------


class RetryableError(DroidherdError):
    verdict: ClassVar[Verdict] = Verdict.RETRYABLE


class ScreenNotReachedError(RetryableError):
    """What a step waited for did not appear in time."""


class RestlessError(RetryableError):
    """The elements of the screen cannot be told now: it does not come to rest, or somebody else asks."""


class StageTimeoutError(RetryableError):
    """The total time of a stage or an attempt ran out."""


class StuckError(RetryableError):
    """No step advanced and no frame changed for too long, though the emulator answers."""


class ClickLoopError(RetryableError):
    """The same taps again and again, and the screen does not go on."""


class WriterBusyError(RetryableError):
    """The disk has too much to do: no turn to write came in time."""


class NoAnswerError(RetryableError):
    """A server was not reached, fell silent, or broke off in the middle."""


class ServerBusyError(RetryableError):
    """A server answered that it cannot do this now: 429, 503 and their like."""

    def __init__(self, what: str, *, after_s: float = 0.0, to: str = "", remedy: str = "") -> None:
        """`after_s`: how long it asks to be left alone; 0 when it does not say."""
        super().__init__(what, to=to, remedy=remedy)
        self.after_s = after_s


class UnhealthyError(RetryableError):
    """A check found something wrong. Another look may find it well."""


# --- final: failed at once -----------------------------------------------------------------------------------


class FinalError(DroidherdError):
    pass


class BadParametersError(FinalError):
    """What the submitter sent does not fit the task type."""


class CredentialError(FinalError):
    """What a reference of an account points to is not there. Names the reference, never what it points to."""


class FlowError(FinalError):
    """The flow itself is wrong."""


class GivenUpError(FinalError):
    """The flow itself says that the task failed."""


class CommandFailedError(FinalError):
    """A command ran on the emulator and said no. Asked again, it says the same."""

    def __init__(self, what: str, *, rc: int, to: str = "", remedy: str = "") -> None:
        """`rc` is what the command returned."""
        super().__init__(what, to=to, remedy=remedy)
        self.rc = rc


class DiskFullError(FinalError):
    """No space left where something had to be written."""


class ServerRefusedError(FinalError):
    """A server answered that it will not do this: 400, 401, 403, 404 and their like."""


class AddressRefusedError(FinalError):
    """The settings do not allow requests to this address."""


class UnclassifiedError(FinalError):
    """What nobody foresaw: a bug, of ours or of a handler. Repeating it helps nobody."""

    @classmethod
    def of(cls, error: Exception) -> "UnclassifiedError":
        remedy = "this is a bug, of droidherd or of a handler: please report it with the worker's log"
        return cls(f"{type(error).__name__}: {error}", remedy=remedy)


class IllegalTransitionError(FinalError):
    """The lifecycle table has no such pair."""


# --- human: a person is asked --------------------------------------------------------------------------------


HAPPENED, DID_NOT = "happened", "did-not-happen"
"""The answers to whether an act of unknown outcome was carried out."""


class About(StrEnum):
    """What a question is about, and so how long its answer holds."""

    EFFECT = "effect"
    """An act of unknown outcome: as long as the journal that knows of it."""
    SCREEN = "screen"
    """What is to be seen on the emulator: as long as the lease."""
    TASK = "task"
    """Something that no emulator knows: as long as the attempt."""


@dataclass(frozen=True, slots=True)
class Asks:
    """How a person is asked."""

    step: str
    """Where the question came up; the answer is kept under it."""
    choices: tuple[str, ...] = (HAPPENED, DID_NOT)
    within_s: float = 3_600.0
    keep: bool = True
    """The emulator, as it is, until somebody answers."""
    about: About = About.EFFECT


class NeedsPersonError(DroidherdError):
    """Only a person can decide what comes next."""

    verdict: ClassVar[Verdict] = Verdict.HUMAN

    def __init__(self, what: str, asks: Asks, *, to: str = "", remedy: str = "") -> None:
        """`what` is the question."""
        super().__init__(what, to=to, remedy=remedy)
        self.asks = asks
