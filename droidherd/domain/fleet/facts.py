"""What can be found out about an emulator by asking it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """An app, or a part of the system."""

    name: str
    path: str
    version_code: int | None = None
    """Unknown where Android does not tell."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Of the file system that apps live on."""

    size_kb: int
    free_kb: int


@dataclass(frozen=True, slots=True)
class Screen:
    """As apps see it: an override counts."""

    size: str
    density: int


@dataclass(frozen=True, slots=True)
class Window:
    """The one in front."""

    title: str
    not_responding: bool


class Facts(Protocol):
    """Asks one emulator. Changes nothing. CommandFailedError when it says no."""

    def properties(self) -> Mapping[str, str]: ...
    def packages(self) -> tuple[InstalledPackage, ...]: ...
    def storage(self) -> Storage | None: ...
    def screen(self) -> Screen | None: ...
    def window(self) -> Window | None: ...

    def labels(self) -> frozenset[str]:
        """Every text, and the id of every element, on the screen."""
        ...
