"""Steps that change a thing by value, so that rollback can restore it: `set`, `put`, `delete`, `install`, `uninstall`.

What each of them changes is known from the plan. Its value is captured before the first of them.
"""

import hashlib
import io
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator
from typing_extensions import override

from droidherd.contracts.changes import Thing
from droidherd.domain.ports import Acted, Wanted
from droidherd.domain.task.things import ABSENT, PACKAGE, PATH_LIMIT_BYTES, State, problem_with, problem_with_value
from droidherd.files.regular import open_regular
from droidherd.flows.model.steps.base import NamedThing, Payloads, PlannedAct, Step, StepContext, Subjects

PACKAGE_PATTERN = rf"^{PACKAGE}$"
PAYLOAD_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_@.-]*(/[A-Za-z0-9_][A-Za-z0-9_@.-]*)*$"
TEXT_MAX = 4_000
"""A step travels in the task's history."""


def _text(value: object) -> object:
    """A whole number means its digits; what YAML reads as something else is ambiguous."""
    if isinstance(value, bool | float):
        raise ValueError("is ambiguous: put it in quotes")  # noqa: TRY004 -- pydantic reports ValueError
    return str(value) if isinstance(value, int) else value


def _judge_name(thing: Thing, name: str) -> str:
    if problem := problem_with(thing, name):
        raise ValueError(problem)
    return name


Text: TypeAlias = Annotated[
    str,
    BeforeValidator(_text),
    StringConstraints(max_length=TEXT_MAX),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": TEXT_MAX}, {"type": "integer"}]}),
]
Payload: TypeAlias = Annotated[str, StringConstraints(pattern=PAYLOAD_PATTERN, max_length=120)]
FilePath: TypeAlias = Annotated[
    str, StringConstraints(max_length=PATH_LIMIT_BYTES), AfterValidator(partial(_judge_name, Thing.FILE))
]
SettingName: TypeAlias = Annotated[
    str, StringConstraints(max_length=210), AfterValidator(partial(_judge_name, Thing.SETTING))
]
PropertyName: TypeAlias = Annotated[
    str, StringConstraints(max_length=210), AfterValidator(partial(_judge_name, Thing.PROPERTY))
]
PackageName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=PACKAGE_PATTERN, max_length=200),
    WithJsonSchema({"type": "string", "pattern": rf"({PACKAGE_PATTERN})|\$\{{", "maxLength": 200}),
]


class ChangeStep(Step):
    """What the steps that change a thing by value share."""

    acts: ClassVar[bool] = True
    changes_things: ClassVar[bool] = True
    on_the_way: ClassVar[bool] = False

    changes: ClassVar[Thing]
    """What kind of thing; `set` goes by its arguments."""

    @property
    def thing(self) -> Thing:
        return self.changes

    @property
    def subject(self) -> str:
        """The name of the thing."""
        raise NotImplementedError

    def wanted(self, payload: Payloads) -> Wanted:  # noqa: ARG002 -- for those that bring a file
        """What it makes of its thing."""
        return Wanted(self.thing, self.subject, ABSENT)

    @override
    def subjects(self, handlers: Subjects) -> list[NamedThing]:
        return [(self.thing, self.subject)]

    @override
    def states(self, payload: Payloads, handlers: Subjects) -> list[tuple[str, str, State]]:
        return [(self.thing, self.subject, self.wanted(payload).state)]

    @override
    def run(self, context: StepContext, path: str) -> None:
        """Made again when nobody knows whether it was made: twice is the same as once."""
        what = f"change {self.thing} {self.subject}"
        context.perform(PlannedAct(path, what, lambda: lambda: self._make(context, path), harmless=True))

    def _make(self, context: StepContext, path: str) -> Acted:
        return context.things.make(path, self.wanted(context.payload))


class SetStep(ChangeStep):
    """Give a setting, an override of the screen, or a property a value."""

    word: ClassVar[str] = "set"
    setting: SettingName | None = Field(default=None, description="namespace/key, as in global/airplane_mode_on")
    wm: Literal["size", "density"] | None = Field(default=None, description="an override of the screen")
    property_: PropertyName | None = Field(default=None, alias="property", description="as in debug.hwui.renderer")
    to: Text = Field(description="the value; for wm as in 720x1280 or 240")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        given = [name for name in (self.setting, self.wm, self.property_) if name is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of setting, wm and property is needed, not {len(given)}")
        if problem := problem_with_value(self.thing, self.subject, self.to):
            raise ValueError(f"to: {problem}")
        return self

    @property
    @override
    def thing(self) -> Thing:
        if self.setting is not None:
            return Thing.SETTING
        return Thing.WM if self.wm is not None else Thing.PROPERTY

    @property
    @override
    def subject(self) -> str:
        return self.setting or self.wm or self.property_ or ""

    @override
    def wanted(self, payload: Payloads) -> Wanted:
        return Wanted(self.thing, self.subject, State(self.to))


class PutStep(ChangeStep):
    """Write a file on the emulator, whole or not at all. Its folder has to be there."""

    word: ClassVar[str] = "put"
    changes: ClassVar[Thing] = Thing.FILE
    file_key: ClassVar[str] = "from"
    file: FilePath = Field(description="where, on the emulator")
    text: Annotated[str, StringConstraints(max_length=TEXT_MAX)] | None = Field(default=None, description="its content")
    source: Payload | None = Field(default=None, alias="from", description="a file in the flow's folder `files`")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if (self.text is None) == (self.source is None):
            raise ValueError("exactly one of text and from is needed")
        return self

    @property
    @override
    def subject(self) -> str:
        return self.file

    @override
    def wanted(self, payload: Payloads) -> Wanted:
        if self.text is None:
            return _from_file(self.thing, self.file, payload(self.source or ""))
        content = self.text.encode()
        digest = hashlib.sha256(content).hexdigest()
        return Wanted(self.thing, self.file, State(digest), partial(io.BytesIO, content))


class DeleteStep(ChangeStep):
    """Take a file away."""

    word: ClassVar[str] = "delete"
    changes: ClassVar[Thing] = Thing.FILE
    file: FilePath

    @property
    @override
    def subject(self) -> str:
        return self.file


class InstallStep(ChangeStep):
    """Install an app from an APK that the flow carries, or update it."""

    word: ClassVar[str] = "install"
    changes: ClassVar[Thing] = Thing.PACKAGE
    file_key: ClassVar[str] = "apk"
    apk: Payload = Field(description="a file in the flow's folder `files`")
    package: PackageName | None = Field(default=None, description="what it must hold; else what it does hold")

    @property
    @override
    def subject(self) -> str:
        """Written into the step when it is planned."""
        return self.package or ""

    @override
    def wanted(self, payload: Payloads) -> Wanted:
        return _from_file(self.thing, self.subject, payload(self.apk))


class UninstallStep(ChangeStep):
    """Take an app away, with its data, which rollback does not bring back."""

    word: ClassVar[str] = "uninstall"
    changes: ClassVar[Thing] = Thing.PACKAGE
    package: PackageName

    @property
    @override
    def subject(self) -> str:
        return self.package


def _from_file(thing: Thing, name: str, file: Path) -> Wanted:
    with open_regular(file) as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return Wanted(thing, name, State(digest), partial(_open, file))


def _open(file: Path) -> AbstractContextManager[BinaryIO]:
    return open_regular(file)
