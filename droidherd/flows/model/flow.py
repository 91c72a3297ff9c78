"""A task type as data: its stages, what it knows of its app's screens, how it is repeated."""

from typing import Annotated, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from droidherd.contracts.plan import Backoff, Effect, OnAmbiguous, RetryOn
from droidherd.domain.task.reaction import backoff_problem
from droidherd.flows.model.params import Param
from droidherd.flows.model.part import FlowPart
from droidherd.flows.model.scalars import Name, Seconds
from droidherd.flows.model.screens import INTERRUPTS_MAX, ROUTES_MAX, SCREENS_MAX, Guards, Interrupt, Lost, Route
from droidherd.flows.model.steps.apps import App
from droidherd.flows.model.steps.registry import FewSteps, Steps
from droidherd.flows.model.targets import ScreenCondition

LIMIT_MAX_S = 86_400.0


class FlowStage(FlowPart):
    """The durable unit of a flow."""

    stage: Name
    at: Name | None = Field(default=None, description="the screen it begins on, reached by the shortest route")
    limit: Seconds | None = Field(default=None, gt=0, le=LIMIT_MAX_S, description="default: the flow's time limit")
    effect: Effect = Field(
        default=Effect.EMULATOR,
        description="where its effect is: emulator (repeated after a move), or account (never repeated)",
    )
    on_ambiguous: OnAmbiguous = Field(
        default=OnAmbiguous.ASK, description="when nobody can tell whether an act happened"
    )
    steps: Steps
    undo: Annotated[FewSteps, Field(description="takes back what values cannot")] = ()


class FlowPolicy(FlowPart):
    """How long an attempt may take and how often it is repeated."""

    time_limit: Seconds = Field(default=300.0, gt=0, le=LIMIT_MAX_S)
    retries: int = Field(default=0, ge=0, le=20)
    retry_on: RetryOn = Field(default=RetryOn.ANY, description="timeout: only when time ran out")
    backoff: Backoff = Backoff.FIXED
    backoff_s: Seconds = Field(default=10.0, ge=0, le=3600.0, description="before the first retry")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if problem := backoff_problem(self.backoff, self.backoff_s):
            raise ValueError(f"backoff_s: {problem}")
        return self


SIZE_PATTERN = r"^[1-9]\d{1,4}x[1-9]\d{1,4}$"
Label: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class Flow(FlowPart):
    """A task type as data."""

    flow: Name = Field(description="the name of the flow and of its folder")
    about: str = Field(default="", max_length=500, description="one sentence for people")
    app: App | None = None
    recorded: Annotated[str, StringConstraints(pattern=SIZE_PATTERN)] | None = Field(
        default=None, description="the size of the screen the images were cut from, as in 1280x720"
    )
    params: dict[Name, Param] = Field(default_factory=dict, max_length=50)
    requires: dict[Label, Label] = Field(default_factory=dict, description="labels an emulator must carry")
    policy: FlowPolicy = FlowPolicy()
    screens: Annotated[dict[Name, ScreenCondition], Field(max_length=SCREENS_MAX)] = Field(
        default_factory=dict, description="where we may be, each with how it is recognised"
    )
    routes: Annotated[tuple[Route, ...], Field(max_length=ROUTES_MAX)] = ()
    interrupts: Annotated[tuple[Interrupt, ...], Field(max_length=INTERRUPTS_MAX)] = ()
    lost: Lost | None = Field(default=None, description="what is done on an unknown screen; default: restart the app")
    guards: Guards = Guards()
    stages: Annotated[tuple[FlowStage, ...], Field(min_length=1, max_length=50)]
    cleanup: FewSteps = ()

    def screen(self) -> tuple[int, int] | None:
        """The size of the screen the images were cut from."""
        if self.recorded is None:
            return None
        width, height = self.recorded.split("x")
        return int(width), int(height)
