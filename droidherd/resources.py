"""What this machine has left: room on disks, and the memory of this process."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import psutil

from droidherd.domain.room import Room


def rooms(places: Mapping[str, Path]) -> tuple[Room, ...]:
    """How much is free at each of these. What is not there yet will be made where its nearest parent is."""
    return tuple(Room(place, str(path), _free_bytes(path)) for place, path in places.items())


def rss_bytes() -> int:
    """Memory this process holds now."""
    return int(psutil.Process().memory_info().rss)


def _free_bytes(path: Path) -> int:
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    return shutil.disk_usage(there).free
