"""Boots, deaths and returns: what survives and what does not."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from droidherd.virtual import journal
from droidherd.virtual.process import VirtualFleet, VirtualFleetError
from tests.support.adbserver import PrivateAdb, free_port

V1 = "virtual-1"
PATIENCE_S = 20.0

REMEMBER = "setprop persist.x kept; setprop debug.x lost; echo hi >/sdcard/f; settings put system brightness 7; echo ok"
RECALL = (
    "getprop persist.x; getprop debug.x; cat /sdcard/f; settings get system brightness; pm list packages -3;"
    "cat /proc/sys/kernel/random/boot_id"
)


@pytest.fixture
def own_fleet(tmp_path: Path):
    with VirtualFleet.start(count=1, state=tmp_path / "state") as running:
        yield running


def recalled(private_adb: PrivateAdb, address: str) -> list[str]:
    private_adb.connect(address)
    rc, out = private_adb.shell(address, RECALL)
    assert 0 == rc
    return out.splitlines()


def test_what_a_reboot_takes_and_what_it_leaves(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    private_adb.connect(address)
    assert (0, "ok\n") == private_adb.shell(address, REMEMBER)
    before = recalled(private_adb, address)
    with own_fleet.control() as control:
        assert 2 == control.reboot(V1, boot_s=0.0)
    after = recalled(private_adb, address)
    assert ["kept", "", "hi", "7", "package:com.example.herd"] == after[:5]
    assert before[5] != after[5]


def test_what_kill_minus_nine_of_the_whole_process_leaves(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    private_adb.connect(address)
    with own_fleet.control() as control:
        control.set_app(V1, scene="home", signed_in="bob", running=True)
        assert (0, "ok\n") == private_adb.shell(address, REMEMBER)
        assert 0 == private_adb.shell(address, "input tap 300 300; input tap 700 450")[0]
        counters = control.counters(V1)
    own_fleet.kill()
    own_fleet.restart()
    assert {V1: address} == own_fleet.addresses
    assert ["kept", "", "hi", "7", "package:com.example.herd"] == recalled(private_adb, address)[:5]
    with own_fleet.control() as control:
        state = control.state(V1)
        assert (1, 1) == (counters["claims"], control.counters(V1)["claims"])
    assert ("launcher", "bob", True, 2) == (
        state["app"]["scene"], state["app"]["signed_in"], state["app"]["gift_taken"], state["boot"],
    )  # fmt: skip
    taps = [command for command in journal.read(own_fleet.state, V1) if command.line.startswith("input tap")]
    assert [(1, True), (1, True)] == [(command.boot, command.effect) for command in taps]
    seqs = [command.seq for command in journal.read(own_fleet.state, V1)]
    assert list(range(1, len(seqs) + 1)) == seqs


def test_a_boot_goes_through_its_states(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    with own_fleet.control() as control:
        control.reboot(V1, boot_s=600.0)
        private_adb.connect(address)
        assert (0, "\n") == private_adb.shell(address, "getprop sys.boot_completed")
        assert 20 == private_adb.shell(address, "pm path android")[0]
        assert "mCurrentFocus=null" in private_adb.shell(address, "dumpsys window windows")[1]
        assert set(b"\0\xff") == set(private_adb.run("-s", address, "exec-out", "screencap").stdout[16:])
        control.reboot(V1, boot_s=0.0)
        private_adb.connect(address)
        assert (0, "1\n") == private_adb.shell(address, "getprop sys.boot_completed")
        assert 0 == private_adb.shell(address, "pm path android")[0]


def test_uptime_is_never_tiny_and_begins_anew(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    with own_fleet.control() as control:
        control.reboot(V1, boot_s=0.0)
        private_adb.connect(address)
        rc, out = private_adb.shell(address, "read u r </proc/uptime; echo ${u%.*}")
        assert (0, True) == (rc, 40 <= int(out) < 60)


def test_a_dead_emulator_refuses_and_returns_at_its_address(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    private_adb.connect(address)
    with own_fleet.control() as control:
        control.kill(V1)
        private_adb.await_state(address, "offline")
        assert address == control.start(V1)
        private_adb.connect(address)
        assert 2 == control.state(V1)["boot"]


def test_the_reboot_command_reboots_and_ends_its_line(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    private_adb.connect(address)
    private_adb.shell(address, "reboot; input tap 5 5")
    with own_fleet.control() as control:
        deadline = time.monotonic() + PATIENCE_S
        while control.state(V1)["boot"] == 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "input tap 5 5" not in [command.line for command in journal.read(own_fleet.state, V1)]


def test_a_kill_stops_a_line_where_it_is(own_fleet: VirtualFleet, private_adb: PrivateAdb):
    address = own_fleet.addresses[V1]
    private_adb.connect(address)
    with own_fleet.control() as control:
        control.set_fault(V1, "slow", delay_s=60.0)
        device = private_adb.client().device(serial=address)
        stream = device.shell("input tap 7 7", stream=True)
        control.kill(V1)
        control.clear_fault(V1)
        stream.close()
        control.start(V1)
        private_adb.connect(address)
        assert (0, "on\n") == private_adb.shell(address, "echo on")
    assert "input tap 7 7" not in [command.line for command in journal.read(own_fleet.state, V1)]


def test_ports_may_be_named_and_the_ready_file_says_who_is_where(tmp_path: Path):
    port = free_port()
    with VirtualFleet.start(count=1, state=tmp_path / "s", ports=(port,), size=(640, 360)) as fleet:
        ready = json.loads((tmp_path / "s" / "ready.json").read_text())
        assert {"emulator_id": V1, "address": f"127.0.0.1:{port}", "serialno": "VIRT0001"} == ready["emulators"][0]
        assert (fleet.pid, fleet.control_address) == (ready["pid"], ready["control"])
        with pytest.raises(VirtualFleetError, match="did not start"):
            VirtualFleet.start(count=1, state=tmp_path / "t", ports=(port,))


def test_it_stops_cleanly_and_listens_on_the_loopback_only(tmp_path: Path):
    with VirtualFleet.start(count=2, state=tmp_path) as fleet:
        connections = psutil.Process(fleet.pid).net_connections()
        assert {"127.0.0.1"} == {one.laddr.ip for one in connections if one.status == "LISTEN"}
    assert 0 == fleet.process.returncode
    assert b"" == (tmp_path / "virtual.log").read_bytes()


def test_the_process_ends_when_who_started_it_is_gone(tmp_path: Path):
    script = (
        "import os, pathlib, sys; from droidherd.virtual.process import VirtualFleet;"
        "print(VirtualFleet.start(count=1, state=pathlib.Path(sys.argv[1])).pid, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60, check=True)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(PATIENCE_S)
    assert not psutil.pid_exists(int(done.stdout))


def test_a_port_that_was_taken_meanwhile_is_replaced(own_fleet: VirtualFleet):
    before = own_fleet.addresses[V1]
    own_fleet.stop()
    with socket.create_server(("127.0.0.1", int(before.rpartition(":")[2]))):
        own_fleet.restart()
        assert before != own_fleet.addresses[V1]
        with own_fleet.control() as control:
            assert own_fleet.addresses[V1] == control.state(V1)["address"]
