import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from droidherd.cli.errors import AlreadyRunningError, CliError, NotReadyError, PortTakenError
from droidherd.cli.local import ports, supervise
from droidherd.cli.local.lock import InstanceLock, is_held
from droidherd.cli.local.ports import PortRegistry, free
from droidherd.cli.local.supervise import ProcessFolders, ProcessSpec, Supervisor
from droidherd.processes import pidfile

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
LIMIT_S = 60


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    one = Supervisor(ProcessFolders(tmp_path / "run", tmp_path / "logs"))
    yield one
    one.stop(grace_s=0)


def spec(name: str, code: str = SLEEPER, ready: Callable[[int], None] = lambda _: None) -> ProcessSpec:
    return ProcessSpec(name, [sys.executable, "-c", code], ready)


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def never(_: int) -> None:
    raise NotReadyError("no answer")


def test_a_child_that_dies_is_started_again(supervisor: Supervisor, tmp_path: Path):
    supervisor.start(spec("one"))
    first = pidfile.read(tmp_path / "run/one.json")
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    seen: list[int] = []

    def again() -> bool:
        file = pidfile.read(tmp_path / "run/one.json")
        if file is not None and file.pid != first.pid:
            seen.append(file.restarts)
        return bool(seen)

    until = time.monotonic() + LIMIT_S
    supervisor.watch(lambda: again() or time.monotonic() > until)
    assert 1 == seen[0]


def test_a_child_that_keeps_dying_is_given_up_and_reported(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(supervise, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(supervise, "RESTARTS_A_MINUTE", 2)
    child = supervisor.start(spec("one", "raise SystemExit(3)"))
    until = time.monotonic() + LIMIT_S
    with caplog.at_level(logging.WARNING):
        supervisor.watch(lambda: child.gave_up or time.monotonic() > until)
    assert 2 == child.restarts
    assert "one ended 3 times within a minute, the last time with code 3: given up" in caplog.text


def test_a_child_that_does_not_get_ready_shows_the_end_of_its_log(supervisor: Supervisor):
    def wait_for_end(pid: int) -> None:
        eventually(lambda: not pidfile.birth(pid))
        never(pid)

    with pytest.raises(CliError) as error:
        supervisor.start(spec("one", "print('the reason', flush=True); raise SystemExit(4)", wait_for_end))
    assert "one ended with 4" in str(error.value)
    assert "the reason" in str(error.value)


def test_children_end_in_reverse_order(supervisor: Supervisor, tmp_path: Path):
    ends = tmp_path / "ends"
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n  open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(60)"
    )
    for name in ("a", "b", "c"):

        def up(_: int, name: str = name) -> None:
            assert eventually(lambda: "up" in (tmp_path / f"logs/{name}.log").read_text())

        supervisor.start(ProcessSpec(name, [sys.executable, "-c", code, str(ends), name], up))
    supervisor.stop()
    assert "cba" == ends.read_text()
    assert [] == pidfile.read_all(tmp_path / "run")


def test_what_a_dead_predecessor_left_is_ended_in_order(tmp_path: Path):
    run = tmp_path / "run"
    left = {
        name: subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.DEVNULL)
        for name in ("worker", "temporal", "odd")
    }
    for name, process in left.items():
        pidfile.record(run, name, process.pid)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    pidfile.record(run, "api", gone.pid)
    gone.wait(timeout=10)
    ended = supervise.end_leftovers(run, ["api", "worker", "temporal"], grace_s=0)
    assert ["odd", "worker", "temporal"] == [file.name for file in ended]
    assert {-signal.SIGKILL} == {process.wait(timeout=10) for process in left.values()}
    assert [] == list(run.glob("*.json"))


def test_a_log_is_bounded_and_its_writer_goes_on(tmp_path: Path):
    log = tmp_path / "one.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 101)
        supervise.rotate(log, limit=100)
        writer.write(b"after")
    assert b"after" == log.read_bytes()
    assert b"x" * 101 == (tmp_path / "one.log.1").read_bytes()
    supervise.rotate(log, limit=100)
    assert b"after" == log.read_bytes()


def test_a_second_holder_is_refused_with_the_name_of_the_first(tmp_path: Path):
    path = tmp_path / "run" / "up.lock"
    with InstanceLock(path):
        assert is_held(path)
        with pytest.raises(AlreadyRunningError, match=f"in use by process {os.getpid()}"):
            InstanceLock(path).take()
    assert not is_held(path)
    InstanceLock(path).take().give_back()


def test_a_killed_holder_gives_its_lock_back(tmp_path: Path):
    code = (
        "import sys, time; from pathlib import Path; from droidherd.cli.local.lock import InstanceLock\n"
        "lock = InstanceLock(Path(sys.argv[1])).take(); print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "run" / "up.lock"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        assert is_held(path)
        holder.kill()
    InstanceLock(path).take().give_back()


def test_a_taken_port_names_its_setting(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        with pytest.raises(PortTakenError) as error:
            PortRegistry(tmp_path / "ports.json").claim("api.port", port)
    assert "`api.port`" in str(error.value)
    assert "DROIDHERD_API__PORT" in str(error.value)


def test_port_0_is_chosen_once_and_remembered(tmp_path: Path):
    path = tmp_path / "run" / "ports.json"
    first = PortRegistry(path).claim("api.port", 0)
    assert first == PortRegistry(path).claim("api.port", 0)
    assert first != PortRegistry(path).claim("adb.port", 0)


def test_a_port_that_was_given_away_is_not_given_again(monkeypatch: pytest.MonkeyPatch):
    one = free()
    monkeypatch.setattr(ports, "QUIET_PORTS", range(one, one + 1))
    assert one == free()
    assert one != free(besides={one})


def test_ports_where_adb_looks_are_refused(tmp_path: Path):
    with pytest.raises(PortTakenError, match="adb looks"):
        PortRegistry(tmp_path / "ports.json").claim("api.port", 5555)


def test_a_wanted_free_port_is_taken_as_it_is(tmp_path: Path):
    port = free()
    assert port == PortRegistry(tmp_path / "ports.json").claim("api.port", port)
