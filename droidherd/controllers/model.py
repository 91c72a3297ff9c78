"""What controllers speak of, and their port."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from droidherd.domain.errors import InfrastructureError

POLL_S = 0.2
NONE = "none"
"""The name of the controller of an emulator that nobody starts and stops."""


class ControllerError(InfrastructureError):
    """An emulator could not be started, stopped or asked about."""


class Power(StrEnum):
    """Whether an emulator is switched on, by the word of its controller. Says nothing of Android inside."""

    ON = "on"
    STARTING = "starting"
    OFF = "off"
    UNKNOWN = "unknown"
    """It cannot be asked."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which emulator is meant."""

    emulator_id: str
    address: str
    instance: str = ""
    """What its vendor calls it: the number of an instance, the name of an AVD."""
    serialno: str = ""

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Status:
    """What a controller says of an emulator now."""

    power: Power
    address: str = ""
    """Where adb reaches it; empty: not told."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One emulator in a vendor's list."""

    index: str
    title: str
    status: Status


def quiet() -> None:
    """A beat nobody hears."""


@dataclass(frozen=True, slots=True)
class Call:
    """How long it may take in all, and who is told now and then that it goes on. A beat may raise to end it."""

    deadline_s: float
    beat: Callable[[], None] = quiet


class Controller(Protocol):
    """Starts and stops emulators of one kind. Each call returns in time or raises ControllerError with a remedy.

    All of it may be repeated: what is on already is started, what is off already is stopped.
    """

    def start(self, target: Target, call: Call) -> None:
        """Switch it on. When it returns Android may still boot."""
        ...

    def stop(self, target: Target, call: Call) -> None:
        """Switch it off."""
        ...

    def restart(self, target: Target, call: Call) -> None:
        """Off and on, or on if it was off."""
        ...

    def status(self, target: Target, call: Call) -> Status: ...
