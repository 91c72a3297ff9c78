"""`droidherd down`: lets running stages end, or does not; then nothing of the instance runs any more."""

from droidherd.adb.server import end_leftover, pid_path
from droidherd.cli.local import supervise
from droidherd.cli.local.instance import END_ORDER
from droidherd.cli.local.layout import Layout
from droidherd.processes import pidfile

SLACK_S = 120.0
"""Beside the drain: time for cleanups, and for everything that is not the worker."""


def down(layout: Layout, *, drain_s: float | None) -> list[str]:
    """End the instance; None: now. Returns the names of what was ended."""
    supervisor = pidfile.read(layout.run / "up.json")
    files = pidfile.read_all(layout.run)
    names = [file.name for file in files if file.lives()]
    if supervisor is not None and supervisor.lives():
        if drain_s is None:
            supervisor.kill()
            pidfile.wait_gone([supervisor], SLACK_S)
        else:
            pidfile.write_json(layout.order, {"drain_s": drain_s})
            supervisor.ask()
            pidfile.wait_gone([supervisor], drain_s + SLACK_S)
    # What outlived its supervisor, or never had one.
    supervise.end_leftovers(layout.run, END_ORDER, grace_s=0 if drain_s is None else drain_s)
    layout.ready.unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)
    if files:
        end_leftover(layout.adb)
    end_orphaned_adb(layout)
    return names


def end_orphaned_adb(layout: Layout) -> None:
    """A worker that was killed could not take its adb server along, nor the file that names it."""
    adb = pidfile.read(pid_path(layout.adb))
    if adb is None or not adb.lives() or not adb.has_owner():
        end_leftover(layout.adb)
