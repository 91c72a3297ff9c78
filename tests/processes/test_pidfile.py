import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from droidherd.processes import pidfile
from droidherd.processes.pidfile import PidFile

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True); time.sleep(60)"
)


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    running: list[subprocess.Popen[str]] = []
    yield running
    for one in running:
        one.kill()
        one.communicate(timeout=10)


def start(started: list["subprocess.Popen[str]"], code: str) -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_recorded_process_is_known_again(tmp_path: Path):
    file = pidfile.record(tmp_path, "me", os.getpid(), address="127.0.0.1:1")
    assert file == pidfile.read(tmp_path / "me.json")
    assert [file] == pidfile.read_all(tmp_path)
    assert file.lives()


def test_another_process_with_the_same_pid_is_never_ended(tmp_path: Path, started: list["subprocess.Popen[str]"]):
    process, _ = start(started, STUBBORN)
    stranger = PidFile(name="old", pid=process.pid, birth=pidfile.birth(os.getpid()))
    assert not stranger.lives()
    assert not stranger.end(grace_s=0)
    assert process.poll() is None


def test_a_process_that_is_waited_for_by_nobody_counts_as_gone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    while pidfile.birth(process.pid):
        pass
    assert "" == pidfile.birth(process.pid)
    process.wait(timeout=10)


def test_who_does_not_stop_when_asked_is_made_to(tmp_path: Path, started: list["subprocess.Popen[str]"]):
    process, output = start(started, STUBBORN)
    assert "up" == output
    file = pidfile.record(tmp_path, "stubborn", process.pid)
    assert file.end(grace_s=0.2)
    assert -signal.SIGKILL == process.wait(timeout=10)
    assert not file.end(grace_s=0)


def test_children_go_with_their_parent(tmp_path: Path, started: list["subprocess.Popen[str]"]):
    process, child = start(started, PARENT)
    orphan = PidFile(name="child", pid=int(child), birth=pidfile.birth(int(child)))
    assert orphan.lives()
    pidfile.record(tmp_path, "parent", process.pid).end(grace_s=0)
    assert pidfile.wait_gone([orphan], 10)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"name": "x", "pid": "y", "birth": ""}'])
def test_a_pid_file_that_makes_no_sense_is_none(tmp_path: Path, content: str):
    (tmp_path / "x.json").write_text(content)
    assert pidfile.read(tmp_path / "x.json") is None
    assert [] == pidfile.read_all(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path):
    pidfile.write_json(tmp_path / "a" / "x.json", {"n": 1})
    with pytest.raises(TypeError):
        pidfile.write_json(tmp_path / "a" / "x.json", object())
    assert '{\n "n": 1\n}' == (tmp_path / "a" / "x.json").read_text()
