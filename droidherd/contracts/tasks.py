"""A task as others see it: what is submitted, what can be asked of it, what it answers."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from droidherd.contracts import names
from droidherd.contracts.base import Contract, Id, MaybeId, MaybeTaskId, Moment, Request, TaskId
from droidherd.contracts.changes import Undo
from droidherd.contracts.plan import Effect, PolicyChange
from droidherd.domain import ids
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.lifecycle import Intent, TaskStatus

Label = Annotated[str, StringConstraints(pattern=ids.WORD)]
Text = Annotated[str, StringConstraints(max_length=1000)]


MASK = "***"
_SECRET = re.compile(r"(?i)pass(word|wd|phrase|code)|secret|token|credential|api_?key|private_?key|(^|_)(pin|otp)($|_)")
CHAIN_MAX = 16
"""Tasks that may follow one."""


class Origin(StrEnum):
    """Where a task comes from. It says how urgent it is when nobody says so."""

    PERSON = "person"
    SCHEDULE = "schedule"
    MAINTENANCE = "maintenance"


CHAIN_LABEL = "chain"
BANDS: Mapping[str, int] = {Origin.PERSON: 2, Origin.SCHEDULE: 5, Origin.MAINTENANCE: 8}
"""Priority by origin when nothing is said."""


class ChainLink(Request):
    """What is to follow a task. Account, pool, lane, priority, labels and the rest are those of the task before."""

    type: Id
    params: dict[str, JsonValue] = Field(default_factory=dict)
    policy: PolicyChange | None = None
    on_failure: Literal["keep", "rollback"] = "keep"
    critical: bool = False
    """When it fails, nothing follows."""


class Chain(Request):
    """Where in a chain a task stands. Said by the task before; the first one says it itself."""

    head: TaskId
    """The first task. The others have its id, a dot and their place."""
    place: int = Field(ge=1, le=CHAIN_MAX + 1)
    previous: MaybeTaskId = ""
    """Empty for the first one."""


class TaskSpec(Request):
    """What somebody wants done. The input of a `TaskWorkflow`; only `type` is required."""

    type: Id
    account: MaybeId = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    pool: Id = "default"
    lane: MaybeId = ""
    """Empty: `account` for a task with an account, else `anonymous`."""
    priority: int = Field(default=BANDS[Origin.PERSON], ge=1, le=10)
    """1 is first. Not said: by origin. Only lanes ordered by priority look at it."""
    origin: Origin = Origin.PERSON
    on_busy: OnBusy = OnBusy.REJECT
    """Not said: `queue` for a task with `not_before`, which nobody would be there to hear refused; else `reject`."""
    emulator: MaybeId = ""
    """Only this emulator will do."""
    requires: tuple[Annotated[str, StringConstraints(pattern=ids.REQUIREMENT)], ...] = Field(default=(), max_length=16)
    mutex: tuple[Id, ...] = Field(default=(), max_length=4)
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=16)
    not_before: Moment | None = None
    expires_at: Moment | None = None
    actor: Text = "somebody"
    policy: PolicyChange | None = None
    """Otherwise than the type says, for this task alone."""
    on_failure: Literal["keep", "rollback"] = "keep"
    """Whether what it changed is taken back when it fails."""
    critical: bool = False
    """When it fails, nothing follows."""
    then: tuple[ChainLink, ...] = Field(default=(), max_length=CHAIN_MAX)
    """What follows, one after the other, on the same emulator. Cancelled, rejected or taken back it ends here."""
    chain: Chain | None = None

    @field_validator("labels")
    @classmethod
    def _are_no_chain(cls, labels: dict[str, str]) -> dict[str, str]:
        if CHAIN_LABEL in labels:
            raise ValueError(f"must not hold {CHAIN_LABEL!r}: by that name the tasks of a chain are listed")
        return labels

    def tags(self, task_id: str) -> list[str]:
        """What lists find it by: its labels, and the chain it belongs to."""
        chain = self.place(task_id)
        tags = [names.tag(name, value) for name, value in sorted(self.labels.items())]
        return [*tags, names.tag(CHAIN_LABEL, chain.head)] if chain else tags

    def summary(self) -> str:
        """What was submitted, in one line, without secrets."""
        account = f" for account {self.account}" if self.account else ""
        params = json.dumps(shown_params(self.params), ensure_ascii=False) if self.params else ""
        return f"{self.type}{account}{' with ' if params else ''}{params}"

    def shown(self) -> Self:
        """The same as people may see it."""
        links = tuple(one.model_copy(update={"params": shown_params(one.params)}) for one in self.then)
        return self.model_copy(update={"params": shown_params(self.params), "then": links})

    def details(self) -> str:
        """Who submitted it with which deadlines and labels, for the Web UI; without parameters."""
        facts = {
            "submitted by": self.actor,
            "not before": self.not_before,
            "expires at": self.expires_at,
            "only on emulator": self.emulator,
            "requires": ", ".join(self.requires),
            "labels": ", ".join(f"{name}={value}" for name, value in self.labels.items()),
        }
        return "\n".join(f"- {name} {value}" for name, value in facts.items() if value)

    def place(self, task_id: str) -> Chain | None:
        """Where in its chain this task stands; None: it is alone."""
        if self.chain is None and self.then and ids.is_task_id(task_id):
            return Chain(head=task_id, place=1)
        return self.chain

    def chain_problem(self, task_id: str) -> str:
        """Why the tasks that follow cannot be named after the first; an empty text when they can."""
        chain = self.place(task_id)
        if chain is None or not self.then:
            return ""
        most = ids.ID_MAX - len(f".{chain.place + len(self.then)}")
        if len(chain.head) <= most:
            return ""
        return f"must have at most {most} characters when {len(self.then)} tasks follow, since these are named after it"

    @model_validator(mode="before")
    @classmethod
    def _by_origin(cls, given: Any) -> Any:
        """The priority of its origin, for a task of which nobody said one; and that one for later waits its turn."""
        if not isinstance(given, Mapping):
            return given
        if given.get("not_before") is not None and given.get("on_busy") is None:
            given = {**given, "on_busy": OnBusy.QUEUE}
        if given.get("priority") is not None:
            return given
        origin = given.get("origin")
        band = BANDS.get(origin) if isinstance(origin, str) else None
        fields = {name: value for name, value in given.items() if name != "priority"}
        return fields if band is None else {**fields, "priority": band}


def without_secrets(value: JsonValue) -> JsonValue:
    """The same with the values masked whose names say that nobody may read them, whatever a submitter put there."""
    if isinstance(value, dict):
        return {name: MASK if _SECRET.search(name) else without_secrets(one) for name, one in value.items()}
    return [without_secrets(one) for one in value] if isinstance(value, list) else value


def shown_params(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The parameters of a task as people may see them."""
    return {name: MASK if _SECRET.search(name) else without_secrets(one) for name, one in params.items()}


def with_secrets_of(known: JsonValue, value: JsonValue) -> JsonValue:
    """A value that was shown masked, and came back so, stands for the one that is known."""
    if value == MASK:
        return known
    if isinstance(value, dict) and isinstance(known, dict):
        return {
            name: with_secrets_of(known[name], one) if name in known and (one != MASK or _SECRET.search(name)) else one
            for name, one in value.items()
        }
    if isinstance(value, list) and isinstance(known, list) and len(value) == len(known):
        return [with_secrets_of(before, one) if one != MASK else one for before, one in zip(known, value, strict=True)]
    return value


def secret_texts(value: JsonValue) -> Iterator[str]:
    """The texts below the names that `without_secrets` masks, so that they can be masked wherever they turn up."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one) if _SECRET.search(name) else secret_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from secret_texts(one)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


class OperatorRequest(Request):
    """Who wants something, and why: these two fields stand at the top of every message that a person may send.

    Alone, the argument of the signals `pause`, `resume`, `cancel` and `force_cancel` of a task.
    """

    actor: Text = "somebody"
    reason: Text = ""

    @property
    def ask(self) -> "OperatorRequest":
        """Who and why, without the rest of the message."""
        return OperatorRequest(actor=self.actor, reason=self.reason)


class RollbackRequest(OperatorRequest):
    """Argument of the signal `rollback`."""

    force: bool = False
    """Restore also what somebody else changed since, and go on without emulators that are gone."""


class Question(Contract):
    """What a task asks a person."""

    number: int = 0
    """Of the questions that this task has asked, from 1. An answer that names another one is refused."""
    text: str
    step: str
    mark: str = ""
    """Under which the answer is kept; empty: the step."""
    choices: tuple[str, ...]
    within_s: float = 3_600.0
    keep: bool = True
    """Whether it keeps its emulator, as it is, until somebody answers. If it loses it, the question is withdrawn."""
    frame: str = ""
    """The artifact that shows what it saw."""
    until: datetime | None = None


class Answer(OperatorRequest):
    """Argument of the signal `answer`."""

    choice: Text
    question: int = 0
    """The number of the question that it answers; 0: whichever is open."""


class Rollback(RollbackRequest):
    """That a task is taken back, and how far that came."""

    begun: bool = False
    skipped: tuple[str, ...] = ()
    """Emulators that are gone: what was changed there stays as it is."""


class Rerun(RollbackRequest):
    """A new run of a task that ended, under the same id: tried again, or taken back."""

    past: "TaskView"
    """The task as it ended, its audit with it."""
    closes: bool = False
    """It does nothing but write down how the run before ended, which was terminated and could not."""
    action: Literal["retry", "rollback"] = "retry"

    @property
    def rollback(self) -> Rollback | None:
        """None: it is tried again."""
        if self.action == "retry":
            return None
        return Rollback(actor=self.actor, reason=self.reason, force=self.force)


class TaskInput(Request):
    """What a client starts a task with."""

    spec: TaskSpec
    again: Rerun | None = None


class Control(OperatorRequest):
    """The argument of the update `control`: like the signals, with an answer."""

    action: Literal["pause", "resume", "cancel", "rollback", "answer"]
    force: bool = False
    """Of a cancel: do not wait for what runs nor for its cleanup. Of a rollback: restore also what others changed."""
    choice: Text = ""
    """Of an answer: one of those that the task offered."""
    question: int = 0
    """Of an answer: the number of the question; 0: whichever is open."""


class Admission(Contract):
    """What became of a submission. The answer of the update `admission`."""

    task_id: str
    state: TaskStatus
    position: int = 0
    reason: str = ""
    holder: str = ""
    """The task that holds the place this one wanted."""


class Failure(Contract):
    """What went wrong, to what, and what to do next."""

    kind: str
    verdict: str
    message: str
    remedy: str = ""
    retry_after_s: float = 0.0
    """How long a server asked to be left alone; 0: none did."""


class ArtifactView(Contract):
    name: str
    size: int = 0
    content_type: str = "application/octet-stream"


class AttemptView(Contract):
    """One try of a task on one emulator. A task that lost its emulator has several with the same `n`."""

    n: int
    run: str = ""
    """The run of the task it belongs to: a task that was tried again has several."""
    flow_hash: str = ""
    """Of the flow it followed, with its images and the flows it uses."""
    emulator: str = ""
    host: str = ""
    worker: str = ""
    token: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    outcome: str = ""
    """completed, failed, lost, paused, cancelled, terminated, timed_out; empty while it runs."""
    error: Failure | None = None
    artifacts: tuple[ArtifactView, ...] = ()


class StageView(Contract):
    name: str
    state: Literal["waiting", "running", "completed", "failed"] = "waiting"
    """failed: it was begun, and the task failed before it completed."""
    emulator: str = ""
    """Where it completed."""
    effect: Effect = Effect.EMULATOR
    wrote_under: int = 0
    """It acted in the account, or may have, and did not complete: the token of the lease under which it did so last."""


class EventView(Contract):
    """One line of a task's audit."""

    at: datetime
    before: str
    event: str
    after: str
    actor: str
    reason: str = ""


class TaskView(Contract):
    """A task, whole. The answer of the query `view`; without its events, the memo `task`."""

    task_id: str
    run_id: str = ""
    type: str
    account: str = ""
    pool: str = ""
    lane: str = ""
    priority: int = 5
    """As it stands in line: a person may have made it more urgent."""
    prioritized: int = 0
    """Above 0: a person put it in front of all who are no more urgent. The greater one goes first."""
    labels: dict[str, str] = Field(default_factory=dict)
    params: dict[str, JsonValue] = Field(default_factory=dict)
    state: TaskStatus
    intent: Intent = Intent.NONE
    attempt: int = 1
    """The present one, or the last. 0: it was rejected, and never attempted."""
    attempts: tuple[AttemptView, ...] = ()
    stages: tuple[StageView, ...] = ()
    emulator: str = ""
    position: int = 0
    why: str = ""
    """Why it waits, in one sentence. Of a cancelled task: who cancelled it, and why."""
    question: Question | None = None
    """What it asks, while it waits for a person."""
    questions: int = 0
    """How many it has asked."""
    error: Failure | None = None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    not_before: datetime | None = None
    retry_at: datetime | None = None
    """When its next attempt begins, while it is `retry_pending`."""
    expires_at: datetime | None = None
    flow: str = ""
    flow_hash: str = ""
    rounds: int = 0
    """How often it completed and wanted to run again."""
    undo: tuple[Undo, ...] = ()
    """What it changed by value, and what it takes to take that back; oldest first."""
    chain: Chain | None = None
    """Its place, when it follows another task or another one follows it."""
    following: str = ""
    """The task that followed it."""
    chain_ends: str = ""
    """Why nothing follows although something was to."""
    events: tuple[EventView, ...] = ()
