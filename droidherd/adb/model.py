"""What the adb server tells us, as values."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ShellResult:
    """A command that ran to its end on the emulator: its exit frame arrived."""

    rc: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.err.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the adb server's list."""

    serial: str
    state: str
    details: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ready(self) -> bool:
        return self.state == "device"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What `stat` says about a file on the emulator; a mode of 0 means that there is none."""

    mode: int
    size: int
    modified_s: int

    @property
    def exists(self) -> bool:
        return self.mode != 0
