"""Pid files: which process is it, does it still live, and how is it ended. The only such class of the product.

A pid alone is no identity, since the system gives it out again. A pid file therefore also keeps the birth of its
process, and a process is only ever ended when both agree.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
from pydantic import BaseModel, ConfigDict

POLL_S = 0.02
KILL_S = 10.0
"""How long a killed process may take to be gone."""


class PidFile(BaseModel):
    """One process and when it was born, as written in `<folder>/<name>.json`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    name: str
    pid: int
    birth: str
    command: tuple[str, ...] = ()
    address: str = ""
    started_at: float = 0.0
    restarts: int = 0
    owner_pid: int = 0
    """Of the process that started it."""
    owner_birth: str = ""

    def lives(self) -> bool:
        """Whether this very process still runs."""
        return bool(self.birth) and birth(self.pid) == self.birth

    def has_owner(self) -> bool:
        """Whether the process that started it still runs."""
        return bool(self.owner_birth) and birth(self.owner_pid) == self.owner_birth

    def ask(self) -> None:
        """SIGTERM, if it is still the same process."""
        if self.lives():
            _signal(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, if it is still the same process."""
        if self.lives():
            _signal(self.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

    def end(self, *, grace_s: float, hurry_s: float = 0.0) -> bool:
        """Ask the process to stop, and kill it when it has not stopped within the grace. True when it lived.

        Asked a second time, for `hurry_s`, it should leave things in order and do nothing else.
        Its own children go with it: a server that outlives its parent would hold its ports.
        """
        if not self.lives():
            return False
        family = _family(self.pid)
        if grace_s > 0:
            self.ask()
            wait_gone([self], grace_s)
        if grace_s > 0 and hurry_s > 0:
            self.ask()
            wait_gone([self], hurry_s)
        self.kill()
        wait_gone([self], KILL_S)
        for child in family:
            child.kill()
        return True


def birth(pid: int) -> str:
    """When the process of this pid was born, on a clock nobody sets; empty when there is no such process."""
    try:
        if sys.platform == "linux":
            # Ticks since boot: `create_time` is computed from the wall clock and jumps with it.
            line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            state, *rest = line.rpartition(")")[2].split()
            return "" if state in {"Z", "X"} else f"{_boot_id()}:{rest[18]}"
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except (OSError, psutil.Error):
        return ""


def record(directory: Path, name: str, pid: int, **known: Any) -> PidFile:
    """Write the pid file of a process that was just started."""
    owner = {"owner_pid": os.getpid(), "owner_birth": birth(os.getpid())}
    file = PidFile(name=name, pid=pid, birth=birth(pid), started_at=time.time(), **owner, **known)
    write_json(directory / f"{name}.json", file.model_dump())
    return file


def read(path: Path) -> PidFile | None:
    """None when there is none, or none that makes sense."""
    try:
        return PidFile.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def read_all(directory: Path) -> list[PidFile]:
    found = [read(path) for path in sorted(directory.glob("*.json"))]
    return [one for one in found if one is not None]


def wait_gone(files: Sequence[PidFile], seconds: float) -> bool:
    """True when all of them are gone in time."""
    until = time.monotonic() + seconds
    while any(one.lives() for one in files):
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
    return True


def write_json(path: Path, content: object) -> None:
    """The whole file or nothing, whatever dies meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        beside.write_text(json.dumps(content, indent=1), encoding="utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)  # half a file would keep the disk full
        raise


def _family(pid: int) -> list[PidFile]:
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return [PidFile(name="", pid=child.pid, birth=birth(child.pid)) for child in children]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it ended by itself between the look and the signal


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
