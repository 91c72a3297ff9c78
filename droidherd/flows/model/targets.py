"""What a flow looks for on the screen, and what it says about it: there, gone, all of these, any, none.

Areas and places are in percent of the screen, so that a flow fits screens of any size.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)

from droidherd.flows import patterns
from droidherd.flows.model.geometry import Area, Point
from droidherd.flows.model.part import FlowPart
from droidherd.flows.model.scalars import Name, Seconds

IMAGE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_@.-]*(/[A-Za-z0-9_][A-Za-z0-9_@.-]*)*\.png$"
COLOUR_PATTERN = r"^#[0-9a-fA-F]{6}$"
WAIT_MAX_S = 3_600.0
TARGETS_MAX = 50
"""Of one look: each is searched for."""
DEPTH_MAX = 4
DESCRIBED_CHARS = 300
LIKE_IMAGE, LIKE_FEATURE = 0.9, 0.8
WITHIN_S = 10.0
"""How long something may take that says nothing else."""
OCR_MODULES = ("rapidocr", "onnxruntime")

Image: TypeAlias = Annotated[str, StringConstraints(pattern=IMAGE_PATTERN, max_length=120)]
Threshold: TypeAlias = Annotated[float, Field(ge=0.5, le=1)]
Words: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Hex: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=COLOUR_PATTERN),
    WithJsonSchema({"type": "string", "pattern": rf"({COLOUR_PATTERN})|\$\{{", "examples": ["#ff8800"]}),
]


def _expression(pattern: str) -> str:
    patterns.compile_pattern(pattern)
    return pattern


Pattern: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_expression)]


def can_read() -> bool:
    """Whether the extra `ocr` is installed. Without it, words are those of the screen's elements. Does not load it."""
    return all(find_spec(name) is not None for name in OCR_MODULES)


def one_of(part: BaseModel, *names: str) -> None:
    """Exactly one of these keys."""
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        keys = [type(part).model_fields[name].alias or name for name in names]
        listed = f"{', '.join(keys[:-1])} and {keys[-1]}"
        raise ValueError(f"exactly one of {listed} is needed, not {len(given)}")


class TextQuery(FlowPart):
    """Words on the screen by a regular expression."""

    matches: Pattern = Field(description="found in one line of what is read")


class UiQuery(FlowPart):
    """An element of the screen, as Android itself describes it. All that is said has to fit."""

    text: Words | None = Field(default=None, description="its whole text")
    description: Words | None = Field(default=None, description="its whole content description")
    id: Words | None = Field(default=None, description="its resource id, whole or behind :id/")
    class_: Words | None = Field(default=None, alias="class", description="whole, or as in Button")
    package: Words | None = None
    matches: Pattern | None = Field(default=None, description="found in its text or its description")
    enabled: bool | None = None
    checked: bool | None = None
    selected: bool | None = None
    focused: bool | None = None
    index: int = Field(default=0, ge=-100, le=1000, description="which of those that fit; -1 is the last")

    STATES: ClassVar[tuple[str, ...]] = ("enabled", "checked", "selected", "focused")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if not self.model_fields_set - {"index"}:
            raise ValueError("says nothing of the element: add text, id, description, class, matches or a state")
        return self

    def states(self) -> tuple[tuple[str, bool], ...]:
        pairs = ((name, getattr(self, name)) for name in self.STATES)
        return tuple((name, value) for name, value in pairs if value is not None)


class ColourQuery(FlowPart):
    """A colour at a place, or a connected patch of it in an area."""

    is_: Hex = Field(alias="is")
    tolerance: int = Field(default=24, ge=0, le=128, description="levels by which each channel may differ")
    at: Point | None = Field(default=None, description="[across, down] in percent of the screen")
    share: float | None = Field(default=None, gt=0, le=100, description="percent of the area it covers at least")

    SHARE: ClassVar[float] = 1.0

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.at is not None and self.share is not None:
            raise ValueError("at and share do not go together: a place has one colour")
        return self


def _is_map(value: object) -> str:
    """The tags hold what no document does: `place_of` must not take one for a key."""
    return "a mapping" if isinstance(value, Mapping | FlowPart) else "a text"


class Target(FlowPart):
    """One thing on the screen."""

    image: Image | None = Field(default=None, description="this image is on the screen")
    feature: Image | None = Field(default=None, description="this image, also larger, smaller or turned; slower")
    text: (
        Annotated[Annotated[Words, Tag("a text")] | Annotated[TextQuery, Tag("a mapping")], Discriminator(_is_map)]
        | None
    ) = Field(default=None, description="these words are on the screen; in pictures they are found with the extra ocr")
    ui: UiQuery | None = Field(default=None, description="an element with these properties is on the screen")
    colour: (
        Annotated[Annotated[Hex, Tag("a text")] | Annotated[ColourQuery, Tag("a mapping")], Discriminator(_is_map)]
        | None
    ) = Field(default=None, description="this colour is on the screen")
    threshold: Threshold | None = Field(default=None, description="how alike is alike enough, 0.5 to 1")
    area: Area | None = Field(default=None, description="left, top, right, bottom of the search, in percent")
    expect: Area | None = Field(default=None, description="where it is most of the time: searched for there first")

    KINDS: ClassVar[tuple[str, ...]] = ("image", "feature", "text", "ui", "colour")
    """The keys of which exactly one says what is meant."""
    PICTURES: ClassVar[tuple[str, ...]] = ("image", "feature")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        one_of(self, *self.KINDS)
        kind = self.kind
        pictured = kind in self.PICTURES
        named = kind == "gone" and isinstance(getattr(self, kind), str)
        searches = named or kind in {"stable", *Target.KINDS}
        given = {name for name in ("threshold", "area", "expect") if getattr(self, name) is not None}
        at = isinstance(self.colour, ColourQuery) and self.colour.at is not None
        if given and kind == "screen":
            raise ValueError(f"{', '.join(sorted(given))} belongs to the screen itself, under screens")
        if given - {"area"} and not (pictured or named):
            raise ValueError(f"{' and '.join(sorted(given - {'area'}))} goes with a picture, not with {kind}")
        if "area" in given and (at or not searches):
            raise ValueError(f"area does not go with {'colour at a place' if at else kind}")
        if self.area and self.expect and not _inside(self.expect, self.area):
            raise ValueError("expect lies outside of area")
        return self

    @property
    def kind(self) -> str:
        return next(name for name in self.KINDS if getattr(self, name) is not None)

    @property
    def likeness(self) -> float:
        """How alike is alike enough."""
        default = LIKE_FEATURE if self.feature is not None else LIKE_IMAGE
        return default if self.threshold is None else self.threshold


class TargetGroup(Target):
    """One thing, or several together."""

    all_: "Annotated[tuple[ScreenCondition, ...], Field(min_length=1, max_length=20)] | None" = Field(
        default=None, alias="all", description="each of these holds"
    )
    any_: "Annotated[tuple[ScreenCondition, ...], Field(min_length=1, max_length=20)] | None" = Field(
        default=None, alias="any", description="one of these holds; the first that does counts"
    )
    KINDS: ClassVar[tuple[str, ...]] = (*Target.KINDS, "all_", "any_")


class ScreenCondition(TargetGroup):
    """What is to be seen on the screen, or is not to be seen there."""

    gone: (
        Annotated[Annotated[Image, Tag("a text")] | Annotated[Target, Tag("a mapping")], Discriminator(_is_map)] | None
    ) = Field(default=None, description="this image, or this target, is not on the screen")
    none_: "Annotated[tuple[ScreenCondition, ...], Field(min_length=1, max_length=20)] | None" = Field(
        default=None, alias="none", description="none of these holds"
    )
    screen: Name | None = Field(default=None, description="we are on this screen of the flow")
    KINDS: ClassVar[tuple[str, ...]] = (*TargetGroup.KINDS, "gone", "none_", "screen")

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        return check_bounds(self)

    def absent(self) -> Target | None:
        """What has to be gone."""
        if isinstance(self.gone, str):
            return Target(image=self.gone, threshold=self.threshold, area=self.area, expect=self.expect)
        return self.gone


TargetGroup.model_rebuild()  # it speaks of conditions, and other modules build on it


def check_bounds(condition: Any) -> Any:
    """Refuse what no look can take in."""
    if sum(1 for _ in leaves(condition)) > TARGETS_MAX or _depth(condition) > DEPTH_MAX:
        raise ValueError(f"more than {TARGETS_MAX} targets, or more than {DEPTH_MAX} levels of them, in one look")
    return condition


def parts_of(condition: TargetGroup) -> tuple[ScreenCondition, ...]:
    """Those of `all`, `any` or `none`."""
    return (
        condition.all_ or condition.any_ or (condition.none_ if isinstance(condition, ScreenCondition) else None) or ()
    )


def leaves(condition: Target) -> Iterator[Target]:
    """Everything that is searched for."""
    inner = parts_of(condition) if isinstance(condition, TargetGroup) else ()
    for part in inner:
        yield from leaves(part)
    absent = condition.absent() if isinstance(condition, ScreenCondition) else None
    if not inner:
        yield absent or condition


def has_place(condition: Target) -> bool:
    """Whether it says, when it holds, where something is."""
    if not isinstance(condition, TargetGroup) or condition.kind in Target.KINDS:
        return True
    if condition.all_ is not None:
        return any(has_place(part) for part in condition.all_)
    return condition.any_ is not None and all(has_place(part) for part in condition.any_)


def _enumerate(parts: list[str]) -> str:
    """As many as fit, each whole: what masks a secret must find all of it."""
    shown = [part for part, end in zip(parts, accumulate(map(len, parts)), strict=True) if end <= DESCRIBED_CHARS]
    more = len(parts) - max(1, len(shown))
    return ", ".join(shown or parts[:1]) + (f" and {more} more" if more else "")


def describe(condition: Target) -> str:
    """For people, and for the log."""
    if isinstance(condition, TargetGroup):
        if inner := parts_of(condition):
            return f"{condition.kind.rstrip('_')} of {_enumerate([describe(part) for part in inner])}"
        absent = condition.absent() if isinstance(condition, ScreenCondition) else None
        if absent is not None:
            return f"no {describe(absent)}"
        if isinstance(condition, ScreenCondition) and condition.screen is not None:
            return f"screen {condition.screen}"
    return _describe_one(condition)


def _describe_one(target: Target) -> str:
    if target.text is not None:
        return f"text /{target.text.matches}/" if isinstance(target.text, TextQuery) else f"text {target.text!r}"
    if target.ui is not None:
        given = target.ui.model_dump(by_alias=True, exclude_unset=True)
        return "ui " + " ".join(f"{key}={value!r}" for key, value in given.items())
    if target.colour is not None:
        return f"colour {target.colour if isinstance(target.colour, str) else target.colour.is_}"
    return target.image or f"feature {target.feature}"


def _depth(condition: Target) -> int:
    inner = parts_of(condition) if isinstance(condition, TargetGroup) else ()
    return 1 + max((_depth(part) for part in inner), default=0)


def _inside(inner: tuple[float, ...], outer: tuple[float, ...]) -> bool:
    return inner[0] < outer[2] and inner[2] > outer[0] and inner[1] < outer[3] and inner[3] > outer[1]


class PostCondition(ScreenCondition):
    """The post-condition of an act."""

    within: Seconds = Field(default=WITHIN_S, gt=0, le=WAIT_MAX_S, description="how long it may take")


class ConditionCheck(ScreenCondition):
    """A condition that is looked at, not waited for, unless it says `within`."""

    within: Seconds = Field(default=0.0, ge=0, le=60.0)
