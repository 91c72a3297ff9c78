"""All commands by name, and which of them change something."""

from collections.abc import Sequence

from droidherd.virtual.commands import dumpsys, files, keyboards, logcat, packages, screen, settings, system, text
from droidherd.virtual.commands.base import Command

COMMANDS: dict[str, Command] = {
    **dumpsys.COMMANDS,
    **files.COMMANDS,
    **keyboards.COMMANDS,
    **logcat.COMMANDS,
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
