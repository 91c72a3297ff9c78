"""TCP ports on this machine: free ones, taken ones, and those we chose before."""

import json
import secrets
import socket
import sys
from collections.abc import Container
from pathlib import Path

from droidherd.cli.errors import PortTakenError
from droidherd.processes.pidfile import write_json

ADB_PORTS = range(5554, 5684)
"""Where adb looks for emulators by itself: nothing of ours may listen there."""

QUIET_PORTS = range(20_000, 32_000)
TRIES = 100


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


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":
            # A port in TIME_WAIT is free for a server; without this a restart right after a crash is refused.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


class PortRegistry:
    """Ports by the name of their setting. 0 means: any free one, and the same again next time if it is still free."""

    def __init__(self, path: Path) -> None:
        """`path` is where the choices are kept."""
        self._path = path
        self._chosen: dict[str, int] = _read(path)

    def claim(self, setting: str, wanted: int, *, host: str = "127.0.0.1") -> int:
        if wanted in ADB_PORTS:
            raise PortTakenError(
                f"port {wanted} of `{setting}` lies where adb looks for emulators (5554-5683)",
                remedy=f"choose another port for `{setting}`",
            )
        if wanted:
            if not is_free(wanted, host):
                raise PortTakenError(
                    f"port {wanted} of `{setting}` is in use",
                    remedy=f"set `{setting}` in droidherd.toml (or {variable(setting)}) to another port, or to 0",
                )
            return wanted
        known = self._chosen.get(setting, 0)
        port = known if known and is_free(known, host) else free(host, besides=self._chosen.values())
        self._chosen[setting] = port
        write_json(self._path, self._chosen)
        return port


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return "DROIDHERD_" + setting.upper().replace(".", "__")


def _read(path: Path) -> dict[str, int]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(port) for name, port in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}
