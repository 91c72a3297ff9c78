"""Starts and ends the process of the virtual emulators, from Python."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from droidherd.domain.errors import InfrastructureError
from droidherd.virtual.control import VirtualControl

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.02


class VirtualFleetError(InfrastructureError):
    """The process did not come up, or is gone."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """One virtual emulator, as the ready file names it."""

    emulator_id: str
    address: str
    serialno: str


@dataclass(slots=True)
class VirtualFleet:
    """A running process; as a context manager it is stopped at the end. `kill` and `restart` rehearse a crash."""

    state: Path
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]
    control_address: str = ""
    emulators: tuple[Hosted, ...] = field(default=())

    @classmethod
    def start(
        cls,
        *,
        state: Path,
        count: int = 4,
        ports: tuple[int, ...] = (),
        size: tuple[int, int] = (1280, 720),
        boot_s: float = 0.0,
    ) -> Self:
        """Returns when all emulators listen. The process ends when this one is gone."""
        arguments = ["--count", str(count), "--size", f"{size[0]}x{size[1]}", "--boot-s", str(boot_s)]
        arguments += ["--parent", str(os.getpid())]
        arguments += ["--state", str(state), "--ready-file", str(state / "ready.json")]
        arguments += ["--ports", ",".join(map(str, ports))] if ports else []
        fleet = cls(state=state, arguments=tuple(arguments), process=_launch(state, arguments))
        fleet._await_ready()
        return fleet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def addresses(self) -> dict[str, str]:
        """By emulator id."""
        return {hosted.emulator_id: hosted.address for hosted in self.emulators}

    def control(self) -> VirtualControl:
        """A new connection to the side channel."""
        return VirtualControl(self.control_address)

    def stop(self) -> None:
        """SIGTERM, and what is left after a while by force."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def restart(self) -> None:
        """Again with the same state, after `stop` or `kill`: same ids, same ports if they are free."""
        self.process = _launch(self.state, list(self.arguments))
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        ready = self.state / "ready.json"
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log = (self.state / "virtual.log").read_text("utf-8", "replace")[-2000:]
                raise VirtualFleetError(f"virtual emulators did not start: {log}", to=str(self.state))
            time.sleep(_POLL_S)
        content = json.loads(ready.read_text("utf-8"))
        self.control_address = content["control"]
        self.emulators = tuple(Hosted(**each) for each in content["emulators"])


def _launch(state: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    state.mkdir(parents=True, exist_ok=True)
    (state / "ready.json").unlink(missing_ok=True)
    with (state / "virtual.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "droidherd.virtual", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
