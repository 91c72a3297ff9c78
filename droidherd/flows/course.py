"""Steps that touch no emulator, but the course of the task: ask a person, run again later, fail."""

from typing import Annotated, Self, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from droidherd.flows.duration import format_duration
from droidherd.flows.part import Part
from droidherd.flows.scalars import Name, Seconds

KEPT_MAX_S = 43_200.0
"""Nobody else has the emulator meanwhile, and no lease is extended beyond a day."""
ASKED_MAX_S = 604_800.0
AGAIN_MAX_S = 2_592_000.0
ROUNDS_MAX = 10_000
CHOICES_MAX = 10
TIME_PATTERN = r"^([01]\d|2[0-3]):[0-5]\d$"
CHOICE_PATTERN = r"^[^\s\x00-\x1f]([^\x00-\x1f]{0,98}[^\s\x00-\x1f])?$"

Choice: TypeAlias = Annotated[str, StringConstraints(pattern=CHOICE_PATTERN)]
Sentence: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=300)]


def _time(value: object) -> object:
    """What YAML takes `14:05` for without quotes is a number to the base of sixty."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError('a time of day stands in quotes, as in at: "14:05"')  # noqa: TRY004 -- pydantic reports it
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value[:60]!r} is not a time zone: write one as in Europe/Berlin, or UTC") from error
    return value


TimeOfDay: TypeAlias = Annotated[
    str,
    BeforeValidator(_time),
    StringConstraints(pattern=TIME_PATTERN),
    WithJsonSchema({"type": "string", "pattern": rf"({TIME_PATTERN})|\$\{{", "examples": ["14:05"]}),
]
Rounds: TypeAlias = Annotated[
    int,
    Field(ge=1, le=ROUNDS_MAX),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": ROUNDS_MAX},
                {"type": "string", "pattern": r"^\$\{[a-z][a-z0-9_]*\}$"},
            ]
        }
    ),
]


class Ask(Part):
    """Ask a person, with a picture of the screen, and go on behind this step with the answer."""

    what: Sentence = Field(description="the question, for people")
    choices: Annotated[tuple[Choice, ...], Field(min_length=1, max_length=CHOICES_MAX)]
    within: Seconds = Field(gt=0, le=ASKED_MAX_S, description="nobody answers for so long: the task fails")
    keep: bool = Field(default=True, description="keep the emulator, as it is, until somebody answers")
    into: Name | None = Field(default=None, description="the variable that holds the answer from here on")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if len(set(self.choices)) < len(self.choices):
            raise ValueError("a choice stands here twice")
        if self.keep and self.within > KEPT_MAX_S:
            most = format_duration(KEPT_MAX_S)
            raise ValueError(f"an emulator is kept for at most {most}: ask for less, or write keep: false")
        return self


class Again(Part):
    """The whole task runs again later, once all its stages are completed."""

    in_: Seconds | None = Field(default=None, alias="in", gt=0, le=AGAIN_MAX_S, description="so long from now")
    at: TimeOfDay | None = Field(default=None, description="at this time of day, the next time it comes")
    from_: Name | None = Field(
        default=None, alias="from", description="a variable that holds minutes, a duration or a time of day"
    )
    zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="whose time of day, as Europe/Berlin"
    )
    at_most: Rounds = Field(description="how often it runs again")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        given = [name for name in ("in_", "at", "from_") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of in, at and from is needed, not {len(given)}")
        if "zone" in self.model_fields_set and self.in_ is not None:
            raise ValueError("zone goes with a time of day, not with in")
        return self


class Fail(Part):
    """The task has failed, for good; no retry."""

    what: Sentence = Field(description="why, for people")
