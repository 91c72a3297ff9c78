"""Where we may be and how to get about: screens, routes, interrupts, the way out when lost, guards.

A screen is recognised by what is on it. The acts of routes and interrupts are navigation: a flow promises that doing
them once more than needed does no harm, and nobody asks which of them were done, but only where we are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError, WithJsonSchema, model_validator

from droidherd.contracts.screen_map import ScreenMap
from droidherd.contracts.validation import explain
from droidherd.domain.errors import FlowError
from droidherd.flows.model.part import FlowPart
from droidherd.flows.model.scalars import Name, Seconds
from droidherd.flows.model.steps.blocks import Turns
from droidherd.flows.model.steps.registry import Steps
from droidherd.flows.model.targets import ScreenCondition

SCREENS_MAX = 200
ROUTES_MAX = 500
INTERRUPTS_MAX = 50
LOST_MAX = 10
TAPS_MAX = 100

Times: TypeAlias = Annotated[
    int,
    Field(ge=1, le=LOST_MAX),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LOST_MAX}),
]


class Route(FlowPart):
    """How to get from one screen to another."""

    start: Name = Field(alias="from", description="a screen, or any: from wherever we are")
    end: Name = Field(alias="to", description="the screen it leads to")
    do: Steps
    cost: float = Field(default=1.0, gt=0, le=1000, description="the cheapest way is taken; each route costs 1")
    within: Seconds = Field(default=10.0, gt=0, le=300.0, description="how long its screen may take to appear")


class Interrupt(FlowPart):
    """What may come between at any time, and how it is dismissed."""

    when: ScreenCondition
    do: Steps
    at_most: Turns = Field(default=20, description="so often in one try of a stage; once more is a failure")


class Lost(FlowPart):
    """What is done where no screen is recognised, or no route leads on."""

    do: Steps
    after: Seconds = Field(default=15.0, gt=0, le=300.0, description="for so long an unknown screen is waited out")
    at_most: Times = 2


class Guards(FlowPart):
    """Limits to what a flow may do without getting anywhere."""

    taps: int = Field(default=12, ge=0, le=TAPS_MAX, description="taps on one target, the screen staying; 0: no limit")
    of: int = Field(default=15, ge=1, le=TAPS_MAX, description="among so many taps, the last ones")
    changed: float = Field(default=1.0, ge=0, le=100, description="percent of the screen that make it another one")
    stuck: Seconds | None = Field(
        default=None, gt=0, le=3600.0, description="no step done and no frame changed for so long; default: the host's"
    )

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.taps > self.of:
            raise ValueError(f"{self.taps} taps of the last {self.of} cannot be")
        return self


@dataclass(frozen=True, slots=True)
class ParsedScreenMap:
    """What a flow knows of screens, parsed."""

    screens: Mapping[str, ScreenCondition] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    lost: Lost | None = None
    guards: Guards = field(default_factory=Guards)


class _Whole(BaseModel):
    screens: dict[Name, ScreenCondition]
    routes: tuple[Route, ...]
    interrupts: tuple[Interrupt, ...]
    lost: Lost | None
    guards: Guards


WHOLE = TypeAdapter(_Whole)
NO_SCREENS = ParsedScreenMap()


def whole_of(screen_map: Mapping[str, JsonValue]) -> ParsedScreenMap:
    """Parse it; ValidationError says what is wrong."""
    whole = WHOLE.validate_python(screen_map)
    return ParsedScreenMap(whole.screens, whole.routes, whole.interrupts, whole.lost, whole.guards)


def parse_screen_map(screen_map: ScreenMap | None) -> ParsedScreenMap:
    """As a task's history has it. FlowError when it makes no sense."""
    if screen_map is None:
        return NO_SCREENS
    try:
        return whole_of(screen_map.model_dump())
    except ValidationError as error:
        raise FlowError(explain(error, secret=True), to="the flow's screens") from error
