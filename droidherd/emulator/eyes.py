"""Eyes on one emulator."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import (
    EmulatorLostError,
    InfrastructureError,
    NotSentError,
    RestlessError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import NO_RECORDER, Frame, StageRecorder
from droidherd.domain.task.things import OWN_FOLDER
from droidherd.emulator.coordinates import CoordinateMap
from droidherd.vision.tree import is_tree

LOOK_S = 10.0
FOCUS_S = 10.0
FOCUS_LINE = "dumpsys window | grep -E 'mCurrentFocus=|Display: mDisplayId=|mTopFocusedDisplayId='"
"""With the words that say which display each one is of, and which of them has the focus."""

Take = Callable[[str, float, CallInterrupt | None], Frame]
"""A frame of the emulator at this serial, within seconds."""


def _ignore(_: Frame) -> None:
    pass


@dataclass(frozen=True, slots=True)
class FrameSource:
    """How frames are taken, where they go, and how their places map to touches."""

    take: Take
    seen: Callable[[Frame], None] = _ignore
    coordinates: CoordinateMap | None = None
    """That of the hands, so that a touch lands where it was seen."""
    look_s: float = LOOK_S


class EmulatorEyes:
    """`Eyes` by adb. Looking changes nothing, so an answer that stays away is a lost emulator, never an unknown act."""

    def __init__(
        self,
        adb: AdbClient,
        serial: str,
        *,
        interrupt: CallInterrupt | None = None,
        source: FrameSource | None = None,
        recorder: StageRecorder = NO_RECORDER,
    ) -> None:
        """On the emulator at `serial`. Without a `source`: raw frames."""
        self._adb = adb
        self._serial = serial
        self._interrupt = interrupt
        self._source = source or FrameSource(adb.capture)
        self._coordinates = self._source.coordinates
        self._recorder = recorder

    def look(self) -> Frame:
        take = partial(self._source.take, self._serial, self._source.look_s, self._interrupt)
        with raise_lost():
            frame = take() if self._coordinates is None else self._coordinates.see(take)
        self._source.seen(frame)
        self._recorder.look(frame)
        return frame

    def focus(self) -> str:
        with raise_lost():
            result = self._adb.shell(self._serial, FOCUS_LINE, FOCUS_S, interrupt=self._interrupt)
        with answered_by(self._serial, "dumpsys window"):
            found = parse.focus(result.text)
        return found.component if found else ""

    def tree(self) -> str:
        with raise_lost():
            dump = dump_tree(self._adb, self._serial, interrupt=self._interrupt)
        if self._coordinates is not None:
            dump = self._coordinates.tree_on_frame(dump)
        self._recorder.tree(dump)
        return dump


@contextmanager
def raise_lost() -> Generator[None]:
    """For observations: no answer means that the emulator is lost, whatever became of the request."""
    try:
        yield
    except (NotSentError, UnknownOutcomeError) as error:
        raise EmulatorLostError(error.what, to=error.to) from error


@contextmanager
def answered_by(serial: str, asked: str = "") -> Generator[None]:
    """Within, answers are parsed: one that makes no sense is an error of this emulator, and of what it was asked."""
    try:
        yield
    except InfrastructureError as error:
        if error.to != serial:
            error.locate(error.to or asked)
            error.to = serial
        raise


TREE_S = 20.0
"""The tool itself waits up to ten seconds for the screen to come to rest."""
TREE_FILE = f"{OWN_FOLDER}/tree.xml"
# An old file must not pass for a new one: the tool may fail and return 0 all the same.
TREE_LINE = (
    f"mkdir -p {OWN_FOLDER}; rm -f {TREE_FILE}; o=$(uiautomator dump {TREE_FILE} 2>&1); "
    f'if [ -s {TREE_FILE} ]; then cat {TREE_FILE}; else echo "$o" >&2; exit 1; fi'
)
_WHY_MAX = 200


def dump_tree(adb: AdbClient, serial: str, deadline_s: float = TREE_S, interrupt: CallInterrupt | None = None) -> str:
    """One dump, made after this call began. RestlessError when Android does not make one now."""
    result = adb.shell(serial, TREE_LINE, deadline_s, interrupt=interrupt)
    if result.rc == 0 and is_tree(result.text):
        return result.text
    why = " ".join(result.err.decode(errors="replace").split())[:_WHY_MAX]
    raise RestlessError(
        f"the elements of the screen cannot be told: {why or 'the dump is not whole'}",
        to=serial,
        remedy="a screen that keeps moving has none; look for an image",
    )
