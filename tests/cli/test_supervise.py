import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from droidherd.cli.errors import AlreadyRunningError, CliError, PortTakenError
from droidherd.cli.local import ports, supervise
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import InstanceLock, is_held
from droidherd.cli.local.ports import PortRegistry, PortSetting, free
from droidherd.cli.local.start import leaving_nothing
from droidherd.cli.local.supervise import LINE_MAX, ChildProcess, ProcessFolders, ProcessSpec, Supervisor, tail
from droidherd.processes import children, pidfile

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
LIMIT_S = 60


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    one = Supervisor(ProcessFolders(tmp_path / "run", tmp_path / "logs"))
    yield one
    one.stop(grace_s=0)


def pid_of(child: ChildProcess) -> int:
    file = pidfile.read(child.log.parents[1] / "run" / f"{child.spec.name}.json")
    return file.pid if file is not None else 0


def at_once(_: int) -> str:
    return ""


def spec(name: str, code: str = SLEEPER, ready: Callable[[int], str] = at_once) -> ProcessSpec:
    return ProcessSpec(name, [sys.executable, "-c", code], ready)


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


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


def test_an_end_is_heard_and_not_looked_for(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervise, "LOOK_S", LIMIT_S)
    ends_soon = ProcessSpec("one", [sys.executable, "-c", "import sys; sys.stdin.read()"], at_once, checks_again=True)
    child = supervisor.start(ends_soon)
    began_s = time.monotonic()
    supervisor.watch(lambda: child.restarts > 0)
    assert time.monotonic() - began_s < LIMIT_S


def test_a_stand_by_takes_over_when_its_process_ends(supervisor: Supervisor):
    code = (
        "import os, sys, time\n"
        "if '--standby' in sys.argv:\n"
        "  print(f'stands by {os.getpid()}', flush=True)\n"
        "  if not sys.stdin.readline(): sys.exit()\n"
        "print(f'began {os.getpid()}', flush=True); time.sleep(60)"
    )
    child = supervisor.start(ProcessSpec("one", [sys.executable, "-c", code], at_once, standby=True))
    first = pid_of(child)
    child.stand_by()
    assert eventually(lambda: "stands by" in child.log.read_text())
    waiting = int(child.log.read_text().split("stands by ")[1].split()[0])
    assert f"began {waiting}" not in child.log.read_text()
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + LIMIT_S
    supervisor.watch(lambda: pid_of(child) != first or time.monotonic() > until)
    assert waiting == pid_of(child)
    assert eventually(lambda: f"began {waiting}" in child.log.read_text())


def test_a_stand_by_that_died_is_replaced_by_a_start(supervisor: Supervisor):
    code = "import os, sys, time\nif '--standby' in sys.argv: print(os.getpid()); sys.exit(5)\ntime.sleep(60)"
    child = supervisor.start(ProcessSpec("one", [sys.executable, "-c", code], at_once, standby=True))
    child.stand_by()
    assert eventually(lambda: child.log.read_text().strip().isdecimal())
    assert eventually(lambda: not pidfile.birth(int(child.log.read_text())))
    first = pid_of(child)
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + LIMIT_S
    supervisor.watch(lambda: child.restarts > 0 or time.monotonic() > until)
    assert 1 == child.restarts
    assert pidfile.birth(pid_of(child))


def test_whoever_ends_leftovers_returns_when_the_stand_by_is_gone_too(supervisor: Supervisor, tmp_path: Path):
    """Without its supervisor it would leave by itself, but only after its imports."""
    child = supervisor.start(ProcessSpec("one", [sys.executable, "-c", SLEEPER], at_once, standby=True))
    child.stand_by()
    standby = pidfile.read(tmp_path / "run/standby/one.json")
    assert standby is not None
    assert standby.lives()
    supervise.end_leftovers(tmp_path / "run", ["one"], grace_s=0)
    assert not standby.lives()
    assert [] == list(tmp_path.glob("run/**/*.json"))


@pytest.mark.parametrize(
    "line",
    [[sys.executable, str(children.ROOT / "worker_main.py"), "run"], children.python("api")],
    ids=["worker", "api"],
)
def test_a_stand_by_leaves_with_whoever_would_call_it(line: list[str]):
    line = [*line, children.STANDBY]
    assert 0 == subprocess.run(line, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False).returncode


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


def test_a_child_that_dies_in_its_start_is_tried_again(supervisor: Supervisor, tmp_path: Path):
    deaths = tmp_path / "deaths"
    code = (
        "import pathlib, sys, time\n"
        f"deaths = pathlib.Path({str(deaths)!r}); count = len(deaths.read_text()) if deaths.exists() else 0\n"
        "if count < 2:\n  deaths.write_text('x' * (count + 1)); sys.exit(9)\n"
        "print('serves', flush=True); time.sleep(60)"
    )
    child = supervisor.start(spec("one", code, lambda _: "" if "serves" in child.log.read_text() else "is silent"))
    assert "" == supervisor.wait_ready(child, lambda: False)
    assert 2 == child.restarts


def test_who_serves_is_brought_back_while_another_starts(supervisor: Supervisor):
    first = supervisor.start(spec("one"))
    assert "" == supervisor.wait_ready(first, lambda: False)

    def ready(_: int) -> str:
        if not first.restarts:
            with suppress(ProcessLookupError):
                os.kill(pid_of(first), signal.SIGKILL)
            return "waits for the other one"
        return ""

    second = supervisor.start(spec("two", ready=ready))
    assert "" == supervisor.wait_ready(second, lambda: False)
    assert 1 == first.restarts


def test_a_child_that_refuses_is_not_tried_again(supervisor: Supervisor):
    refusing = ProcessSpec(
        "one", [sys.executable, "-c", "raise SystemExit(4)"], ready=lambda _: "is not up", refusals=frozenset({4})
    )
    child = supervisor.start(refusing)
    assert ("ended with code 4", True, 0) == (
        supervisor.wait_ready(child, lambda: False),
        child.refused,
        child.restarts,
    )


def test_a_child_that_is_late_says_what_it_lacks_and_goes_on(supervisor: Supervisor):
    child = supervisor.start(spec("one", ready=lambda _: "has no disk"))
    assert "has no disk" == supervisor.wait_ready(child, lambda: False, seconds=0.0)
    assert pidfile.birth(pid_of(child))


def test_a_wait_ends_when_somebody_stops_it(supervisor: Supervisor):
    child = supervisor.start(spec("one", ready=lambda _: "has no disk"))
    turns = iter([False, True])
    assert "has no disk" == supervisor.wait_ready(child, lambda: next(turns))


def test_children_end_in_reverse_order(supervisor: Supervisor, tmp_path: Path):
    ends = tmp_path / "ends"
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n  open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(60)"
    )
    for name in ("a", "b", "c"):

        def up(_: int, name: str = name) -> str:
            return "" if "up" in (tmp_path / f"logs/{name}.log").read_text() else "is silent"

        child = supervisor.start(ProcessSpec(name, [sys.executable, "-c", code, str(ends), name], up))
        assert "" == supervisor.wait_ready(child, lambda: False)
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


def test_what_waiting_does_not_change_is_not_waited_for(supervisor: Supervisor):
    line = [sys.executable, "-c", SLEEPER]
    child = supervisor.start(ProcessSpec("one", line, lambda _: "has no key", is_hopeless=lambda why: "key" in why))
    assert "has no key" == supervisor.wait_ready(child, lambda: False, seconds=LIMIT_S)
    assert time.monotonic() - child.started_s < LIMIT_S


def test_a_second_holder_is_refused_with_the_name_of_the_first(tmp_path: Path):
    path = tmp_path / "run" / "up.lock"
    with InstanceLock(path):
        assert is_held(path)
        with pytest.raises(AlreadyRunningError, match=f"in use by process {os.getpid()}"):
            InstanceLock(path).take()
    assert not is_held(path)
    InstanceLock(path).take().give_back()


def test_a_first_start_that_fails_leaves_alone_what_another_one_began(tmp_path: Path):
    def start(data: Path, began: Callable[[], object]) -> None:
        with leaving_nothing(data):
            began()
            raise CliError("a port is taken")

    layout, alone = Layout(tmp_path / "data"), tmp_path / "alone"
    other = InstanceLock(layout.lock)
    with pytest.raises(CliError):
        start(layout.data, other.take)
    assert layout.lock.exists()
    other.give_back()
    with pytest.raises(CliError):
        start(alone, alone.mkdir)
    assert not alone.exists()


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
        chosen = [PortSetting(name, port, chosen=True) for name in ("api.port", "temporal.ui_port")]
        with pytest.raises(PortTakenError) as error:
            PortRegistry(tmp_path / "ports.json").claim_all(*chosen)
    for expected in ("`api.port`", "DROIDHERD_API__PORT", "`temporal.ui_port`", "DROIDHERD_TEMPORAL__UI_PORT"):
        assert expected in str(error.value)


def test_a_default_port_that_is_taken_gives_way_and_is_remembered(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        found = PortRegistry(tmp_path / "ports.json").claim(PortSetting("api.port", port, chosen=False))
    assert port != found
    assert found == PortRegistry(tmp_path / "ports.json").claim(PortSetting("api.port", port, chosen=False))


def test_port_0_is_chosen_once_and_remembered(tmp_path: Path):
    path = tmp_path / "run" / "ports.json"
    api, adb = (PortSetting(name, 0, chosen=True) for name in ("api.port", "adb.port"))
    first = PortRegistry(path).claim(api)
    assert first == PortRegistry(path).claim(api)
    assert first != PortRegistry(path).claim(adb)


def test_a_port_that_was_given_away_is_not_given_again(monkeypatch: pytest.MonkeyPatch):
    one = free()
    monkeypatch.setattr(ports, "QUIET_PORTS", range(one, one + 1))
    assert one == free()
    assert one != free(besides={one})


def test_ports_where_adb_looks_are_refused(tmp_path: Path):
    with pytest.raises(PortTakenError, match="adb looks"):
        PortRegistry(tmp_path / "ports.json").claim(PortSetting("api.port", 5555, chosen=True))


def test_a_wanted_free_port_is_taken_as_it_is(tmp_path: Path):
    port = free()
    assert port == PortRegistry(tmp_path / "ports.json").claim(PortSetting("api.port", port, chosen=True))


def test_who_dies_on_a_full_disk_is_started_when_there_is_space(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The disk is a stand-in: what is reported of it is invented."""
    free = [0]
    monkeypatch.setattr(supervise, "SPACE_PAUSE_S", 0.01)

    def usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free[0])

    monkeypatch.setattr(supervise.shutil, "disk_usage", usage)
    child = supervisor.start(spec("one"))
    os.kill(pid_of(child), signal.SIGKILL)
    for _ in range(supervise.RESTARTS_A_MINUTE + 2):
        assert eventually(lambda: not supervisor.restart_dead(time.monotonic()) and child.ended is not None)
    assert (0, False) == (child.restarts, child.gave_up)
    free[0] = supervise.SPACE_BYTES
    assert eventually(lambda: not supervisor.restart_dead(time.monotonic()) and child.restarts == 1)


def test_a_start_that_cannot_be_written_down_is_undone_and_tried_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervise, "SPACE_PAUSE_S", 0.01)
    child = supervisor.start(spec("one"))
    first, record, unwritten = pid_of(child), pidfile.record, list[int]()

    def refuse_once(directory: Path, name: str, pid: int, **known: Any) -> pidfile.PidFile:
        if not unwritten:
            unwritten.append(pid)
            raise OSError(errno.ENOSPC, "No space left on device")
        return record(directory, name, pid, **known)

    monkeypatch.setattr(pidfile, "record", refuse_once)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: not supervisor.restart_dead(time.monotonic()) and pid_of(child) != first)
    assert ("", True) == (pidfile.birth(unwritten[0]), pid_of(child) != unwritten[0])


def test_a_log_that_cannot_be_copied_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = tmp_path / "one.log"
    log.write_text("x" * 100)
    monkeypatch.setattr(supervise.shutil, "copyfile", refuse)
    supervise.rotate(log, 50)
    assert (0, ["one.log"]) == (log.stat().st_size, [one.name for one in tmp_path.iterdir()])


def test_a_port_that_another_instance_is_about_to_take_is_left_to_it(tmp_path: Path):
    setting = PortSetting("api.port", free(), chosen=False)
    first, second = PortRegistry(tmp_path / "first.json"), PortRegistry(tmp_path / "second.json")
    assert setting.wanted == first.claim(setting)
    assert setting.wanted != second.claim(setting)
    with pytest.raises(PortTakenError, match="is in use"):
        second.claim(PortSetting("api.port", setting.wanted, chosen=True))
    del first
    assert setting.wanted == PortRegistry(tmp_path / "third.json").claim(setting)


def test_the_end_of_a_log_is_quoted_within_bounds(tmp_path: Path):
    log = tmp_path / "up.log"
    log.write_text(f"short\n{'x' * 10_000}\n")
    quoted = tail(log)
    assert (True, True) == (quoted.startswith("    short\n"), len(quoted) < 2 * LINE_MAX)
