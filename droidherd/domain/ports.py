"""What the core asks of the outside, as protocols. Flows are written against these, and so are the activities."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Protocol, TypeAlias

from droidherd.domain.task.things import State


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of an emulator's screen: RGBA rows, top down."""

    width: int
    height: int
    rgba: bytes | bytearray | memoryview
    taken_at_s: float
    """On the host's monotonic clock, after the last byte arrived."""


class Acted(StrEnum):
    """What became of an effect."""

    DONE = "done"
    AGAIN = "again"
    """The emulator's journal says it happened before: it was not repeated."""


class Recalled(StrEnum):
    """What the emulator's journal says about an effect of an earlier try of this stage."""

    DONE = "done"
    """It has a result, or was observed to have happened."""
    FAILED = "failed"
    """It has a result, and the result was no."""
    UNKNOWN = "unknown"
    """It was begun; whether it happened nobody wrote down."""


class Hands(Protocol):
    """Acts on one emulator under one lease. Every act is guarded, fenced and journaled on the emulator.

    `effect` names the act inside its stage (the step's path, plus the turn of a loop) and stays the same when the
    stage runs again. Each method raises FencedError, LateError, NotSentError, UnknownOutcomeError or
    CommandFailedError; UnknownOutcomeError also when the journal holds an intent without a result.
    """

    def recall(self) -> Mapping[str, Recalled]:
        """Every effect of this stage in the journal, by name. Forgotten ones are left out: they may be done again.

        Asked once, when the stage begins, so that what came before the last recorded effect is not waited for
        again. Harmless to repeat.
        """
        ...

    def tap(self, effect: str, x: int, y: int) -> Acted: ...
    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted: ...
    def type_text(self, effect: str, text: str) -> Acted: ...
    def key(self, effect: str, key: str) -> Acted: ...
    def start_app(self, effect: str, app: str) -> Acted: ...
    def stop_app(self, effect: str, app: str) -> Acted: ...
    def clear_app(self, effect: str, app: str) -> Acted: ...

    def mark(self, effect: str, value: str = "") -> Acted:
        """Write down, as of any effect, that the stage came here, and with what value; nothing else is done."""
        ...

    def marked(self, effect: str) -> str | None:
        """The value that stands in the journal, whichever try wrote it there; known after `recall` or `mark`."""
        ...

    def settle(self, effect: str) -> None:
        """Write down that an effect of unknown outcome was observed to have happened."""
        ...

    def forget(self, effect: str) -> None:
        """Write down that an effect of unknown outcome was observed *not* to have happened, so it may be repeated."""
        ...


Content: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a content on the host, from its beginning."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a thing is to be."""

    thing: str
    name: str
    state: State
    content: Content | None = None
    """Of a file or a package that is to be there; the state's value is its digest."""
    mode: str = ""
    """Of a file, in octal; empty: as it is, or 644."""
    restoring: bool = False
    """To an older version of a package if need be, though that costs the app its data."""


class Things(Protocol):
    """Changes and reads things by value on one emulator under one lease. Guarded and journaled like all acts."""

    def make(self, effect: str, wanted: Wanted) -> Acted:
        """Make a thing what it is to be, and see that it is. Twice is the same as once."""
        ...

    def read(self, thing: str, name: str) -> State:
        """What a thing is now; FinalError for what cannot be changed by value."""
        ...


class Eyes(Protocol):
    """Looks at one emulator."""

    def look(self) -> Frame:
        """One valid frame, taken after this call began. Raises InvalidFrameError, EmulatorLostError, ..."""
        ...

    def focus(self) -> str:
        """The `package/activity` that has the focus now, or an empty text."""
        ...

    def tree(self) -> str:
        """The elements of the screen, as `uiautomator dump` writes them. RestlessError while it does not."""
        ...


class StageRecorder(Protocol):
    """Is told of everything a stage sees and does, in that order."""

    muted: int
    """Above zero while a handler is at work: what it does inside is its own."""

    def look(self, frame: Frame) -> None: ...
    def tree(self, dump: str) -> None: ...
    def act(self, kind: str, effect: str = "", /, **args: Any) -> None:
        """An act is about to be sent: what came of it shows on the next frame."""
        ...

    def forget(self) -> None:
        """The last act surely was not sent, or was observed not to have happened."""
        ...

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        """What an earlier try had done."""
        ...

    def marked(self, effect: str, value: str) -> None: ...
    def broke_off(self, handler: str) -> None:
        """This handler did not come to its end."""
        ...


class _NoRecorder:
    """Where nobody records."""

    muted = 0

    def look(self, frame: Frame) -> None:
        pass

    def tree(self, dump: str) -> None:
        pass

    def act(self, kind: str, effect: str = "", /, **args: Any) -> None:
        pass

    def forget(self) -> None:
        pass

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        pass

    def marked(self, effect: str, value: str) -> None:
        pass

    def broke_off(self, handler: str) -> None:
        pass


NO_RECORDER: StageRecorder = _NoRecorder()


class Lifeline(Protocol):
    """The tie between a running try and the engine. Step loops call `beat` at every poll."""

    def beat(self, progress: str = "") -> None:
        """Confirm to the engine that work moves. Raises AbandonedError when the try was given up."""
        ...

    def stopping(self) -> str:
        """Empty, or why the try is asked to stop at the next step boundary ("cancel", "pause", "drain")."""
        ...


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a frame, in pixels."""

    x: int
    y: int
    width: int
    height: int

    def centre(self) -> tuple[int, int]:
        return self.x + self.width // 2, self.y + self.height // 2


@dataclass(frozen=True, slots=True)
class Match:
    """Where a template was searched for and how well it fits there."""

    found: bool
    box: Box
    score: float
    runner_up: float
    """The best score elsewhere, so that a threshold can be judged."""
    differs: Box | None = None
    """The shape is there, but it differs here: counts as not found."""
    runner_up_box: Box | None = None
    text: str = ""
    """What was read there."""


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A file a task left behind."""

    name: str
    size: int
    content_type: str


class Sink(Protocol):
    """What can be written piece by piece."""

    def write(self, piece: bytes, /) -> object: ...


class Artifacts(Protocol):
    """Keeps artifacts by reference. Names cannot escape the task they belong to."""

    def put(self, task_id: str, name: str, content: bytes, content_type: str, *, synced: bool = True) -> ArtifactRef:
        """Kept when it returns. Not `synced`: it outlives this process, but not the host, if that dies right now."""
        ...

    def stream(self, task_id: str, name: str, *, size_max: int) -> AbstractContextManager[Sink]:
        """For a content of any size up to this: what is written appears, whole, when the block ends well."""
        ...

    def open(self, task_id: str, name: str) -> AbstractContextManager[BinaryIO]:
        """The content, to be read piece by piece."""
        ...

    def get(self, task_id: str, name: str) -> bytes: ...
    def list(self, task_id: str) -> Sequence[ArtifactRef]: ...
