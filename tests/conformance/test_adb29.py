"""Debian's adb 29, server and command line, drives the virtual emulator."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.virtual.process import VirtualFleet
from tests.support.adbserver import PrivateAdb, start_adb
from tests.virtual.test_clients import echo_server, spoken_to

# By path: on PATH stands the one of the environment first.
PLACES = ("/usr/lib/android-sdk/platform-tools/adb", "/usr/bin/adb")

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def adb29(tmp_path_factory: pytest.TempPathFactory) -> Generator[PrivateAdb]:
    program = next((found for name in PLACES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("MISSING: Debian's adb 29 (apt-get install adb)")
    version = subprocess.run([program, "version"], capture_output=True, text=True, timeout=20, check=False).stdout
    if not re.search(r"Version 29\.", version):
        pytest.skip(f"MISSING: adb 29; {program} is {version.splitlines()[1:2]}")
    yield from start_adb(program, tmp_path_factory.mktemp("adb29"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[VirtualFleet]:
    with VirtualFleet.start(count=1, state=tmp_path_factory.mktemp("fleet29")) as running:
        yield running


@pytest.fixture
def address(fleet: VirtualFleet, adb29: PrivateAdb) -> str:
    adb29.connect(fleet.addresses["virtual-1"])
    return fleet.addresses["virtual-1"]


def test_shell_keeps_return_code_outputs_and_input(adb29: PrivateAdb, address: str):
    done = adb29.run("-s", address, "shell", "cat; echo err >&2; exit 7", stdin=b"in")
    assert (7, b"in", b"err\n") == (done.returncode, done.stdout, done.stderr)


def test_files_go_and_come(adb29: PrivateAdb, address: str, tmp_path: Path):
    content = os.urandom(2_000_003)
    (tmp_path / "up").write_bytes(content)
    assert 0 == adb29.run("-s", address, "push", str(tmp_path / "up"), "/sdcard/a/b").returncode
    assert 0 == adb29.run("-s", address, "pull", "/sdcard/a/b", str(tmp_path / "down")).returncode
    assert content == (tmp_path / "down").read_bytes()
    assert b" b\n" in adb29.run("-s", address, "ls", "/sdcard/a").stdout


def test_pictures_and_properties(adb29: PrivateAdb, address: str):
    assert 3_686_416 == len(adb29.run("-s", address, "exec-out", "screencap").stdout)
    assert b"\x89PNG" == adb29.run("-s", address, "exec-out", "screencap", "-p").stdout[:4]
    assert (0, "VIRT0001\n") == adb29.shell(address, "getprop ro.serialno")


def test_apps_come_and_go(adb29: PrivateAdb, address: str, tmp_path: Path):
    (tmp_path / "x.apk").write_bytes(b"apk")
    assert b"Success" in adb29.run("-s", address, "install", "-r", str(tmp_path / "x.apk")).stdout
    assert 2 == adb29.shell(address, "pm list packages -3")[1].count("package:")


def test_ports_are_carried_both_ways(adb29: PrivateAdb, address: str):
    with echo_server() as port:
        local = int(adb29.run("-s", address, "forward", "tcp:0", f"tcp:{port}").stdout)
        assert b"HELLO" == spoken_to(local)
    with echo_server() as port:
        inner = int(adb29.run("-s", address, "reverse", "tcp:0", f"tcp:{port}").stdout)
        assert b"HELLO" == spoken_to(inner)


def test_the_log_can_be_read(adb29: PrivateAdb, address: str):
    assert b"boot 1 begins" in adb29.run("-s", address, "logcat", "-d").stdout


def test_a_reboot_is_carried_out(adb29: PrivateAdb, address: str, fleet: VirtualFleet):
    assert 0 == adb29.run("-s", address, "reboot").returncode
    adb29.connect(address)
    with fleet.control() as control:
        assert 2 == control.state("virtual-1")["boot"]
