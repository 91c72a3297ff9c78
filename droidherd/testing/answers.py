"""What a stand-in for an emulator answers when a stage is run on it, and which changed things it remembers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import asking, translate, unclassified
from droidherd.contracts.changes import Change, Conflict, Value
from droidherd.contracts.stage import (
    Captured,
    StageFailure,
    StageOutcome,
    StageReport,
    StageWork,
    UndoReport,
    UndoWork,
)
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import Asks, BadParametersError, DroidherdError, NeedsPersonError
from droidherd.stage.attempt import StageFailedError
from droidherd.testing.arguments import check_delay, check_error, check_kind, check_texts

Answer: TypeAlias = Callable[[StageWork], Awaitable[StageReport]]


async def completes(work: StageWork) -> StageReport:
    """All went well, in half a second, and a frame was kept."""
    frame = ArtifactView(name=f"{work.key.attempt}-{work.stage_index}.png", size=7, content_type="image/png")
    return StageReport(outcome=StageOutcome.COMPLETED, worker="w1", released=work.last, seconds=0.5, artifacts=(frame,))


def fails(error: DroidherdError, *, clean: bool = True) -> Answer:
    """Ends with this error, as a real stage reports it. `clean`: the emulator was left in order."""
    check_error(error)

    async def answer(work: StageWork) -> StageReport:
        failed = StageFailedError(error, clean=clean, artifacts=())
        if isinstance(error, NeedsPersonError) and not isinstance(work, UndoWork):
            return asking(failed)
        raise translate(error, failed)

    return answer


def again_in(delay: timedelta) -> Answer:
    """Completes, and wants its task to run again after a while."""
    check_delay(delay, "delay")

    async def answer(work: StageWork) -> StageReport:
        at = activity.info().started_time + delay
        return (await completes(work)).model_copy(update={"again_at": at})

    return answer


def asks(
    *, text: str = "did it pay?", choices: tuple[str, ...] = ("yes", "no"), keep: bool = True, within_s: float = 20.0
) -> Answer:
    """Only a person can say how to go on. `keep`: the emulator, until somebody answers."""
    offered = check_texts(choices, "choices", "yes")
    check_kind(within_s, int | float, "within_s", "write seconds")
    if not offered or within_s <= 0:
        what = f"choices is {choices!r}, within_s is {within_s!r}"
        raise BadParametersError(what, to="asks", remedy="give a choice at least, and seconds above zero")
    return fails(NeedsPersonError(text, Asks("3", offered, within_s, keep)), clean=not keep)


async def breaks(work: StageWork) -> StageReport:  # noqa: ARG001 - the shape of an answer
    """Meets a bug nobody foresaw."""
    raise unclassified(ZeroDivisionError("division by zero"))


@dataclass
class FakeThings:
    """Captures values before a stage changes them, and restores them when the task is taken back."""

    captures: list[StageWork] = field(default_factory=list)
    undos: list[UndoWork] = field(default_factory=list)
    things: dict[tuple[str, str], str] = field(default_factory=dict)
    """(emulator, name) → what it is."""

    @activity.defn(name="capture_before")
    async def capture_before(self, work: StageWork) -> Captured:
        self.captures.append(work)
        return self.captured(work)

    def captured(self, work: StageWork) -> Captured:
        return Captured(worker="w1", before=self._values(work.emulator_id, work.stage.changes if work.stage else ()))

    @activity.defn(name="undo_stage")
    async def undo_stage(self, work: UndoWork) -> UndoReport:
        self.undos.append(work)
        return self.restored(work)

    def restored(self, work: UndoWork) -> UndoReport:
        """Unless somebody else changed it since."""
        undo = work.undo
        after = {value.name: value.value for value in undo.after}
        found = {value.name: self.things.get((undo.emulator, value.name), "") for value in undo.before}
        conflicts = [
            Conflict(step=v.step, thing=v.thing, name=v.name, expected=after.get(v.name, ""), found=found[v.name])
            for v in undo.before
            if found[v.name] not in (v.value, after.get(v.name, ""))
        ]
        if conflicts and not work.force:
            return UndoReport(worker="w1", released=work.last, conflicts=tuple(conflicts))
        for value in undo.before:
            self.things[undo.emulator, value.name] = value.value
        return UndoReport(worker="w1", released=work.last, restored=tuple(value.step for value in undo.before))

    def sets(self, value: str, then: "Answer | None" = None) -> Answer:
        """A stage that changes every thing it names."""

        async def answer(work: StageWork) -> StageReport:
            changes = work.stage.changes if work.stage else ()
            for change in changes:
                self.things[work.emulator_id, change.name] = value
            after = self._values(work.emulator_id, changes)
            try:
                report = await (then or completes)(work)
            except ApplicationError as error:
                trouble = StageFailure.model_validate(error.details[0]).model_copy(update={"after": after})
                raise ApplicationError(error.message, trouble, type=error.type, non_retryable=True) from error
            trouble = report.asks and report.asks.model_copy(update={"after": after})
            return report.model_copy(update={"after": after, "asks": trouble})

        return answer

    def _values(self, emulator: str, changes: tuple[Change, ...]) -> tuple[Value, ...]:
        return tuple(
            Value(step=c.step, thing=c.thing, name=c.name, value=self.things.get((emulator, c.name), ""))
            for c in changes
        )

    def changing(self) -> list[Callable[..., object]]:
        return [self.capture_before, self.undo_stage]
