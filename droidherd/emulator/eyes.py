"""Eyes on one emulator."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import EmulatorLostError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame
from droidherd.emulator import tree

LOOK_S = 10.0
FOCUS_S = 10.0
FOCUS_LINE = "dumpsys window | grep -E 'mCurrentFocus=|Display: mDisplayId=|mTopFocusedDisplayId='"
"""With the words that say which display each one is of, and which of them has the focus."""

Take = Callable[[str, float, Interrupt | None], Frame]
"""A frame of the emulator at this serial, within seconds."""


def _ignore(_: Frame) -> None:
    pass


@dataclass(frozen=True, slots=True)
class View:
    """How frames are taken, and who is told of every one."""

    take: Take
    seen: Callable[[Frame], None] = _ignore


class EmulatorEyes:
    """`Eyes` by adb. Looking changes nothing, so an answer that stays away is a lost emulator, never an unknown act."""

    def __init__(
        self,
        adb: AdbClient,
        serial: str,
        *,
        look_s: float = LOOK_S,
        interrupt: Interrupt | None = None,
        view: View | None = None,
    ) -> None:
        """On the emulator at `serial`. Without a `view`: raw frames."""
        self._adb = adb
        self._serial = serial
        self._look_s = look_s
        self._interrupt = interrupt
        self._view = view or View(adb.capture)

    def look(self) -> Frame:
        with lost():
            frame = self._view.take(self._serial, self._look_s, self._interrupt)
        self._view.seen(frame)
        return frame

    def focus(self) -> str:
        with lost():
            result = self._adb.shell(self._serial, FOCUS_LINE, FOCUS_S, interrupt=self._interrupt)
        found = parse.focus(result.text)
        return found.component if found else ""

    def tree(self) -> str:
        with lost():
            return tree.ask(self._adb, self._serial, interrupt=self._interrupt)


@contextmanager
def lost() -> Generator[None]:
    """For observations: no answer means that the emulator is lost, whatever became of the request."""
    try:
        yield
    except (NotSentError, UnknownOutcomeError) as error:
        raise EmulatorLostError(error.what, to=error.to) from error
