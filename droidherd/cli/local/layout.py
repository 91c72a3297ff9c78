"""Where things lie in a data directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """`<data>`: everything one instance keeps."""

    data: Path

    @property
    def run(self) -> Path:
        """Pid files, one per process."""
        return self.data / "run"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def lock(self) -> Path:
        return self.run / "up.lock"

    @property
    def ready(self) -> Path:
        """Says that everything serves, and where."""
        return self.data / "ready.json"

    @property
    def order(self) -> Path:
        """How the supervisor is to go down."""
        return self.data / "down.json"

    @property
    def ports(self) -> Path:
        return self.data / "ports.json"

    @property
    def last_up(self) -> Path:
        """What the next `up` does again unless it is told otherwise."""
        return self.data / "last_up.json"

    @property
    def database(self) -> Path:
        return self.data / "temporal" / "temporal.db"

    @property
    def programs(self) -> Path:
        return self.data / "bin"

    @property
    def compiled(self) -> Path:
        """Our modules as Python compiled them, when they cannot lie beside their source."""
        return self.data / "python"

    @property
    def virtual(self) -> Path:
        return self.data / "virtual"

    @property
    def virtual_ready(self) -> Path:
        return self.data / "virtual" / "ready.json"

    @property
    def adb(self) -> Path:
        """The private home of the adb server, kept by the worker."""
        return self.data / "adb"
