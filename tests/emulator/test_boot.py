"""The gate after a boot, stage by stage, and the baseline."""

from pathlib import Path

import pytest

from droidherd.adb.client import AdbClient
from droidherd.contracts.fleet import GateWork
from droidherd.domain.errors import (
    AbandonedError,
    CommandFailedError,
    EmulatorLostError,
    FencedError,
    InvalidFrameError,
)
from droidherd.domain.ports import Frame
from droidherd.emulator import lease
from droidherd.emulator.boot import FULL, SHORT, BootClock, BootGate, BootStep, baseline
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.token import Token
from tests.adb.talker import Talk, frames, talking
from tests.emulator.farm import LONG_S, One, Tries, eventually

APP = "com.example.herd"


def gate(one: One, times: BootClock | None = None) -> tuple[BootGate, list[BootStep]]:
    reached: list[BootStep] = []
    return BootGate(one.adb, one.address, reached.append, times), reached


class Patience:
    """A clock that only moves while somebody waits, so that a busy machine does not shorten the gate."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def times(self) -> BootClock:
        return BootClock(lambda: self.now_s, self.sleep)


def test_a_booting_emulator_passes_stage_by_stage_and_gets_its_floor(one: One):
    one.control.reboot(one.name, boot_s=0.6)
    passage, reached = gate(one)
    floor = Token(one.lease - 1)
    found = passage.wait(20.0)
    stands = lease.floor(one.adb, one.address, floor)
    assert list(FULL) == reached
    assert (True, str(floor)) == (found.booted, stands)
    assert str(floor) == lease.seize(one.adb, one.address, one.token(), after=1).before


def test_an_emulator_that_kept_running_keeps_its_token(one: One):
    one.seize()
    passage, _ = gate(one)
    passage.wait(LONG_S)
    stands = lease.floor(one.adb, one.address, Token(one.lease - 5))
    assert str(one.token()) == stands


@pytest.mark.parametrize(
    ("fault", "last", "why", "within_s"),
    [
        ("black_screencap", BootStep.FRAME, "one colour", LONG_S),
        ("half_screencap", BootStep.FRAME, "truncated", LONG_S),
        ("shell_hang", BootStep.SHELL, "no answer", 1.0),
        ("shell_cut", BootStep.SHELL, "closed", LONG_S),
    ],
)
def test_a_gate_that_closes_names_the_stage_and_the_reason(
    one: One, fault: str, last: BootStep, why: str, within_s: float
):
    one.control.set_fault(one.name, fault)
    passage, reached = gate(one, Tries(2).times())
    with pytest.raises(EmulatorLostError, match=rf"did not reach {last}: .*{why}"):
        passage.wait(within_s)
    assert list(FULL)[: FULL.index(last)] == reached


def test_the_reason_is_not_hidden_by_a_last_try_that_has_no_time(one: One):
    def take(serial: str, deadline_s: float) -> Frame:
        reason = "one colour" if deadline_s > 0.2 else f"no answer within {deadline_s:g} s"
        raise InvalidFrameError(reason, to=serial)

    gate = BootGate(one.adb, one.address, lambda _: None, Patience().times(), take=take)
    with pytest.raises(EmulatorLostError, match="did not reach frame: one colour"):
        gate.wait(0.6, (BootStep.FRAME,))


def test_an_emulator_that_never_comes_is_given_up_at_the_first_stage(one: One):
    one.control.kill(one.name)
    eventually(lambda: one.adb.state(one.address) != "device")  # until then adb takes its last word for a sign of life
    passage, reached = gate(one, Tries(2).times())
    with pytest.raises(EmulatorLostError, match="did not reach device"):
        passage.wait(LONG_S)
    assert [] == reached
    one.control.start(one.name)


def test_an_unfinished_boot_is_not_up(one: One):
    one.control.reboot(one.name, boot_s=30.0)
    passage, _ = gate(one)
    with pytest.raises(EmulatorLostError, match=r"did not reach (device|shell|booted)"):
        passage.wait(1.0)
    one.control.reboot(one.name, boot_s=0.0)


def test_the_short_gate_asks_less_and_the_baseline_goes_home(one: One):
    one.hands().start_app("1", APP)
    fence = Token(one.lease + 1)
    lease.fence(one.adb, one.address, fence)
    one.mark()
    baseline(one.adb, one.address, fence, APP)
    passage, reached = gate(one)
    passage.wait(LONG_S, SHORT)
    assert [f"am force-stop {APP}", "input keyevent KEYCODE_HOME"] == one.acts()
    assert [list(SHORT), []] == [reached, one.did("pm path")]
    assert one.eyes().focus().startswith("com.android.launcher3/")


def test_a_baseline_of_a_lease_that_was_overtaken_touches_nothing(one: One):
    one.seize()
    one.mark()
    with pytest.raises(FencedError):
        baseline(one.adb, one.address, Token(one.lease - 1), APP)
    assert [] == one.acts()


def test_a_baseline_that_fails_says_so():
    def script(talk: Talk) -> None:
        talk.service()
        talk.say(frames([b"dh:acted 3\nno such thing\n"]))

    with talking(script) as talker, pytest.raises(CommandFailedError, match="baseline: no such thing") as caught:
        baseline(AdbClient(talker.port), "127.0.0.1:1", Token(1), APP)
    assert 3 == caught.value.rc


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ("com.android.settings/com.android.settings.FallbackHome", r"but com.android.settings/.*FallbackHome"),
        ("NotificationShade", "but NotificationShade"),
        ("com.android.launcher3/com.android.launcher3.Launcher", ""),
    ],
)
def test_after_a_boot_an_app_has_to_be_in_front(window: str, why: str):
    def script(talk: Talk) -> None:
        talk.service()
        talk.say(frames([f"  mCurrentFocus=Window{{4f1 u0 {window}}}\n".encode()]))

    reached: list[BootStep] = []
    with talking(script) as talker:
        passage = BootGate(AdbClient(talker.port), "127.0.0.1:1", reached.append, Tries(2).times())
        with pytest.raises(EmulatorLostError, match=why or "no answer|answered a probe|shell answered"):
            passage.wait(LONG_S, (BootStep.FOCUS, BootStep.HOME))
    assert ([BootStep.FOCUS, BootStep.HOME] if not why else [BootStep.FOCUS]) == reached


def test_a_gate_shows_that_it_goes_on_while_one_answer_stays_away(
    one: One, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("droidherd.adb.wire.PULSE_S", 0.02)
    monkeypatch.setattr("droidherd.emulator.boot.POLL_S", 60.0)  # nothing else shows it
    Inventory(tmp_path).add(InventoryEntry(emulator_id=one.name, address=one.address))
    one.control.set_fault(one.name, "shell_hang")
    beats: list[str] = []

    def beat(text: str) -> None:
        beats.append(text)
        if beats.count(BootStep.DEVICE) > 5:
            raise AbandonedError("seen often enough")

    work = GateWork(emulator_id=one.name, boot="", floor=one.lease, full=True)
    result = Gatekeeper(one.adb, Inventory(tmp_path), LONG_S).work(work, beat)
    assert ([BootStep.DEVICE], "seen often enough") == ([*result.stages], result.evidence)
