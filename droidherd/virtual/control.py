"""The side channel, client side: faults and facts of virtual emulators, never through ADB."""

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from droidherd.domain.errors import DroidherdError

TIMEOUT_S = 30.0


class ControlError(DroidherdError):
    """The process of the virtual emulators refused or is gone."""


class VirtualControl:
    """One connection to the control port; use it as a context manager. Not for several threads at once."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        """`address` is `host:port`, as the ready file names it."""
        host, _, port = address.rpartition(":")
        self._address = address
        try:
            self._sock = socket.create_connection((host, int(port)), timeout_s)
        except OSError as problem:
            raise ControlError(f"cannot connect: {problem}", to=address, remedy="is the process running?") from problem
        self._lines = self._sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._lines.close()
        self._sock.close()

    # --- facts

    def list(self) -> list[dict[str, Any]]:
        """`emulator_id`, `serialno`, `address`, `listening` of each."""
        return self._ask("list")

    def state(self, emulator: str) -> dict[str, Any]:
        return self._ask("state", emulator=emulator)

    def counters(self, emulator: str) -> dict[str, int]:
        """What the app counted, over all boots: `taps`, `claims`, `sign_ins`; and `commands`, `boot`."""
        return self._ask("counters", emulator=emulator)

    def dump(self, emulator: str) -> dict[str, Any]:
        """Settings, screen, properties, packages and files, droidherd's own aside: two of them can be compared."""
        return self._ask("dump", emulator=emulator)

    # --- faults

    def set_fault(self, emulator: str, fault: str, *, times: int | None = None, **options: Any) -> None:
        """Until cleared, or `times` times."""
        self._ask("set_fault", emulator=emulator, fault=fault, times=times, options=options)

    def clear_fault(self, emulator: str, fault: str | None = None) -> None:
        """One, or all."""
        self._ask("clear_fault", emulator=emulator, fault=fault)

    def cut_after(self, emulator: str, match: str, *, count: int = 1, when: str = "after", line: str = "stop") -> None:
        """Break the connection at the `count`-th simple command that `match` finds; the line stops or goes on."""
        self.set_fault(emulator, "cut_after", match=match, count=count, when=when, line=line)

    def stall(self, emulator: str) -> None:
        """Answer nothing at all until `release`; what came meanwhile is then carried out late."""
        self.set_fault(emulator, "stall")

    def release(self, emulator: str) -> None:
        self.clear_fault(emulator, "stall")

    # --- life and death

    def kill(self, emulator: str) -> None:
        """Listener down, connections broken, lines stopped where they are."""
        self._ask("kill", emulator=emulator)

    def start(self, emulator: str, boot_s: float = 0.0) -> str:
        """A killed one boots again; returns its address."""
        return self._ask("start", emulator=emulator, boot_s=boot_s)

    def reboot(self, emulator: str, boot_s: float = 1.0) -> int:
        """Returns the number of the new boot."""
        return self._ask("reboot", emulator=emulator, boot_s=boot_s)

    def drop(self, emulator: str) -> None:
        """Break its connections; the emulator lives on."""
        self._ask("drop", emulator=emulator)

    def swap_ports(self, emulator: str, other: str) -> Mapping[str, str]:
        """Returns the new addresses of both."""
        return self._ask("swap_ports", emulator=emulator, other=other)

    # --- the screen

    def popup(self, emulator: str, *, shown: bool = True) -> None:
        self.set_app(emulator, popup=shown)

    def set_scene(self, emulator: str, scene: str) -> None:
        """`launcher`, `sign_in`, `home`, `list` or `dialog`."""
        self.set_app(emulator, scene=scene, running=scene != "launcher")

    def suspect(self, emulator: str) -> None:
        """Whoever signs in next meets a captcha; a tap on its button solves it."""
        self.set_app(emulator, suspicious=True)

    def set_app(self, emulator: str, **changes: Any) -> dict[str, Any]:
        """Set fields of the app's state by name (see `app.HerdState`)."""
        plain = {name: [*value] if isinstance(value, tuple | set) else value for name, value in changes.items()}
        return self._ask("app", emulator=emulator, changes=plain)

    def log(self, emulator: str, text: str, *, tag: str = "test", level: str = "I") -> None:
        """Write into its log."""
        self._ask("log", emulator=emulator, text=text, tag=tag, level=level)

    def _ask(self, op: str, **fields: Any) -> Any:
        try:
            self._sock.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
            line = self._lines.readline()
        except OSError as problem:
            raise ControlError(f"connection lost: {problem}", to=self._address) from problem
        if not line:
            raise ControlError("connection closed", to=self._address)
        answer = json.loads(line)
        if not answer["ok"]:
            raise ControlError(answer["error"], to=self._address)
        return answer["result"]
