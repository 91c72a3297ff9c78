"""MuMu 12 and later, through MuMuManager."""

from dataclasses import dataclass, replace

from droidherd.controllers import parse
from droidherd.controllers.model import Call, ControllerError, Instance, Power, Status, Target
from droidherd.controllers.run import run, until

REMEDY = "install MuMu, or set controllers.mumu_program to its MuMuManager"
NUMBER = "set `instance` in the inventory to a number of `MuMuManager info -v all`"


@dataclass(frozen=True, slots=True)
class MuMuController:
    """The `instance` of an emulator is its number."""

    program: str

    def instances(self, call: Call, to: str = "") -> tuple[Instance, ...]:
        """All there are, running or not."""
        return parse.mumu_info(run([self.program, "info", "-v", "all"], call, to=to, remedy=REMEDY).text)

    def start(self, target: Target, call: Call) -> None:
        self._control(target, "launch", call)
        self._until(target, call, off=False)

    def stop(self, target: Target, call: Call) -> None:
        if self.status(target, call).power is not Power.OFF:
            self._control(target, "shutdown", call)
            self._until(target, call, off=True)

    def restart(self, target: Target, call: Call) -> None:
        if self.status(target, call).power is Power.OFF:
            self.start(target, call)
        else:
            self._control(target, "restart", call)

    def status(self, target: Target, call: Call) -> Status:
        found = next((one for one in self.instances(call, target.emulator_id) if one.index == target.instance), None)
        if found is None:
            raise ControllerError(f"MuMu has no instance {target.instance!r}", to=target.emulator_id, remedy=NUMBER)
        return found.status

    def _control(self, target: Target, action: str, call: Call) -> None:
        self.status(target, call)  # refuses a number there is none of: the program itself would say nothing
        line = [self.program, "control", "-v", target.instance, action]
        done = run(line, call, to=target.emulator_id, remedy=REMEDY)
        verdict = done.complaint if done.rc else parse.mumu_verdict(done.text)
        if verdict:
            text = f"MuMuManager {action}: {verdict}"
            raise ControllerError(text, to=target.emulator_id, remedy="look at the instance in MuMu itself")

    def _until(self, target: Target, call: Call, *, off: bool) -> None:
        what = "off" if off else "on"
        problem = ControllerError(
            f"MuMu did not switch it {what}", to=target.emulator_id, remedy="look at the instance in MuMu itself"
        )
        asking = replace(call, deadline_s=min(call.deadline_s, 10.0))
        until(lambda: (self.status(target, asking).power is Power.OFF) == off, call, problem)
