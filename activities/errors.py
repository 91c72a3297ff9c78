"""The only translator: from errors with a verdict to what the engine understands."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from temporalio.exceptions import ApplicationError

from droidherd.contracts.stage import StageFailure, StageOutcome, StageReport
from droidherd.contracts.tasks import Question
from droidherd.domain.errors import (
    TEXT_MAX,
    DroidherdError,
    LockedRecordError,
    NeedsPersonError,
    ServerBusyError,
    UnclassifiedError,
    Verdict,
)
from droidherd.domain.task.reaction import DELAY_MAX_S
from droidherd.engine.errors import MissingKeyError
from droidherd.stage.attempt import StageFailedError

P = ParamSpec("P")
R = TypeVar("R")


def translated(work: Callable[P, R]) -> Callable[P, R]:
    """Raise what the engine understands. What nobody classified is final: it is a bug, and says so."""

    @wraps(work)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except StageFailedError as error:
            raise translate(error.cause, failed=error) from error
        except DroidherdError as error:
            raise translate(error) from error
        except MissingKeyError as error:
            raise waiting_for_key(error) from error
        except Exception as error:
            if len(str(error)) > TEXT_MAX:  # causes travel too, and one that quotes megabytes would never arrive
                raise unclassified(error) from None
            raise unclassified(error) from error

    return inner


def translate(error: DroidherdError, failed: StageFailedError | None = None) -> ApplicationError:
    """Type, message and verdict travel; the engine itself never retries. A task waits for a key by one type."""
    kind = MissingKeyError if isinstance(error, LockedRecordError) else type(error)
    return ApplicationError(str(error), _details(error, failed), type=kind.__name__, non_retryable=True)


def waiting_for_key(error: MissingKeyError) -> ApplicationError:
    """Nobody is to blame, and it succeeds as soon as that key is back."""
    details = StageFailure(verdict=Verdict.INFRASTRUCTURE, message=str(error), clean=True)
    return ApplicationError(str(error), details, type=MissingKeyError.__name__, non_retryable=True)


def asking(failed: StageFailedError, worker: str = "") -> StageReport:
    """A stage that only a person can help on: its report. Any other one: its error, raised."""
    if not isinstance(failed.cause, NeedsPersonError):
        raise failed
    details = _details(failed.cause, failed)
    return StageReport(outcome=StageOutcome.ASKS, worker=worker, clean=failed.clean, wrote=failed.wrote, asks=details)


def _details(error: DroidherdError, failed: StageFailedError | None) -> StageFailure:
    return StageFailure(
        verdict=error.verdict,
        message=f"{error.to}: {error.what}" if error.to else error.what,
        remedy=error.remedy,
        retry_after_s=min(error.after_s, DELAY_MAX_S) if isinstance(error, ServerBusyError) else 0.0,
        clean=failed.clean if failed else False,
        artifacts=failed.artifacts if failed else (),
        after=failed.after if failed else (),
        wrote=failed.wrote if failed else isinstance(error, UnclassifiedError),  # where a bug is, nobody knows
        seized=failed.seized if failed else True,
        question=question(error, failed) if isinstance(error, NeedsPersonError) else None,
    )


def question(error: NeedsPersonError, failed: StageFailedError | None) -> Question:
    """With the last picture that was kept, since a person wants to see it."""
    pictures = [one.name for one in (failed.artifacts if failed else ()) if one.name.endswith(".png")]
    return Question(
        text=error.what,
        step=error.asks.step,
        mark=failed.mark if failed else "",
        choices=error.asks.choices,
        within_s=error.asks.within_s,
        keep=error.asks.keep,
        frame=pictures[-1] if pictures else "",
    )


def unclassified(error: Exception) -> ApplicationError:
    """A bug: final, with its type as evidence."""
    return translate(UnclassifiedError.of(error))
