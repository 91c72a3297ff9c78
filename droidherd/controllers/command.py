"""Emulators that commands of the operator start and stop: lists of arguments with places for what is known of them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from droidherd.controllers.model import ControlledEmulator, ControllerCall, ControllerError, Power, PowerStatus
from droidherd.controllers.run import run

PLACES = ("emulator_id", "address", "host", "port", "instance", "serialno")
ARGUMENTS_LIMIT = 100
_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class CommandController:
    """`restart` may be left out: then it is `stop`, and `start`. Without `status` nobody knows."""

    name: str
    start_line: Sequence[str]
    stop_line: Sequence[str]
    restart_line: Sequence[str] = ()
    status_line: Sequence[str] = ()

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._do("start", self.start_line, target, call)

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._do("stop", self.stop_line, target, call)

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        if self.restart_line:
            self._do("restart", self.restart_line, target, call)
            return
        half = replace(call, deadline_s=call.deadline_s / 2)
        self.stop(target, half)
        self.start(target, half)

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        """Return code 0: on; anything else: off."""
        if not self.status_line:
            return PowerStatus(Power.UNKNOWN)
        rc = run(fill(self.status_line, target), call, to=target.emulator_id, remedy=self._fix("status")).rc
        return PowerStatus(Power.OFF if rc else Power.ON)

    def _do(self, what: str, line: Sequence[str], target: ControlledEmulator, call: ControllerCall) -> None:
        done = run(fill(line, target), call, to=target.emulator_id, remedy=self._fix(what))
        if done.rc:
            text = f"`{what}` of {self.name} ended with {done.rc}: {done.complaint}"
            raise ControllerError(text, to=target.emulator_id, remedy=self._fix(what))

    def _fix(self, what: str) -> str:
        return f"correct controllers.commands.{self.name}.{what}"


def problem(line: Sequence[str]) -> str:
    """What is wrong with a command; empty when nothing is."""
    if not line or not line[0]:
        return "names no program"
    if len(line) > ARGUMENTS_LIMIT:
        return f"has {len(line)} arguments, {ARGUMENTS_LIMIT} are allowed"
    if _PLACE.search(line[0]):
        return "the program itself may hold no place"
    for word in line:
        if "\0" in word:
            return "holds a NUL character"
        unknown = [name for name in _PLACE.findall(word) if name not in PLACES]
        if unknown:
            return f"{{{unknown[0]}}} is no place; there are {', '.join(PLACES)}"
    return ""


def fill(line: Iterable[str], target: ControlledEmulator) -> list[str]:
    """Each argument stays one argument, whatever is put in: there is no shell."""
    known = {
        "emulator_id": target.emulator_id,
        "address": target.address,
        "host": target.address.rpartition(":")[0],
        "port": str(target.port),
        "instance": target.instance,
        "serialno": target.serialno,
    }
    return [_PLACE.sub(lambda place: known[place[1]], word) for word in line]
