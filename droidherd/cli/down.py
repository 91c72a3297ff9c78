"""`droidherd down`: lets running stages end, or does not; then nothing of the house runs any more."""

import os
import signal
import time

from droidherd.adb.server import end_leftover, pid_file
from droidherd.cli import processes, supervise
from droidherd.cli.house import END_ORDER
from droidherd.cli.layout import Layout

SLACK_S = 120.0
"""Beside the drain: time for cleanups, and for everything that is not the worker."""


def down(layout: Layout, *, drain_s: float | None) -> list[str]:
    """End the house; None: now. Returns the names of what was ended."""
    supervisor = processes.read(layout.run / "up.json")
    files = processes.read_all(layout.run)
    names = [file.name for file in files if processes.lives(file)]
    if supervisor is not None and processes.lives(supervisor):
        if drain_s is None:
            _kill(supervisor)
        else:
            processes.write_json(layout.order, {"drain_s": drain_s})
            processes.ask(supervisor)
            processes.wait_gone([supervisor], drain_s + SLACK_S)
    # What outlived its supervisor, or never had one.
    supervise.end_leftovers(layout.run, END_ORDER, grace_s=0 if drain_s is None else drain_s)
    layout.ready.unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)
    # A worker that was killed could not take its adb server along, nor the file that names it.
    if files or pid_file(layout.adb).process() is None:
        end_leftover(layout.adb)
    return names


def _kill(file: processes.PidFile) -> None:
    os.kill(file.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    until = time.monotonic() + SLACK_S
    while processes.lives(file) and time.monotonic() < until:
        time.sleep(processes.POLL_S)
