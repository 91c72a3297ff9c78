"""A manual session: below every lease to come."""

from pathlib import Path

import pytest

from droidherd.domain.errors import EmulatorLostError, FencedError
from droidherd.emulator import lease
from droidherd.emulator.probe import probe
from droidherd.emulator.token import Token
from droidherd.flowtools import manual_session as session
from droidherd.flowtools.manual_session import HeldError, take
from droidherd.flowtools.rehearsal import ManualSession
from droidherd.testing.flows import FlowEmulator


def sit(emulator: FlowEmulator) -> ManualSession:
    found = take(emulator.adb, "e1", emulator.address)
    lease.seize(emulator.adb, emulator.address, Token(found.lease, found.stage, found.attempt))
    return found


def test_who_sits_down_again_fences_off_who_sat_there_and_uses_up_no_lease(emulator: FlowEmulator):
    first, second = sit(emulator), sit(emulator)
    assert (first.lease, first.stage) == (second.lease, second.stage)
    assert first.attempt < second.attempt
    with pytest.raises(FencedError):
        lease.seize(emulator.adb, emulator.address, Token(first.lease, first.stage, first.attempt))


def test_a_task_that_comes_takes_over_and_nobody_sits_down_while_it_is_there(emulator: FlowEmulator):
    found = sit(emulator)
    granted = Token(found.lease + 1)
    lease.seize(emulator.adb, emulator.address, granted, after=found.lease)
    with pytest.raises(HeldError, match="is held by a task"):
        take(emulator.adb, "e1", emulator.address)
    lease.release(emulator.adb, emulator.address, granted)
    assert granted.lease == sit(emulator).lease


def test_an_emulator_that_nobody_ever_leased_is_given_a_token_first(emulator: FlowEmulator):
    emulator.control.reboot(emulator.name, boot_s=0.0)
    found = take(emulator.adb, "e1", emulator.address)
    assert (1, session.FIRST_STAGE) == (found.lease, found.stage)
    assert str(Token(1)) == probe(emulator.adb, emulator.address).token


def test_manual_sessions_end_when_the_numbers_do(emulator: FlowEmulator, tmp_path: Path):
    found = sit(emulator)
    lease.seize(emulator.adb, emulator.address, Token(found.lease, 998, 998))
    lease.seize(emulator.adb, emulator.address, Token(found.lease, 998, 999))
    with pytest.raises(HeldError, match="too often"):
        take(emulator.adb, "e1", emulator.address)
    lease.seize(emulator.adb, emulator.address, Token(found.lease + 1))
    lease.release(emulator.adb, emulator.address, Token(found.lease + 1))


@pytest.mark.parametrize(
    ("fault", "options"), [("no_cnxn", {}), ("no_cnxn", {"delay_s": 0.8}), ("drop", {})], ids=["lost", "late", "broken"]
)
def test_an_emulator_that_is_offline_right_after_connecting_is_waited_for(
    emulator: FlowEmulator, fault: str, options: dict[str, float]
):
    """Its greeting is lost, or late, or the connection breaks at the first word."""
    emulator.adb.disconnect(emulator.address)
    emulator.control.set_fault(emulator.name, fault, times=1, **options)
    assert "VIRT0001" == session.meet(emulator.adb, emulator.address, greetings_s=(0.5, 30.0)).serialno


def test_an_emulator_that_never_greets_is_given_up_with_what_to_do(emulator: FlowEmulator):
    emulator.adb.disconnect(emulator.address)
    emulator.control.set_fault(emulator.name, "no_cnxn")
    try:
        with pytest.raises(EmulatorLostError, match=r"'offline' \(see what is there: restart it"):
            session.meet(emulator.adb, emulator.address, greetings_s=(0.3, 0.3))
    finally:
        emulator.control.clear_fault(emulator.name)
    assert "VIRT0001" == session.meet(emulator.adb, emulator.address).serialno


def test_where_nothing_listens_nobody_waits_and_the_log_is_named(emulator: FlowEmulator):
    emulator.control.kill(emulator.name)
    try:
        with pytest.raises(EmulatorLostError, match=r"nothing answers .*droidherd emulator discover"):
            session.meet(emulator.adb, emulator.address)
    finally:
        emulator.control.start(emulator.name)
    assert "VIRT0001" == session.meet(emulator.adb, emulator.address).serialno
