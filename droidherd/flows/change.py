"""Steps that change a thing by value, so that rollback can restore it: `set`, `put`, `delete`, `install`, `uninstall`.

What each of them changes is known from the plan. Its value is captured before the first of them.
"""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from droidherd.contracts.changes import Thing
from droidherd.domain.things import PACKAGE, PATH_LIMIT_BYTES, problem_with, problem_with_value
from droidherd.flows.part import Part

PACKAGE_PATTERN = rf"^{PACKAGE}$"
PAYLOAD_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_@.-]*(/[A-Za-z0-9_][A-Za-z0-9_@.-]*)*$"
TEXT_MAX = 4_000
"""A step travels in the task's history."""


def _text(value: object) -> object:
    """A whole number means its digits; what YAML reads as something else is ambiguous."""
    if isinstance(value, bool | float):
        raise ValueError("is ambiguous: put it in quotes")  # noqa: TRY004 -- pydantic reports ValueError
    return str(value) if isinstance(value, int) else value


Text: TypeAlias = Annotated[
    str,
    BeforeValidator(_text),
    StringConstraints(max_length=TEXT_MAX),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": TEXT_MAX}, {"type": "integer"}]}),
]
Payload: TypeAlias = Annotated[str, StringConstraints(pattern=PAYLOAD_PATTERN, max_length=120)]
FilePath: TypeAlias = Annotated[
    str, StringConstraints(max_length=PATH_LIMIT_BYTES), AfterValidator(lambda path: _judged(Thing.FILE, path))
]
SettingName: TypeAlias = Annotated[
    str, StringConstraints(max_length=210), AfterValidator(lambda name: _judged(Thing.SETTING, name))
]
PropertyName: TypeAlias = Annotated[
    str, StringConstraints(max_length=210), AfterValidator(lambda name: _judged(Thing.PROPERTY, name))
]
PackageName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=PACKAGE_PATTERN, max_length=200),
    WithJsonSchema({"type": "string", "pattern": rf"({PACKAGE_PATTERN})|\$\{{", "maxLength": 200}),
]


def _judged(thing: Thing, name: str) -> str:
    if problem := problem_with(thing, name):
        raise ValueError(problem)
    return name


class SetValue(Part):
    """Give a setting, an override of the screen, or a property a value."""

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
    def thing(self) -> Thing:
        if self.setting is not None:
            return Thing.SETTING
        return Thing.WM if self.wm is not None else Thing.PROPERTY

    @property
    def subject(self) -> str:
        return self.setting or self.wm or self.property_ or ""


class PutFile(Part):
    """Write a file on the emulator, whole or not at all. Its folder has to be there."""

    thing: ClassVar[Thing] = Thing.FILE
    file: FilePath = Field(description="where, on the emulator")
    text: Annotated[str, StringConstraints(max_length=TEXT_MAX)] | None = Field(default=None, description="its content")
    source: Payload | None = Field(default=None, alias="from", description="a file in the flow's folder `files`")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if (self.text is None) == (self.source is None):
            raise ValueError("exactly one of text and from is needed")
        return self

    @property
    def subject(self) -> str:
        return self.file


class DeleteFile(Part):
    """Take a file away."""

    thing: ClassVar[Thing] = Thing.FILE
    file: FilePath

    @property
    def subject(self) -> str:
        return self.file


class Install(Part):
    """Install an app from an APK that the flow carries, or update it."""

    thing: ClassVar[Thing] = Thing.PACKAGE
    apk: Payload = Field(description="a file in the flow's folder `files`")
    package: PackageName | None = Field(default=None, description="what it must hold; else what it does hold")

    @property
    def subject(self) -> str:
        """Written into the step when it is planned."""
        return self.package or ""


class Uninstall(Part):
    """Take an app away, with its data, which rollback does not bring back."""

    thing: ClassVar[Thing] = Thing.PACKAGE
    package: PackageName

    @property
    def subject(self) -> str:
        return self.package


class SetStep(Part):
    set: SetValue


class PutStep(Part):
    put: PutFile


class DeleteStep(Part):
    delete: DeleteFile


class InstallStep(Part):
    install: Install


class UninstallStep(Part):
    uninstall: Uninstall


ChangeArgs: TypeAlias = SetValue | PutFile | DeleteFile | Install | Uninstall
CHANGE_KINDS = ("set", "put", "delete", "install", "uninstall")
