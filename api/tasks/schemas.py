"""Tasks and task types over HTTP: request bodies, and answers where they differ from the contracts."""

from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from api.bodies import SOMEBODY, ActionRequest, Line
from droidherd.contracts.base import Id
from droidherd.contracts.plan import Policy, PolicyChange
from droidherd.contracts.tasks import ArtifactView, EventView, Question, TaskSpec, TaskView
from droidherd.domain.dispatch.keys import why_reserved
from droidherd.domain.task.lifecycle import Intent, TaskStatus
from droidherd.engine.tasks import TaskReading
from droidherd.flows.model.params import Param

EXAMPLE: JsonValue = {
    "type": "daily_reward",
    "account": "player-42",
    "params": {"tab": "gift"},
    "on_busy": "queue",
    "labels": {"team": "ops"},
}


def _check_mutex(mutex: str) -> str:
    if why := why_reserved(mutex):
        raise ValueError(why)
    return mutex


Mutex = Annotated[Id, AfterValidator(_check_mutex)]

# --- request bodies -----------------------------------------------------------------------------------------------


class PolicyRequest(PolicyChange):
    """Changes to the policy of the task type, for this task alone."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SubmitRequest(TaskSpec):
    """The body of a submission.

    Unlike contracts between programs it refuses unknown fields: a misspelt one must not be ignored.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [EXAMPLE]}
    )

    id: Id | None = Field(default=None, description="your id for the task; empty: one is made")
    mutex: tuple[Mutex, ...] = Field(default=(), max_length=4)
    actor: Line = SOMEBODY
    policy: PolicyRequest | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound


class CancelRequest(ActionRequest):
    """The body of cancel. It may be left out."""

    force: bool = Field(default=False, description="do not wait for what runs, nor for its cleanup")


class RollbackActionRequest(ActionRequest):
    """The body of rollback. It may be left out."""

    force: bool = Field(default=False, description="restore also what others changed since")


class AnswerRequest(ActionRequest):
    """The body of an answer to the question of a task."""

    choice: Line
    question: int = Field(default=0, ge=0, le=1_000_000_000, description="its `number`; 0: the one that is open")


class PriorityRequest(ActionRequest):
    """The body of prioritize. It may be left out."""

    priority: int = Field(default=1, ge=1, le=10, description="1 is the most urgent; never makes it less urgent")


# --- answers ------------------------------------------------------------------------------------------------------


class RefusedTask(BaseModel):
    """A task that refused an action, and why."""

    task_id: str
    why: str


class BulkOut(BaseModel):
    """What became of an action on many tasks. `more`: others match as well; ask again with the `cursor`."""

    action: str
    dry_run: bool = False
    tasks: list[str] = []
    refused: list[RefusedTask] = []
    more: bool = False
    cursor: str = ""


class QuestionOut(Question):
    """What a task asks, with the address of the frame that goes with it."""

    frame_url: str = ""

    @classmethod
    def of(cls, question: Question, task_id: str) -> Self:
        url = f"/api/tasks/{task_id}/artifacts/{quote(question.frame)}" if question.frame else ""
        return cls(**dict(question), frame_url=url)


class TaskRow(TaskView):
    """A task in a list."""

    id: str = ""

    @classmethod
    def row(cls, view: TaskView) -> Self:
        return cls.model_construct(None, **{**dict(view), "id": view.task_id})


class TaskOut(TaskRow):
    """A task. `stale`: no worker answered, so this is what it wrote down last."""

    stale: bool = False
    question: QuestionOut | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound

    @classmethod
    def of(cls, reading: TaskReading) -> Self:
        view = reading.view
        question = QuestionOut.of(view.question, view.task_id) if view.question else None
        return cls.model_construct(
            None, **{**dict(view), "id": view.task_id, "question": question}, stale=reading.stale
        )


class SubmissionOut(BaseModel):
    """The answer to a submission."""

    id: str
    state: TaskStatus
    position: int = 0
    admission: Literal["accepted", "pending"] = Field(
        default="accepted",
        description="pending: the dispatcher did not answer in time; the task is durable and will be queued",
    )
    why: str = ""
    task: TaskOut | None = Field(default=None, description="with `?wait=`: the task at its end, or when time was over")

    def with_task(self, task: TaskOut) -> Self:
        """The same answer some time later: it says of the task what the task says of itself."""
        return self.model_copy(update={"task": task, "state": task.state, "position": task.position, "why": task.why})


class TaskList(BaseModel):
    tasks: list[TaskRow]
    cursor: str = Field(default="", description="for the next page; empty: this was the last")
    count: int | None = Field(default=None, description="with `count=true`; up to two seconds old")


class NumberedEvent(EventView):
    id: str
    """Grows with time, and stays the same when older events are forgotten."""


class TaskEvents(BaseModel):
    """What happened to a task."""

    id: str
    task_id: str
    state: TaskStatus
    intent: Intent = Intent.NONE
    events: list[NumberedEvent]
    stale: bool = False

    @classmethod
    def of(cls, reading: TaskReading, after: str = "") -> Self:
        """The events behind the one with the id `after`."""
        view = reading.view
        events: list[NumberedEvent] = []
        moment, same = 0, 0
        for event in view.events:
            before, moment = moment, int(event.at.timestamp() * 1_000_000)
            same = same + 1 if moment == before else 0
            events.append(NumberedEvent.model_construct(None, id=f"{moment:016d}-{same:03d}", **dict(event)))
        news = [event for event in events if event.id > after]
        return cls.model_construct(
            id=view.task_id,
            task_id=view.task_id,
            state=view.state,
            intent=view.intent,
            events=news,
            stale=reading.stale,
        )


class ArtifactList(BaseModel):
    id: str
    task_id: str
    artifacts: list[ArtifactView]


# --- task types ---------------------------------------------------------------------------------------------------


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

    @classmethod
    def of(cls, param: Param) -> Self:
        return cls(
            type=param.type,
            required=param.default is None,
            default=param.default,
            about=param.about,
            min=param.min,
            max=param.max,
            pattern=param.pattern,
            format=param.format,
            choices=list(param.choices) if param.choices else None,
        )


class TaskTypeOut(BaseModel):
    name: str
    about: str = ""
    app: str = ""
    params: dict[str, ParamOut] = Field(default_factory=dict)
    needs_account: bool = Field(default=False, description="a submission has to name the account it acts for")
    policy: Policy | None = None
    requires: dict[str, str] = Field(default_factory=dict)
    stages: list[str] = Field(default_factory=list)
    problem: str = Field(default="", description="why this type cannot be submitted now")


class TaskTypes(BaseModel):
    task_types: list[TaskTypeOut]
