"""Who answers at an address, and how a lost link comes back."""

import threading

import pytest

from droidherd.adb.client import AdbClient
from droidherd.domain.errors import EmulatorLostError
from droidherd.emulator.connection_watch import ConnectionWatch, Track
from droidherd.emulator.probe import DeviceLink, probe
from tests.adb.talker import Talk, talking
from tests.emulator.farm import LONG_S, Farm, One, eventually


def test_a_probe_says_who_and_since_when(one: One, other: One):
    first, second = probe(one.adb, one.address, LONG_S), probe(other.adb, other.address, LONG_S)
    assert ("VIRT0001", "VIRT0002") == (first.serialno, second.serialno)
    assert first.boot_id != second.boot_id
    assert (True, True) == (first.booted, bool(first.token))
    assert first.boot_id == probe(one.adb, one.address, LONG_S).boot_id
    assert first.clock.uptime_s <= probe(one.adb, one.address, LONG_S).clock.uptime_s


@pytest.mark.parametrize("fault", ["stall", "no_open", "shell_hang", "shell_cut", "refuse_open"])
def test_an_emulator_that_is_listed_but_does_not_answer_is_lost(one: One, fault: str):
    one.control.set_fault(one.name, fault)
    assert "device" == one.adb.state(one.address)
    with pytest.raises(EmulatorLostError):
        probe(one.adb, one.address, 0.3)


def test_a_reboot_shows_as_another_boot_without_token(one: One):
    before = probe(one.adb, one.address, LONG_S)
    one.control.reboot(one.name, boot_s=0.0)
    after = DeviceLink(one.adb).ensure(one.address, before.serialno, deadline_s=LONG_S)
    assert before.boot_id != after.boot_id
    assert ("", "") == (after.token, after.free)


def test_a_link_that_was_never_made_or_lost_is_made_again(one: One):
    one.adb.disconnect(one.address)
    assert "VIRT0001" == DeviceLink(one.adb).ensure(one.address, "VIRT0001", deadline_s=LONG_S).serialno
    one.control.drop(one.name)
    assert "VIRT0001" == DeviceLink(one.adb).ensure(one.address, "VIRT0001", deadline_s=LONG_S).serialno


def test_another_emulator_at_the_address_is_not_taken_for_the_old_one(one: One, other: One):
    there = one.address
    one.control.swap_ports(one.name, other.name)
    try:
        with pytest.raises(EmulatorLostError, match="expected VIRT0001, but VIRT0002"):
            DeviceLink(one.adb).ensure(there, "VIRT0001", deadline_s=LONG_S)
    finally:
        one.control.swap_ports(one.name, other.name)
    assert "VIRT0001" == DeviceLink(one.adb).ensure(there, "VIRT0001", deadline_s=LONG_S).serialno


def test_nobody_at_an_address_is_reported(farm: Farm, one: One):
    one.control.kill(one.name)
    with pytest.raises(EmulatorLostError):
        DeviceLink(one.adb).ensure(one.address, deadline_s=1.0)
    one.control.start(one.name)
    assert "VIRT0001" == DeviceLink(one.adb).ensure(one.address, deadline_s=LONG_S).serialno


def test_without_an_adb_server_everybody_is_lost_and_none_is_forgotten(farm: Farm, one: One):
    farm.server.stop()
    try:
        with pytest.raises(EmulatorLostError, match="adb server"):
            DeviceLink(one.adb).ensure(one.address, deadline_s=LONG_S)
    finally:
        farm.server.start()
    assert "VIRT0001" == DeviceLink(one.adb).ensure(one.address, deadline_s=LONG_S).serialno


def test_the_news_tell_of_an_emulator_that_died(one: One):
    with Track(one.adb) as track:
        assert one.address in {each.serial for each in track.next(LONG_S) or () if each.ready}
        one.control.kill(one.name)
        state = {"now": "device"}

        def lost() -> bool:
            for each in track.next(0.1) or ():
                if each.serial == one.address:
                    state["now"] = each.state
            return state["now"] == "offline"

        eventually(lost)
    one.control.start(one.name)


def test_an_ear_hears_of_an_emulator_that_died_and_ends_when_it_is_closed(one: One):
    heard: list[str] = []
    ear = ConnectionWatch(one.adb, heard.extend)
    try:
        assert ear.hears.wait(LONG_S)
        one.control.kill(one.name)
        eventually(lambda: one.address in heard)
    finally:
        ear.close()
        one.control.start(one.name)
    assert "ear" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("features", "what"), [("cmd,stat_v2", "knows no `shell,v2`"), ("shell_v2,cmd", "closed"), (None, "closed")]
)
def test_an_emulator_whose_adb_is_too_old_is_reported(features: str | None, what: str):
    """It refuses the stream like one in trouble; what it can do is on record with the adb server."""

    def script(talk: Talk) -> None:
        asked = talk.hear()
        if asked.startswith(b"host:devices-l"):
            talk.say(b"OKAY" + block("127.0.0.1:1 device\n"))
        elif asked.startswith(b"host:transport"):
            talk.say(b"OKAY")
            talk.hear()
            talk.say(b"FAIL" + block("closed"))
        else:
            assert b"host-serial:127.0.0.1:1:features" == asked
            talk.say(b"FAIL" + block("no") if features is None else b"OKAY" + block(features))

    with talking(script) as talker, pytest.raises(EmulatorLostError, match=what):
        DeviceLink(AdbClient(talker.port)).ensure("127.0.0.1:1")


def block(text: str) -> bytes:
    return b"%04x%b" % (len(text), text.encode())
