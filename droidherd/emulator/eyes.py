"""Eyes on one emulator."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import EmulatorLostError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame

LOOK_S = 10.0
FOCUS_S = 10.0
FOCUS_LINE = "dumpsys window | grep mCurrentFocus"


Take = Callable[[str, float, Interrupt | None], Frame]
"""A frame of the emulator at this serial, within seconds."""


def _ignore(_: Frame) -> None:
    pass


class EmulatorEyes:
    """`Eyes` by adb. Looking changes nothing, so an answer that stays away is a lost emulator, never an unknown act."""

    def __init__(
        self,
        adb: AdbClient,
        serial: str,
        *,
        look_s: float = LOOK_S,
        interrupt: Interrupt | None = None,
        take: Take | None = None,
        seen: Callable[[Frame], None] = _ignore,
    ) -> None:
        """On the emulator at `serial`. `take` is its camera; `seen` is told of every frame."""
        self._adb = adb
        self._serial = serial
        self._look_s = look_s
        self._interrupt = interrupt
        self._take = take or adb.capture
        self._seen = seen

    def look(self) -> Frame:
        with lost():
            frame = self._take(self._serial, self._look_s, self._interrupt)
        self._seen(frame)
        return frame

    def focus(self) -> str:
        with lost():
            result = self._adb.shell(self._serial, FOCUS_LINE, FOCUS_S, interrupt=self._interrupt)
        found = parse.focus(result.text)
        return found.component if found else ""


@contextmanager
def lost() -> Generator[None]:
    """For observations: no answer means that the emulator is lost, whatever became of the request."""
    try:
        yield
    except (NotSentError, UnknownOutcomeError) as error:
        raise EmulatorLostError(error.what, to=error.to) from error
