"""Faults strike through the real adb server as they would with a broken emulator, and go when they are cleared."""

import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from droidherd.virtual import journal
from droidherd.virtual.control import ControlError, VirtualControl
from droidherd.virtual.process import VirtualFleet
from tests.support.adbserver import PrivateAdb
from tests.virtual.wire import packet, received

V1 = "virtual-1"
PATIENCE_S = 20.0


def lines(fleet: VirtualFleet, emulator: str = V1) -> list[str]:
    return [command.line for command in journal.read(fleet.state, emulator)]


def until_journaled(fleet: VirtualFleet, line: str, emulator: str = V1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while line not in lines(fleet, emulator):
        assert time.monotonic() < deadline, lines(fleet, emulator)[-5:]
        time.sleep(0.01)


@pytest.mark.parametrize("fault", ["refuse_open", "drop", "shell_cut"])
def test_a_broken_stream_gives_no_exit_code_once(
    private_adb: PrivateAdb, first: str, control: VirtualControl, fault: str
):
    control.set_fault(V1, fault, times=1)
    rc, out = private_adb.shell(first, "echo 0123456789")
    assert (rc, out) != (0, "0123456789\n")
    private_adb.connect(first)
    assert (0, "again\n") == private_adb.shell(first, "echo again")


def test_a_clean_cut_leaves_half_of_the_text(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.set_fault(V1, "shell_cut", times=1)
    assert "01234" == private_adb.shell(first, "printf 0123456789")[1]


@pytest.mark.parametrize("fault", ["no_open", "shell_hang", "no_ack"])
def test_a_hanging_stream_hangs_alone(
    private_adb: PrivateAdb, first: str, control: VirtualControl, tmp_path: Path, fault: str
):
    control.set_fault(V1, fault, times=1)
    (tmp_path / "big").write_bytes(bytes(3 << 20))
    hanging = ["push", str(tmp_path / "big"), "/sdcard/big"] if fault == "no_ack" else ["shell", "echo never"]
    command = private_adb.command("-s", first, *hanging)
    with subprocess.Popen(
        command, env=private_adb.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as stuck:
        until_used_up(control, fault)
        assert (0, "on\n") == private_adb.shell(first, "echo on")
        assert stuck.poll() is None
        stuck.kill()


def until_used_up(control: VirtualControl, fault: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while fault in control.state(V1)["faults"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_emulator_that_does_not_greet_stays_offline(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.set_fault(V1, "no_cnxn")
    control.drop(V1)
    private_adb.await_state(first, "offline")
    control.clear_fault(V1)
    private_adb.connect(first)


def test_an_emulator_that_accepts_no_key_stays_unauthorized(
    private_adb: PrivateAdb, first: str, control: VirtualControl
):
    control.set_fault(V1, "auth")
    private_adb.await_state(first, "unauthorized")
    control.clear_fault(V1)
    private_adb.connect(first)


@pytest.mark.parametrize(
    ("fault", "size"), [("half_screencap", 16 + 1280 * 720 * 2), ("empty_screencap", 0), ("black_screencap", 3686416)]
)
def test_a_bad_picture_comes_with_a_good_return_code(
    private_adb: PrivateAdb, first: str, control: VirtualControl, fault: str, size: int
):
    control.set_fault(V1, fault, times=1)
    done = private_adb.run("-s", first, "exec-out", "screencap")
    assert (0, size) == (done.returncode, len(done.stdout))
    assert fault != "black_screencap" or {b"\0\0\0\xff"} == {done.stdout[at : at + 4] for at in range(16, size, 4)}
    assert 3686416 == len(private_adb.run("-s", first, "exec-out", "screencap").stdout)


def test_files_fail_to_arrive_either_way(private_adb: PrivateAdb, first: str, control: VirtualControl, tmp_path: Path):
    (tmp_path / "up").write_bytes(bytes(100_000))
    control.set_fault(V1, "push_full", times=1)
    done = private_adb.run("-s", first, "push", str(tmp_path / "up"), "/sdcard/up")
    assert (1, True) == (done.returncode, b"No space left" in done.stdout + done.stderr)
    assert 0 == private_adb.run("-s", first, "push", str(tmp_path / "up"), "/sdcard/up").returncode
    control.set_fault(V1, "half_pull", times=1)
    assert 0 != private_adb.run("-s", first, "pull", "/sdcard/up", str(tmp_path / "down")).returncode


def test_a_full_disk_refuses_every_write_until_there_is_space(
    private_adb: PrivateAdb, first: str, control: VirtualControl
):
    control.set_fault(V1, "disk_full")
    rc, out = private_adb.shell(first, "echo x >>/data/local/tmp/j || exit 79; input tap 1 1")
    assert (79, "") == (rc, out)
    control.clear_fault(V1)
    assert (0, "x\n") == private_adb.shell(first, "echo x >/data/local/tmp/j; cat /data/local/tmp/j")


def test_the_tree_of_the_screen_may_fail(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.set_fault(V1, "ui_fail", times=1)
    assert 1 == private_adb.shell(first, "uiautomator dump")[0]
    assert 0 == private_adb.shell(first, "uiautomator dump")[0]


def test_a_stalled_emulator_executes_its_commands_late(
    fleet: VirtualFleet, private_adb: PrivateAdb, first: str, control: VirtualControl
):
    control.stall(V1)
    with private_adb.client().device(serial=first).open_transport() as connection:
        # Sent and left: the server hands it on before it sees that nobody waits any more.
        connection.send_command("shell:input tap 11 22")
    assert "device" == private_adb.state(first)
    assert "input tap 11 22" not in lines(fleet)
    control.release(V1)
    until_journaled(fleet, "input tap 11 22")
    assert (0, "up\n") == private_adb.shell(first, "echo up")


def test_what_was_asked_before_the_connection_ended_is_carried_out_late_too(
    fleet: VirtualFleet, control: VirtualControl
):
    host, _, port = fleet.addresses[V1].rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as sock:
        sock.sendall(packet(b"CNXN", 0x01000000, 4096, b"host::"))
        assert b"CNXN" == received(sock)[0]
        control.stall(V1)
        sock.sendall(
            packet(b"OPEN", 1, 0, b"shell:input tap 33 44\0") + packet(b"OPEN", 2, 0, b"shell:input tap 55 66\0")
        )
    control.release(V1)
    until_journaled(fleet, "input tap 33 44")
    until_journaled(fleet, "input tap 55 66")


def test_a_stalled_emulator_does_not_delay_its_neighbour(
    fleet: VirtualFleet, private_adb: PrivateAdb, first: str, control: VirtualControl
):
    control.stall(V1)
    private_adb.connect(fleet.addresses["virtual-2"])
    assert (0, "two\n") == private_adb.shell(fleet.addresses["virtual-2"], "echo two")


def test_a_slow_emulator_is_slow_per_command(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.set_fault(V1, "slow", times=1, delay_s=0.4)
    began = time.monotonic()
    assert (0, "shell\n") == private_adb.shell(first, "whoami")
    assert time.monotonic() - began >= 0.4


LINE = 'f=/data/local/tmp/{name}; echo "2.1 begin" >>"$f"; input tap {x} 200; r=$?; echo "2.1 done $r" >>"$f"; exit $r'


@pytest.mark.parametrize(("cut", "tapped"), [("before ^input tap", 0), ("after ^input tap", 1), ("after begin", 0)])
def test_a_cut_between_two_commands_leaves_an_intent_without_result(
    fleet: VirtualFleet, private_adb: PrivateAdb, control: VirtualControl, cut: str, tapped: int
):
    address = fleet.addresses[V1]
    private_adb.connect(address)
    when, _, match = cut.partition(" ")
    name, x = f"j{len(cut)}", 300 + len(cut)
    control.cut_after(V1, match, when=when)
    private_adb.shell(address, LINE.format(name=name, x=x))
    private_adb.connect(address)
    assert (0, "2.1 begin\n") == private_adb.shell(address, f"cat /data/local/tmp/{name}")
    assert tapped == lines(fleet).count(f"input tap {x} 200")


def test_a_cut_may_let_the_line_go_on_unseen(
    fleet: VirtualFleet, private_adb: PrivateAdb, first: str, control: VirtualControl
):
    control.cut_after(V1, "^input tap", line="continue")
    private_adb.shell(first, LINE.format(name="goes-on", x=999))
    until_journaled(fleet, "echo 2.1 done 0")
    private_adb.connect(first)
    assert (0, "2.1 begin\n2.1 done 0\n") == private_adb.shell(first, "cat /data/local/tmp/goes-on")


def test_a_cut_waits_for_its_turn(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.cut_after(V1, "^echo tick", count=2)
    assert (0, "tick\n") == private_adb.shell(first, "echo tick")
    # The command line of adb takes a stream without an exit code for success; the text is what was lost.
    assert "" == private_adb.shell(first, "echo tick")[1]


def test_emulators_may_change_places(fleet: VirtualFleet, private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.swap_ports(V1, "virtual-2")
    private_adb.connect(first)
    assert (0, "VIRT0002\n") == private_adb.shell(first, "getprop ro.serialno")
    control.swap_ports(V1, "virtual-2")
    private_adb.connect(first)
    assert (0, "VIRT0001\n") == private_adb.shell(first, "getprop ro.serialno")


def test_nonsense_on_the_side_channel_is_refused_by_name(control: VirtualControl):
    for wrong, result in (
        (lambda: control.set_fault(V1, "gremlins"), "no fault 'gremlins'"),
        (lambda: control.state("virtual-9"), "no emulator 'virtual-9'"),
        (lambda: control.cut_after(V1, "("), "cut_after"),
        (lambda: control.set_app(V1, colour="red"), "no field 'colour'"),
        (lambda: control.set_app(V1, taps="many"), "wrong type"),
    ):
        with pytest.raises(ControlError, match=result):
            wrong()
    assert "device" != control.state(V1)["focus"]


def test_two_controls_do_not_mix_answers(fleet: VirtualFleet):
    seen: list[str] = []

    def ask(emulator: str) -> None:
        with fleet.control() as channel:
            seen.extend(channel.state(emulator)["emulator_id"] for _ in range(50))

    threads = [threading.Thread(target=ask, args=(name,)) for name in fleet.addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [V1] * 50 + ["virtual-2"] * 50 == sorted(seen)
