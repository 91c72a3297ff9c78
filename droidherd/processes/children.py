"""How our own programs are started: with our code first, files for nobody else, and no more secrets than needed."""

import logging
import os
import re
import sys
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import NoReturn

from droidherd.domain.errors import BadParametersError

ROOT = Path(__file__).resolve().parents[2]
"""The folder with our packages: this tree, or where they were installed."""

DATA_MARKS = (".droidherd-data", "run/up.lock")
"""One of them says of a folder that it is a data directory."""
_EXPECTED = re.compile(
    r"(emulators|cameras|ready|down|ports|last_up)\.\w+|encryption\.keys.*|droidherd\.toml|lost\+found"
    r"|run|runs|logs|temporal|bin|python|virtual|adb|artifacts|scratch|quarantine|flows"
)

STANDBY = "--standby"
"""The option of a process that stands by: it imports its modules, and begins when it reads a line from us."""

_MODULE = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_SYSTEM = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TMP|TEMP|TERM|NO_COLOR|XDG_\w+|VIRTUAL_ENV|LD_LIBRARY_PATH"
    r"|PYTHON\w*|SSL_CERT_(?:FILE|DIR)"
    r"|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|APPDATA|LOCALAPPDATA|PROGRAMDATA|USERPROFILE",
    re.IGNORECASE,
)
"""What every program may know."""
_OURS = re.compile(r"(?:DROIDHERD|TEMPORAL|OTEL)_\w+|(?:HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)
_TOOLS = re.compile(
    r"ANDROID_\w+|JAVA_HOME|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS|PULSE_\w+"
    r"|(?:QT|VK|LIBGL|MESA|GALLIUM|NVIDIA|CUDA|__GLX?|__EGL|__NV)_\w+"
    r"|(?:COMMON)?PROGRAM(?:FILES|W6432)(?:\(X86\))?|COMMONPROGRAMW6432|ALLUSERSPROFILE|PUBLIC|OS"
    r"|PROCESSOR_\w+|NUMBER_OF_PROCESSORS",
    re.IGNORECASE,
)
"""What programs that start emulators look at: the SDK, the screen, the graphics."""
_API_KEYS = re.compile(r"DROIDHERD_API__KEYS?(?:__\w+)?", re.IGNORECASE)


def python(module: str, *words: str) -> list[str]:
    """The command line that runs a module of ours, wherever it is started.

    `python -m` looks for it in the current folder first, then where PYTHONPATH says: an `api/` of somebody else's
    would be run.
    """
    return [sys.executable, "-P", "-c", _MODULE, str(ROOT), module, *words]


def stand_by() -> None:
    """Wait for the word to begin. Leave when whoever would give it is gone: nothing was begun."""
    if not sys.stdin.readline():
        sys.exit()


def compiled_in(environment: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The same, for a Python of ours that finds its modules compiled: otherwise each start takes seconds longer.

    Where nobody wants them beside the source, or they cannot be written there, they are kept in `cache`.
    """
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    beside = len(kept) == len(environment) and os.access(ROOT / "droidherd", os.W_OK)
    return kept if beside else {"PYTHONPYCACHEPREFIX": str(cache), **kept}


def system_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For a program that needs no secret: Temporal, virtual emulators."""
    return {name: value for name, value in environment.items() if _SYSTEM.fullmatch(name)}


def adb_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For an adb server: beside the system, only which keys emulators trust already."""
    trusted = environment.get("ADB_VENDOR_KEYS")
    return system_environment(environment) | ({"ADB_VENDOR_KEYS": trusted} if trusted else {})


def tool_environment(environment: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """For programs that start and stop emulators: the system, SDK and graphics, and what the operator names."""
    return {
        name: value
        for name, value in environment.items()
        if _SYSTEM.fullmatch(name) or _TOOLS.fullmatch(name) or name in also
    }


def api_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For the API: our settings with its keys, but no credential of an account."""
    return {name: value for name, value in environment.items() if _SYSTEM.fullmatch(name) or _OURS.fullmatch(name)}


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For a worker: everything, since references of accounts name variables; but the keys of the API."""
    return {name: value for name, value in environment.items() if not _API_KEYS.fullmatch(name)}


def drop_encryption_keys(environment: MutableMapping[str, str]) -> None:
    """They are read: programs that this process starts from now on, of vendors say, need not know them."""
    for name in [name for name in environment if name.upper() == "DROIDHERD_ENCRYPTION__KEYS"]:
        del environment[name]


def keep_private(*folders: Path) -> None:
    """Whatever the umask was: from now on this process makes files for its own user alone.

    `folders` are made when they do not exist, and closed to others with the files that lie in them.
    """
    os.umask(0o077)
    if sys.platform == "win32":
        return
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *folder.iterdir()):
            _close_to_others(path)


def take_data_directory(data: Path, *folders: Path) -> None:
    """Keep a data directory and folders in it private. BadParametersError: it holds files of somebody else."""
    if strange := _strange_file(data):
        what = f"holds {strange!r} and is no data directory: droidherd would close all files in it to others"
        raise BadParametersError(what, to=str(data), remedy="name an empty folder, or one that does not exist yet")
    keep_private(data, *folders)
    (data / DATA_MARKS[0]).touch(0o600)


def enter_data_directory(data: Path) -> None:
    """The same for a worker, whose folder an operator chose: files of others stay as they are, and ours are private."""
    if _strange_file(data):
        keep_private()
    else:
        take_data_directory(data)


def _strange_file(data: Path) -> str:
    """One that nobody has a reason to put into a data directory before its first start."""
    if any((data / mark).exists() for mark in DATA_MARKS):
        return ""
    names = sorted(path.name for path in data.iterdir()) if data.is_dir() else ()
    return next((name for name in names if not _EXPECTED.fullmatch(name)), "")


def _close_to_others(path: Path) -> None:
    known = path.lstat()
    plain = (path.is_dir() or path.is_file()) and not path.is_symlink()
    if plain and known.st_uid == os.getuid() and known.st_mode & 0o077:
        path.chmod(known.st_mode & 0o7700)


def end_process(code: int) -> NoReturn:
    """After an orderly shutdown: the interpreter's own exit may crash in the SDK's threads."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
