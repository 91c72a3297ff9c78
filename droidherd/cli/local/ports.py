"""TCP ports on this machine: free ones, taken ones, and those we chose before."""

import ipaddress
import json
import os
import secrets
import socket
import stat
import sys
import tempfile
import weakref
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from droidherd.cli.errors import CliError, PortTakenError
from droidherd.cli.local.lock import try_lock
from droidherd.processes.pidfile import write_json

ADB_PORTS = range(5554, 5684)
"""Where adb looks for emulators by itself: nothing of ours may listen there."""

HIDDEN = ipaddress.IPv4Network("127.0.0.0/8")
QUIET_PORTS = range(20_000, 32_000)
TRIES = 100
LISTENS = psutil.CONN_LISTEN


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def reachable(self) -> str:
        """As this machine reaches it: nobody connects to `0.0.0.0`."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_address(text: str) -> HostPort:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise CliError(f"`temporal.address` is {text!r}", remedy="write host:port, for example 127.0.0.1:7243")
    return HostPort(host, int(port))


def free(host: str = "127.0.0.1", *, besides: Container[int] = ()) -> int:
    """A port nobody listens on, outside the range from which the system takes ports for outgoing connections.

    A port from that range may be gone again before its server listens, taken by any client on this machine.
    `besides`: given away already, to somebody who does not listen yet.
    """
    for _ in range(TRIES):
        port = QUIET_PORTS.start + secrets.randbelow(len(QUIET_PORTS))
        if port not in besides and is_free(port, host):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def hidden() -> HostPort:
    """A free port at a loopback address that nobody can guess: 37 bits, of which a web page can try a few a second.

    Processes of this machine see it. Most systems serve the whole of 127.0.0.0/8.
    """
    for _ in range(TRIES):
        host = str(HIDDEN[secrets.randbelow(HIDDEN.num_addresses - 512) + 256])
        port = QUIET_PORTS.start + secrets.randbelow(len(QUIET_PORTS))
        if is_free(port, host):
            return HostPort(host, port)
    raise CliError(
        "no address of 127.0.0.0/8 but 127.0.0.1 can be used here, so web pages could reach the Temporal Web UI",
        remedy="start without --ui and temporal.ui",
    )


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if sys.platform != "win32":
            # A port in TIME_WAIT is free for a server; without this a restart right after a crash is refused.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def used_by(port: int) -> str:
    """` by nginx (process 812)`; empty when the system does not tell, since it is somebody else's."""
    try:
        found = {
            one.pid
            for one in psutil.net_connections("tcp")
            if one.status == LISTENS and one.laddr and one.laddr.port == port
        }
        holders = [psutil.Process(pid) for pid in sorted(pid for pid in found if pid)]
        return " by " + " and ".join(f"{one.name()} (process {one.pid})" for one in holders) if holders else ""
    except (psutil.Error, OSError):
        return ""


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class PortSetting:
    """A port that the settings name, and whether somebody chose it."""

    name: str
    """`api.port`."""
    wanted: int
    chosen: bool
    """False: the default, in whose place any other will do."""
    host: str = "127.0.0.1"


class PortRegistry:
    """The ports of one instance, by the name of their setting; what was found free is taken again next time.

    A port that a person chose is taken as it is. Port 0 and a default that is in use become any free port. Each is
    reserved as long as this object lives: of two instances that start together, the second takes another one.
    """

    def __init__(self, path: Path) -> None:
        """`path` is where the choices are kept."""
        self._path = path
        self._chosen: dict[str, int] = _read(path)
        self._reserved: dict[int, IO[bytes]] = {}
        weakref.finalize(self, _release, self._reserved)

    def claim_all(self, *settings: PortSetting) -> dict[str, int]:
        """All of them, by name. PortTakenError names each that cannot be had, not only the first."""
        found: dict[str, int] = {}
        errors: list[PortTakenError] = []
        for setting in settings:
            try:
                found[setting.name] = self._claim(setting)
            except PortTakenError as error:
                errors.append(error)
        if errors:
            what, remedy = ("; ".join(texts) for texts in zip(*((one.what, one.remedy) for one in errors), strict=True))
            raise PortTakenError(what, remedy=remedy)
        return found

    def claim(self, setting: PortSetting) -> int:
        return self.claim_all(setting)[setting.name]

    def _claim(self, setting: PortSetting) -> int:
        name, wanted, host = setting.name, setting.wanted, setting.host
        if wanted in ADB_PORTS:
            raise PortTakenError(
                f"port {wanted} of `{name}` lies where adb looks for emulators (5554-5683)",
                remedy=f"choose another port for `{name}`",
            )
        if wanted and setting.chosen:
            if not self._reserve(wanted, host):
                raise PortTakenError(
                    f"port {wanted} of `{name}` is in use{used_by(wanted)}",
                    remedy=f"set `{name}` in droidherd.toml (or {variable(name)}) to another port, or to 0",
                )
            return wanted
        others = {port for other, port in self._chosen.items() if other != name}
        known = (self._chosen.get(name, 0), wanted)
        port = next((one for one in known if one and one not in others and self._reserve(one, host)), 0)
        self._chosen[name] = port or self._any(host, others)
        write_json(self._path, self._chosen)
        return self._chosen[name]

    def _any(self, host: str, others: Container[int]) -> int:
        for _ in range(TRIES):
            port = free(host, besides=others)
            if self._reserve(port, host):
                return port
        raise PortTakenError("no free port was found", remedy="see what listens on this machine, or name the ports")

    def _reserve(self, port: int, host: str) -> bool:
        """Whether the port is ours: nobody listens there, and no other instance is about to."""
        if port in self._reserved:
            return is_free(port, host)
        file = (_reservations() / str(port)).open("ab")
        if not try_lock(file) or not is_free(port, host):
            file.close()
            return False
        self._reserved[port] = file
        return True


def _release(reserved: dict[int, IO[bytes]]) -> None:
    for file in reserved.values():
        file.close()


def _reservations() -> Path:
    """The folder of this user in which an instance locks a file for each port that it has, or is about to take."""
    if sys.platform == "win32":
        folder = Path(tempfile.gettempdir()) / "droidherd-ports"
        folder.mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir()) / f"droidherd-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    known = folder.lstat()
    if known.st_uid != os.getuid() or not stat.S_ISDIR(known.st_mode):
        raise PortTakenError(
            f"{folder}, where ports are reserved, belongs to somebody else",
            remedy="remove it, or set TMPDIR to another folder",
        )
    return folder


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return "DROIDHERD_" + setting.upper().replace(".", "__")


def _read(path: Path) -> dict[str, int]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(port) for name, port in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}
