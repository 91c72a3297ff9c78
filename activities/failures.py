"""The only translator: from errors with a verdict to what the engine understands."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from temporalio.exceptions import ApplicationError

from droidherd.contracts.stage import StageTrouble
from droidherd.contracts.tasks import Question
from droidherd.domain.errors import DroidherdError, NeedsPersonError, ServerBusyError, UnclassifiedError
from droidherd.stay import StayError

P = ParamSpec("P")
R = TypeVar("R")


def translated(work: Callable[P, R]) -> Callable[P, R]:
    """Raise what the engine understands. What nobody classified is final: it is a bug, and says so."""

    @wraps(work)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except StayError as error:
            raise translate(error.cause, stay=error) from error
        except DroidherdError as error:
            raise translate(error) from error
        except Exception as error:
            raise unclassified(error) from error

    return inner


def translate(error: DroidherdError, stay: StayError | None = None) -> ApplicationError:
    """Type, message and verdict travel; the engine itself never retries."""
    trouble = StageTrouble(
        verdict=error.verdict,
        message=f"{error.to}: {error.what}" if error.to else error.what,
        remedy=error.remedy,
        retry_after_s=error.after_s if isinstance(error, ServerBusyError) else 0.0,
        clean=stay.clean if stay else False,
        artifacts=stay.artifacts if stay else (),
        after=stay.after if stay else (),
        question=question(error, stay) if isinstance(error, NeedsPersonError) else None,
    )
    return ApplicationError(str(error), trouble, type=type(error).__name__, non_retryable=True)


def question(error: NeedsPersonError, stay: StayError | None) -> Question:
    """With the last picture that was kept, since a person wants to see it."""
    pictures = [one.name for one in (stay.artifacts if stay else ()) if one.name.endswith(".png")]
    return Question(
        text=error.what,
        step=error.asks.step,
        mark=stay.mark if stay else "",
        choices=error.asks.choices,
        within_s=error.asks.within_s,
        keep=error.asks.keep,
        frame=pictures[-1] if pictures else "",
    )


def unclassified(error: Exception) -> ApplicationError:
    """A bug: final, with its type as evidence."""
    return translate(UnclassifiedError.of(error))
