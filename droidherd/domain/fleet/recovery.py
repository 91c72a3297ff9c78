"""The recovery steps of one emulator: what is tried next, and when. Pure.

    silent: reconnect, then restart the emulator through its controller, again and again with growing pauses
    unfit:  reconnect, restart the app in front, then restart the emulator likewise

After the last step comes quarantine. While an emulator is silent its host's probe loop reconnects all the time, so that
step is a pause. Restarts are counted over boots and forgiven only when time has passed since it was up again: an
emulator that comes up, passes its gate and dies again must not be restarted for ever, however long its boots and gates
take.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from droidherd.domain.messages import RecoveryPolicy

NO_CONTROLLER = "none"


class EmulatorTrouble(StrEnum):
    """What is wrong with an emulator."""

    SILENT = "silent"
    """It answers no probe."""
    UNFIT = "unfit"
    """It answers, and does not pass its gate."""
    NONE = ""
    """Nothing: a person or the pool wants the step."""


class RecoveryStep(StrEnum):
    """What a host can do for an emulator."""

    RECONNECT = "reconnect"
    APP = "restart_app"
    RESTART = "restart"
    START = "start"
    STOP = "stop"
    EVIDENCE = "evidence"


BOOTS = (RecoveryStep.START, RecoveryStep.RESTART)
"""Steps that take turns on the boots queue of a host."""
STEPS: Mapping[EmulatorTrouble, tuple[RecoveryStep, ...]] = MappingProxyType(
    {
        EmulatorTrouble.SILENT: (RecoveryStep.RESTART,),
        EmulatorTrouble.UNFIT: (RecoveryStep.RECONNECT, RecoveryStep.APP, RecoveryStep.RESTART),
    }
)
"""In this order. `RESTART` is tried as often as the operator allows, every other step once until it is well again."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One thing that is to be done on the emulator's host."""

    number: int
    step: RecoveryStep
    trouble: EmulatorTrouble = EmulatorTrouble.NONE
    after_s: float = 0.0
    """How long to wait before: it may come back by itself."""


def has_controller(policy: RecoveryPolicy | None) -> bool:
    return policy is not None and policy.controller != NO_CONTROLLER


@dataclass(slots=True)
class RecoverySteps:
    """Which steps were taken for one emulator. Part of its state."""

    tried: tuple[RecoveryStep, ...] = ()
    """Steps before `RESTART` that were tried since it was last well."""
    restarts: int = 0
    number: int = 0
    well_ms: int = 0
    """When it passed a gate for the first time since it was restarted; 0: it did not yet."""

    def next(self, trouble: EmulatorTrouble, policy: RecoveryPolicy, dice: float) -> PlannedStep | None:
        """The next step; None: none is left. `dice`, from 0 to 1, keeps a host's emulators from moving in step."""
        for step in STEPS[trouble]:
            if step is RecoveryStep.RESTART:
                return self._restart(trouble, policy, dice)
            if step not in self.tried:
                self.tried = (*self.tried, step)
                return self.plan(step, trouble)
        return None

    def _restart(self, trouble: EmulatorTrouble, policy: RecoveryPolicy, dice: float) -> PlannedStep | None:
        if not has_controller(policy) or self.restarts >= policy.restarts:
            return None
        pause_s = min(policy.backoff_s * 2 ** (self.restarts - 1), policy.backoff_max_s) if self.restarts else 0.0
        if trouble is EmulatorTrouble.SILENT:
            pause_s = max(pause_s, policy.reconnect_s)
        return self.plan(RecoveryStep.RESTART, trouble, pause_s * (0.5 + dice))

    def plan(
        self, step: RecoveryStep, trouble: EmulatorTrouble = EmulatorTrouble.NONE, after_s: float = 0.0
    ) -> PlannedStep:
        """A planned step with a number of its own."""
        self.number += 1
        return PlannedStep(self.number, step, trouble, round(after_s, 3))

    def count_restart(self) -> None:
        """A restart was carried out, whatever came of it."""
        self.restarts += 1
        self.well_ms = 0

    def passed_gate(self, now_ms: int) -> None:
        """The next trouble begins with the first step. Restarts count on until time forgives them."""
        self.tried = ()
        self.well_ms = self.well_ms or now_ms

    def forgive_after_uptime(self, policy: RecoveryPolicy, began_ms: int) -> None:
        """Forgive restarts when trouble begins with one that was up for long; later steps are of the same trouble."""
        if self.well_ms and not self.tried and began_ms - self.well_ms >= policy.forgive_s * 1000:
            self.restarts = 0

    def forgive(self) -> None:
        """Forget what was tried: a person looked at it."""
        self.tried, self.restarts = (), 0
