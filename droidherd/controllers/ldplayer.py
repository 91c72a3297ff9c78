"""LDPlayer 9, through ldconsole. It returns 0 whatever happens, so what it did is looked up in its list."""

import re
from dataclasses import dataclass, replace

from pydantic import Field

from droidherd.controllers import addresses
from droidherd.controllers.model import (
    ControlledEmulator,
    ControllerCall,
    ControllerEntry,
    ControllerError,
    Power,
    PowerStatus,
    VendorInstance,
    VendorSettings,
    usual_address,
)
from droidherd.controllers.run import run, until

REMEDY = "install LDPlayer, or set controllers.ldplayer_program to its ldconsole"
NUMBER = "set `instance` in the inventory to a number of `ldconsole list2`"
_INDEX = re.compile(r"[0-9]{1,4}")
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_LD_SHORT, _LD_LONG = 5, 8
"""Fields behind the title in `list2`: older versions know no width, height and density."""
_LD_ANDROID = 2
"""Which of them says that Android runs; the one behind it is the process, or -1."""


class LDPlayerSettings(VendorSettings):
    ldplayer_program: str = Field(default="ldconsole", description="LDPlayer's own command")


@dataclass(frozen=True, slots=True)
class LDPlayerController:
    """The `instance` of an emulator is its number."""

    program: str

    def instances(self, call: ControllerCall, to: str = "") -> tuple[VendorInstance, ...]:
        """All there are, running or not."""
        return parse_list(run([self.program, "list2"], call, to=to, remedy=REMEDY).text)

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._do("launch", target, call)
        self._until(target, call, off=False)

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._do("quit", target, call)
        self._until(target, call, off=True)

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        if self.status(target, call).power is Power.OFF:
            self.start(target, call)
        else:
            self._do("reboot", target, call)

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        found = next((one for one in self.instances(call, target.emulator_id) if one.index == target.instance), None)
        if found is None:
            raise ControllerError(f"LDPlayer has no instance {target.instance!r}", to=target.emulator_id, remedy=NUMBER)
        return PowerStatus(found.status.power)  # its port is only a convention; what the inventory says is known

    def _do(self, action: str, target: ControlledEmulator, call: ControllerCall) -> None:
        self.status(target, call)
        done = run([self.program, action, "--index", target.instance], call, to=target.emulator_id, remedy=REMEDY)
        if done.rc:
            raise ControllerError(f"ldconsole {action}: {done.complaint}", to=target.emulator_id, remedy=REMEDY)

    def _until(self, target: ControlledEmulator, call: ControllerCall, *, off: bool) -> None:
        what = "off" if off else "on"
        problem = ControllerError(
            f"LDPlayer did not switch it {what}", to=target.emulator_id, remedy="look at the instance in LDPlayer"
        )
        asking = replace(call, deadline_s=min(call.deadline_s, 10.0))
        until(lambda: (self.status(target, asking).power is Power.OFF) == off, call, problem)


def parse_list(text: str) -> tuple[VendorInstance, ...]:
    """What `ldconsole list2` prints: number, title, two windows, Android runs, process, its machine, [screen]."""
    return tuple(one for line in text.replace("\r\n", "\n").split("\n") if (one := _instance(line.strip())))


def _instance(line: str) -> VendorInstance | None:
    words = line.split(",")
    if not _INDEX.fullmatch(words[0]):
        return None
    for count in (_LD_LONG, _LD_SHORT):
        behind = words[-count:]
        if len(words) >= count + 2 and all(_NUMBER.fullmatch(word) for word in behind):
            android, process = behind[_LD_ANDROID] == "1", int(behind[_LD_ANDROID + 1]) > 0
            power = Power.ON if android else Power.STARTING if process else Power.OFF
            return VendorInstance(
                words[0], ",".join(words[1:-count]), PowerStatus(power, usual_address(addresses.LDPLAYER, words[0]))
            )
    return None


LDPLAYER = ControllerEntry(
    name="ldplayer",
    settings=LDPlayerSettings,
    make=lambda settings, _: LDPlayerController(settings.ldplayer_program),
    program=lambda settings: settings.ldplayer_program,
    lister=lambda settings: LDPlayerController(settings.ldplayer_program),
)
