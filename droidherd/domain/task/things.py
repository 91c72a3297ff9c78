"""Things on an emulator that are changed and restored by value: their names, their states, what undoing means."""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

OWN_FOLDER = "/data/local/tmp/droidherd"
"""droidherd's own: journals, and files on their way."""
OWN_PROPERTIES = "debug.droidherd."
SPARE = ".droidherd-"
"""Begins the names of files that are about to be moved into place."""
PATH_LIMIT_BYTES = 700
VALUE_LIMIT_BYTES = 8000
"""More does not fit into a shell line."""
PROPERTY_VALUE_LIMIT_BYTES = 91

MIRRORS = {"size": "global/display_size_forced", "density": "secure/display_density_forced"}
"""Of each override of the screen: the setting that changes with it."""

PACKAGE = r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+"
"""What Android takes for the name of a package, as a pattern."""
_SETTING = re.compile(r"(system|secure|global)/[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,199}")
_PROPERTY = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.:@-]{0,199}")
_PACKAGE = re.compile(PACKAGE)
_SIZE = re.compile(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}")
_DENSITY = re.compile(r"[1-9][0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class State:
    """What a thing is at one moment: absent, or there with a value."""

    value: str = ""
    there: bool = True

    def __str__(self) -> str:
        """For people: an absent thing and an empty one look different."""
        return (self.value if len(self.value) <= 80 else f"{self.value[:77]}...") or "empty" if self.there else "absent"  # noqa: PLR2004


ABSENT = State(there=False)


class Move(StrEnum):
    """What undoing has to do with one thing."""

    NOTHING = "nothing"
    RESTORE = "restore"
    CONFLICT = "conflict"


def move(before: State, left: Collection[State], now: State) -> Move:
    """`left`: as the stage left it, or may have left it when it never said so."""
    if now == before:
        return Move.NOTHING
    return Move.RESTORE if now in left else Move.CONFLICT


def problem_with(thing: str, name: str) -> str:
    """Empty, or why there is no such thing, or why it is not to be changed by value."""
    return _JUDGES[thing](name)


def problem_with_value(thing: str, name: str, value: str) -> str:
    """Empty, or why a thing cannot have this value."""
    if "\0" in value or any(unicodedata.category(character) == "Cs" for character in value):
        return "a NUL or half a character cannot be in a value"
    limit = PROPERTY_VALUE_LIMIT_BYTES if thing == "property" else VALUE_LIMIT_BYTES
    size = len(value.encode())
    if size > limit:
        return f"{size} bytes are too many for the value of a {thing}: at most {limit}"
    if thing == "setting" and value == "--user":
        return "`settings` takes --user for an option"
    if thing == "wm" and not (_SIZE if name == "size" else _DENSITY).fullmatch(value):
        return f"is no {name} of a screen: " + ("write 1280x720" if name == "size" else "write 320")
    return ""


def spare_of(path: str) -> str:
    """The name beside `path` that a new content has until it is moved into place."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{SPARE}{name[:80]}"


def mirror_of(thing: str, name: str, value: str = "") -> tuple[str, str]:
    """The setting in which Android itself keeps a `wm` override, and what it says then; empty for other things.

    A reset leaves that setting empty where there may have been none, so it has to be restored after the override.
    """
    return (MIRRORS[name], value.replace("x", ",")) if thing == "wm" else ("", "")


def _setting(name: str) -> str:
    return "" if _SETTING.fullmatch(name) else "a setting is system/, secure/ or global/ and its key"


def _wm(name: str) -> str:
    return "" if name in {"size", "density"} else "of the screen, size and density can be changed"


def _property(name: str) -> str:
    if not _PROPERTY.fullmatch(name) or ".." in name or name.endswith("."):
        return "is not the name of a property, as in debug.hwui.renderer"
    if name.startswith("ro."):
        return "a property that can be set once cannot be restored"
    return "is droidherd's own" if name.startswith(OWN_PROPERTIES) else ""


def _package(name: str) -> str:
    return "" if _PACKAGE.fullmatch(name) and len(name) <= 200 else "is not a package, as in com.example.game"  # noqa: PLR2004


def _file(path: str) -> str:
    parts = path.split("/")
    if parts[0] or len(parts) < 3 or {"", ".", ".."} & set(parts[1:]):  # noqa: PLR2004 - a file in a folder
        return "is not a plain absolute path, as in /sdcard/game.cfg"
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return "holds a character that no path should hold"
    if len(path.encode()) > PATH_LIMIT_BYTES:
        return f"is longer than {PATH_LIMIT_BYTES} bytes"
    own = path == OWN_FOLDER or path.startswith(OWN_FOLDER + "/") or parts[-1].startswith(SPARE)
    return "is droidherd's own" if own else ""


_JUDGES = {"setting": _setting, "wm": _wm, "property": _property, "package": _package, "file": _file}
