"""Processes of a benchmark: started with a log, ended by their own pid, asked what they used."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psutil

STOP_S = 20.0


@dataclass
class Program:
    """One process that serves until it is told to stop."""

    name: str
    line: list[str]
    environment: dict[str, str]
    log: Path
    _process: "subprocess.Popen[bytes] | None" = field(default=None)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.line, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self.name} does not run; its log ends with: {self.log.read_text()[-500:]}")
        return self._process.pid

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)


def cpu_s(pid: int) -> float:
    """Processor time a process has used, in user and system mode."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def resident_mb(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1e6
