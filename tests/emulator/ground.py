"""Where the lines that change things run: real shells with Android's tools as small scripts, and our own shell."""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from droidherd.adb.shell import ShellResult
from droidherd.virtual.tinyapk import tiny_apk
from tests.emulator.stand import SETPROP, SHELLS, Stand
from tests.virtual.stand import stand_in

SETTINGS = """
f="$STAND/settings/$2/$3"
case "$1" in
get) if [ -f "$f" ]; then cat "$f"; echo; else echo null; fi;;
put) mkdir -p "$STAND/settings/$2"; printf %s "$4" >"$f";;
delete) rm -f "$f"; echo "Deleted 1 rows";;
list) for f in "$STAND/settings/$2"/*; do if [ -f "$f" ]; then echo "${f##*/}=$(cat "$f")"; fi; done;;
esac
"""
DASHES = 'if [ "$1" = -- ]; then shift; fi\n'
WM = """
f="$STAND/wm.$1"; p=1280x720; if [ "$1" = density ]; then p=320; fi
case "$2" in
"") echo "Physical $1: $p"; if [ -f "$f" ]; then echo "Override $1: $(cat "$f")"; fi;;
reset|$p) rm -f "$f";;
9000x9000) echo 2560x1440 >"$f";;
*) echo "$2" >"$f";;
esac
"""
PM = """
d="$STAND/apks"; mkdir -p "$d"
case "$1" in
path) if [ -f "$STAND/deaf" ]; then echo "cmd: Can't find service: package" >&2; exit 20; fi
  if [ -f "$d/$2" ]; then echo "package:$d/$2"; else exit 1; fi;;
uninstall) if [ -f "$d/$2" ]; then rm "$d/$2"; echo Success; exit; fi
  echo "Failure [DELETE_FAILED_INTERNAL_ERROR]"; exit 1;;
install) for f in "$@"; do :; done; read n v x <"$f"
  if [ -f "$d/$n" ]; then read m w x <"$d/$n"; else w=0; fi
  if [ "$v" -lt "$w" ]; then echo "Failure [INSTALL_FAILED_VERSION_DOWNGRADE: Downgrade detected]"; exit 0; fi
  cp "$f" "$d/$n"; echo Success;;
esac
"""


class Ground(Protocol):
    """One emulator, real or not, on which a line can be run."""

    folder: str

    def raw(self, line: str) -> ShellResult: ...
    def write(self, name: str, content: bytes) -> str: ...
    def read(self, path: str) -> bytes | None: ...
    def apk(self, package: str, version: int) -> bytes: ...


class ShellGround:
    """A real shell; `pm`, `wm` and `settings` are scripts that keep files."""

    def __init__(self, root: Path, shell: str) -> None:
        self.stand = Stand.build(root, shell)
        for name, body in {"settings": SETTINGS, "wm": WM, "pm": PM, "setprop": DASHES + SETPROP}.items():
            script = root / "bin" / name
            script.write_text(f"#!/bin/sh\n{body}\n")
            script.chmod(0o755)
        self.folder = str(root / "data")

    def raw(self, line: str) -> ShellResult:
        return self.stand.raw(line)

    def write(self, name: str, content: bytes) -> str:
        path = Path(self.folder) / name
        path.write_bytes(content)
        return str(path)

    def read(self, path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).exists() else None

    def apk(self, package: str, version: int) -> bytes:
        return f"{package} {version} x\n".encode()


class VirtualGround:
    """The shell of the virtual emulator."""

    folder = "/sdcard"

    def __init__(self, root: Path) -> None:
        self._stack = stand_in(root)
        self.stand = self._stack.__enter__()

    def close(self) -> None:
        self._stack.__exit__(None, None, None)

    def raw(self, line: str) -> ShellResult:
        result = self.stand.run(line)
        return ShellResult(result.rc, result.out, result.err)

    def write(self, name: str, content: bytes) -> str:
        path = f"{self.folder}/{name}"
        self.stand.emulator.files.truncate(path)
        self.stand.emulator.files.append(path, content)
        return path

    def read(self, path: str) -> bytes | None:
        files = self.stand.emulator.files
        return files.read(path) if files.kind(path) else None

    def apk(self, package: str, version: int) -> bytes:
        return tiny_apk(package, version)


GROUNDS = [*SHELLS, "virtual"]


@contextmanager
def ground_in(root: Path, name: str) -> Generator[Ground]:
    if name != "virtual":
        yield ShellGround(root, name)
        return
    ground = VirtualGround(root)
    try:
        yield ground
    finally:
        ground.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
