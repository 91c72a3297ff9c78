"""Steps that look at the screen: wait, read, keep a screenshot, go to a screen; and one that only waits."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import override

from droidherd.domain.errors import UnknownOutcomeError
from droidherd.domain.ports import Acted
from droidherd.flows import patterns
from droidherd.flows.model.geometry import Area
from droidherd.flows.model.params import NAME_PATTERN
from droidherd.flows.model.part import Complaint, FlowPart, Place
from droidherd.flows.model.scalars import Name, Seconds
from droidherd.flows.model.steps.base import LintScope, PlannedAct, Step, StepContext
from droidherd.flows.model.targets import WAIT_MAX_S, WITHIN_S, Pattern, ScreenCondition, UiQuery, one_of

VALUE_MAX = 100
"""Characters: a value is kept in the journal on the emulator."""
_SPAN_MAX = 2_000
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?", re.ASCII)
_GROUPED = re.compile(r"-?\d{1,3}([,' ]\d{3}){1,4}(\.\d{1,9})?", re.ASCII)


class WaitStep(Step, ScreenCondition):
    """Wait until something is there, or gone, or until the screen stands still."""

    word: ClassVar[str] = "wait"
    example: ClassVar[str] = "wait: {image: ok.png, within: 10s}"
    within: Seconds = Field(default=WITHIN_S, gt=0, le=WAIT_MAX_S)
    stable: Seconds | None = Field(default=None, gt=0, le=60.0, description="nothing moves for so long")
    moves: float = Field(default=0.5, ge=0, le=100, description="percent of the area that may move all the same")

    KINDS: ClassVar[tuple[str, ...]] = (*ScreenCondition.KINDS, "stable")

    @model_validator(mode="after")
    def _judge_stable(self) -> Self:
        if self.stable is None and "moves" in self.model_fields_set:
            raise ValueError("moves goes with stable")
        if self.stable is not None and self.stable >= self.within:
            raise ValueError("stable has to be shorter than within")
        return self

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def run(self, context: StepContext, path: str) -> None:
        if context.replaying:
            if self.screen is not None:
                context.was_on(self.screen, path)
        elif self.stable is not None:
            context.wait_until_stable(self, path)
        else:
            context.wait_for(self, self.within, path)


class ReadText(FlowPart):
    """Words, read off the screen (OCR)."""

    area: Area | None = Field(default=None, description="left, top, right, bottom, in percent; the smaller the faster")


class ReadStep(Step):
    """Read something off the screen into a variable, which keeps its value also when the stage runs again."""

    word: ClassVar[str] = "read"
    ui: UiQuery | None = Field(default=None, description="what this element says")
    text: ReadText | None = Field(
        default=None, description="the words in an area; those in pictures with the extra ocr"
    )
    match: Pattern | None = Field(default=None, description="what of it: the first group, or all that matches")
    into: Name = Field(description="the variable")
    within: Seconds = Field(default=10.0, gt=0, le=WAIT_MAX_S, description="how long to wait until it can be read")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        one_of(self, "ui", "text")
        return self

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        if scope.stage is not None:
            scope.stage.choices.setdefault(self.into, ())
            scope.stage.off_screen.add(self.into)
            scope.stage.set_at.setdefault(self.into, (*place, "into"))
        yield from ()

    @override
    def run(self, context: StepContext, path: str) -> None:
        """Written down on the emulator with what was read: a later try goes by that, whatever the screen shows then."""
        if context.left_out(path):
            return

        def ready() -> Callable[[], Acted]:
            return partial(context.hands.mark, path, context.read(self, path))

        context.perform(PlannedAct(path, f"read {self.into}", ready, harmless=True))
        value = context.hands.marked(path)
        if value is None:
            raise UnknownOutcomeError(f"what was read into {self.into} is not in the journal", to=f"step {path}")
        context.set_variable(self.into, value, read=True)
        context.note(f"{path}: {self.into} is {value!r}")


def value_in(words: str, match: str | None) -> str:
    """The part of what was read that is asked for, in one line; empty when it is not there."""
    line = " ".join(words.split())[:_SPAN_MAX]
    if match is None:
        return line
    found = patterns.search(patterns.compile_pattern(match), line)
    if found is None:
        return ""
    return ((found[1] or "") if found.re.groups else found[0]).strip()


def number_in(value: str) -> float:
    """The number that a value is, thousands grouped or not. ValueError when it is none."""
    text = value.strip()
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[,' ]", "", text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{value[:40]!r} is not a number")
    return float(text)


class ScreenshotStep(Step):
    """Keep a picture of the screen as an artifact."""

    word: ClassVar[str] = "screenshot"
    example: ClassVar[str] = "screenshot: {name: done}"
    name: Name

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        """Two screenshots of one name, which nobody tells apart by it."""
        if scope.stage is None:
            return
        others = scope.stage.screenshots.setdefault(self.name, [])
        if any(not _either_or(place, other) for other in others):
            what = f"this stage has another screenshot {self.name}, and this one is kept as {self.name} with a number"
            yield Complaint((*place, "name"), what, "give one another name", fatal=False)
        others.append(place)

    @override
    def run(self, context: StepContext, path: str) -> None:
        if not context.replaying:
            context.keep_screenshot(self.name, path)


def _either_or(one: Place, other: Place) -> bool:
    """Whether a `when` does only one of the two."""
    step = next((mine, theirs) for mine, theirs in zip(one, other, strict=False) if mine != theirs)
    return set(step) == {"do", "else"}


class SleepStep(Step):
    """Do nothing for a while. Prefer `wait`: it knows when to go on."""

    word: ClassVar[str] = "sleep"
    example: ClassVar[str] = "sleep: {for: 2s}"
    time: Seconds = Field(alias="for", gt=0, le=300.0)

    @override
    def waits(self) -> Iterator[tuple[Place, float]]:
        yield ("for",), self.time

    @override
    def run(self, context: StepContext, path: str) -> None:
        if not context.replaying:
            context.sleep(self.time, path)


class GotoStep(Step):
    """Reach a screen of the flow by the shortest route. Written as `goto: home`."""

    word: ClassVar[str] = "goto"
    opens_screen: ClassVar[bool] = True
    example: ClassVar[str] = "goto: home"
    on_the_way: ClassVar[bool] = False
    screen: Name

    @classmethod
    @override
    def parse(cls, written: Any) -> Any:
        if not isinstance(written, str):
            raise ValueError(f"must be text (as in {cls.example})")  # noqa: TRY004 -- pydantic reports ValueError
        return {"screen": written}

    @classmethod
    @override
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": NAME_PATTERN,
            "title": "Goto",
            "description": "a screen of the flow, reached by the shortest route",
        }

    @override
    def run(self, context: StepContext, path: str) -> None:
        if context.replaying:
            context.was_on(self.screen, path)
        else:
            context.reach(self.screen, path)
