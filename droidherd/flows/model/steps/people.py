"""Steps that turn the course of the task: ask a person, run again later, fail."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Self, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator
from typing_extensions import override

from droidherd.domain.errors import About, Asks, FlowError, GivenUpError, NeedsPersonError, ScreenNotReachedError
from droidherd.domain.text import nearest
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.scalars import Name, Seconds, format_duration, parse_duration
from droidherd.flows.model.steps.base import LintScope, PlannedAct, StageScope, Step, StepContext

KEPT_MAX_S = 43_200.0
"""Nobody else has the emulator meanwhile, and no lease is extended beyond a day."""
ASKED_MAX_S = 604_800.0
RESCHEDULE_MAX_S = 2_592_000.0
ROUNDS_MAX = 10_000
CHOICES_MAX = 10
TIME_PATTERN = r"^([01]\d|2[0-3]):[0-5]\d$"
CHOICE_PATTERN = r"^[^\s\x00-\x1f]([^\x00-\x1f]{0,98}[^\s\x00-\x1f])?$"
_MINUTES = re.compile(r"\d{1,9}", re.ASCII)
_SHORT = re.compile(r"\d:[0-5]\d", re.ASCII)
_COUNTDOWN = re.compile(r"(\d{1,3}):([0-5]\d):([0-5]\d)", re.ASCII)
"""What a screen shows as time that is left."""

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


@dataclass(frozen=True, slots=True)
class StageVariables:
    """The variables of a stage, while it is linted."""

    stage: StageScope

    def use(self, name: str, place: Place) -> Iterator[Complaint]:
        """A step goes by this one."""
        self.stage.read.add(name)
        if name not in self.stage.choices:
            near = nearest(name, self.stage.choices)
            fix = f"did you mean {near}?" if near else f"add into: {name} to an ask or a read"
            yield Complaint(place, f"variable {name!r} is not set before it in this stage", fix)

    def choices_of(self, name: str) -> tuple[str, ...]:
        """All it may hold, where that is known."""
        return () if name in self.stage.off_screen else self.stage.choices.get(name, ())


class AskStep(Step):
    """Ask a person, with a picture of the screen, and go on behind this step with the answer."""

    word: ClassVar[str] = "ask"
    in_cleanup: ClassVar[bool] = False
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

    @override
    def waits(self) -> Iterator[tuple[Place, float]]:
        """A question may take longer than the stage."""
        yield from ()

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        yield from self._lint_on_the_way(place, scope)
        stage = scope.stage
        if stage is None:
            return
        if self.into is not None:
            stage.choices[self.into] = (*stage.choices.get(self.into, ()), *self.choices)
            stage.set_at.setdefault(self.into, (*place, "into"))
        elif len(self.choices) > 1:
            yield Complaint(place, "nothing goes by the answer", "add into: answer, or offer one choice", fatal=False)
        if not self.keep and stage.account and (stage.acted or "repeat" in place):
            what = (
                "keep: false after an act in a stage whose effect is in the account: the act is not repeated elsewhere"
            )
            yield Complaint((*place, "keep"), what, "begin a stage with the ask")

    def _lint_on_the_way(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        """`place` of the first step of an interrupt: ("interrupts", 0, "do", 0, "ask")."""
        if scope.block not in {"routes", "interrupts", "lost"}:
            return
        begins = scope.block == "interrupts" and place[2:] == ("do", 0, "ask")
        if not (begins and self.keep):
            what = "a question on the way keeps its emulator and is the first step of an interrupt"
            yield Complaint(place, what, "put it into a stage, or begin an interrupt with it")

    @override
    def run(self, context: StepContext, path: str) -> None:
        """Go on with the answer, or leave with the question."""
        choice = context.answer(path)
        if choice is None and context.left_out(path):
            return
        if choice is None:
            context.look(path)
            about = About.SCREEN if self.keep else About.TASK
            asks = Asks(path, self.choices, self.within, self.keep, about)
            raise NeedsPersonError(self.what, asks, to=f"step {path}")
        if self.into is not None:
            context.set_variable(self.into, choice, read=False)
        _mark(context, path, f"ask: {choice}")


class RescheduleStep(Step):
    """The whole task runs again later, once all its stages are completed."""

    word: ClassVar[str] = "reschedule"
    in_cleanup: ClassVar[bool] = False
    on_the_way: ClassVar[bool] = False
    in_: Seconds | None = Field(default=None, alias="in", gt=0, le=RESCHEDULE_MAX_S, description="so long from now")
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

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        if scope.stage is None or self.from_ is None:
            return
        yield from StageVariables(scope.stage).use(self.from_, (*place, "from"))
        if "when" in place:
            return  # which values come here, the flow itself says
        for value in scope.stage.choices.get(self.from_, ()):
            try:
                if not re.fullmatch(TIME_PATTERN, value):
                    seconds_of(value)
            except ValueError as error:
                fix = "offer times only, or put it into a when"
                yield Complaint((*place, "from"), f"{self.from_}: {error}", fix)

    @override
    def run(self, context: StepContext, path: str) -> None:
        """So often, and then no more."""
        if context.left_out(path):
            return
        _mark(context, path, "reschedule")
        if context.rounds >= self.at_most:
            context.note(f"{path}: reschedule: was done {self.at_most} times")
            return
        try:
            when = self.due(context.variable(self.from_ or "") or "", context.date())
        except ValueError as error:
            if self.from_ is not None and context.was_read(self.from_):
                remedy = f"say with match which part of it is the time, where {self.from_} is read"
                raise ScreenNotReachedError(f"reschedule: {error}", to=f"step {path}", remedy=remedy) from error
            raise FlowError(f"reschedule: {error}", to=f"step {path}", remedy="offer times as choices") from error
        context.run_again_at(when)
        context.note(f"{path}: reschedule: not before {when:%Y-%m-%d %H:%M:%S %Z}")

    def due(self, value: str, now: datetime) -> datetime:
        """The time that is meant; `value` is that of the variable. ValueError says what is wrong with it."""
        if self.in_ is not None:
            return now + timedelta(seconds=self.in_)
        wanted = self.at or value.strip()
        if _SHORT.fullmatch(wanted):
            wanted = f"0{wanted}"  # as a screen shows it
        if re.fullmatch(TIME_PATTERN, wanted):
            return _next(wanted, ZoneInfo(self.zone), now)
        return now + timedelta(seconds=seconds_of(wanted))


def seconds_of(value: str) -> float:
    """Minutes, a duration with its unit, or a clock that counts down. ValueError says what is wrong."""
    left = _COUNTDOWN.fullmatch(value)
    if left:
        seconds = int(left[1]) * 3600.0 + int(left[2]) * 60 + int(left[3])
    else:
        seconds = int(value) * 60.0 if _MINUTES.fullmatch(value) else _duration(value)
    if not 0 < seconds <= RESCHEDULE_MAX_S:
        raise ValueError(f"{value[:40]!r} is not more than nothing and at most {format_duration(RESCHEDULE_MAX_S)}")
    return seconds


def _duration(value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(
            f"{value[:40]!r} is neither minutes, nor a duration as in 90m, nor a time as in 14:05"
        ) from error


def _next(time: str, zone: ZoneInfo, now: datetime) -> datetime:
    """On the clock of the zone, so that a day that is shorter or longer moves nothing."""
    hour, minute = (int(part) for part in time.split(":"))
    then = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    if then.astimezone(now.tzinfo) <= now:
        then += timedelta(days=1)
    return then.astimezone(now.tzinfo)


class FailStep(Step):
    """The task has failed, for good; no retry."""

    word: ClassVar[str] = "fail"
    in_cleanup: ClassVar[bool] = False
    what: Sentence = Field(description="why, for people")

    @override
    def run(self, context: StepContext, path: str) -> None:
        if not context.replaying:
            raise GivenUpError(self.what, to=f"step {path}")


def _mark(context: StepContext, path: str, what: str) -> None:
    """Written down on the emulator: a later try must not take another way because the screen is another by then."""
    context.perform(PlannedAct(path, what, lambda: lambda: context.hands.mark(path), harmless=True))
