"""Steps that hold steps: `optional`, `repeat`, `when`, `use`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema, model_validator
from typing_extensions import override

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.text import nearest
from droidherd.flows import patterns
from droidherd.flows.model.geometry import PLACEHOLDER
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.scalars import Name
from droidherd.flows.model.steps.base import LintScope, Step, StepBlock, StepContext, Steps, waits_of
from droidherd.flows.model.steps.people import Choice, StageVariables
from droidherd.flows.model.steps.screen import number_in
from droidherd.flows.model.targets import ConditionCheck, Pattern, one_of

TURNS_MAX = 1_000
Turns: TypeAlias = Annotated[
    int,
    Field(ge=1, le=TURNS_MAX),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": TURNS_MAX}, PLACEHOLDER]}),
]
Number: TypeAlias = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, PLACEHOLDER]})]


class OptionalStep(Step):
    """Steps that may fail to find their image: the rest of the block is left out then, and the flow goes on."""

    word: ClassVar[str] = "optional"
    do: Steps

    @override
    def blocks(self) -> tuple[StepBlock, ...]:
        return (StepBlock("do", ".", self.do),)

    @override
    def run(self, context: StepContext, path: str) -> None:
        try:
            context.steps(self.do, f"{path}.")
        except ScreenNotReachedError as error:
            context.note(f"{path}: left out: {error}")


class RepeatStep(Step):
    """Steps done again and again, at most so many times."""

    word: ClassVar[str] = "repeat"
    example: ClassVar[str] = "repeat: {at_most: 10, do: [{tap: {image: ok.png}}]}"
    at_most: Turns
    while_: ConditionCheck | None = Field(default=None, alias="while", description="go on while this holds")
    until: ConditionCheck | None = Field(default=None, description="stop when this holds; a failure if it never does")
    do: Steps

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.while_ is not None and self.until is not None:
            raise ValueError("while and until do not go together")
        return self

    @override
    def needs_screen(self) -> bool:
        return self.while_ is not None or self.until is not None

    @override
    def blocks(self) -> tuple[StepBlock, ...]:
        return (StepBlock("do", "#1.", self.do),)

    @override
    def waits(self) -> Iterator[tuple[Place, float]]:
        yield from waits_of(self.while_, "while")
        yield from waits_of(self.until, "until")

    @override
    def run(self, context: StepContext, path: str) -> None:
        for turn in range(1, self.at_most + 1):
            if not self._begins(context, path, turn):
                return
            context.steps(self.do, f"{path}#{turn}.")
        if self.until is not None and not context.replaying:
            context.wait_for(self.until, self.until.within, path)

    def _begins(self, context: StepContext, path: str, turn: int) -> bool:
        """Whether the loop takes this turn: by what was recorded, then by what is on the screen."""
        if context.replaying:
            return context.turn_is_ahead(path, turn)
        if self.while_ is not None:
            return context.poll(self.while_, self.while_.within, path)
        if self.until is not None:
            return not context.poll(self.until, self.until.within, path)
        return True


class WhenStep(Step):
    """Steps for some values of a variable, or for what is to be seen, and others for all the rest."""

    word: ClassVar[str] = "when"
    var: Name | None = Field(default=None, description="the variable, as an ask or a read before names it with into")
    sees: ConditionCheck | None = Field(default=None, description="this is to be seen on the screen")
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
    do: Steps
    else_: Steps | None = Field(default=None, alias="else", description="what is done for every other value")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        one_of(self, "var", "sees")
        given = [value for value in (self.is_, self.at_least, self.below, self.matches) if value is not None]
        if self.sees is not None and given:
            raise ValueError("is, at_least, below and matches go with var, not with sees")
        if self.var is not None and not given:
            raise ValueError("says nothing of the variable: add is, at_least, below or matches")
        return self

    @override
    def needs_screen(self) -> bool:
        return self.sees is not None

    @override
    def blocks(self) -> tuple[StepBlock, ...]:
        other = (StepBlock("else", ".0.", self.else_),) if self.else_ is not None else ()
        return (StepBlock("do", ".", self.do), *other)

    @override
    def waits(self) -> Iterator[tuple[Place, float]]:
        yield from waits_of(self.sees, "sees")

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        yield from _never_in_range(scope.written(place), place)
        if scope.stage is None or self.var is None:
            return
        variables = StageVariables(scope.stage)
        yield from variables.use(self.var, (*place, "var"))
        offered = variables.choices_of(self.var)
        for value in self.is_ or ():
            if offered and value not in offered:
                near = nearest(value, offered)
                fix = f"did you mean {near}?" if near else f"offered are: {', '.join(offered)}"
                yield Complaint((*place, "is"), f"{self.var} is never {value[:60]!r}", fix)

    @override
    def run(self, context: StepContext, path: str) -> None:
        holds = self._holds(context, path)
        if holds:
            context.steps(self.do, f"{path}.")
        elif holds is False and self.else_ is not None:
            context.steps(self.else_, f"{path}.0.")

    def _holds(self, context: StepContext, path: str) -> bool | None:
        """By what is remembered; of the screen, by the way that was taken, and none of both when none was."""
        if self.sees is None:
            return self._holds_of(context.variable(self.var or ""), path)
        if context.replaying:
            return context.branch_ahead(path)
        return context.poll(self.sees, self.sees.within, path)

    def _holds_of(self, value: str | None, path: str) -> bool:
        """By what is remembered, not by what is to be seen: the same whenever the stage runs again."""
        if value is None:
            return False
        return (
            (self.is_ is None or value in self.is_)
            and (self.matches is None or patterns.search(patterns.compile_pattern(self.matches), value) is not None)
            and (self.at_least is None or self._number(value, path) >= self.at_least)
            and (self.below is None or self._number(value, path) < self.below)
        )

    def _number(self, value: str, path: str) -> float:
        try:
            return number_in(value)
        except ValueError as error:
            remedy = f"say with match which part of it is the number, where {self.var} is read"
            raise ScreenNotReachedError(f"{self.var}: {error}", to=f"step {path}", remedy=remedy) from error


def _never_in_range(written: JsonValue, place: Place) -> Iterator[Complaint]:
    """A condition that never holds. What parameters say is for them to say."""
    low, high = (written.get("at_least"), written.get("below")) if isinstance(written, dict) else (None, None)
    if isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
        what = f"when: no number is at least {low:g} and below {high:g}"
        yield Complaint((*place, "below"), what, "for what is outside of both, use else")


class UseStep(Step):
    """The steps of another flow, in the place of this one."""

    word: ClassVar[str] = "use"
    opens_screen: ClassVar[bool] = True
    example: ClassVar[str] = "use: {flow: sign_in}"
    on_the_way: ClassVar[bool] = False
    by_the_plan: ClassVar[str] = "do"
    flow: Name = Field(description="its name")
    params: dict[Name, JsonValue] = Field(default_factory=dict, alias="with", max_length=50)
    do: Steps | None = Field(default=None, description="its steps; written by the plan")

    @override
    def blocks(self) -> tuple[StepBlock, ...]:
        return (StepBlock("do", ".", self.do),) if self.do is not None else ()

    @override
    def run(self, context: StepContext, path: str) -> None:
        context.steps(self.do or (), f"{path}.")
