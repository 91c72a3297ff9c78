"""Steps that tap, type, swipe and press keys."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator
from typing_extensions import override

from droidherd.domain.ports import Acted
from droidherd.domain.text import nearest
from droidherd.flows.model.geometry import Point, beside, pixel
from droidherd.flows.model.part import Complaint, FlowPart, Place
from droidherd.flows.model.scalars import Name, Seconds
from droidherd.flows.model.secret import hush
from droidherd.flows.model.steps.base import ActStep, LintScope, PlannedAct, StepContext
from droidherd.flows.model.targets import WAIT_MAX_S, WITHIN_S, TargetGroup, check_bounds, describe, has_place

KEY_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
KEYS = frozenset((
    "home", "back", "enter", "del", "tab", "space", "escape", "menu", "search", "power", "sleep", "wakeup",
    "app_switch", "volume_up", "volume_down", "volume_mute", "dpad_up", "dpad_down", "dpad_left", "dpad_right",
    "dpad_center", "page_up", "page_down", "move_home", "move_end", "forward_del", "camera", "notification",
    "media_play", "media_pause", "media_next", "media_previous", "copy", "paste", "cut",
))  # fmt: skip
"""The usual ones: there are some three hundred."""
OFFSET_MAX = 2_000.0
Offset: TypeAlias = Annotated[float, Field(ge=-OFFSET_MAX, le=OFFSET_MAX)]


class TapStep(ActStep, TargetGroup):
    """Tap what is found when it appears, or a place in percent of the screen."""

    word: ClassVar[str] = "tap"
    example: ClassVar[str] = "tap: {image: ok.png}"
    percent: Point | None = Field(default=None, description="[across, down] in percent of the screen")
    within: Seconds = Field(default=WITHIN_S, gt=0, le=WAIT_MAX_S, description="how long to wait for it")
    offset: tuple[Offset, Offset] | None = Field(
        default=None, description="[across, down] from the centre, in percent of the size of what is found"
    )
    hold: Seconds | None = Field(default=None, gt=0, le=10.0, description="keep the finger down for so long")

    KINDS: ClassVar[tuple[str, ...]] = (*TargetGroup.KINDS, "percent")

    @model_validator(mode="after")
    def _judge_tap(self) -> Self:
        given = sorted(self.model_fields_set & {"within", "offset"})
        if self.percent is not None and given:
            raise ValueError(f"{', '.join(given)} goes with something to look for, not with percent")
        if self.percent is None and not has_place(self):
            raise ValueError("there is nothing to tap: something has to be there")
        return check_bounds(self)

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def run(self, context: StepContext, path: str) -> None:
        what = "{:g}%, {:g}%".format(*self.percent) if self.percent else describe(self)

        def ready() -> Callable[[], Acted]:
            x, y = self._place(context, path)
            context.check_tap(what, (x, y), path)
            if self.hold is not None:
                return partial(context.hands.swipe, path, (x, y), (x, y), self.hold)
            return lambda: context.hands.tap(path, x, y)

        target = None if self.percent else self
        context.perform(PlannedAct(path, f"tap {what}", ready, self.then, target=target))

    def _place(self, context: StepContext, path: str) -> tuple[int, int]:
        if self.percent is not None:
            return pixel(self.percent, context.size(path))
        box = context.wait_for(self, self.within, path).box
        return beside(box, self.offset, context.size(path))


class Secret(FlowPart):
    """A credential of the account the task acts for, by its name. The text itself stands nowhere."""

    secret: Name


def _typeable(text: str) -> str:
    wrong = next((one for one in text if unicodedata.category(one) in {"Cc", "Cs", "Zl", "Zp"}), "")
    if wrong:
        raise ValueError(f"the character U+{ord(wrong):04X} cannot be typed: use a key step for Enter and Tab")
    return text


class TypeStep(ActStep):
    """Type text into what has the focus."""

    word: ClassVar[str] = "type"
    example: ClassVar[str] = "type: {text: hello}"
    text: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_typeable), Tag("text")]
        | Annotated[Secret, Tag("secret")],
        Discriminator(lambda text: "secret" if isinstance(text, Mapping | Secret) else "text"),
    ]

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def run(self, context: StepContext, path: str) -> None:
        text = self.text
        if isinstance(text, Secret):
            self._type_credential(text.secret, context, path)
            return
        act = partial(context.hands.type_text, path, text)
        context.perform(PlannedAct(path, f"type {len(text)} characters", lambda: act, self.then))

    def _type_credential(self, name: str, context: StepContext, path: str) -> None:
        """Found when it is typed, and not when the journal says that it was."""
        what = f"type the credential {name}"

        def ready() -> Callable[[], Acted]:
            return hush(what, partial(context.hands.type_text, path, context.credential(name)))

        context.perform(PlannedAct(path, what, ready, self.then))


class SwipeStep(ActStep):
    """Drag a finger from one place to another."""

    word: ClassVar[str] = "swipe"
    example: ClassVar[str] = "swipe: {from: [50, 80], to: [50, 20]}"
    start: Point = Field(alias="from", description="[across, down] in percent of the screen")
    end: Point = Field(alias="to")
    takes: Seconds = Field(default=0.3, gt=0, le=10.0)

    @override
    def needs_screen(self) -> bool:
        return True

    @override
    def run(self, context: StepContext, path: str) -> None:
        def ready() -> Callable[[], Acted]:
            size = context.size(path)
            start, end = pixel(self.start, size), pixel(self.end, size)
            return lambda: context.hands.swipe(path, start, end, self.takes)

        context.perform(PlannedAct(path, "swipe", ready, self.then))


class KeyStep(ActStep):
    """Press a key, by its Android name without KEYCODE_: home, back, enter, ..."""

    word: ClassVar[str] = "key"
    example: ClassVar[str] = "key: {name: back}"
    name: Annotated[str, StringConstraints(pattern=KEY_PATTERN)]

    @override
    def needs_screen(self) -> bool:
        return self.name != "home"

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        """Android knows hundreds of keys; one that is nearly a usual one is a typo more often than not."""
        near = "" if self.name in KEYS else nearest(self.name, KEYS)
        if near:
            yield Complaint((*place, "name"), f"key {self.name!r} is unusual", f"did you mean {near}?", fatal=False)

    @override
    def run(self, context: StepContext, path: str) -> None:
        act = partial(context.hands.key, path, self.name)
        context.perform(PlannedAct(path, f"key {self.name}", lambda: act, self.then, harmless=self.name == "home"))
