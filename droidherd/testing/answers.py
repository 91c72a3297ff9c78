"""What a stand-in for an emulator says when a stage is run on it: one answer per try of a stage."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

from temporalio import activity

from activities.failures import translate, unclassified
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import Asks, DroidherdError, NeedsPersonError
from droidherd.stay import StayError

Answer: TypeAlias = Callable[[StageWork], Awaitable[StageReport]]


async def completes(work: StageWork) -> StageReport:
    """All went well, in half a second, and a frame was kept."""
    frame = ArtifactView(name=f"{work.key.attempt}-{work.stage_index}.png", size=7, content_type="image/png")
    return StageReport(outcome=StageOutcome.COMPLETED, worker="w1", released=work.last, seconds=0.5, artifacts=(frame,))


def fails(error: DroidherdError, *, clean: bool = True) -> Answer:
    """Ends with this error, as a real stage reports it. `clean`: the emulator was left in order."""

    async def answer(work: StageWork) -> StageReport:  # noqa: ARG001 - the shape of an answer
        raise translate(error, StayError(error, clean=clean, artifacts=()))

    return answer


def again_in(delay: timedelta) -> Answer:
    """Completes, and wants its task to run again after a while."""

    async def answer(work: StageWork) -> StageReport:
        at = activity.info().started_time + delay
        return (await completes(work)).model_copy(update={"again_at": at})

    return answer


def asks(
    *, text: str = "did it pay?", choices: tuple[str, ...] = ("yes", "no"), keep: bool = True, within_s: float = 20.0
) -> Answer:
    """Only a person can say how to go on. `keep`: the emulator, until somebody answers."""
    return fails(NeedsPersonError(text, Asks("3", choices, within_s, keep)), clean=not keep)


async def breaks(work: StageWork) -> StageReport:  # noqa: ARG001 - the shape of an answer
    """Meets a bug nobody foresaw."""
    raise unclassified(ZeroDivisionError("division by zero"))
