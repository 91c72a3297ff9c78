"""What a host does for its emulators, on virtual ones behind a real adb server, through their real controller."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from droidherd.contracts.fleet import RecoveryResult, RecoveryWork
from droidherd.controllers.model import ControlledEmulator, ControllerCall, Power, PowerStatus
from droidherd.controllers.registry import VIRTUAL, Controllers
from droidherd.controllers.virtual import VirtualController
from droidherd.domain.errors import AbandonedError
from droidherd.domain.fleet.recovery import RecoveryStep
from droidherd.emulator import lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink, probe
from droidherd.recovery.recovery import Recovery, RecoveryLimits
from tests.emulator.farm import LONG_S, One, Tries


class Untold(VirtualController):
    """One that does not tell where its emulators are."""

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        return PowerStatus(super().status(target, call).power)


@dataclass
class Host:
    one: One
    data: Path
    boot_s: float = 20.0
    controller: str = VIRTUAL

    def __post_init__(self) -> None:
        entry = InventoryEntry(emulator_id=self.one.name, address=self.one.address, controller=self.controller)
        Inventory(self.data).add(entry)
        ready = self.one.farm.fleet.state / "ready.json"
        controllers = Controllers(
            {VIRTUAL: VirtualController(ready), "untold": Untold(ready), "telling": Telling(ready)}
        )
        self.recovery = Recovery(
            self.one.adb, Inventory(self.data), controllers, RecoveryLimits(10.0, self.boot_s), self.data / "quarantine"
        )

    def does(self, step: RecoveryStep, beat: Callable[[], None] = lambda: None, **work: object) -> RecoveryResult:
        request = RecoveryWork.model_validate({"emulator_id": self.one.name, "step": step, **work})
        return self.recovery.run(request, beat)

    @property
    def boot(self) -> int:
        return self.one.control.counters(self.one.name)["boot"]

    def address(self, name: str) -> str:
        return Inventory(self.data).address(name)


@pytest.fixture(autouse=True)
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who answers late on a busy machine is not taken for gone."""
    monkeypatch.setattr("droidherd.recovery.recovery.PROBE_S", LONG_S)


@pytest.fixture
def host(one: One, tmp_path: Path) -> Host:
    return Host(one, tmp_path)


def test_one_that_was_killed_is_back_and_booted_when_its_restart_returns(host: Host, one: One):
    before = host.boot
    one.control.kill(one.name)
    assert RecoveryResult() == host.does(RecoveryStep.RESTART)
    assert (before + 1, True) == (host.boot, probe(one.adb, one.address, LONG_S).booted)


def test_one_that_came_back_while_its_restart_waited_is_left_alone(host: Host):
    before = host.boot
    assert RecoveryResult(idle=True) == host.does(RecoveryStep.RESTART)
    assert before == host.boot


def test_one_unfit_in_this_very_boot_or_ordered_by_a_person_is_restarted(host: Host, one: One):
    before = host.boot
    assert RecoveryResult() == host.does(RecoveryStep.RESTART, boot=probe(one.adb, one.address, LONG_S).boot_id)
    assert RecoveryResult(idle=True) == host.does(RecoveryStep.RESTART, boot="an older one")
    assert RecoveryResult() == host.does(RecoveryStep.RESTART, forced=True)
    assert before + 2 == host.boot


def test_one_that_never_boots_is_reported_with_how_far_it_came(host: Host, one: One, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.recovery.recovery.patient", Tries(5).patient)
    one.control.set_fault(one.name, "no_boot")
    evidence = host.does(RecoveryStep.RESTART, forced=True).evidence
    assert evidence == f"restart: {one.address}: did not reach booted: sys.boot_completed is not set"


class Telling(VirtualController):
    """Says of what boots what it is told to say."""

    statuses: ClassVar[list[Power]] = []

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        return PowerStatus(self.statuses.pop(0) if self.statuses else Power.UNKNOWN)


ON, STARTING, OFF, UNKNOWN = Power.ON, Power.STARTING, Power.OFF, Power.UNKNOWN


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([STARTING, OFF, OFF], "went off while it booted"),
        ([ON, OFF, STARTING, OFF, OFF], "went off while it booted"),
        ([ON, OFF, UNKNOWN, OFF], "did not reach booted"),
        ([OFF, OFF, OFF], "did not reach booted"),
    ],
    ids=["it died", "it died after a moment of its restart", "nobody knows", "off is all it ever says of what boots"],
)
def test_one_that_dies_while_it_boots_keeps_no_other_from_its_turn(
    statuses: list[Power], expected: str, one: One, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("droidherd.recovery.recovery.POWER_EVERY_S", 0.0)
    monkeypatch.setattr(Telling, "statuses", [UNKNOWN, *statuses])  # the first is asked where it is now
    one.control.set_fault(one.name, "no_boot")
    monkeypatch.setattr("droidherd.recovery.recovery.patient", Tries(8).patient)
    host = Host(one, tmp_path, controller="telling")
    assert expected in host.does(RecoveryStep.START).evidence


def test_a_boot_shows_that_it_goes_on_and_ends_when_it_is_called_back(one: One, tmp_path: Path):
    host = Host(one, tmp_path)
    one.control.set_fault(one.name, "no_boot")
    beats = iter(range(6))

    def beat() -> None:
        if next(beats, None) is None:
            raise AbandonedError("called back")

    with pytest.raises(AbandonedError):
        host.does(RecoveryStep.RESTART, beat, forced=True)


def test_one_that_is_stopped_does_not_answer_any_more_and_starts_again(host: Host, one: One):
    assert RecoveryResult() == host.does(RecoveryStep.STOP)
    assert not one.control.state(one.name)["listening"]
    assert RecoveryResult() == host.does(RecoveryStep.STOP)
    assert RecoveryResult() == host.does(RecoveryStep.START)
    assert probe(one.adb, one.address, LONG_S).booted


def test_a_controller_that_says_it_moved_is_followed_into_the_inventory(host: Host, one: One, other: One):
    one.control.swap_ports(one.name, other.name)
    try:
        assert RecoveryResult() == host.does(RecoveryStep.RESTART, forced=True)
        moved = Inventory(host.data).find(one.name)
        assert moved is not None
        assert (one.control.state(one.name)["address"], True) == (moved.address, moved.address != one.address)
    finally:
        one.control.swap_ports(one.name, other.name)


def test_the_app_in_front_is_stopped_and_no_older_lease_may_act_there(host: Host, one: One):
    one.seize()
    one.adb.shell(one.address, "am start -n com.droidherd.game/.MainActivity", 10.0)
    one.control.set_scene(one.name, "home")
    floor = one.lease + 5
    one.mark()
    assert RecoveryResult() == host.does(RecoveryStep.APP, floor=floor)
    assert ("launcher", 1) == (one.control.state(one.name)["app"]["scene"], len(one.did("am force-stop")))
    assert probe(one.adb, one.address, LONG_S).token > str(one.token())
    with pytest.raises(Exception, match="token"):
        lease.seize(one.adb, one.address, one.token(attempt=2))


def test_reconnecting_takes_no_new_boot(host: Host):
    before = host.boot
    assert (RecoveryResult(), before) == (host.does(RecoveryStep.RECONNECT), host.boot)


def test_evidence_is_last_probe_screen_and_log_and_old_evidence_goes(host: Host, one: One):
    home = host.data / "quarantine" / one.name
    for n in range(6):
        (home / f"2020010{n}T000000Z").mkdir(parents=True)
    one.control.log(one.name, "the last words")
    evidence = host.does(RecoveryStep.EVIDENCE, why="the launcher has no focus").evidence
    kept = sorted(home.iterdir())
    assert (5, f"the launcher has no focus; see {kept[-1]}") == (len(kept), evidence)
    assert ["logcat.txt", "screen.png", "what.txt"] == sorted(path.name for path in kept[-1].iterdir())
    text = (kept[-1] / "what.txt").read_text()
    assert all(word in text for word in ("the launcher has no focus", "controller: on", "VIRT0001", "screen.png"))
    assert "the last words" in (kept[-1] / "logcat.txt").read_text()


def test_of_one_that_is_dead_evidence_says_what_is_not_to_be_had(host: Host, one: One):
    one.control.kill(one.name)
    evidence = host.does(RecoveryStep.EVIDENCE, why="answers no probe").evidence
    text = (Path(evidence.partition("see ")[2]) / "what.txt").read_text()
    assert 4 == text.count("not to be had")


def test_evidence_that_cannot_be_kept_does_not_hide_the_trouble_it_is_for(host: Host):
    (host.data / "quarantine").write_text("a file where a folder should be")
    evidence = host.does(RecoveryStep.EVIDENCE, why="answers no probe").evidence
    assert evidence.startswith("answers no probe; the evidence could not be kept: ")


def test_what_cannot_be_done_is_in_the_result_with_what_to_do(one: One, tmp_path: Path):
    for controller, expected in (
        ("none", "nobody starts and stops it"),
        ("missing", "there is no controller 'missing'"),
    ):
        evidence = Host(one, tmp_path, controller=controller).does(RecoveryStep.START).evidence
        assert evidence.startswith("start: ")
        assert expected in evidence
    assert "is not in this host's inventory" in Host(one, tmp_path).does(RecoveryStep.STOP, emulator_id="who").evidence


@contextmanager
def swapped(host: Host, one: One, other: One) -> Generator[None]:
    """Each has the other's address. They were told who they are, as the boot gate does, and the host knows both."""
    Inventory(host.data).add(InventoryEntry(emulator_id=other.name, address=other.address))
    for each in (one, other):
        lease.floor(each.adb, each.address, each.token(0, 0), name=each.name)
    one.control.swap_ports(one.name, other.name)
    for each in (one, other):
        DeviceLink(one.adb).ensure(each.address, deadline_s=LONG_S)  # the probe loop does
    try:
        yield
    finally:
        one.control.swap_ports(one.name, other.name)


def test_one_whose_address_another_one_took_is_not_taken_for_well(one: One, other: One, tmp_path: Path):
    """Whoever answers there is in another boot, and would keep it from ever being restarted."""
    host = Host(one, tmp_path, controller="untold")
    before = host.boot
    with swapped(host, one, other):
        assert RecoveryResult() == host.does(RecoveryStep.RESTART)
        assert before + 1 == host.boot


def test_one_that_runs_elsewhere_by_its_vendors_word_is_not_restarted(host: Host, one: One, other: One):
    """Also to an address that another one had before."""
    before = host.boot
    with swapped(host, one, other):
        assert RecoveryResult(idle=True) == host.does(RecoveryStep.RESTART)
        assert (before, other.address, one.address) == (host.boot, host.address(one.name), host.address(other.name))


def test_one_switched_off_is_off_also_when_another_one_has_its_address(one: One, other: One, tmp_path: Path):
    host = Host(one, tmp_path, controller="untold")
    with swapped(host, one, other):
        assert RecoveryResult() == host.does(RecoveryStep.STOP)


def test_a_recovery_step_shows_progress_while_it_hangs_and_can_be_cancelled(
    host: Host, one: One, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("droidherd.adb.wire.PULSE_S", 0.05)
    one.control.set_fault(one.name, "shell_hang")
    for step in (RecoveryStep.APP, RecoveryStep.RESTART, RecoveryStep.EVIDENCE):
        beats = iter(range(5))

        def beat(beats: Iterator[int] = beats) -> None:
            if next(beats, None) is None:
                raise AbandonedError("called back")

        before = host.boot
        with pytest.raises(AbandonedError):
            host.does(step, beat)
        assert before == host.boot
