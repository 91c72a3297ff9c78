"""What every step has in common, and what it may use while it runs.

A step is one class: its fields are its arguments, `parse` reads them, `lint` judges them, `run` does them. It knows no
emulator: `run` works on the context that it is handed. To add a step, write its class and list it in `registry.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeAlias, Union

from pydantic import (
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    Tag,
)
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

from droidherd.domain.ports import Acted, Frame, Hands, Match, Things
from droidherd.domain.task.things import State
from droidherd.flows.model.part import Complaint, FlowPart, Place
from droidherd.flows.model.targets import PostCondition, Target

if TYPE_CHECKING:
    from droidherd.flows.model.steps.handlers import CallStep
    from droidherd.flows.model.steps.screen import ReadStep, WaitStep
    from droidherd.handlers.base import Subject

STEPS_MAX = 200

Payloads: TypeAlias = Callable[[str], Path]
"""The file behind the name of a payload."""
NamedThing: TypeAlias = tuple[str, str]
"""What kind of thing, and its name."""


class Subjects(Protocol):
    """Knows what handlers change."""

    def changes(self, by: str, params: Mapping[str, JsonValue]) -> "tuple[Subject, ...]": ...


class HandlerChecks(Subjects, Protocol):
    """Knows whether a handler is there and takes what it is given."""

    def problem(self, by: str, params: Mapping[str, JsonValue]) -> tuple[str, str]: ...


@dataclass(frozen=True, slots=True)
class PlannedAct:
    """One act of a step, before it is made."""

    effect: str
    what: str
    """For people; never holds what was typed."""
    ready: Callable[[], Callable[[], Acted]]
    """Looks for what the act needs and returns the act itself."""
    then: PostCondition | None = None
    target: Target | None = None
    """What is tapped. While it is still there and the post-condition is not, the act did not happen."""
    harmless: bool = False
    """Twice is the same as once."""


class StepContext(Protocol):
    """What a step may use while it runs. `path` names the step, and its effect in the journal."""

    @property
    def hands(self) -> Hands: ...
    @property
    def things(self) -> Things: ...
    @property
    def rounds(self) -> int:
        """How often the task ran before, by its own request."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether the stage takes up its work behind this step: nothing is waited for, no condition is looked at."""
        ...

    def note(self, text: str) -> None:
        """A line of the task's log. Never holds what was typed."""
        ...

    def perform(self, act: PlannedAct) -> None:
        """Make an act once, or find out whether it was made; then wait for its post-condition."""
        ...

    def steps(self, steps: "Steps", prefix: str) -> None:
        """Do the steps of a block; `prefix` begins their paths."""
        ...

    # --- the screen

    def look(self, path: str) -> Frame: ...
    def size(self, path: str) -> tuple[int, int]: ...
    def wait_for(self, condition: Target, within_s: float, path: str) -> Match:
        """Until it holds. ScreenNotReachedError says what was seen instead."""
        ...

    def poll(self, condition: Target, within_s: float, path: str) -> bool:
        """Whether it holds before the time is up. Looks at least once."""
        ...

    def wait_until_stable(self, step: "WaitStep", path: str) -> None: ...
    def read(self, step: "ReadStep", path: str) -> str:
        """What is to be read, or ScreenNotReachedError."""
        ...

    def sleep(self, seconds: float, path: str) -> None: ...
    def check_tap(self, what: str, place: tuple[int, int], path: str) -> None:
        """Before a tap. ClickLoopError when it is one too many."""
        ...

    def keep_screenshot(self, name: str, path: str) -> None: ...
    def reach(self, screen: str, path: str) -> None:
        """Navigate to a screen of the flow."""
        ...

    def was_on(self, screen: str, path: str) -> None:
        """While replaying: the stage was on this screen then."""
        ...

    # --- what an earlier try did

    def left_out(self, effect: str) -> bool:
        """Whether an earlier try had gone on without it."""
        ...

    def is_behind(self, prefix: str) -> bool:
        """Whether an earlier try had gone on behind a step whose own effects begin with `prefix`."""
        ...

    def branch_ahead(self, path: str) -> bool | None:
        """Which branch an earlier try took: `do` (true), `else` (false), or neither."""
        ...

    def turn_is_ahead(self, path: str, turn: int) -> bool:
        """Whether an earlier try came to this turn of a loop, or to a later one."""
        ...

    # --- what the task carries

    def answer(self, path: str) -> str | None:
        """What a person chose where this step asks."""
        ...

    def variable(self, name: str) -> str | None: ...
    def set_variable(self, name: str, value: str, *, read: bool) -> None:
        """`read`: off the screen, so that it may hold what nobody foresaw."""
        ...

    def was_read(self, name: str) -> bool: ...
    def credential(self, name: str) -> str: ...
    def payload(self, name: str) -> Path:
        """The file that the flow carries under this name."""
        ...

    def date(self) -> datetime: ...
    def run_again_at(self, when: datetime) -> None:
        """The whole task runs again then, once all its stages are completed."""
        ...

    def call_handler(self, step: "CallStep", path: str) -> None: ...


@dataclass(slots=True)
class StageScope:
    """What is known of a stage up to a step, while it is linted."""

    account: bool
    """Whether the effect of the stage is in the account."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Variable → what it may hold."""
    off_screen: set[str] = field(default_factory=set)
    """Those that may hold anything, since they are read."""
    set_at: dict[str, Place] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    acted: bool = False
    screenshots: dict[str, list[Place]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LintScope:
    """Where a step stands, while it is linted."""

    block: str
    """`steps` or `undo` of a stage, `cleanup`, `routes`, `interrupts` or `lost`."""
    app: bool
    """Whether the flow names its app."""
    handlers: HandlerChecks
    written: Callable[[Place], JsonValue]
    """What stands at a place of the document, with its placeholders."""
    account: bool = False
    """Whether the effect of its stage is in the account."""
    stage: StageScope | None = None
    """None outside the steps of a stage."""


@dataclass(frozen=True, slots=True)
class StepBlock:
    """Steps inside a step."""

    key: str
    infix: str
    """Between the path of the step and those in the block; in a loop, that of the first turn."""
    steps: "Steps"


class Step(FlowPart):
    """One step of a flow, as in `tap: {image: ok.png}`."""

    word: ClassVar[str]
    """The single key of the step in a flow."""
    example: ClassVar[str] = ""
    acts: ClassVar[bool] = False
    """Whether it acts: in a stage whose effect is in the account, that is not repeated elsewhere."""
    changes_things: ClassVar[bool] = False
    """Whether it changes things by value, which a rollback restores."""
    opens_screen: ClassVar[bool] = False
    """Whether it leads to a screen by itself, so that the steps behind it need not know what was there before."""
    in_cleanup: ClassVar[bool] = True
    """Whether it may stand in a cleanup."""
    on_the_way: ClassVar[bool] = True
    """Whether it may stand in a route, an interrupt or `lost`, which are done whenever the screen asks for them."""
    file_key: ClassVar[str] = ""
    """The argument that names a file of the flow's folder `files`."""
    by_the_plan: ClassVar[str] = ""
    """An argument that stands in no file: the plan writes it."""

    @classmethod
    def parse(cls, written: Any) -> Any:
        """From what is written behind the word to the step's fields; by default they are the same."""
        return written

    def needs_screen(self) -> bool:
        """Whether it expects something on the screen, or depends on what is there."""
        return False

    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:  # noqa: ARG002 -- for steps that need it
        """What does not fit where it stands."""
        yield from ()

    def run(self, context: StepContext, path: str) -> None:
        """Do it, or pass over what an earlier try did."""
        raise NotImplementedError

    def blocks(self) -> tuple[StepBlock, ...]:
        """The steps inside it."""
        return ()

    def waits(self) -> Iterator[tuple[Place, float]]:
        """How long it may wait by its own words, and where it says so."""
        yield from _waits(self, "within")

    def subjects(self, handlers: Subjects) -> list[NamedThing]:  # noqa: ARG002
        """The things that it changes by value."""
        return []

    def states(self, payload: Payloads, handlers: Subjects) -> list[tuple[str, str, State]]:  # noqa: ARG002
        """What it makes of them, as far as that is known before."""
        return []


class ActStep(Step):
    """A step that acts on the emulator."""

    acts: ClassVar[bool] = True
    then: PostCondition | None = Field(
        default=None, description="what the act brings about; without it nothing is checked"
    )

    @override
    def waits(self) -> Iterator[tuple[Place, float]]:
        yield from _waits(self, "within")
        yield from _waits(self.then, "then", "within")


def _waits(part: FlowPart | None, *place: str) -> Iterator[tuple[Place, float]]:
    within = getattr(part, "within", None)
    if isinstance(within, float):
        yield place, within


def waits_of(part: FlowPart | None, key: str) -> Iterator[tuple[Place, float]]:
    """How long a condition under this key may be waited for."""
    yield from _waits(part, key, "within")


def every(steps: Sequence[Step], place: Place = ()) -> Iterator[tuple[Place, Step]]:
    """Every step with its place, blocks before what is in them."""
    for number, step in enumerate(steps):
        here = (*place, number, step.word)
        yield here, step
        for block in step.blocks():
            yield from every(block.steps, (*here, block.key))


def paths_of(steps: Sequence[Step], prefix: str = "") -> Iterator[tuple[str, Step]]:
    """Every step with the name of its effect; inside a loop, that of the first turn."""
    for number, step in enumerate(steps, start=1):
        path = f"{prefix}{number}"
        yield path, step
        for block in step.blocks():
            yield from paths_of(block.steps, f"{path}{block.infix}")


# --- how steps are read ---------------------------------------------------------------------------------------------

STEP_TYPES: dict[str, type[Step]] = {}
"""By their words. `registry.py` fills it: until then no model that holds steps is complete."""
STEP_KINDS: list[str] = []


def register(*types: type[Step]) -> None:
    """Make these the steps that there are."""
    STEP_TYPES.update({step.word: step for step in types})
    STEP_KINDS.extend(step.word for step in types)


def kind_of(step: object) -> str | None:
    """The single key of a step."""
    if isinstance(step, Step):
        return step.word
    keys = [str(key) for key in step] if isinstance(step, Mapping) else []
    return keys[0] if len(keys) == 1 and keys[0] in STEP_TYPES else None


@dataclass(frozen=True, slots=True)
class _UnderItsWord:
    """A step is written as a mapping with its word as the single key."""

    step: type[Step]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._arguments, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        word = self.step.word
        return {
            "type": "object",
            "properties": {word: handler(schema)},
            "required": [word],
            "additionalProperties": False,
        }

    def _arguments(self, written: Any) -> Any:
        return written if isinstance(written, Step) else self.step.parse(written[self.step.word])


class _AnyStep:
    """One of the registered steps, told by its word."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not STEP_TYPES:
            raise PydanticUndefinedAnnotation("Step", "import droidherd.flows.model.steps.registry first")
        choices = tuple(Annotated[Annotated[step, _UnderItsWord(step)], Tag(word)] for word, step in STEP_TYPES.items())
        return handler.generate_schema(Annotated[Union[choices], Discriminator(kind_of)])  # noqa: UP007 -- made here


AnyStep: TypeAlias = Annotated[Step, _AnyStep()]
Steps: TypeAlias = Annotated[tuple[AnyStep, ...], Field(min_length=1, max_length=STEPS_MAX)]
FewSteps: TypeAlias = Annotated[tuple[AnyStep, ...], Field(max_length=STEPS_MAX)]
"""Or none."""
