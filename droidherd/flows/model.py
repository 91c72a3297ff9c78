"""The language of flows. Strict: a key that is not known is an error, since it is a typo more often than not.

A step is a mapping with a single key that says what it does: `tap: {image: gift.png, within: 5s}`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from droidherd.flows.change import CHANGE_KINDS, DeleteStep, InstallStep, PutStep, SetStep, UninstallStep
from droidherd.flows.course import Again, Ask, Choice, Fail
from droidherd.flows.part import Part
from droidherd.flows.scalars import Name, Seconds

IMAGE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_@.-]*(/[A-Za-z0-9_][A-Za-z0-9_@.-]*)*\.png$"
APP_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+(/[A-Za-z0-9_.$]+)?$"
KEY_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
TURNS_MAX = 1_000
STEPS_MAX = 200
WAIT_MAX_S = 3_600.0

Image: TypeAlias = Annotated[str, StringConstraints(pattern=IMAGE_PATTERN, max_length=120)]
App: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=APP_PATTERN, max_length=200),
    WithJsonSchema({"type": "string", "pattern": rf"({APP_PATTERN})|\$\{{", "maxLength": 200}),
]
_PLACEHOLDER: dict[str, Any] = {"type": "string", "pattern": r"^\$\{[a-z][a-z0-9_]*\}$"}
Percent: TypeAlias = Annotated[
    float,
    Field(ge=0, le=100),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 100}, _PLACEHOLDER]}),
]
Turns: TypeAlias = Annotated[
    int,
    Field(ge=1, le=TURNS_MAX),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": TURNS_MAX}, _PLACEHOLDER]}),
]
Place: TypeAlias = tuple[Percent, Percent]
Area: TypeAlias = tuple[Percent, Percent, Percent, Percent]
Threshold: TypeAlias = Annotated[float, Field(ge=0.5, le=1)]


def _one_of(part: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {' and '.join(names)} is needed, not {len(given)}")


class Sight(Part):
    """Something on the screen: an image that is there, or one that is gone."""

    image: Image | None = Field(default=None, description="this image is on the screen")
    gone: Image | None = Field(default=None, description="this image is not on the screen")
    screen: Name | None = Field(default=None, description="we are on this screen of the flow")
    threshold: Threshold = Field(default=0.9, description="how alike is alike enough, 0.5 to 1")
    area: Area | None = Field(default=None, description="left, top, right, bottom of the search, in percent")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        _one_of(self, "image", "gone", "screen")
        given = self.model_fields_set & {"threshold", "area"}
        if self.screen is not None and given:
            raise ValueError(f"{', '.join(sorted(given))} belongs to the screen itself, under screens")
        return _area_judged(self)


def _area_judged(part: Any) -> Any:
    area: Area | None = part.area
    if area is not None and (area[0] >= area[2] or area[1] >= area[3]):
        raise ValueError("an area is [left, top, right, bottom] with left < right and top < bottom, in percent")
    return part


class Then(Sight):
    """The post-condition of an act."""

    within: Seconds = Field(gt=0, le=WAIT_MAX_S, description="how long it may take")


class Check(Sight):
    """A condition that is looked at, not waited for, unless it says `within`."""

    within: Seconds = Field(default=0.0, ge=0, le=60.0)


class Act(Part):
    then: Then | None = Field(default=None, description="what the act brings about; without it nothing is checked")


class StartApp(Act):
    """Bring an app to the front."""

    app: App | None = Field(default=None, description="package, or package/activity; default: the flow's app")


class StopApp(Act):
    """Force-stop an app."""

    app: App | None = None


class Tap(Act):
    """Tap an image when it appears, or a place in percent of the screen."""

    image: Image | None = None
    percent: Place | None = Field(default=None, description="[across, down] in percent of the screen")
    within: Seconds = Field(default=10.0, gt=0, le=WAIT_MAX_S, description="how long to wait for the image")
    threshold: Threshold = 0.9
    area: Area | None = None

    @model_validator(mode="after")
    def _judge(self) -> Self:
        _one_of(self, "image", "percent")
        given = self.model_fields_set & {"within", "threshold", "area"}
        if self.percent is not None and given:
            raise ValueError(f"{', '.join(sorted(given))} goes with an image, not with percent")
        return _area_judged(self)


class Secret(Part):
    """A credential of the account the task acts for, by its name. The text itself stands nowhere."""

    secret: Name


class TypeText(Act):
    """Type text into what has the focus."""

    text: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=1000), Tag("text")]
        | Annotated[Secret, Tag("secret")],
        Discriminator(lambda text: "secret" if isinstance(text, Mapping | Secret) else "text"),
    ]


class Swipe(Act):
    """Drag a finger from one place to another."""

    start: Place = Field(alias="from", description="[across, down] in percent of the screen")
    end: Place = Field(alias="to")
    takes: Seconds = Field(default=0.3, gt=0, le=10.0)


class Key(Act):
    """Press a key, by its Android name without KEYCODE_: home, back, enter, ..."""

    name: Annotated[str, StringConstraints(pattern=KEY_PATTERN)]


class Wait(Sight):
    """Wait until an image is there, or gone."""

    within: Seconds = Field(gt=0, le=WAIT_MAX_S)


class Shot(Part):
    """Keep a picture of the screen as an artifact."""

    name: Name


class Pause(Part):
    """Do nothing for a while. Prefer `wait`: it knows when to go on."""

    time: Seconds = Field(alias="for", gt=0, le=300.0)


class ClearApp(Act):
    """Take an app's data away, as if it was installed just now. No rollback brings it back."""

    app: App | None = None


class Handle(Part):
    """Call a handler: a body in Python, for what flows cannot say."""

    by: Name = Field(description="its name")
    params: dict[Name, JsonValue] = Field(default_factory=dict, alias="with", max_length=50)
    undo: bool = Field(default=False, description="take it back; written by the plan")


class OptionalBlock(Part):
    """Steps that may fail to find their image: the rest of the block is left out then, and the flow goes on."""

    do: "Steps"


class Repeat(Part):
    """Steps done again and again, at most so many times."""

    at_most: Turns
    while_: Check | None = Field(default=None, alias="while", description="go on while this holds")
    until: Check | None = Field(default=None, description="stop when this holds; a failure if it never does")
    do: "Steps"

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.while_ is not None and self.until is not None:
            raise ValueError("while and until do not go together")
        return self


class When(Part):
    """Steps for some values of a variable, and others for all the rest."""

    var: Name = Field(description="the variable, as an ask before names it with into")
    is_: Annotated[
        tuple[Choice, ...],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    ] = Field(alias="is", description="one value, or a list of them")
    do: "Steps"
    else_: "Steps | None" = Field(default=None, alias="else", description="what is done for every other value")


class Use(Part):
    """The steps of another flow, in the place of this one."""

    flow: Name = Field(description="its name")
    params: dict[Name, JsonValue] = Field(default_factory=dict, alias="with", max_length=50)
    do: "Steps | None" = Field(default=None, description="its steps; written by the plan")


class StartAppStep(Part):
    start_app: StartApp


class StopAppStep(Part):
    stop_app: StopApp


class ClearAppStep(Part):
    clear_app: ClearApp


class HandleStep(Part):
    handle: Handle


class TapStep(Part):
    tap: Tap


class TypeStep(Part):
    type: TypeText


class SwipeStep(Part):
    swipe: Swipe


class KeyStep(Part):
    key: Key


class WaitStep(Part):
    wait: Wait


class FrameStep(Part):
    frame: Shot


class PauseStep(Part):
    pause: Pause


class OptionalStep(Part):
    optional: OptionalBlock


class RepeatStep(Part):
    repeat: Repeat


class AskStep(Part):
    ask: Ask


class WhenStep(Part):
    when: When


class AgainStep(Part):
    again: Again


class FailStep(Part):
    fail: Fail


class GotoStep(Part):
    goto: Name = Field(description="a screen of the flow, reached by the shortest route")


class UseStep(Part):
    use: Use


STEP_KINDS = (
    "start_app", "stop_app", "clear_app", "tap", "type", "swipe", "key", "wait", "frame", "pause", "optional", "repeat",
    "ask", "when", "again", "fail", *CHANGE_KINDS, "handle", "goto", "use",
)  # fmt: skip


def kind_of(step: object) -> str | None:
    """The single key of a step."""
    if isinstance(step, Mapping):
        keys = [str(key) for key in step]
        return keys[0] if len(keys) == 1 and keys[0] in STEP_KINDS else None
    fields = type(step).model_fields if isinstance(step, Part) else {}
    return next(iter(fields), None)


Step: TypeAlias = Annotated[
    Annotated[StartAppStep, Tag("start_app")]
    | Annotated[StopAppStep, Tag("stop_app")]
    | Annotated[ClearAppStep, Tag("clear_app")]
    | Annotated[TapStep, Tag("tap")]
    | Annotated[TypeStep, Tag("type")]
    | Annotated[SwipeStep, Tag("swipe")]
    | Annotated[KeyStep, Tag("key")]
    | Annotated[WaitStep, Tag("wait")]
    | Annotated[FrameStep, Tag("frame")]
    | Annotated[PauseStep, Tag("pause")]
    | Annotated[SetStep, Tag("set")]
    | Annotated[PutStep, Tag("put")]
    | Annotated[DeleteStep, Tag("delete")]
    | Annotated[InstallStep, Tag("install")]
    | Annotated[UninstallStep, Tag("uninstall")]
    | Annotated[HandleStep, Tag("handle")]
    | Annotated[OptionalStep, Tag("optional")]
    | Annotated[RepeatStep, Tag("repeat")]
    | Annotated[AskStep, Tag("ask")]
    | Annotated[WhenStep, Tag("when")]
    | Annotated[AgainStep, Tag("again")]
    | Annotated[FailStep, Tag("fail")]
    | Annotated[GotoStep, Tag("goto")]
    | Annotated[UseStep, Tag("use")],
    Discriminator(kind_of),
]
Steps: TypeAlias = Annotated[tuple[Step, ...], Field(min_length=1, max_length=STEPS_MAX)]


STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])
"""Parses the steps of a plan."""
