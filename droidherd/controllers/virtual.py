"""Virtual emulators, through the side channel of their process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from droidherd.controllers.model import ControlledEmulator, ControllerCall, ControllerError, Power, PowerStatus
from droidherd.virtual.control import ControlError, VirtualControl

T = TypeVar("T")
REMEDY = "start the process of the virtual emulators: `droidherd up --virtual N` does, and keeps it running"


@dataclass(frozen=True, slots=True)
class VirtualController:
    """`ready_file` is where the process says how to speak to it."""

    ready_file: Path

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._ask(target, call, lambda control: control.start(target.emulator_id))

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        self._ask(target, call, lambda control: control.kill(target.emulator_id))

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        def off_and_on(control: VirtualControl) -> None:
            control.kill(target.emulator_id)
            control.start(target.emulator_id)

        self._ask(target, call, off_and_on)

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus:
        state = self._ask(target, call, lambda control: control.state(target.emulator_id))
        power = Power.OFF if not state["listening"] else Power.ON if state["booted"] else Power.STARTING
        return PowerStatus(power, str(state["address"]))

    def _ask(self, target: ControlledEmulator, call: ControllerCall, question: Callable[[VirtualControl], T]) -> T:
        call.beat()
        try:
            address = str(json.loads(self.ready_file.read_text("utf-8"))["control"])
            with VirtualControl(address, call.deadline_s) as control:
                return question(control)
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"{self.ready_file} does not say where they are: {error}"
            raise ControllerError(text, to=target.emulator_id, remedy=REMEDY) from error
        except ControlError as error:
            raise ControllerError(error.what, to=target.emulator_id, remedy=REMEDY) from error
