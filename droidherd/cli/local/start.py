"""`droidherd up`: starts the instance, keeps it, and takes it down in order."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.errors import CliError, NotReadyError
from droidherd.cli.local import supervise
from droidherd.cli.local.instance import END_ORDER, Instance
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import InstanceLock
from droidherd.cli.local.supervise import ProcessFolders, Supervisor
from droidherd.processes import pidfile
from droidherd.settings import Settings

LEFTOVER_GRACE_S = 3.0
DETACHED_READY_S = 180.0
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "droidherd.cli")
"""This command, to start itself in the background."""

_log = logging.getLogger("droidherd.up")


class StopSignals:
    """Has somebody asked us to stop? Once: in order. Twice: now."""

    def __init__(self) -> None:
        """Listens from now on."""
        self.times = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        return self.times > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.times += 1
        if self.times > 1:
            raise KeyboardInterrupt


class StartProgress:
    """Says what is going on: for people line by line, for programs as JSON lines."""

    def __init__(self, *, as_json: bool) -> None:
        """`as_json`: events on standard output."""
        self._as_json = as_json

    def working(self, what: str) -> AbstractContextManager[Any]:
        if self._as_json or not output.err.is_terminal:
            return nullcontext()
        return output.err.status(what)

    def done(self, name: str, address: str, seconds: float) -> None:
        if self._as_json:
            self._line(event="started", process=name, address=address, seconds=round(seconds, 2))
        else:
            output.err.print(f"  [green]✓[/green] {name:<10} {escape(address):<24} {seconds:5.1f} s")

    def say(self, text: str) -> None:
        if self._as_json:
            self._line(event="note", text=text)
        else:
            output.err.print(escape(text))

    def ready(self, urls: dict[str, str]) -> None:
        if self._as_json:
            self._line(event="ready", **urls)
            return
        output.err.print("[bold green]up[/bold green]")
        for name, url in urls.items():
            output.err.print(f"  {name:<12} {escape(url)}")

    def _line(self, **fields: Any) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def run(instance: Instance, *, as_json: bool) -> None:
    """In the foreground, until somebody stops it."""
    progress = StartProgress(as_json=as_json)
    with InstanceLock(instance.layout.lock):
        stop = StopSignals()
        _clean_up(instance.layout, progress)
        pidfile.record(instance.layout.run, "up", os.getpid(), command=tuple(sys.argv))
        supervisor = Supervisor(ProcessFolders(instance.layout.run, instance.layout.logs))
        try:
            instance.settle()
            _start(instance, supervisor, progress, stop)
            if not stop():
                pidfile.write_json(instance.layout.ready, {"pid": os.getpid(), **instance.urls})
                progress.ready(instance.urls)
            supervisor.watch(stop)
        except KeyboardInterrupt:
            progress.say("stopping at once")
            supervisor.stop(grace_s=0)
        finally:
            _go_down(instance.layout, supervisor, progress)


def detach(settings: Settings, *, as_json: bool) -> None:
    """Start the instance as a process of its own, and return when it serves."""
    with StartProgress(as_json=as_json).working("starting"):
        content = launch(settings)
    if as_json:
        output.emit(content)
    else:
        StartProgress(as_json=False).ready({name: str(value) for name, value in content.items() if name != "pid"})
        output.err.print(f"[dim]in the background as process {content['pid']}; end it with `droidherd down`[/dim]")


def launch(settings: Settings) -> dict[str, Any]:
    """Start the instance as a process of its own; what it says when it serves. Who is interrupted meanwhile ends it."""
    layout = Layout(settings.data.absolute())
    # Whoever holds the lock is named here, not in the log of a process that gave up.
    InstanceLock(layout.lock).take().give_back()
    layout.logs.mkdir(parents=True, exist_ok=True)
    layout.ready.unlink(missing_ok=True)
    log = layout.logs / "up.log"
    with log.open("ab") as output_file:
        process = subprocess.Popen(
            [*PROGRAM, "up", *_flags(settings, layout), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=output_file,
            start_new_session=sys.platform != "win32",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    try:
        return _wait_ready(process, layout, log)
    except KeyboardInterrupt:
        process.terminate()
        process.wait(DETACHED_READY_S)
        raise


def _clean_up(layout: Layout, progress: StartProgress) -> None:
    layout.ready.unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)
    ended = supervise.end_leftovers(layout.run, END_ORDER, grace_s=LEFTOVER_GRACE_S)
    if ended:
        progress.say(
            "ended what an earlier start left behind: " + ", ".join(f"{one.name} ({one.pid})" for one in ended)
        )


def _start(instance: Instance, supervisor: Supervisor, progress: StartProgress, stop: Callable[[], bool]) -> None:
    for name, make in instance.specs():
        if stop():
            return
        started = time.monotonic()
        with progress.working(f"starting {name}"):
            child = supervisor.start(make())
        progress.done(name, child.spec.address, time.monotonic() - started)


def _go_down(layout: Layout, supervisor: Supervisor, progress: StartProgress) -> None:
    layout.ready.unlink(missing_ok=True)
    if supervisor.children:
        progress.say("going down")
    try:
        supervisor.stop(grace_s=drain_s(layout))
    except KeyboardInterrupt:
        supervisor.stop(grace_s=0)
    (layout.run / "up.json").unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)


def drain_s(layout: Layout) -> float | None:
    """What `down --drain` asked for; None: what each process may take by the settings."""
    try:
        return float(json.loads(layout.order.read_text(encoding="utf-8"))["drain_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _flags(settings: Settings, layout: Layout) -> list[str]:
    return ["--data", str(layout.data), "--virtual", str(settings.virtual)]


def _wait_ready(process: "subprocess.Popen[bytes]", layout: Layout, log: Path) -> dict[str, Any]:
    until = time.monotonic() + DETACHED_READY_S
    while process.poll() is None and time.monotonic() < until:
        try:
            return json.loads(layout.ready.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(supervise.POLL_S)
    if process.poll() is None:
        process.terminate()
        raise NotReadyError("the instance does not get ready", remedy=f"{log} ends with:\n{supervise.tail(log)}")
    raise CliError("the instance ended while it started", remedy=f"{log} ends with:\n{supervise.tail(log)}")
