"""One virtual emulator: what it is, what it remembers, what it is doing. It knows no sockets."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from droidherd.virtual import app
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.faults import VirtualFaults
from droidherd.virtual.files import EmulatorFiles
from droidherd.virtual.frames import VirtualFrames
from droidherd.virtual.installed import VirtualPackages
from droidherd.virtual.journal import CommandJournal
from droidherd.virtual.logs import VirtualLog
from droidherd.virtual.store import VirtualStore
from droidherd.virtual.tables import TOKEN, SettingsTable, VirtualProperties, VirtualScreen, identity

FIRST_UPTIME_S = 40.0
"""A kernel is up this long when its adbd answers first."""

FIRST_PID = 3000
_KEPT = ("signed_in", "gift_taken", "claimed", "taps", "claims", "sign_ins")
REBOOT_S = 1.0


@dataclass(frozen=True, slots=True)
class Body:
    """What an emulator is made with."""

    emulator_id: str
    serialno: str
    width: int
    height: int
    folder: Path


class VirtualDevice:
    """State over boots: files, settings, packages, `persist.*`, the app's data. State of a boot: the rest."""

    def __init__(self, body: Body, frames: VirtualFrames) -> None:
        body.folder.mkdir(parents=True, exist_ok=True)
        self.body = body
        self.frames = frames
        self.faults = VirtualFaults()
        self.store = VirtualStore(body.folder / "store")
        self.properties = VirtualProperties(self.store, identity(body.serialno))
        self.settings = SettingsTable(self.store)
        self.window = VirtualScreen(self.settings, (body.width, body.height))
        self.packages = VirtualPackages(self.store, body.folder / "apks")
        self.files = EmulatorFiles(body.folder / "files", _generate(self), self.is_process)
        self.files.lend(self.packages.file, self.store)
        self.log = VirtualLog()
        self.app = _restore(self.store.load("app"))
        self.boot = int(str(self.store.load("boot").get("boot", 0)))
        self.journal = CommandJournal(body.folder)
        self.boot_id = ""
        self.streams = 0
        self.lines: set[int] = set()
        """Pids of the shells that are at work."""
        self._last_pid = FIRST_PID
        self.on_reboot: Callable[[], None] = lambda: None
        """Set by who hosts it: drops the connections."""
        self._booted_at = 0.0
        self._complete_at = 0.0

    # --- boots

    def power_on(self, boot_s: float) -> None:
        """A new boot begins; it is complete after `boot_s`."""
        self.boot += 1
        self.store.save("boot", {"boot": self.boot})
        self.boot_id = str(uuid.uuid4())
        self._booted_at = time.monotonic() - FIRST_UPTIME_S
        self._complete_at = time.monotonic() + boot_s
        self.properties.boot()
        self.window.boot()
        self.app = app.reboot(self.app)
        self.log.clear()
        self.log.add("boot", f"boot {self.boot} begins")

    @property
    def booted(self) -> bool:
        return time.monotonic() >= self._complete_at and not self.faults.has("no_boot")

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._booted_at

    def prop(self, name: str) -> str:
        if name in {"sys.boot_completed", "dev.bootcomplete"}:
            return "1" if self.booted else ""
        if name == "init.svc.bootanim":
            return "stopped" if self.booted else "running"
        return self.properties.get(name)

    # --- the screen

    @property
    def size(self) -> tuple[int, int]:
        return self.window.size

    @property
    def shown(self) -> HerdState:
        return self.app if self.booted else HerdState(scene=Scene.BOOT)

    def act(self, after: HerdState) -> None:
        """The app's state after something was done to it."""
        before, self.app = self.app, after
        if any(getattr(before, name) != getattr(after, name) for name in _KEPT):
            self.save_app()
        if before.scene is not after.scene:
            self.log.add("Herd", f"scene {before.scene} -> {after.scene}", pid=2210)
        if after.claims > before.claims:
            self.log.add("Herd", f"claims {after.claims}", pid=2210)

    def save_app(self) -> None:
        self.store.save("app", {name: getattr(self.app, name) for name in _KEPT})

    def show(self, changes: dict[str, JsonValue]) -> None:
        """Set fields of the app's state from the side channel."""
        known = {field.name for field in fields(HerdState)}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise ValueError(f"no field {unknown[0]!r} in the app's state; known: {', '.join(sorted(known))}")
        self.act(replace(self.app, **_convert(changes)))

    @property
    def focus(self) -> str:
        """`package/activity` in front; nothing while it boots."""
        if not self.booted:
            return ""
        if self.app.scene is Scene.LAUNCHER:
            return f"{app.LAUNCHER_PACKAGE}/{app.LAUNCHER_PACKAGE}{app.LAUNCHER_ACTIVITY}"
        return f"{app.PACKAGE}/{app.PACKAGE}{app.ACTIVITY}"

    # --- processes

    def new_pid(self) -> int:
        """Never given twice in one boot."""
        self._last_pid += 1
        return self._last_pid

    def is_process(self, pid: int) -> bool:
        return pid in self.lines

    # --- the command journal

    def next_stream(self) -> int:
        self.streams += 1
        return self.streams

    def record(self, stream: int, argv: Sequence[str], rc: int, *, effect: bool) -> None:
        moment: dict[str, float | int | str] = {
            "uptime_s": round(self.uptime_s, 3),
            "boot": self.boot,
            "stream": stream,
            "token": self.prop(TOKEN),
        }
        self.journal.write(argv, rc, effect=effect, moment=moment)

    def state(self) -> dict[str, JsonValue]:
        """For the side channel."""
        shown: dict[str, JsonValue] = {
            "emulator_id": self.body.emulator_id,
            "serialno": self.body.serialno,
            "boot": self.boot,
            "boot_id": self.boot_id,
            "booted": self.booted,
            "uptime_s": round(self.uptime_s, 3),
            "focus": self.focus,
            "faults": list[JsonValue](self.faults.active()),
            "commands": self.journal.seq,
            "token": self.prop(TOKEN),
        }
        shown["app"] = {name: _plain(value) for name, value in asdict(self.app).items()}
        return shown

    def counters(self) -> dict[str, int]:
        return {
            "taps": self.app.taps,
            "claims": self.app.claims,
            "sign_ins": self.app.sign_ins,
            "commands": self.journal.seq,
            "boot": self.boot,
        }

    def close(self) -> None:
        self.journal.close()

    async def breathe(self) -> None:
        """Between two commands: wait while stalled, and let others run."""
        if self.faults.stalled:
            await self.faults.running()
        elif self.journal.seq % 64 == 0:
            await asyncio.sleep(0)


def _generate(emulator: VirtualDevice) -> dict[str, Callable[[], bytes]]:
    def properties() -> bytes:
        return "".join(f"{name}={value}\n" for name, value in identity(emulator.body.serialno).items()).encode()

    def uptime() -> bytes:
        return f"{emulator.uptime_s:.2f} {emulator.uptime_s * 3.1:.2f}\n".encode()

    system = {path: partial(bytes, content) for path, content in emulator.packages.system_files().items()}
    return {
        **system,
        "/proc/uptime": uptime,
        "/proc/sys/kernel/random/boot_id": lambda: b"%s\n" % emulator.boot_id.encode(),
        "/proc/version": lambda: b"Linux version 5.15.41-android13 (virtual)\n",
        "/proc/meminfo": lambda: (
            b"MemTotal:        2048000 kB\nMemFree:          812000 kB\nMemAvailable:    1240000 kB\n"
        ),
        "/proc/loadavg": lambda: b"0.08 0.03 0.01 1/312 4242\n",
        "/system/build.prop": properties,
    }


def _restore(kept: dict[str, JsonValue]) -> HerdState:
    return replace(HerdState(), **_convert({name: value for name, value in kept.items() if name in _KEPT}))


def _convert(changes: dict[str, JsonValue]) -> dict[str, object]:
    """JSON knows no tuples and no scenes."""
    typed: dict[str, object] = {}
    for name, value in changes.items():
        if name in {"scene", "behind"}:
            typed[name] = Scene(str(value))
        elif name == "claimed":
            typed[name] = tuple(int(str(row)) for row in value) if isinstance(value, list) else ()
        elif type(value) is not type(getattr(HerdState(), name)):
            raise ValueError(f"{name}: {value!r} is of the wrong type")
        else:
            typed[name] = value
    return typed


def _plain(value: object) -> JsonValue:
    if isinstance(value, tuple | list):
        return [int(row) for row in value]
    if isinstance(value, bool | int):
        return value
    return str(value)
