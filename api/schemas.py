"""What goes in and comes out over HTTP, where it differs from the contracts."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from api.engine import Cleanup, Reading, Timetable
from droidherd.contracts.base import Id
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.contracts.plan import Policy, PolicyChange
from droidherd.contracts.queue import LaneView, QueuePage, QueueRow, RunningRow, TallyView
from droidherd.contracts.tasks import ArtifactView, Ask, EventView, Question, TaskSpec, TaskView, Text
from droidherd.domain import ids
from droidherd.domain.keys import reserved
from droidherd.domain.lifecycle import Intent, TaskState

EXAMPLE: JsonValue = {
    "type": "daily_reward",
    "account": "player-42",
    "params": {"tab": "gift"},
    "on_busy": "queue",
    "labels": {"team": "ops"},
}


SOMEBODY = "somebody"
"""Who acts when neither a key nor the body says who. With a key, its name stands before what the body says."""


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of readable characters")
    return text


def _unreserved(mutex: str) -> str:
    if why := reserved(mutex):
        raise ValueError(why)
    return mutex


Line = Annotated[Text, AfterValidator(_one_line)]
Mutex = Annotated[Id, AfterValidator(_unreserved)]


class PolicyWish(PolicyChange):
    """Otherwise than the type says, for this task alone."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Submit(TaskSpec):
    """The body of a submission.

    Unlike contracts between programs it refuses fields it does not know: a misspelt one must not be lost in silence.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [EXAMPLE]}
    )

    id: Id | None = Field(default=None, description="your own id; empty: one is made")
    mutex: tuple[Mutex, ...] = Field(default=(), max_length=4)
    actor: Line = SOMEBODY
    not_before: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    policy: PolicyWish | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound


class Wish(Ask):
    """The body of pause, resume and cancel. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""


class Insistence(Wish):
    """The body of cancel and rollback. It may be left out."""

    force: bool = False
    """Cancel: do not wait for what runs, nor for its cleanup. Rollback: restore also what others changed since."""


class Reply(Wish):
    """The body of an answer to what a task asks."""

    choice: Line


class Command(BaseModel):
    """The body of an order to a queue. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""
    lane: str = Field(default="", pattern=ids.OPTIONAL, description="empty: every lane")


class Capacity(BaseModel):
    """The body of a change of capacity."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""
    lane: str = Field(pattern=ids.PATTERN, description="the lane whose capacity it is")
    capacity: int = Field(ge=0, le=10_000, description="how many of its tasks may hold an emulator at once")


class LaneOrder(BaseModel):
    """The body of a change of order."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""
    lane: str = Field(pattern=ids.PATTERN, description="the lane whose order it is")
    order: Literal["arrival", "priority"] = Field(description="who goes first among those that require the same")
    ageing: int = Field(
        default=0, ge=0, le=1_000_000, description="by priority: how many may overtake a task per step; 0: all"
    )


class Precedence(BaseModel):
    """The body of prioritize. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = SOMEBODY
    reason: Line = ""
    priority: int = Field(default=1, ge=1, le=10, description="1 is the most urgent; never makes it less urgent")


class CleanupWish(CleanupInput):
    """The body of a cleanup. It may be left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    actor: Line = "somebody"
    reason: Line = ""


class CleanupOut(BaseModel):
    """A cleanup. `report` stands there when it is over."""

    id: str
    run_id: str
    state: str
    report: CleanupReport | None = None

    @classmethod
    def of(cls, found: Cleanup) -> Self:
        return cls(id=found.id, run_id=found.run_id, state=found.state, report=found.report)


class MaintenanceOut(BaseModel):
    """The last cleanups, newest first, without the names of what went; and when the next one comes."""

    next: datetime | None = None
    paused: bool = False
    note: str = ""
    cleanups: list[CleanupOut]

    @classmethod
    def of(cls, timetable: Timetable | None, recent: Sequence[Cleanup]) -> Self:
        cleanups = [CleanupOut.of(one) for one in recent]
        if timetable is None:
            return cls(cleanups=cleanups, note="no worker has made the schedule yet")
        following = timetable.next[0] if timetable.next and not timetable.paused else None
        return cls(next=following, paused=timetable.paused, note=timetable.note, cleanups=cleanups)


class Refused(BaseModel):
    """A task that did not do what was wished, and why."""

    task_id: str
    why: str


class Bulk(BaseModel):
    """What became of a wish for many tasks. `more`: others fit as well; ask again with the `cursor`."""

    action: str
    dry_run: bool = False
    tasks: list[str] = []
    refused: list[Refused] = []
    more: bool = False
    cursor: str = ""


class QuestionOut(Question):
    """What a task asks, with the address of the picture that goes with it."""

    frame_url: str = ""

    @classmethod
    def of(cls, question: Question, task_id: str) -> Self:
        url = f"/api/tasks/{task_id}/artifacts/{quote(question.frame)}" if question.frame else ""
        return cls(**dict(question), frame_url=url)


class TaskOut(TaskView):
    """A task. `stale`: no worker answered, so this is what it wrote down last."""

    stale: bool = False
    question: QuestionOut | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound

    @classmethod
    def of(cls, reading: Reading) -> Self:
        view = reading.view
        asked = QuestionOut.of(view.question, view.task_id) if view.question else None
        return cls.model_construct(None, **{**dict(view), "question": asked}, stale=reading.stale)


class Submission(BaseModel):
    """The answer to a submission."""

    id: str
    state: TaskState
    position: int = 0
    verdict: bool = True
    """False: the dispatcher did not answer in time; the task is durable and will be queued."""
    why: str = ""
    task: TaskOut | None = None
    """With `?wait=`: the task as it stood at the end, or when the time was over."""


class TaskList(BaseModel):
    tasks: list[TaskView]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")
    count: int | None = Field(default=None, description="with `count=true`; up to two seconds old")


class NumberedEvent(EventView):
    id: str
    """Grows with time, and stays the same when older events are forgotten."""


class Audit(BaseModel):
    """What happened to a task."""

    task_id: str
    state: TaskState
    intent: Intent = Intent.NONE
    events: list[NumberedEvent]
    stale: bool = False


class ArtifactList(BaseModel):
    task_id: str
    artifacts: list[ArtifactView]


class QueueEntry(BaseModel):
    position: int
    task_id: str
    lane: str
    account: str
    type: str
    priority: int
    enqueued_at: datetime
    waited_s: float
    blocked_by: str

    @classmethod
    def of(cls, row: QueueRow) -> Self:
        since = row.enqueued_at_ms
        return cls(
            enqueued_at=_moment(since),
            waited_s=_seconds_since(since),
            **row.model_dump(exclude={"enqueued_at_ms", "waited_s"}),
        )


class RunningEntry(BaseModel):
    task_id: str
    lane: str
    account: str
    type: str
    emulator: str
    host: str
    token: int
    since: datetime
    running_s: float
    place: str

    @classmethod
    def of(cls, row: RunningRow) -> Self:
        since = row.since_ms
        return cls(
            since=_moment(since), running_s=_seconds_since(since), **row.model_dump(exclude={"since_ms", "running_s"})
        )


class QueueOut(BaseModel):
    """A pool's queue."""

    pool: str
    waiting: int
    running: int
    limit: int
    emulators: int
    free: int
    rebuilding: bool
    lanes: list[LaneView]
    queue_info: list[QueueEntry]
    running_info: list[RunningEntry]
    statistics: list[TallyView]
    next_after: int | None = None
    paused_by: str = Field(default="", description="who paused the whole pool, lanes to come included")
    paused_why: str = ""

    @classmethod
    def of(cls, page: QueuePage) -> Self:
        return cls(
            queue_info=[QueueEntry.of(row) for row in page.queue],
            running_info=[RunningEntry.of(row) for row in page.runs],
            lanes=list(page.lanes),
            statistics=list(page.tallies),
            **page.model_dump(exclude={"queue", "runs", "lanes", "tallies"}),
        )


class ParamOut(BaseModel):
    type: str
    required: bool
    default: JsonValue = None
    about: str = ""
    min: float | None = None
    max: float | None = None
    pattern: str | None = None
    format: str | None = None
    choices: list[JsonValue] | None = None


class TaskTypeOut(BaseModel):
    name: str
    about: str = ""
    app: str = ""
    params: dict[str, ParamOut] = Field(default_factory=dict)
    policy: Policy | None = None
    requires: dict[str, str] = Field(default_factory=dict)
    stages: list[str] = Field(default_factory=list)
    problem: str = Field(default="", description="why this type cannot be submitted now")


class TaskTypes(BaseModel):
    task_types: list[TaskTypeOut]


class Health(BaseModel):
    status: str = "ok"


class Readiness(BaseModel):
    """Part by part: an empty text is good."""

    ready: bool
    parts: dict[str, str]


def _seconds_since(ms: int) -> float:
    """By our clock: a workflow's own stands still while nothing happens to it."""
    return round(max(time.time() - ms / 1000, 0.0), 3)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
