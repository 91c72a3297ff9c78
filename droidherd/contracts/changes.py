"""What a stage changes on an emulator, what was there before, and what it takes to undo it."""

from enum import StrEnum

from pydantic import Field, JsonValue

from droidherd.contracts.base import Contract


class Thing(StrEnum):
    """Kinds of things that are changed and restored by value."""

    SETTING = "setting"
    """`settings`, named `namespace/key`."""
    WM = "wm"
    """`wm size` and `wm density`; the value is the override."""
    PROPERTY = "property"
    PACKAGE = "package"
    """An installed app; the value is the digest of its file."""
    FILE = "file"
    """A file on the emulator, named by its path; the value is the digest of its content."""


class Change(Contract):
    """One thing a stage is going to change, known from its plan."""

    step: str
    """The path of the step that changes it."""
    thing: Thing
    name: str


class Value(Contract):
    """What one thing is, at one moment."""

    step: str
    thing: Thing
    name: str
    there: bool = True
    """False: there is no such thing; `value` says nothing then."""
    value: str = ""
    kept: str = ""
    """The artifact that holds the content, where a value alone could not restore it."""


class Undo(Contract):
    """What it takes to take one stage back on one emulator. The undo log of a task is a list of these, oldest first."""

    stage_index: int
    stage: str
    emulator: str
    lease: int = 0
    """Under which it began. With the stage it names this entry: leases only grow."""
    flow_hash: str = ""
    """Of the flow that changed it."""
    before: tuple[Value, ...] = ()
    after: tuple[Value, ...] = ()
    """As the stage left them. Empty when it never said so: then only what is still as before, or forced, is certain."""
    unsaid: bool = False
    """The stage began once more since then, and has not said how it left them."""
    steps: tuple[JsonValue, ...] = ()
    """The flow's own `undo`, run before the values are restored. Of what never completed, its handlers' alone."""
    undone: bool = False


class Conflict(Contract):
    """A thing that is neither as the stage left it nor as it was before: somebody else changed it since."""

    step: str
    thing: Thing
    name: str
    expected: str = Field(default="", description="as the stage left it; empty: nobody knows")
    found: str = ""
