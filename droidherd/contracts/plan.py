"""What a task is going to do: its flow, resolved once and kept in the task's history."""

from enum import StrEnum

from pydantic import Field, JsonValue

from droidherd.contracts.base import Contract, Request
from droidherd.contracts.changes import Change
from droidherd.contracts.screen_map import ScreenMap


class Effect(StrEnum):
    """Where the effect of a stage is, and so whether it is repeated after a move to another emulator."""

    ACCOUNT = "account"
    EMULATOR = "emulator"


class OnAmbiguous(StrEnum):
    """What to do when it cannot be observed whether an effect happened."""

    ASK = "ask"
    FAIL = "fail"
    REPEAT = "repeat"


class Backoff(StrEnum):
    FIXED = "fixed"
    EXPONENTIAL = "exponential"


class RetryOn(StrEnum):
    """After what an attempt is followed by another one."""

    ANY = "any"
    """Every error that may pass."""
    TIMEOUT = "timeout"
    """Only when time ran out."""


class Policy(Contract):
    """How long an attempt may take and how often it is repeated."""

    time_limit_s: float = Field(default=300.0, gt=0, le=86_400)
    retries: int = Field(default=0, ge=0, le=20)
    retry_on: RetryOn = RetryOn.ANY
    backoff: Backoff = Backoff.FIXED
    backoff_s: float = Field(default=10.0, ge=0, le=3600)

    def with_changes(self, *changes: "PolicyChange | None") -> "Policy":
        """With these changes, one after the other."""
        policy = self
        for change in changes:
            if change is not None:
                policy = policy.model_copy(update=change.model_dump(exclude_none=True))
        return policy


class PolicyChange(Request):
    """What is wanted otherwise than a task type says. What is left out stays."""

    time_limit_s: float | None = Field(default=None, gt=0, le=86_400)
    retries: int | None = Field(default=None, ge=0, le=20)
    retry_on: RetryOn | None = None
    backoff: Backoff | None = None
    backoff_s: float | None = Field(default=None, ge=0, le=3600)


class Stage(Contract):
    """The durable unit of a flow: one activity, resumable, never run again once it completed."""

    name: str
    steps: tuple[JsonValue, ...]
    effect: Effect = Effect.EMULATOR
    on_ambiguous: OnAmbiguous = OnAmbiguous.ASK
    limit_s: float = Field(default=300.0, gt=0)
    changes: tuple[Change, ...] = ()
    """What its steps change by value. Their values are captured before the first of them."""
    undo: tuple[JsonValue, ...] = ()
    """Steps that take back what values cannot."""
    at: str = ""
    """The screen it begins on; empty: wherever it is."""
    files: dict[str, str] = Field(default_factory=dict)
    """The images and files of the flow that an attempt of this stage may need, each with a digest of its content."""

    @property
    def undo_anyway(self) -> tuple[JsonValue, ...]:
        """Those of handlers, which also take back what never completed. A flow itself writes none of them there."""
        return tuple(step for step in self.undo if isinstance(step, dict) and "call" in step)


class Plan(Contract):
    """A task type resolved with its parameters."""

    task_type: str
    flow: str
    flow_hash: str
    """Of what the flow does: the document without what it says about itself, and its images and files."""
    app: str = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    stages: tuple[Stage, ...] = Field(min_length=1)
    cleanup: tuple[JsonValue, ...] = ()
    screen_map: ScreenMap | None = None
    """None: the flow knows no screens."""
    policy: Policy = Policy()
    requires: tuple[str, ...] = ()
    """Labels an emulator must carry, as `name=value`, sorted."""
    emulator: str = ""
    """The one its account was bound to when it was planned. A task that names another itself goes there."""


class TaskTiming(Contract):
    """Times a task's workflow needs, taken from the settings of the worker that planned it."""

    heartbeat_timeout_s: float = 15.0
    lease_ttl_s: float = 8.0
    cleanup_s: float = 30.0
    lease_margin_s: float = 30.0
    start_grace_s: float = 5.0
    moves: int = 10
    """How often a task may lose its emulator before it fails."""
    home_wait_s: float = 300.0
    """So long a task waits for the emulator on which its stages completed, while that lives."""
    startup_lead_s: float = 0.0
    """So long before its time a task says that it will need an emulator; 0: it does not."""
