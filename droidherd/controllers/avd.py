"""Emulators of the Android SDK: a process of ours per AVD, ended through its console."""

import contextlib
import socket
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from droidherd.controllers.model import (
    POLL_S,
    ControlledEmulator,
    ControllerCall,
    ControllerEntry,
    ControllerError,
    Power,
    PowerStatus,
    VendorSettings,
)
from droidherd.controllers.run import end, launch, run, until

REMEDY = "install the Android SDK's emulator, or set controllers.avd_program"
FIRST_PORT, LAST_PORT = 5554, 5682
EARLY_S = 1.5
"""A wrong name or a missing accelerator ends the emulator within this."""
KNOCK_S = 0.5
LOG_LIMIT_BYTES = 1 << 20


class AvdSettings(VendorSettings):
    avd_program: str = Field(default="emulator", description="the emulator of the Android SDK")
    avd_arguments: tuple[str, ...] = Field(
        default=("-no-window", "-no-audio", "-no-boot-anim", "-no-snapshot"),
        max_length=100,
        description="given to it beside `-avd` and `-port`",
    )


@dataclass(frozen=True, slots=True)
class AvdController:
    """The `instance` of an emulator is the name of its AVD; its console listens one port below adb."""

    program: str
    arguments: tuple[str, ...]
    adb: str
    logs: Path
    _started: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    """What this worker started. An emulator outlives it; then its console alone says that it runs."""

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        console = self._console(target)
        if not target.instance:
            raise ControllerError(
                "no AVD is named for it",
                to=target.emulator_id,
                remedy="set `instance` in the inventory to a name of `emulator -list-avds`",
            )
        if self.status(target, call).power is not Power.OFF:
            return
        line = [self.program, "-avd", target.instance, "-port", str(console), *self.arguments]
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"avd-{target.emulator_id}.log"
        mode = "ab" if log.exists() and log.stat().st_size < LOG_LIMIT_BYTES else "wb"
        with log.open(mode) as output:
            prints = (output.fileno(), output.fileno())
            process = launch(line, call, prints, to=target.emulator_id, remedy=REMEDY)
        self._started[target.emulator_id] = process
        self._settle(process, target, log, call)

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        console = self._console(target)
        if _listens(console):
            # By this name adb goes to the console itself, with the token of this user; no server is asked.
            done = run([self.adb, "-s", f"emulator-{console}", "emu", "kill"], call, to=target.emulator_id, remedy="")
            if done.rc:
                fix = "is ~/.emulator_console_auth_token that of the user who started it?"
                raise ControllerError(f"adb emu kill: {done.complaint}", to=target.emulator_id, remedy=fix)
        problem = ControllerError(
            "did not end", to=target.emulator_id, remedy=f"end it by hand; its console is port {console}"
        )
        try:
            until(lambda: not _listens(console) and not self._runs(target), replace(call, deadline_s=20.0), problem)
        except ControllerError:
            process = self._started.get(target.emulator_id)
            if process is None:
                raise
            end(process)
        self._started.pop(target.emulator_id, None)

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self.stop(target, call)
        self.start(target, call)

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:  # noqa: ARG002 - a knock takes no time
        if _listens(self._console(target)):
            return PowerStatus(Power.ON, target.address)
        return PowerStatus(Power.STARTING if self._runs(target) else Power.OFF)

    def _runs(self, target: ControlledEmulator) -> bool:
        process = self._started.get(target.emulator_id)
        return process is not None and process.poll() is None

    def _settle(
        self, process: "subprocess.Popen[bytes]", target: ControlledEmulator, log: Path, call: ControllerCall
    ) -> None:
        """Return once it serves its console or has lived for a moment."""
        until_s = time.monotonic() + min(EARLY_S, call.deadline_s)
        while time.monotonic() < until_s and not _listens(self._console(target)):
            if process.poll() is not None:
                words = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise ControllerError(
                    f"the emulator ended at once: {''.join(words)[:200] or 'it printed no reason'}",
                    to=target.emulator_id,
                    remedy=f"see {log.name} in the logs",
                )
            call.beat()
            time.sleep(POLL_S)

    def _console(self, target: ControlledEmulator) -> int:
        console = target.port - 1
        if console % 2 or not FIRST_PORT <= console <= LAST_PORT:
            raise ControllerError(
                f"{target.address} is no address of an AVD",
                to=target.emulator_id,
                remedy=f"give it an odd adb port from {FIRST_PORT + 1} to {LAST_PORT + 1}",
            )
        return console


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), KNOCK_S):
        return True
    return False


AVD = ControllerEntry(
    name="avd",
    settings=AvdSettings,
    make=lambda settings, host: AvdController(
        settings.avd_program, settings.avd_arguments, host.adb, host.data / "logs"
    ),
    program=lambda settings: settings.avd_program,
)
