"""Where vendors put their emulators, and who an emulator says it is. Pure.

A port is a place to look at and never a name: LDPlayer, BlueStacks and the Android SDK share 5555 and up.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

INSTANCES = 16
"""Of each vendor's row so many places are looked at."""
SHIFT = 2
"""MuMu moves on by as much when its port is taken."""
_CONSOLE = re.compile(r"emulator-([0-9]{4,5})")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class PortRow:
    """Ports of one kind of emulator: a first one, and one more every `step`."""

    first: int
    step: int
    count: int = INSTANCES
    shift: int = 0

    def address(self, index: int) -> str:
        """Where the instance of this index listens when it gets its usual port."""
        return f"127.0.0.1:{self.port(index)}"

    def port(self, index: int) -> int:
        return self.first + self.step * index


LDPLAYER = PortRow(5555, 2)
"""Version 9, and the emulators of the Android SDK; version 4 counted by one."""
MUMU = PortRow(16384, 32, shift=SHIFT)
"""Version 12 and later."""

ROWS = (
    LDPLAYER,
    # BlueStacks goes on by tens.
    PortRow(5555 + 2 * INSTANCES, 10, 12),
    MUMU,
    PortRow(7555, 1, 1),  # MuMu 6
    PortRow(62001, 1, 1),  # Nox
    PortRow(62025, 1),
    PortRow(59865, 1, 1),
    PortRow(21503, 10),  # MEmu
    PortRow(6520, 1, 1),  # Google Play Games for developers
)


def known_ports() -> tuple[int, ...]:
    """All of them, each once, in order."""
    found = {
        row.first + n * row.step + moved
        for row in ROWS
        for n in range(row.count)
        for moved in range(-row.shift, row.shift + 1)
    }
    return tuple(sorted(found))


def plain_address(serial: str) -> str:
    """`emulator-5554` is 127.0.0.1:5555: adb names it by its console, one below. Anything else stays as it is."""
    console = _CONSOLE.fullmatch(serial)
    return f"127.0.0.1:{int(console[1]) + 1}" if console else serial.replace("localhost:", "127.0.0.1:")


def is_network(serial: str) -> bool:
    """Whether adb reaches it at a host and a port; else it hangs on a cable."""
    host, colon, port = plain_address(serial).rpartition(":")
    return bool(host and colon) and port.isdigit()


_MARKS: tuple[tuple[str, str], ...] = (
    ("ro.droidherd.virtual", "virtual"),
    ("nemud.", "mumu"),
    ("ro.nemu.", "mumu"),
    ("init.svc.nemu", "mumu"),
    ("init.svc.ldinit", "ldplayer"),
    ("ro.ld.", "ldplayer"),
    ("phone.ld.", "ldplayer"),
    ("init.svc.nox", "nox"),
    ("ro.nox.", "nox"),
    ("bst.", "bluestacks"),
    ("ro.bst.", "bluestacks"),
    ("init.svc.bst", "bluestacks"),
    ("microvirt.", "memu"),
    ("init.svc.microvirtd", "memu"),
    ("ro.genymotion.", "genymotion"),
    ("ro.boot.redroid", "redroid"),
)
"""How names of properties begin that only this vendor sets."""
_AVD_NAMES = ("ro.boot.qemu.avd_name", "ro.kernel.qemu.avd_name")
_QEMU = ("ro.boot.qemu", "ro.kernel.qemu")


def vendor(properties: Mapping[str, str]) -> str:
    """Whose emulator it is, by its own properties; empty: none that is known."""
    for begin, name in _MARKS:
        if any(key.startswith(begin) for key in properties):
            return name
    if any(properties.get(key) == "1" for key in _QEMU) or avd_name(properties):
        return "avd"
    return ""


def avd_name(properties: Mapping[str, str]) -> str:
    return next((properties[key] for key in _AVD_NAMES if properties.get(key)), "")


def name_of(address: str) -> str:
    """A name from an address: `127.0.0.1:5555` → `emulator-127.0.0.1-5555`."""
    return "emulator-" + _ODD.sub("-", address).strip("-")[:54]
