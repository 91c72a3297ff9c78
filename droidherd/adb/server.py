"""A private adb server: started, watched, restarted and ended by its own pid."""

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from droidherd.adb.client import AdbClient
from droidherd.adb.program import bundled_adb
from droidherd.domain.errors import InfrastructureError, NotSentError
from droidherd.processes import pidfile

NAME = "adb-server"
"""Of its log and its pid file."""
START_S = 10.0
ANSWER_S = 2.0
ASK_S = 1.0
FREE_PORT_TRIES = 5
STOP_S = 5.0
POLL_S = 0.02
LOG_LIMIT_BYTES = 4 << 20
MEMORY_BYTES = 2_000_000_000
STACK_KB = 1024
"""Of each of its threads; it has two for an emulator, and of what it reserves the limit takes account."""
LIMITED = 'ulimit -S -d "$1" 2>/dev/null; ulimit -S -s "$2" 2>/dev/null; shift 2; exec "$@"'
"""Where a limit cannot be set, the system has a lower one, or none."""

GONE_POLL_S = 0.005


def pid_path(home: Path) -> Path:
    """The pid file of the server that has this home."""
    return home / f"{NAME}.json"


def end_leftover(home: Path) -> bool:
    """End the server that a dead owner left in this home. True when it lived."""
    leftover = pidfile.read(pid_path(home))
    # A server nobody uses holds nothing worth asking for.
    lived = leftover is not None and leftover.end(grace_s=0)
    pid_path(home).unlink(missing_ok=True)
    return lived


@dataclass(frozen=True, slots=True)
class AdbServerLimits:
    answer_s: float = ANSWER_S
    """Silent for so long, twice, it counts as hung."""
    memory_bytes: int = MEMORY_BYTES
    """There it ends: it queues whatever a device sends without waiting for its turn. 0: no limit."""


LIMITS = AdbServerLimits()


class AdbServer:
    """`adb nodaemon server` on a port of its own, with its own home, blind to USB, mDNS and port scans."""

    def __init__(
        self,
        port: int,
        home: Path,
        program: str = "",
        *,
        environment: Mapping[str, str],
        limits: AdbServerLimits = LIMITS,
    ) -> None:
        """Nothing runs yet. The server inherits `environment`, corrected.

        Port 0 means a free one, chosen at the first start and kept.
        """
        self.home = home.absolute()
        self.port = port
        self.program = program or bundled_adb()
        self._inherited = environment
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self.home / f"{NAME}.log"

    @property
    def pid(self) -> int:
        """Of the server that runs, or 0."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def client(self, connects_at_once: int = 32) -> AdbClient:
        return AdbClient(self.port, connects_at_once=connects_at_once)

    def start(self) -> None:
        """End what a dead predecessor left, then serve."""
        with self._lock:
            self._start()

    def ensure(self) -> bool:
        """Bring the server back when it is dead or hung. True: it had to be, and no emulator is connected any more."""
        with self._lock:
            self._trim_log()
            # Twice, because on a busy host a server that is merely late would be ended with all its streams.
            if self.pid and (self._answers(self.port) or (self.pid and self._answers(self.port))):
                return False
            self._end_own(ask=False)
            self._start()
            return True

    def stop(self) -> None:
        with self._lock:
            self._end_own()

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "tmp").mkdir(exist_ok=True)
        if end_leftover(self.home):
            # Its threads may outlive its name by a moment, and with them its port.
            until_s = time.monotonic() + STOP_S
            while self.port and not _bindable(self.port) and time.monotonic() < until_s:
                time.sleep(GONE_POLL_S)
        for _ in range(0 if self.port else FREE_PORT_TRIES):
            # Whoever else looks for a free port at this moment may be given the same one.
            with contextlib.suppress(InfrastructureError):
                self._launch(_free_port())
                return
        self._launch(self.port or _free_port())

    def _launch(self, port: int) -> None:
        if not _bindable(port):
            raise InfrastructureError(
                f"port {port} is taken by another program",
                to="adb server",
                remedy="set adb.port to a free port, or end that program",
            )
        self._trim_log()
        log = self.log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._limited(), self.program, "-P", str(port), "nodaemon", "server"],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A Ctrl-C in the terminal is for us; the server ends when we say so.
                start_new_session=True,
            )
        try:
            pidfile.record(self.home, NAME, self._process.pid, address=f"127.0.0.1:{port}")
        except OSError:
            self._end_own(ask=False)  # nobody could end it once this process is dead
            raise
        self._wait_until_it_answers(port, log)
        self.port = port

    def _limited(self) -> list[str]:
        """A shell that lowers the limits of memory and becomes the server."""
        if os.name != "posix" or not self._limits.memory_bytes:
            return []
        return ["/bin/sh", "-c", LIMITED, "sh", str(self._limits.memory_bytes >> 10), str(STACK_KB)]

    def _trim_log(self) -> None:
        """Begin it anew when it is long: a device that connects in vain writes a line each time."""
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            os.truncate(self.log, 0)

    def _wait_until_it_answers(self, port: int, log: Path) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            if not self.pid:
                break
            if self._answers(port):
                return
            time.sleep(POLL_S)
        self._end_own()
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise InfrastructureError(
            f"did not start: {''.join(last) or 'no reason given'}",
            to="adb server",
            remedy=f"see {log.name} in its home",
        )

    def _answers(self, port: int) -> bool:
        try:
            return AdbClient(port).version(self._limits.answer_s) > 0
        except (NotSentError, ValueError):
            return False

    def _end_own(self, *, ask: bool = True) -> None:
        process, self._process = self._process, None
        if process is not None:
            if ask and process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(ASK_S)
            process.kill()
            process.wait(STOP_S)
            pid_path(self.home).unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        inherited = self._inherited
        kept = {name: value for name, value in inherited.items() if not name.startswith(("ANDROID_", "ADB_"))}
        home, temporary = str(self.home), str(self.home / "tmp")
        return kept | {
            "HOME": home,
            "USERPROFILE": home,
            "TMPDIR": temporary,
            "TMP": temporary,
            "TEMP": temporary,
            "ADB_USB": "0",
            "ADB_MDNS": "0",
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553",
            "ADB_VENDOR_KEYS": self._trusted_keys(),
        }

    def _trusted_keys(self) -> str:
        """The keys that emulators trust already stay usable, though the server's home is its own."""
        inherited = self._inherited
        found = [one for one in inherited.get("ADB_VENDOR_KEYS", "").split(os.pathsep) if one]
        person = inherited.get("HOME") or inherited.get("USERPROFILE")
        if person and (key := Path(person) / ".android" / "adbkey").exists():
            found.append(str(key))
        return os.pathsep.join(found)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _bindable(port: int) -> bool:
    """Whether a listener could have the port; connections of the last one that linger do not count."""
    with socket.socket() as sock:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
