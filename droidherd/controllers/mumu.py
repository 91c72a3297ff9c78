"""MuMu 12 and later, through MuMuManager."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import Field

from droidherd.controllers import addresses
from droidherd.controllers.model import (
    PORT_LIMIT,
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

REMEDY = "install MuMu, or set controllers.mumu_program to its MuMuManager"
NUMBER = "set `instance` in the inventory to a number of `MuMuManager info -v all`"


class MuMuSettings(VendorSettings):
    mumu_program: str = Field(default="MuMuManager", description="MuMu's own command")


@dataclass(frozen=True, slots=True)
class MuMuController:
    """The `instance` of an emulator is its number."""

    program: str

    def instances(self, call: ControllerCall, to: str = "") -> tuple[VendorInstance, ...]:
        """All there are, running or not."""
        return parse_info(run([self.program, "info", "-v", "all"], call, to=to, remedy=REMEDY).text)

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._control(target, "launch", call)
        self._until(target, call, off=False)

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        if self.status(target, call).power is not Power.OFF:
            self._control(target, "shutdown", call)
            self._until(target, call, off=True)

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        if self.status(target, call).power is Power.OFF:
            self.start(target, call)
        else:
            self._control(target, "restart", call)

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        found = next((one for one in self.instances(call, target.emulator_id) if one.index == target.instance), None)
        if found is None:
            raise ControllerError(f"MuMu has no instance {target.instance!r}", to=target.emulator_id, remedy=NUMBER)
        return found.status

    def _control(self, target: ControlledEmulator, action: str, call: ControllerCall) -> None:
        self.status(target, call)  # refuses a number there is none of: the program itself would say nothing
        line = [self.program, "control", "-v", target.instance, action]
        done = run(line, call, to=target.emulator_id, remedy=REMEDY)
        refusal = done.complaint if done.rc else parse_refusal(done.text)
        if refusal:
            text = f"MuMuManager {action}: {refusal}"
            raise ControllerError(text, to=target.emulator_id, remedy="look at the instance in MuMu itself")

    def _until(self, target: ControlledEmulator, call: ControllerCall, *, off: bool) -> None:
        what = "off" if off else "on"
        problem = ControllerError(
            f"MuMu did not switch it {what}", to=target.emulator_id, remedy="look at the instance in MuMu itself"
        )
        asking = replace(call, deadline_s=min(call.deadline_s, 10.0))
        until(lambda: (self.status(target, asking).power is Power.OFF) == off, call, problem)


def parse_info(text: str) -> tuple[VendorInstance, ...]:
    """What `MuMuManager info -v all` prints: an object per instance by its number; of one alone the object itself."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text.strip()[:80]
        raise ControllerError(f"MuMuManager answered {shown!r}, which is no JSON", remedy="update MuMu") from error
    if not isinstance(known, dict):
        raise ControllerError("MuMuManager did not answer with an object", remedy="update MuMu")
    document = cast("dict[str, Any]", known)
    rows = [document] if "index" in document else list(document.values())
    return tuple(_instance(cast("dict[str, Any]", row)) for row in rows if isinstance(row, dict) and "index" in row)


def _instance(row: dict[str, Any]) -> VendorInstance:
    on, android = bool(row.get("is_process_started")), bool(row.get("is_android_started"))
    power = Power.ON if android else Power.STARTING if on else Power.OFF
    host, port = str(row.get("adb_host_ip") or "127.0.0.1"), row.get("adb_port")
    given = re.fullmatch(r"[0-9]{1,5}", str(port)) and 0 < int(str(port)) <= PORT_LIMIT
    address = f"{host}:{port}" if given else address_of(str(row["index"]))
    return VendorInstance(str(row["index"]), str(row.get("name") or ""), PowerStatus(power, address))


def address_of(index: str) -> str:
    """Where an instance listens when it gets its usual port. Of one that is off MuMu says nothing."""
    return usual_address(addresses.MUMU, index)


def parse_refusal(text: str) -> str:
    """What `MuMuManager control` complains about; empty when it does not. Its return code is 0 either way."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(known, dict):
        return ""
    answer = cast("dict[str, Any]", known)
    code = answer.get("errcode", 0)
    return "" if code in (0, None) else str(answer.get("errmsg") or f"error {code}")


MUMU = ControllerEntry(
    name="mumu",
    settings=MuMuSettings,
    make=lambda settings, _: MuMuController(settings.mumu_program),
    program=lambda settings: settings.mumu_program,
    lister=lambda settings: MuMuController(settings.mumu_program),
)
