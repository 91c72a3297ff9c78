"""A data directory and the command that works in it."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from droidherd.processes import pidfile
from droidherd.processes.pidfile import PidFile

ROOT = Path(__file__).parents[2]
LIMIT_S = 200


class Stand:
    def __init__(self, data: Path, program: Sequence[str]) -> None:
        self.data = data
        self.umask = -1
        """Of the commands; -1: ours."""
        self._program = program
        free = {"TEMPORAL__ADDRESS": "127.0.0.1:0", "TEMPORAL__UI_PORT": "0", "TEMPORAL__METRICS_PORT": "0"}
        ours = {**free, "API__PORT": "0", "ADB__PORT": "0", "TIMING__DRAIN_S": "30"}
        settings = {f"DROIDHERD_{name}": value for name, value in ours.items()}
        self.environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT)}

    def line(self, *words: str) -> list[str]:
        return [*self._program, *words, "--data", str(self.data)]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.line(*words),
            env=self.environment,
            cwd=self.data.parent,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            umask=self.umask,
        )

    def up(self, *words: str) -> dict[str, Any]:
        done = self.run("up", "--detach", "--json", *words)
        assert 0 == done.returncode, done.stdout + done.stderr
        return json.loads(done.stdout)

    def status(self) -> dict[str, Any]:
        return json.loads(self.run("status", "--json").stdout)

    def processes(self) -> dict[str, PidFile]:
        return {one.name: one for one in pidfile.read_all(self.data / "run")}

    def family(self) -> list[PidFile]:
        """Every process of the instance, and theirs: the adb server is the worker's."""
        mine = list(self.processes().values())
        children = [child.pid for one in mine for child in psutil.Process(one.pid).children(recursive=True)]
        return [*mine, *[PidFile(name="", pid=pid, birth=pidfile.birth(pid)) for pid in children]]


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
