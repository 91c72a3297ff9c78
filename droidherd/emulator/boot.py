"""The gate a booted emulator passes before work, and the baseline after a lease that ended unclean."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.domain.errors import CommandFailedError, EmulatorLostError, InfrastructureError
from droidherd.domain.ports import Frame
from droidherd.emulator import acts, lines
from droidherd.emulator.eyes import FOCUS_LINE, answered_by
from droidherd.emulator.lines import ShellReply
from droidherd.emulator.probe import ProbeResult, probe
from droidherd.emulator.token import Token

POLL_S = 0.25
CALL_S = 5.0
FRAME_S = 10.0
LEAST_S = 0.2
"""With less than that nothing is tried again: that an answer was cut off would be told in place of the reason."""
BASELINE_S = 15.0
STAND_IN = ".FallbackHome"
"""Of the system's settings: in front while `sys.boot_completed` is set and the launcher cannot start yet."""


class BootStep(StrEnum):
    """How far an emulator has come, in this order."""

    DEVICE = "device"
    SHELL = "shell"
    BOOTED = "booted"
    PACKAGES = "packages"
    FOCUS = "focus"
    HOME = "home"
    FRAME = "frame"


FULL = tuple(BootStep)
SHORT = (BootStep.DEVICE, BootStep.SHELL, BootStep.FOCUS, BootStep.FRAME)


class NotYetError(InfrastructureError):
    """The emulator answers, but is not there yet."""


@dataclass(frozen=True, slots=True)
class BootClock:
    """The clock, given so that tests need not wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class BootGate:
    """One passage of one emulator."""

    def __init__(
        self,
        adb: AdbClient,
        serial: str,
        report: Callable[[BootStep], None],
        times: BootClock | None = None,
        *,
        take: Callable[[str, float], Frame] | None = None,
    ) -> None:
        """`report` hears of each stage when it is reached. `take` is the emulator's camera."""
        self._adb = adb
        self._serial = serial
        self._report = report
        self._times = times or BootClock()
        self._take = take or adb.capture
        self._checks: dict[BootStep, Callable[[float], None]] = {
            BootStep.DEVICE: self._device,
            BootStep.SHELL: self._shell,
            BootStep.BOOTED: self._wait_for_boot,
            BootStep.PACKAGES: self._packages,
            BootStep.FOCUS: self._focus,
            BootStep.HOME: self._home,
            BootStep.FRAME: self._frame,
        }

    def wait(self, deadline_s: float, stages: tuple[BootStep, ...] = FULL) -> ProbeResult:
        """Wait until all stages are reached. Raises EmulatorLostError with the one that was not, and why."""
        until_s = self._times.now() + deadline_s
        for stage in stages:
            self._reach(stage, until_s)
            self._report(stage)
        return probe(self._adb, self._serial, CALL_S)

    def _reach(self, stage: BootStep, until_s: float) -> None:
        why = ""
        while (left_s := until_s - self._times.now()) > (LEAST_S if why else 0):
            try:
                self._checks[stage](left_s)
            except InfrastructureError as error:
                why = error.what
                self._times.sleep(min(POLL_S, left_s))
            else:
                return
        raise EmulatorLostError(f"did not reach {stage}: {why or 'no time was left'}", to=self._serial)

    def _device(self, left_s: float) -> None:
        state = self._adb.state(self._serial, min(CALL_S, left_s))
        if state != "device":
            self._adb.disconnect(self._serial, min(CALL_S, left_s))
            state = self._adb.connect(self._serial, min(CALL_S, left_s))
        if state != "device":
            raise NotYetError(f"the adb server lists it as {state!r}")

    def _shell(self, left_s: float) -> None:
        probe(self._adb, self._serial, min(CALL_S, left_s))

    def _wait_for_boot(self, left_s: float) -> None:
        if not probe(self._adb, self._serial, min(CALL_S, left_s)).booted:
            raise NotYetError("sys.boot_completed is not set")

    def _packages(self, left_s: float) -> None:
        result = self._adb.shell(self._serial, "pm path android", min(CALL_S, left_s))
        if not result.text.startswith("package:"):
            raise NotYetError("the package manager does not answer")

    def _focus(self, left_s: float) -> None:
        """Something takes touches, and it is no dialog of something that died."""
        focus = self._in_front(left_s)
        if focus.not_responding:
            raise NotYetError(f"a dialog is in the way: {focus.window}")

    def _home(self, left_s: float) -> None:
        """Right after a boot that is an app: not the lock screen, and not what stands in until Android is unlocked."""
        focus = self._in_front(left_s)
        if not focus.component or focus.component.endswith(STAND_IN):
            raise NotYetError(f"no launcher and no app is in front, but {focus.window}")

    def _in_front(self, left_s: float) -> parse.Focus:
        result = self._adb.shell(self._serial, FOCUS_LINE, min(CALL_S, left_s))
        with answered_by(self._serial, "dumpsys window"):
            focus = parse.focus(result.text)
        if focus is None:
            raise NotYetError("no window has the focus")
        return focus

    def _frame(self, left_s: float) -> None:
        self._take(self._serial, min(FRAME_S, left_s))


def baseline(adb: AdbClient, serial: str, token: Token, app: str = "") -> None:
    """Bring back the keyboard, stop the app and go home, while `token` stands; may be repeated."""
    home = acts.key("home")
    stop = f"{acts.stop_app(app)} && " if app else ""
    act = f"{{ {acts.restore_keyboard()}{stop}{home}; }}"
    answer = ShellReply.of(adb.shell(serial, lines.guard(token, act), BASELINE_S), serial)
    if answer.word != "acted":
        answer.refuse(serial)
    if answer.rest != ("0",):
        rc = parse.number(answer.rest[0] if answer.rest else "")
        raise CommandFailedError(f"baseline: {answer.output}", rc=-1 if rc is None else rc, to=serial)
