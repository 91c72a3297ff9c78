"""Disk space: work stops when it runs out, and goes on when there is clearly enough again. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

ACTOR = "system:disk_full"
"""Who pauses lanes when a disk is full. It overrules nobody: see `Dispatcher.pause`."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """How much is free at one place."""

    place: str
    path: str
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Need:
    """What one host wants."""

    host: str
    wanted_bytes: int
    """0: no limit."""
    margin: float = 0.1
    """So much more than wanted must be free before work goes on: no to and fro around one number."""

    def short(self, spaces: Sequence[DiskSpace]) -> DiskSpace | None:
        """The fullest place, when it has less than is wanted."""
        least = min(spaces, key=lambda space: space.free_bytes, default=None)
        return least if least is not None and least.free_bytes < self.wanted_bytes else None

    def ample(self, spaces: Sequence[DiskSpace]) -> bool:
        """Whether there is clearly enough."""
        return all(space.free_bytes >= self.wanted_bytes * (1 + self.margin) for space in spaces)

    def reason(self, space: DiskSpace) -> str:
        """Why a lane is paused, for people; and whose pause it is."""
        return f"{self._signature()} {describe(space, self.wanted_bytes)}"

    def mine(self, paused_by: str, paused_why: str) -> bool:
        """Whether this host paused a lane. Others may be full, too, and people have reasons of their own."""
        return paused_by == ACTOR and paused_why.startswith(self._signature())

    def _signature(self) -> str:
        return f"host {self.host}:"


def describe(space: DiskSpace, wanted_bytes: int) -> str:
    """In one sentence."""
    return (
        f"{space.free_bytes / 1e9:.2f} GB free at {space.path} ({space.place}), wanted are {wanted_bytes / 1e9:.2f} GB"
    )
