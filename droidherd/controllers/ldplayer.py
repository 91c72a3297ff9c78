"""LDPlayer 9, through ldconsole. It returns 0 whatever happens, so what it did is looked up in its list."""

from dataclasses import dataclass, replace

from droidherd.controllers import parse
from droidherd.controllers.model import Call, ControllerError, Instance, Power, Status, Target
from droidherd.controllers.run import run, until

REMEDY = "install LDPlayer, or set controllers.ldplayer_program to its ldconsole"
NUMBER = "set `instance` in the inventory to a number of `ldconsole list2`"


@dataclass(frozen=True, slots=True)
class LDPlayerController:
    """The `instance` of an emulator is its number."""

    program: str

    def instances(self, call: Call, to: str = "") -> tuple[Instance, ...]:
        """All there are, running or not."""
        return parse.ldplayer_list(run([self.program, "list2"], call, to=to, remedy=REMEDY).text)

    def start(self, target: Target, call: Call) -> None:
        self._do("launch", target, call)
        self._until(target, call, off=False)

    def stop(self, target: Target, call: Call) -> None:
        self._do("quit", target, call)
        self._until(target, call, off=True)

    def restart(self, target: Target, call: Call) -> None:
        if self.status(target, call).power is Power.OFF:
            self.start(target, call)
        else:
            self._do("reboot", target, call)

    def status(self, target: Target, call: Call) -> Status:
        found = next((one for one in self.instances(call, target.emulator_id) if one.index == target.instance), None)
        if found is None:
            raise ControllerError(f"LDPlayer has no instance {target.instance!r}", to=target.emulator_id, remedy=NUMBER)
        return Status(found.status.power)  # its port is only a convention; what the inventory says is known

    def _do(self, action: str, target: Target, call: Call) -> None:
        self.status(target, call)
        done = run([self.program, action, "--index", target.instance], call, to=target.emulator_id, remedy=REMEDY)
        if done.rc:
            raise ControllerError(f"ldconsole {action}: {done.complaint}", to=target.emulator_id, remedy=REMEDY)

    def _until(self, target: Target, call: Call, *, off: bool) -> None:
        what = "off" if off else "on"
        problem = ControllerError(
            f"LDPlayer did not switch it {what}", to=target.emulator_id, remedy="look at the instance in LDPlayer"
        )
        asking = replace(call, deadline_s=min(call.deadline_s, 10.0))
        until(lambda: (self.status(target, asking).power is Power.OFF) == off, call, problem)
