"""What a task does on an emulator, one activity after the other: its stages, or taking them back."""

from dataclasses import dataclass
from typing import Protocol

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.changes import Conflict, Undo, Value
    from droidherd.contracts.plan import Plan, Stage
    from droidherd.contracts.stage import Captured, StageReport, UndoReport
    from droidherd.contracts.tasks import Failure
    from droidherd.domain.errors import Verdict
    from workflows.ledger import Ledger

CONFLICT = "ConflictError"


@dataclass(frozen=True, slots=True)
class Errand:
    """One activity on an emulator's queue."""

    activity: str
    reports: type[StageReport]
    index: int
    what: str
    last: bool = False
    """Nothing follows it on this emulator: it cleans up and lets go."""
    stage: Stage | None = None
    undo: Undo | None = None


class Errands(Protocol):
    """What is to be done during one stay, and what becomes of it."""

    def next(self) -> Errand | None:
        """What comes next on the present emulator."""
        ...

    def began(self, errand: Errand) -> None: ...

    def ended(self, errand: Errand, report: StageReport | None) -> Failure | None:
        """How it ended; None: not completed. A failure the report itself speaks of."""
        ...

    def left(self, errand: Errand, after: tuple[Value, ...]) -> None:
        """What an errand that did not complete left changed."""
        ...


def cleanup(plan: Plan) -> Errand:
    """Clean up and let go, and nothing else."""
    return Errand("run_stage", StageReport, len(plan.stages), "cleanup", last=True)


class Forward:
    """The task's stages. Before a stage that changes things by value, their values are captured."""

    def __init__(self, ledger: Ledger, plan: Plan) -> None:
        self._ledger = ledger
        self._plan = plan

    def next(self) -> Errand | None:
        index = self._ledger.next_stage()
        if index is None:
            return None
        stage = self._plan.stages[index]
        if self._ledger.must_capture(index):
            return Errand("capture_before", Captured, index, f"{stage.name}: before", stage=stage)
        return Errand("run_stage", StageReport, index, stage.name, self._ledger.is_last(index), stage)

    def began(self, errand: Errand) -> None:
        if errand.reports is StageReport:
            self._ledger.stage_began(errand.index)

    def ended(self, errand: Errand, report: StageReport | None) -> Failure | None:
        if errand.reports is Captured and report is None:
            return None
        if isinstance(report, Captured):
            self._ledger.captured(errand.index, report.before)
            return None
        self._ledger.stage_ended(errand.index, completed=report is not None)
        if report is not None:
            self._ledger.again_at = report.again_at or self._ledger.again_at
            self._ledger.left(errand.index, report.after, completed=True)
        return None

    def left(self, errand: Errand, after: tuple[Value, ...]) -> None:
        self._ledger.left(errand.index, after, completed=False)


class Backward:
    """Taking stages back, the last one first."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def next(self) -> Errand | None:
        entry = self._ledger.next_undo()
        if entry is None or entry.emulator != self._ledger.emulator:
            return None
        last = self._ledger.errands_left() == 1
        what = f"undo {entry.stage}"
        return Errand("undo_stage", UndoReport, entry.stage_index, what, last, self._stage(entry), undo=entry)

    def _stage(self, entry: Undo) -> Stage | None:
        """As the flow had it that changed things: what its steps may have made of them is known then."""
        plan = self._ledger.plan
        if plan is None or plan.flow_hash != entry.flow_hash:
            return None
        return next((stage for stage in plan.stages if stage.name == entry.stage), None)

    def began(self, errand: Errand) -> None:
        """Nothing is noted: an undo that broke off is compared anew."""

    def ended(self, errand: Errand, report: StageReport | None) -> Failure | None:
        if not isinstance(report, UndoReport) or errand.undo is None:
            return None
        if report.conflicts:
            return _conflict(errand.undo, report.conflicts)
        self._ledger.undone()
        return None

    def left(self, errand: Errand, after: tuple[Value, ...]) -> None:
        """What is half restored is compared anew next time."""


def _conflict(undo: Undo, conflicts: "tuple[Conflict, ...]") -> Failure:
    first = conflicts[0]
    more = f", and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
    return Failure(
        kind=CONFLICT,
        verdict=Verdict.FINAL,
        message=(
            f"stage {undo.stage}, step {first.step}: {first.thing} {first.name} on {undo.emulator} is "
            f"{first.found or 'gone'}, neither as the task left it nor as it was before{more}"
        ),
        remedy="look at it, then roll back with force to restore it all the same",
    )
