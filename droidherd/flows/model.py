"""The language of flows. Strict: a key that is not known is an error, since it is a typo more often than not.

A step is a mapping with a single key that says what it does: `tap: {image: gift.png, within: 5s}`.
"""

import unicodedata
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import (
    AfterValidator,
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

from droidherd.domain.things import PACKAGE
from droidherd.flows.change import CHANGE_KINDS, DeleteStep, InstallStep, PutStep, SetStep, UninstallStep
from droidherd.flows.course import Again, Ask, Choice, Fail
from droidherd.flows.part import Part
from droidherd.flows.reading import Read
from droidherd.flows.scalars import Name, Seconds
from droidherd.flows.targets import (
    PLACEHOLDER,
    WAIT_MAX_S,
    Aim,
    Check,
    Offset,
    Pattern,
    Place,
    Then,
    Wait,
    bounded,
    has_place,
    one_of,
)

APP_PATTERN = rf"^{PACKAGE}(/[A-Za-z0-9_.$]+)?$"
KEY_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
TURNS_MAX = 1_000
STEPS_MAX = 200

App: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=APP_PATTERN, max_length=200),
    WithJsonSchema({"type": "string", "pattern": rf"({APP_PATTERN})|\$\{{", "maxLength": 200}),
]
Turns: TypeAlias = Annotated[
    int,
    Field(ge=1, le=TURNS_MAX),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": TURNS_MAX}, PLACEHOLDER]}),
]


class Act(Part):
    then: Then | None = Field(default=None, description="what the act brings about; without it nothing is checked")


class StartApp(Act):
    """Bring an app to the front."""

    app: App | None = Field(default=None, description="package, or package/activity; default: the flow's app")


class StopApp(Act):
    """Force-stop an app."""

    app: App | None = None


class Tap(Act, Aim):
    """Tap what is found when it appears, or a place in percent of the screen."""

    percent: Place | None = Field(default=None, description="[across, down] in percent of the screen")
    within: Seconds = Field(default=10.0, gt=0, le=WAIT_MAX_S, description="how long to wait for it")
    offset: tuple[Offset, Offset] | None = Field(
        default=None, description="[across, down] from the centre, in percent of the size of what is found"
    )
    hold: Seconds | None = Field(default=None, gt=0, le=10.0, description="keep the finger down for so long")

    KINDS: ClassVar[tuple[str, ...]] = (*Aim.KINDS, "percent")

    @model_validator(mode="after")
    def _judge_tap(self) -> Self:
        given = sorted(self.model_fields_set & {"within", "offset"})
        if self.percent is not None and given:
            raise ValueError(f"{', '.join(given)} goes with something to look for, not with percent")
        if self.percent is None and not has_place(self):
            raise ValueError("there is nothing to tap: something has to be there")
        return bounded(self)


class Secret(Part):
    """A credential of the account the task acts for, by its name. The text itself stands nowhere."""

    secret: Name


def _typeable(text: str) -> str:
    wrong = next((one for one in text if unicodedata.category(one) in {"Cc", "Cs", "Zl", "Zp"}), "")
    if wrong:
        raise ValueError(f"the character U+{ord(wrong):04X} cannot be typed: use a key step for Enter and Tab")
    return text


class TypeText(Act):
    """Type text into what has the focus."""

    text: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_typeable), Tag("text")]
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


Number: TypeAlias = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, PLACEHOLDER]})]


class When(Part):
    """Steps for some values of a variable, or for what is to be seen, and others for all the rest."""

    var: Name | None = Field(default=None, description="the variable, as an ask or a read before names it with into")
    sees: Check | None = Field(default=None, description="this is to be seen on the screen")
    is_: (
        Annotated[
            tuple[Choice, ...],
            BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
            Field(min_length=1),
            WithJsonSchema(
                {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
            ),
        ]
        | None
    ) = Field(default=None, alias="is", description="one value, or a list of them")
    at_least: Number | None = Field(default=None, description="it is a number, and no less than this")
    below: Number | None = Field(default=None, description="it is a number, and less than this")
    matches: Pattern | None = Field(default=None, description="found in the value")
    do: "Steps"
    else_: "Steps | None" = Field(default=None, alias="else", description="what is done for every other value")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        one_of(self, "var", "sees")
        said = [value for value in (self.is_, self.at_least, self.below, self.matches) if value is not None]
        if self.sees is not None and said:
            raise ValueError("is, at_least, below and matches go with var, not with sees")
        if self.var is not None and not said:
            raise ValueError("says nothing of the variable: add is, at_least, below or matches")
        return self


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


class ReadStep(Part):
    read: Read


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
    "ask", "read", "when", "again", "fail", *CHANGE_KINDS, "handle", "goto", "use",
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
    | Annotated[ReadStep, Tag("read")]
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
