"""The private adb server lives, dies, hangs and is taken over."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from droidherd.adb.server import LOG_LIMIT_BYTES, AdbServer, AdbServerLimits, end_leftover, pid_path
from droidherd.domain.errors import InfrastructureError, NotSentError
from droidherd.emulator.connection_watch import Track
from droidherd.processes import pidfile

LONG_S = 10.0
ANSWER_S = 10.0
"""Of one that lives: silent for so long twice, it counts as hung."""


@pytest.fixture
def server(tmp_path: Path) -> Generator[AdbServer]:
    server = AdbServer(0, tmp_path / "adb", environment=os.environ, limits=AdbServerLimits(answer_s=ANSWER_S))
    with server:
        yield server


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_answers_and_lists_nothing_of_its_own(server: AdbServer):
    adb = server.client()
    assert adb.version() > 0
    assert () == adb.devices()
    assert not server.ensure()


def test_it_runs_the_adb_of_the_wheel_whatever_stands_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = tmp_path / "adb"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = Path(AdbServer(1, tmp_path, environment={}).program)
    assert ("binaries", "adbutils") == (program.parent.name, program.parent.parent.name)


def test_it_is_blind_to_usb_mdns_and_ports_nearby_and_keeps_to_its_home(server: AdbServer):
    environment = psutil.Process(server.pid).environ()
    expected = {"ADB_USB": "0", "ADB_MDNS": "0", "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553", "HOME": str(server.home)}
    assert expected == {name: environment[name] for name in expected}
    listening = [one.laddr.ip for one in psutil.Process(server.pid).net_connections() if one.status == "LISTEN"]
    assert {"127.0.0.1"} == set(listening)


def test_variables_that_would_lead_adb_elsewhere_are_not_inherited(tmp_path: Path):
    inherited = {**os.environ, "ANDROID_SERIAL": "x", "ADB_TRACE": "all", "ANDROID_ADB_SERVER_PORT": "1"}
    with AdbServer(0, tmp_path, environment=inherited) as server:
        environment = psutil.Process(server.pid).environ()
    assert set() == {"ANDROID_SERIAL", "ADB_TRACE", "ANDROID_ADB_SERVER_PORT"} & set(environment)


def test_keys_that_emulators_trust_already_are_handed_on(tmp_path: Path):
    key = tmp_path / "person" / ".android" / "adbkey"
    key.parent.mkdir(parents=True)
    key.touch()
    inherited = {"HOME": str(tmp_path / "person"), "ADB_VENDOR_KEYS": "/keys/one"}
    server = AdbServer(1, tmp_path / "adb", environment=inherited)
    assert os.pathsep.join(("/keys/one", str(key))) == server._environment()["ADB_VENDOR_KEYS"]


@pytest.mark.parametrize("blow", ["SIGKILL", "SIGSTOP"])
def test_dead_or_hung_it_is_brought_back_on_the_same_port(server: AdbServer, blow: str):
    before = server.pid
    psutil.Process(before).send_signal(getattr(signal, blow))
    server._limits = AdbServerLimits(answer_s=1.0)
    assert server.ensure()
    assert gone(before)
    assert server.pid not in {0, before}
    assert server.client().version() > 0


def test_it_ends_with_its_owner_and_leaves_no_pid_file(tmp_path: Path):
    server = AdbServer(0, tmp_path, environment=os.environ)
    server.start()
    pid = server.pid
    server.stop()
    assert gone(pid)
    assert 0 == server.pid
    assert not (tmp_path / "adb-server.json").exists()
    server.stop()


def test_the_kernel_holds_it_to_its_limit_of_memory(tmp_path: Path):
    with AdbServer(0, tmp_path, environment=os.environ, limits=AdbServerLimits(memory_bytes=50 << 20)) as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text(encoding="ascii").splitlines()
        [data] = [line.split()[3] for line in limits if line.startswith("Max data size")]
        assert 50 << 20 == int(data)
        assert "adb" == psutil.Process(server.pid).name()


def test_what_a_dead_predecessor_left_is_ended_first(tmp_path: Path):
    script = (
        "import os, sys; from pathlib import Path; from droidherd.adb.server import AdbServer, AdbServerLimits;"
        "server = AdbServer(0, Path(sys.argv[1]), environment=os.environ); server.start();"
        "print(server.port, server.pid, flush=True); os._exit(9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=30, check=False
    )
    port, left = (int(word) for word in done.stdout.split())
    assert not gone(left)
    with AdbServer(port, tmp_path, environment=os.environ) as server:
        assert gone(left)
        assert server.client().version() > 0


def test_what_a_dead_owner_left_can_be_ended_by_others_and_its_file_goes(tmp_path: Path):
    server = AdbServer(0, tmp_path, environment=os.environ)
    server.start()
    assert end_leftover(tmp_path)
    assert (True, False) == (gone(server.pid), pid_path(tmp_path).exists())
    assert not end_leftover(tmp_path)
    server.stop()


def test_its_log_begins_anew_when_it_is_long(server: AdbServer):
    with server.log.open("ab") as log:
        log.truncate(LOG_LIMIT_BYTES + 1)
    assert not server.ensure()
    assert 0 == server.log.stat().st_size
    os.kill(server.pid, signal.SIGKILL)
    assert server.ensure()
    assert 0 < len(server.log.read_bytes().strip(b"\0")) == server.log.stat().st_size


def test_a_pid_that_somebody_else_has_now_is_left_alone(tmp_path: Path):
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for birth in (pidfile.birth(os.getpid()), ""):
            content = {"name": "adb-server", "pid": innocent.pid, "birth": birth, "address": "127.0.0.1:1"}
            (tmp_path / "adb-server.json").write_text(json.dumps(content))
            with AdbServer(0, tmp_path, environment=os.environ):
                assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait(LONG_S)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_an_unreadable_pid_file_is_no_reason_not_to_start(tmp_path: Path, content: str):
    (tmp_path / "adb-server.json").write_text(content)
    with AdbServer(0, tmp_path, environment=os.environ) as server:
        assert server.client().version() > 0


def test_a_port_of_somebody_else_is_refused_with_the_way_out(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InfrastructureError, match=r"set adb\.port"):
            AdbServer(port, tmp_path, environment=os.environ).start()


def test_a_program_that_does_not_serve_is_reported_in_its_own_words(tmp_path: Path):
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\necho cannot run here >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(InfrastructureError, match="cannot run here"):
        AdbServer(0, tmp_path / "home", str(program), environment=os.environ).start()


def test_its_news_stop_with_the_server(server: AdbServer):
    with Track(server.client()) as track:
        assert () == track.next(LONG_S)
        assert None is track.next(0.05)
        psutil.Process(server.pid).kill()
        with pytest.raises(NotSentError):
            track.next(LONG_S)
    with pytest.raises(NotSentError):
        Track(server.client())


def test_nobody_at_an_address_is_no_state_and_no_error(server: AdbServer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    adb = server.client()
    assert "" == adb.connect(f"127.0.0.1:{port}", LONG_S)
    adb.disconnect(f"127.0.0.1:{port}")


def test_an_address_that_accepts_and_says_nothing_is_decided_by_the_list(server: AdbServer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        adb = server.client()
        assert "device" != adb.connect(address, 0.3)
        with pytest.raises(NotSentError):
            adb.shell(address, "echo", LONG_S)
        adb.disconnect(address)
        assert "" == adb.state(address)
