"""What controllers speak of, and their port."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from droidherd.controllers.addresses import PortRow
from droidherd.domain.errors import InfrastructureError

POLL_S = 0.2
_INDEX = re.compile(r"[0-9]{1,4}")
PORT_LIMIT = 65_535
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
class ControlledEmulator:
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
class PowerStatus:
    """What a controller says of an emulator now."""

    power: Power
    address: str = ""
    """Where adb reaches it; empty: not told."""


@dataclass(frozen=True, slots=True)
class VendorInstance:
    """One emulator in a vendor's list."""

    index: str
    title: str
    status: PowerStatus


def quiet() -> None:
    """A beat nobody hears."""


@dataclass(frozen=True, slots=True)
class ControllerCall:
    """How long it may take in all, and who is told now and then that it goes on. A beat may raise to end it."""

    deadline_s: float
    beat: Callable[[], None] = quiet
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the programs of the controller may know; the worker's own environment holds secrets."""


class Controller(Protocol):
    """Starts and stops emulators of one kind. Each call returns in time or raises ControllerError with a remedy.

    All of it may be repeated: what is on already is started, what is off already is stopped.
    """

    def start(self, target: ControlledEmulator, call: ControllerCall) -> None:
        """Switch it on. When it returns Android may still boot."""
        ...

    def stop(self, target: ControlledEmulator, call: ControllerCall) -> None:
        """Switch it off."""
        ...

    def restart(self, target: ControlledEmulator, call: ControllerCall) -> None:
        """Off and on, or on if it was off."""
        ...

    def status(self, target: ControlledEmulator, call: ControllerCall) -> PowerStatus: ...


class Lists(Protocol):
    """A controller whose vendor's program lists every emulator that it has."""

    def instances(self, call: ControllerCall, to: str = "") -> tuple[VendorInstance, ...]:
        """All there are, running or not."""
        ...


class VendorSettings(BaseModel):
    """Base of what an operator may set for one kind of controller. Its keys stand under `controllers`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class ControllerHost:
    """What a controller may use of the host it runs on."""

    adb: str
    """The program."""
    data: Path


@dataclass(frozen=True, slots=True)
class ControllerEntry:
    """One kind of controller: list it in `registry.py`, and it can be set, started and found by its name."""

    name: str
    settings: type[VendorSettings]
    make: Callable[[Any, ControllerHost], Controller]
    """From its settings."""
    program: Callable[[Any], str]
    """The vendor's program, by its settings."""
    lister: Callable[[Any], Lists] | None = None
    """Where the vendor's program lists its emulators: who asks it. `droidherd emulator discover` does."""


def usual_address(row: PortRow, index: str) -> str:
    """Where an instance listens when it gets its usual port. Empty: there is no such port."""
    if not _INDEX.fullmatch(index) or row.port(int(index)) > PORT_LIMIT:
        return ""
    return row.address(int(index))
