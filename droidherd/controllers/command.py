"""Emulators that commands of the operator start and stop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from droidherd.controllers import template
from droidherd.controllers.model import Call, ControllerError, Power, Status, Target
from droidherd.controllers.run import run


@dataclass(frozen=True, slots=True)
class CommandController:
    """`restart` may be left out: then it is `stop`, and `start`. Without `status` nobody knows."""

    name: str
    start_line: Sequence[str]
    stop_line: Sequence[str]
    restart_line: Sequence[str] = ()
    status_line: Sequence[str] = ()

    def start(self, target: Target, call: Call) -> None:
        self._do("start", self.start_line, target, call)

    def stop(self, target: Target, call: Call) -> None:
        self._do("stop", self.stop_line, target, call)

    def restart(self, target: Target, call: Call) -> None:
        if self.restart_line:
            self._do("restart", self.restart_line, target, call)
            return
        half = replace(call, deadline_s=call.deadline_s / 2)
        self.stop(target, half)
        self.start(target, half)

    def status(self, target: Target, call: Call) -> Status:
        """Return code 0: on; anything else: off."""
        if not self.status_line:
            return Status(Power.UNKNOWN)
        rc = run(template.fill(self.status_line, target), call, to=target.emulator_id, remedy=self._fix("status")).rc
        return Status(Power.OFF if rc else Power.ON)

    def _do(self, what: str, line: Sequence[str], target: Target, call: Call) -> None:
        done = run(template.fill(line, target), call, to=target.emulator_id, remedy=self._fix(what))
        if done.rc:
            text = f"`{what}` of {self.name} ended with {done.rc}: {done.complaint}"
            raise ControllerError(text, to=target.emulator_id, remedy=self._fix(what))

    def _fix(self, what: str) -> str:
        return f"correct controllers.commands.{self.name}.{what}"
