"""One shell line on a virtual emulator: the system its shell runs in, watched by journal and faults."""

import asyncio
from collections.abc import Callable, Sequence

from droidherd.virtual.commands import dumpsys, files, keyboards, packages, screen, settings, system, text
from droidherd.virtual.commands.base import Command, CommandContext
from droidherd.virtual.files import EmulatorFiles
from droidherd.virtual.machine import VirtualDevice
from droidherd.virtual.shell.system import ShellCall

COMMANDS: dict[str, Command] = {
    **dumpsys.COMMANDS,
    **files.COMMANDS,
    **keyboards.COMMANDS,
    **packages.COMMANDS,
    **screen.COMMANDS,
    **settings.COMMANDS,
    **system.COMMANDS,
    **text.COMMANDS,
}

_ALWAYS = frozenset(
    {"am", "chmod", "cp", "input", "kill", "mkdir", "monkey", "mv", "reboot", "rm", "rmdir", "setprop", "tee", "touch"}
)
_BY_VERB = {
    "settings": {"put", "delete"},
    "pm": {"install", "uninstall", "clear"},
    "ime": {"enable", "disable", "set", "reset"},
}
SLOW_S = 0.5


def has_effect(argv: Sequence[str]) -> bool:
    """Whether a command changes anything on the emulator."""
    name, rest = argv[0].rpartition("/")[2], list(argv[1:])
    if name == "cmd" and rest:
        name, rest = {"package": "pm", "activity": "am"}.get(rest[0], rest[0]), rest[1:]
    if name == "wm":
        return len(rest) > 1
    if name == "logcat":
        return "-c" in rest
    return name in _ALWAYS or bool(rest and rest[0] in _BY_VERB.get(name, ()))


class CutError(Exception):
    """The emulator is gone in the middle of a line."""


class LineSystem:
    """Implements `System` of the shell for one line of one stream."""

    def __init__(self, emulator: VirtualDevice, stream: int, drop: Callable[[], None]) -> None:
        self.emulator = emulator
        self.stream = stream
        self.drop = drop
        self.pid = emulator.new_pid()

    @property
    def files(self) -> EmulatorFiles:
        return self.emulator.files

    async def before(self, argv: Sequence[str]) -> None:
        await self.emulator.breathe()
        self._maybe_cut(argv, before=True)

    async def after(self, argv: Sequence[str], rc: int, *, wrote: bool) -> None:
        self.emulator.record(self.stream, argv, rc, effect=wrote or has_effect(argv))
        self._maybe_cut(argv, before=False)
        await self.emulator.breathe()

    def knows(self, name: str) -> bool:
        return _bare(name) in COMMANDS

    async def call(self, call: ShellCall) -> int:
        slow = self.emulator.faults.take("slow")
        if slow:
            await asyncio.sleep(slow.seconds("delay_s", SLOW_S))
        context = CommandContext(self.emulator, self, call.argv, call.streams, call.environment, call.directory)
        return await COMMANDS[_bare(call.argv[0])](context)

    def _maybe_cut(self, argv: Sequence[str], *, before: bool) -> None:
        cut = self.emulator.faults.cuts(" ".join(argv), before=before)
        if cut is None:
            return
        self.drop()
        if cut.stops:
            raise CutError


def _bare(name: str) -> str:
    return name.removeprefix("/system/bin/").removeprefix("/vendor/bin/")
