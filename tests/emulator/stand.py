"""Where the shell lines run under this machine's real shells, with Android's tools as small scripts."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from droidherd.adb.shell import ShellResult
from droidherd.emulator.lines import FREE_PROPERTY, TOKEN_PROPERTY, DevicePaths, ShellReply

SHELLS = [name for name in ("sh", "bash", "mksh") if shutil.which(name)]
BOOT_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"

GETPROP = 'cat "$STAND/props/$1" 2>/dev/null; echo'
SETPROP = 'printf %s "$2" >"$STAND/props/$1"'
ACT = 'echo "$(basename "$0") $*" >>"$STAND/acts"; if [ -f "$STAND/fails" ]; then echo refused; exit 75; fi'


@dataclass(frozen=True)
class Stand:
    root: Path
    shell: str

    @classmethod
    def build(cls, root: Path, shell: str) -> "Stand":
        stand = cls(root, shell)
        for folder in ("bin", "props", "data", "proc"):
            (root / folder).mkdir(parents=True)
        for name, body in {"getprop": GETPROP, "setprop": SETPROP, "input": ACT, "am": ACT, "fsync": ":"}.items():
            script = root / "bin" / name
            script.write_text(f"#!/bin/sh\n{body}\n")
            script.chmod(0o755)
        (root / "boot_id").write_text(BOOT_ID + "\n")
        stand.uptime(100)
        return stand

    @property
    def places(self) -> DevicePaths:
        return DevicePaths(
            str(self.root / "data" / "droid herd"),
            str(self.root / "uptime"),
            str(self.root / "boot_id"),
            str(self.root / "proc"),
        )

    def uptime(self, seconds: float) -> None:
        (self.root / "uptime").write_text(f"{seconds:.2f} 12.00\n")

    def set(self, token: object = None, free: object = None) -> None:
        for name, value in ((TOKEN_PROPERTY, token), (FREE_PROPERTY, free)):
            if value is not None:
                (self.root / "props" / name).write_text(str(value))

    def token(self) -> str:
        return self._property(TOKEN_PROPERTY)

    def free(self) -> str:
        return self._property(FREE_PROPERTY)

    def acts(self) -> list[str]:
        path = self.root / "acts"
        return path.read_text().splitlines() if path.exists() else []

    def process_runs(self, pid: int) -> None:
        (self.root / "proc" / str(pid)).mkdir()

    def breaks(self, name: str) -> None:
        script = self.root / "bin" / name
        script.write_text("#!/bin/sh\necho broken >&2\nexit 2\n")
        script.chmod(0o755)

    def meanwhile(self, command: str) -> None:
        """Happens while an intent is brought to the disk."""
        (self.root / "bin" / "fsync").write_text(f"#!/bin/sh\n{command}\n")

    def act_fails(self) -> None:
        (self.root / "fails").touch()

    def journal(self, key: str) -> list[str]:
        path = Path(self.places.journal(key))
        return path.read_text().splitlines() if path.exists() else []

    def write_journal(self, key: str, *lines: str) -> None:
        path = Path(self.places.journal(key))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def raw(self, line: str) -> ShellResult:
        environment = {"PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "STAND": str(self.root)}
        done = subprocess.run(
            [shutil.which(self.shell) or self.shell, "-c", line],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        return ShellResult(done.returncode, done.stdout, done.stderr)

    def run(self, line: str) -> ShellReply:
        return ShellReply.of(self.raw(line), "stand")

    def _property(self, name: str) -> str:
        path = self.root / "props" / name
        return path.read_text() if path.exists() else ""
