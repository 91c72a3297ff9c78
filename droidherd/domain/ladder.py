"""The recovery ladder of one emulator: what is tried next, and when. Pure.

    silent: reconnect, then restart the emulator through its controller, again and again with growing pauses
    unfit:  reconnect, restart the app in front, then restart the emulator likewise

Above it there is quarantine. While an emulator is silent its host's patrol reconnects all the time, so that rung is a
pause. Restarts are counted over boots and forgiven only when time has passed since it was up again: an emulator that
comes up, passes its gate and dies again must not be restarted for ever, however long its boots and gates take.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from droidherd.domain.messages import Care

NO_CONTROLLER = "none"


class Trouble(StrEnum):
    """What is wrong with an emulator."""

    SILENT = "silent"
    """It answers no probe."""
    UNFIT = "unfit"
    """It answers, and does not pass its gate."""
    NONE = ""
    """Nothing: somebody wants it."""


class Rung(StrEnum):
    """What a host can do for an emulator."""

    RECONNECT = "reconnect"
    APP = "restart_app"
    RESTART = "restart"
    START = "start"
    STOP = "stop"
    EVIDENCE = "evidence"


BOOTS = (Rung.START, Rung.RESTART)
"""What takes its turn among the boots of a host."""
LADDER: Mapping[Trouble, tuple[Rung, ...]] = MappingProxyType(
    {
        Trouble.SILENT: (Rung.RESTART,),
        Trouble.UNFIT: (Rung.RECONNECT, Rung.APP, Rung.RESTART),
    }
)
"""In this order. `RESTART` is tried as often as the operator allows, every other rung once until it is well again."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is to be done on the emulator's host."""

    number: int
    rung: Rung
    trouble: Trouble = Trouble.NONE
    after_s: float = 0.0
    """How long to wait before: it may come back by itself."""


def has_controller(care: Care | None) -> bool:
    return care is not None and care.controller != NO_CONTROLLER


@dataclass(slots=True)
class Ladder:
    """How far one emulator has been taken up."""

    tried: tuple[str, ...] = ()
    """Rungs below `RESTART` that were tried since it was last well."""
    restarts: int = 0
    restarted_ms: int = 0
    number: int = 0
    well_ms: int = 0
    """When it passed a gate for the first time since it was restarted; 0: it did not yet."""

    def climb(self, trouble: Trouble, care: Care, dice: float) -> Measure | None:
        """The next rung; None: none is left. `dice`, from 0 to 1, keeps a host's emulators from moving in step."""
        for rung in LADDER[trouble]:
            if rung is Rung.RESTART:
                return self._restart(trouble, care, dice)
            if rung not in self.tried:
                self.tried = (*self.tried, rung)
                return self.take(rung, trouble)
        return None

    def _restart(self, trouble: Trouble, care: Care, dice: float) -> Measure | None:
        if not has_controller(care) or self.restarts >= care.restarts:
            return None
        pause_s = min(care.backoff_s * 2 ** (self.restarts - 1), care.backoff_max_s) if self.restarts else 0.0
        if trouble is Trouble.SILENT:
            pause_s = max(pause_s, care.reconnect_s)
        return self.take(Rung.RESTART, trouble, pause_s * (0.5 + dice))

    def take(self, rung: Rung, trouble: Trouble = Trouble.NONE, after_s: float = 0.0) -> Measure:
        """A measure nobody had before."""
        self.number += 1
        return Measure(self.number, rung, trouble, round(after_s, 3))

    def restarted(self, now_ms: int) -> None:
        """A restart was carried out, whatever came of it."""
        self.restarts += 1
        self.restarted_ms, self.well_ms = now_ms, 0

    def well(self, now_ms: int) -> None:
        """It passed its gate: the next trouble begins at the bottom. Restarts count on until time forgives them."""
        self.tried = ()
        self.well_ms = self.well_ms or now_ms

    def lapse(self, care: Care, began_ms: int) -> None:
        """Forgive restarts when trouble begins with one that was up for long; later rungs are of the same trouble."""
        if self.well_ms and not self.tried and began_ms - self.well_ms >= care.forgive_s * 1000:
            self.restarts = 0

    def lapse_unproven(self, trouble: Trouble, care: Care, now_ms: int) -> None:
        """As it was before: when a restart is next, and the last one is long ago, whether it was up since or not."""
        restart_is_next = all(rung is Rung.RESTART or rung in self.tried for rung in LADDER[trouble])
        if restart_is_next and now_ms - self.restarted_ms >= care.forgive_s * 1000:
            self.restarts = 0

    def forgive(self) -> None:
        """A person looked at it."""
        self.tried, self.restarts = (), 0
