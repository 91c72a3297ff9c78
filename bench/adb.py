"""What a call to an emulator costs, through the real adb server to a virtual emulator."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.emulator.probe import DeviceLink
from droidherd.virtual.process import VirtualFleet

DEADLINE_S = 10.0
FULL_HD = (1920, 1080)
SHELLS = 300
ROUNDS = 40
"""Of one frame by us and one by the adb program, in turns, so that both meet the same machine."""


def measure(shells: int = SHELLS, rounds: int = ROUNDS) -> dict[str, float]:
    """`shell_p50_ms`; `capture_ratio`: our 1080p frame over one by `adb exec-out screencap`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with (
            VirtualFleet.start(state=root / "virtual", count=1, size=FULL_HD) as fleet,
            AdbServer(0, root / "adb", environment=os.environ) as server,
        ):
            (serial,) = fleet.addresses.values()
            DeviceLink(server.client()).ensure(serial, deadline_s=DEADLINE_S)
            return _shell(server.client(), serial, shells) | _capture(server, serial, rounds)


def _shell(adb: AdbClient, serial: str, count: int) -> dict[str, float]:
    times_ms = sorted(_ms(lambda: adb.shell(serial, "echo hello", DEADLINE_S)) for _ in range(count))
    return {"shell_p50_ms": statistics.median(times_ms), "shell_p99_ms": times_ms[int(len(times_ms) * 0.99)]}


def _capture(server: AdbServer, serial: str, rounds: int) -> dict[str, float]:
    adb = server.client()
    command = [server.program, "-P", str(server.port), "-s", serial, "exec-out", "screencap"]
    ours_ms: list[float] = []
    theirs_ms: list[float] = []
    for _ in range(rounds):
        ours_ms.append(_ms(lambda: adb.capture(serial, DEADLINE_S)))
        # Into nothing: the program is not made to pay for a reader of ours.
        theirs_ms.append(_ms(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)))
    ours, theirs = statistics.median(ours_ms), statistics.median(theirs_ms)
    return {"capture_p50_ms": ours, "capture_by_adb_p50_ms": theirs, "capture_ratio": ours / theirs}


def _ms(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return (time.perf_counter() - began_s) * 1000


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name} {value:.2f}")
