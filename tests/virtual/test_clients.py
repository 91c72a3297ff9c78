"""Unmodified clients drive the virtual emulator: the adb server and command line, adbutils, adb-shell."""

import io
import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbutils
import numpy as np
import pytest
from adb_shell.adb_device import AdbDeviceTcp
from adb_shell.auth.keygen import keygen
from adb_shell.auth.sign_pythonrsa import PythonRSASigner

from droidherd.virtual.control import VirtualControl
from droidherd.virtual.process import VirtualFleet
from droidherd.virtual.scenes import HerdState, render
from droidherd.virtual.tinyapk import tiny_apk
from tests.support.adbserver import PrivateAdb, free_port

TIMEOUT_S = 60.0


@pytest.fixture
def device(private_adb: PrivateAdb, first: str, control: VirtualControl) -> Any:
    control.set_scene("virtual-1", "launcher")
    return private_adb.client().device(serial=first)


# --- the command line of adb 36


def test_adb_keeps_return_code_and_both_outputs_apart(private_adb: PrivateAdb, first: str):
    done = private_adb.run("-s", first, "shell", "echo out; echo err >&2; exit 7")
    assert (7, b"out\n", b"err\n") == (done.returncode, done.stdout, done.stderr)


def test_adb_carries_standard_input(private_adb: PrivateAdb, first: str):
    done = private_adb.run("-s", first, "shell", "cat >/sdcard/in; wc -c </sdcard/in", stdin=b"x" * 300_000)
    assert b"300000\n" == done.stdout
    assert b"abc" == private_adb.run("-s", first, "exec-in", "cat >/sdcard/in2", stdin=b"abc").stdout + b"abc"
    assert (0, "abc") == private_adb.shell(first, "cat /sdcard/in2")


def test_a_shell_without_command_reads_its_lines_from_standard_input(private_adb: PrivateAdb, first: str):
    done = private_adb.run("-s", first, "shell", stdin=b"x=5\necho $x\nexit 3\n")
    assert (3, b"5\n") == (done.returncode, done.stdout)


def test_adb_pushes_lists_and_pulls(private_adb: PrivateAdb, first: str, tmp_path: Path):
    content = os.urandom(3_000_001)
    (tmp_path / "up").write_bytes(content)
    assert 0 == private_adb.run("-s", first, "push", str(tmp_path / "up"), "/sdcard/deep/er/file").returncode
    assert b" file" in private_adb.run("-s", first, "ls", "/sdcard/deep/er").stdout
    assert 0 == private_adb.run("-s", first, "pull", "/sdcard/deep/er/file", str(tmp_path / "down")).returncode
    assert content == (tmp_path / "down").read_bytes()
    assert 0 != private_adb.run("-s", first, "pull", "/sdcard/none", str(tmp_path / "none")).returncode


def test_adb_pushes_and_pulls_whole_folders(private_adb: PrivateAdb, first: str, tmp_path: Path):
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "a b'c").write_bytes(b"1")
    (tmp_path / "tree" / "inner" / "käse").write_bytes(b"2")
    assert 0 == private_adb.run("-s", first, "push", str(tmp_path / "tree"), "/sdcard/").returncode
    assert 0 == private_adb.run("-s", first, "pull", "/sdcard/tree", str(tmp_path / "back")).returncode
    assert (b"1", b"2") == tuple((tmp_path / "back" / name).read_bytes() for name in ("a b'c", "inner/käse"))


def test_adb_installs_and_uninstalls(private_adb: PrivateAdb, first: str, tmp_path: Path):
    apk = tmp_path / "any name.apk"
    apk.write_bytes(tiny_apk("com.example.other", 3, "3.0"))
    assert b"Success" in private_adb.run("-s", first, "install", "-r", str(apk)).stdout
    added = private_adb.shell(first, "pm list packages -3")[1]
    assert 2 == added.count("package:")
    assert b"Success" in private_adb.run("-s", first, "install", "--no-streaming", str(apk)).stdout
    assert "package:com.example.other\n" in private_adb.shell(first, "pm list packages")[1]
    apk.write_bytes(b"not an apk")
    assert b"INSTALL_PARSE_FAILED_NOT_APK" in private_adb.run("-s", first, "install", "-r", str(apk)).stderr
    assert b"Success" in private_adb.run("-s", first, "uninstall", "com.example.other").stdout
    assert 1 == private_adb.shell(first, "pm path com.example.other")[0]


def test_the_picture_by_exec_out_is_what_is_drawn(private_adb: PrivateAdb, first: str, control: VirtualControl):
    control.set_scene("virtual-1", "launcher")
    raw = private_adb.run("-s", first, "exec-out", "screencap").stdout
    assert 16 + 1280 * 720 * 4 == len(raw)
    assert [1280, 720, 1, 1] == np.frombuffer(raw[:16], np.uint32).tolist()
    pixels = np.frombuffer(raw, np.uint8, offset=16).reshape(720, 1280, 4)
    assert np.array_equal(render(HerdState()), pixels)


def test_adb_follows_the_log(private_adb: PrivateAdb, first: str, control: VirtualControl):
    private_adb.run("-s", first, "logcat", "-c")
    control.log("virtual-1", "hello from the side", tag="side")
    assert b"I/side: hello from the side\n" in private_adb.run("-s", first, "logcat", "-d", "-v", "tag").stdout
    assert b"hello" not in private_adb.run("-s", first, "logcat", "-d", "*:E").stdout


@contextmanager
def echo_server() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)

        def serve() -> None:
            try:
                peer, _ = server.accept()
            except OSError:
                return  # nobody came: whoever waited for the answer says so
            with peer:
                peer.settimeout(TIMEOUT_S)
                while data := peer.recv(4096):
                    peer.sendall(data.upper())

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(TIMEOUT_S)


def spoken_to(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as peer:
        peer.sendall(b"hello")
        return peer.recv(100)


def test_forward_reaches_a_port_of_the_emulator(private_adb: PrivateAdb, first: str):
    with echo_server() as port:
        local = private_adb.run("-s", first, "forward", "tcp:0", f"tcp:{port}").stdout.decode().strip()
        assert b"HELLO" == spoken_to(int(local))
    private_adb.run("-s", first, "forward", "--remove-all")


def test_reverse_brings_a_port_of_the_emulator_to_the_host(private_adb: PrivateAdb, first: str):
    inner = free_port()
    with echo_server() as port:
        assert 0 == private_adb.run("-s", first, "reverse", f"tcp:{inner}", f"tcp:{port}").returncode
        assert f"tcp:{inner} tcp:{port}" in private_adb.run("-s", first, "reverse", "--list").stdout.decode()
        assert b"HELLO" == spoken_to(inner)
    assert 0 == private_adb.run("-s", first, "reverse", "--remove", f"tcp:{inner}").returncode
    assert 0 != private_adb.run("-s", first, "reverse", "--remove", f"tcp:{inner}").returncode


def test_many_streams_at_once_keep_their_answers_apart(private_adb: PrivateAdb, first: str):
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = private_adb.client().device(serial=first).shell(f"sleep 0.0{number % 5}; echo {number}")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert {number: str(number) for number in range(24)} == answers


# --- adbutils


def test_adbutils_asks_and_gets_answers(device: Any):
    assert "hi" == device.shell("echo hi")
    done = device.shell2("echo a; exit 3", v2=True)
    assert (3, "a\n") == (done.returncode, done.stdout)
    assert ("VIRT0001", "13") == (device.prop.get("ro.serialno"), device.getprop("ro.build.version.release"))
    assert (1280, 720) == tuple(device.window_size())
    assert "com.example.herd" in device.list_packages()
    assert device.app_info("com.example.herd").version_name == "1.7.0"


def test_adbutils_starts_stops_taps_and_types(device: Any, control: VirtualControl):
    control.set_app("virtual-1", signed_in="", running=False, scene="launcher")
    device.app_start("com.example.herd")
    assert "com.example.herd" == device.app_current().package
    device.click(500, 300)
    device.send_keys("bob")
    assert "bob" == control.state("virtual-1")["app"]["account"]
    device.keyevent("HOME")
    assert "launcher" == control.state("virtual-1")["app"]["scene"]
    device.app_stop("com.example.herd")
    assert not control.state("virtual-1")["app"]["running"]


# adbutils leaves the socket of `framebuffer` to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_adbutils_takes_pictures_two_ways(device: Any):
    expected = render(HerdState())[:, :, :3]
    assert np.array_equal(expected, np.asarray(device.screenshot(error_ok=False).convert("RGB")))
    assert np.array_equal(expected, np.asarray(device.framebuffer().convert("RGB")))


def test_adbutils_reads_the_tree_of_the_screen(device: Any):
    tree = device.dump_hierarchy()
    assert tree.startswith("<?xml")
    assert 'text="Herd"' in tree
    assert 'bounds="[592,250][704,362]"' in tree


def test_adbutils_moves_files(device: Any, tmp_path: Path):
    device.sync.push(io.BytesIO(b"content"), "/data/local/tmp/x/y.txt", mode=0o600)
    facts = device.sync.stat("/data/local/tmp/x/y.txt")
    assert (7, 0o100600) == (facts.size, facts.mode)
    assert ["y.txt"] == [each.path for each in device.sync.list("/data/local/tmp/x") if each.path[0] != "."]
    assert b"content" == device.sync.read_bytes("/data/local/tmp/x/y.txt")
    assert 7 == device.sync.pull("/data/local/tmp/x/y.txt", tmp_path / "y")
    with pytest.raises(adbutils.AdbError):
        device.sync.read_bytes("/data/local/tmp/x/none")


# --- adb-shell, without any server


def test_adb_shell_drives_it_directly(fleet: VirtualFleet):
    host, _, port = fleet.addresses["virtual-2"].rpartition(":")
    direct = AdbDeviceTcp(host, int(port), default_transport_timeout_s=TIMEOUT_S)
    try:
        assert direct.connect(auth_timeout_s=TIMEOUT_S)
        assert "hi\n" == direct.shell("echo hi")
        direct.push(io.BytesIO(b"z" * 200_000), "/sdcard/direct")
        assert 200_000 == direct.stat("/sdcard/direct")[1]
        back = io.BytesIO()
        direct.pull("/sdcard/direct", back)
        assert b"z" * 200_000 == back.getvalue()
        assert b"direct" in [each.filename for each in direct.list("/sdcard")]
    finally:
        direct.close()


def test_a_key_is_asked_for_and_taken_when_the_fault_says_so(
    fleet: VirtualFleet, control: VirtualControl, tmp_path: Path
):
    keygen(str(tmp_path / "key"))
    signer = PythonRSASigner.FromRSAKeyPath(str(tmp_path / "key"))
    control.set_fault("virtual-2", "auth", accept=True)
    host, _, port = fleet.addresses["virtual-2"].rpartition(":")
    direct = AdbDeviceTcp(host, int(port), default_transport_timeout_s=TIMEOUT_S)
    try:
        assert direct.connect(rsa_keys=[signer], auth_timeout_s=TIMEOUT_S)
        assert "hi\n" == direct.shell("echo hi")
    finally:
        direct.close()
