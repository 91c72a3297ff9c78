"""What passes between a task and the activities that run its stages."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field, JsonValue

from droidherd.contracts.base import Contract
from droidherd.contracts.changes import Conflict, Undo, Value
from droidherd.contracts.plan import Plan, Stage, TaskTiming
from droidherd.contracts.screen_map import ScreenMap
from droidherd.contracts.tasks import ArtifactView, Question, TaskSpec
from droidherd.domain.messages import Key

WROTE = "wrote"
"""Stands in the heartbeats of a try, behind what it does, once it is about to write to its stage's journal."""


class PlanRequest(Contract):
    """Input of `plan_task`."""

    spec: TaskSpec


class Planned(Contract):
    """A plan and the timing it runs under."""

    plan: Plan
    timing: TaskTiming = TaskTiming()


class StageWork(Contract):
    """Input of `run_stage`: one stage, on one emulator, under one token."""

    task_id: str
    key: Key
    emulator_id: str
    lease: int
    after: int = 0
    """On deck: seize only when this lease said on the emulator that it ended."""
    waiting: int = 0
    """How many tasks of the pool still waited when the lease was granted."""
    stage_index: int
    tries: int
    """Of this stage under this lease; a higher one outranks a lower one on the emulator."""
    task_type: str
    account: str = ""
    flow: str
    flow_hash: str
    app: str = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Of the task, for a recording of what it did: its stages have them already."""
    ahead_s: float = Field(default=0.0, ge=0)
    """How long the lease ahead may still take, for one on deck."""
    answers: dict[str, str] = Field(default_factory=dict)
    """What people said, by the mark of the question."""
    rounds: int = 0
    """How often the task completed before, and wanted to run again."""
    wrote_under: int = 0
    """The lease under which this stage wrote to its journal last, by what the task knows; 0: never.

    Only of stages whose effect is in the account, which keep one journal for the whole attempt.
    """
    limit_s: float = Field(default=0.0, ge=0)
    """What is left of the attempt's time, if that is less than the stage's own; 0: the stage's own."""
    stage: Stage | None = None
    """None: only clean up and let go."""
    cleanup: tuple[JsonValue, ...] = ()
    screen_map: ScreenMap | None = None
    last: bool = False
    """Clean up and let go after it."""
    timing: TaskTiming = TaskTiming()
    carrier: dict[str, str] = Field(default_factory=dict)


class StageOutcome(StrEnum):
    COMPLETED = "completed"
    STOPPED = "stopped"
    """Asked to stop, stopped at a step boundary."""
    NOT_BEGUN = "not_begun"
    """Not wanted any more before its turn came: it touched nothing, and cleaned up nothing."""
    ASKS = "asks"
    """Only a person can say how to go on: no failure, and shown as none."""


class StageFailure(Contract):
    """Why a stage did not complete, and how it left its emulator: details of its error, or of its question."""

    verdict: str
    message: str
    remedy: str = ""
    retry_after_s: float = 0.0
    """How long a server asked to be left alone; 0: none did."""
    worker: str = ""
    clean: bool = False
    """Cleaned up and let go: the emulator may be granted to the next one at once."""
    artifacts: tuple[ArtifactView, ...] = ()
    after: tuple[Value, ...] = ()
    wrote: bool = False
    """It wrote to the journal of its stage, which is one for the whole attempt."""
    seized: bool = True
    """It took the emulator, or may have."""
    question: Question | None = None
    """What a person is asked, when only a person can say how to go on."""


class StageReport(Contract):
    """Result of `run_stage`."""

    outcome: StageOutcome
    worker: str = ""
    clean: bool = True
    released: bool = False
    seconds: float = 0.0
    artifacts: tuple[ArtifactView, ...] = ()
    after: tuple[Value, ...] = ()
    """What it changed by value, as it left it."""
    summary: dict[str, JsonValue] = Field(default_factory=dict)
    """What its handlers found, in a few words."""
    again_at: datetime | None = None
    """When the whole task wants to run next."""
    wrote: bool = False
    """It wrote to the journal of its stage, which is one for the whole attempt."""
    asks: StageFailure | None = None
    """Of a stage that asks a person."""


class Captured(StageReport):
    """Result of `capture_before`, whose input is that of the stage: the values before its first change."""

    outcome: StageOutcome = StageOutcome.COMPLETED
    before: tuple[Value, ...] = ()


class UndoWork(StageWork):
    """Input of `undo_stage`: take one stage back, on the emulator it changed."""

    undo: Undo
    force: bool = False
    """Restore also what somebody else changed since."""


class UndoReport(StageReport):
    """Result of `undo_stage`. With conflicts nothing was restored."""

    outcome: StageOutcome = StageOutcome.COMPLETED
    restored: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
