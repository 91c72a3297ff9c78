"""`droidherd up`: starts the instance, keeps it, and takes it down in order."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.errors import AlreadyRunningError, CliError, NotReadyError
from droidherd.cli.local import supervise
from droidherd.cli.local.instance import END_ORDER, Instance
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import InstanceLock, is_held
from droidherd.cli.local.stop import end_orphaned_adb
from droidherd.cli.local.supervise import ChildProcess, ProcessFolders, Supervisor, tail
from droidherd.domain.errors import DroidherdError
from droidherd.engine.encryption import make_key_file
from droidherd.processes import children, pidfile
from droidherd.settings import KEYS_FILE, Settings

LEFTOVER_GRACE_S = 3.0
UP_REFUSED = 2
"""Of `up`: the data directory is in use, or a setting is wrong."""
UP_LOG = "up.log"
DETACHED_READY_S = 180.0
PROGRAM: tuple[str, ...] = tuple(children.python("droidherd.cli"))
"""This command, to start itself in the background."""

COUNT = TypeAdapter(Annotated[int, Field(strict=True, ge=0)])

_log = logging.getLogger("droidherd.up")


class StopSignals:
    """Has somebody asked us to stop? Once: in order. Twice: now."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Listens from now on, and calls `wake` when it hears something."""
        self.times = 0
        self._wake = wake
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        return self.times > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.times += 1
        if self.times > 1:
            raise KeyboardInterrupt
        self._wake()


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

    def ready(self, urls: Mapping[str, str], problems: Mapping[str, str]) -> None:
        if self._as_json:
            self._line(event="ready", **urls, **({"problems": dict(problems)} if problems else {}))
            return
        output.err.print("[bold green]up[/bold green]" if not problems else "[bold yellow]up, in parts[/bold yellow]")
        for name, url in urls.items():
            output.err.print(f"  {name:<12} {escape(url)}")

    def _line(self, **fields: Any) -> None:
        """On a full disk, or when nobody listens any more, the instance goes on unheard."""
        with suppress(OSError):
            sys.stdout.write(json.dumps(fields) + "\n")
            sys.stdout.flush()


@contextmanager
def leaving_nothing(data: Path) -> Generator[None]:
    """Removes the data directory of a start that failed before it began anything, if no other start had made it."""
    is_new = not data.exists()
    try:
        yield
    except (CliError, DroidherdError) as error:
        layout = Layout(data)
        began = layout.database.exists() or any(log.name != UP_LOG for log in layout.logs.glob("*.log"))
        if is_new and not began and not isinstance(error, AlreadyRunningError) and not is_held(layout.lock):
            shutil.rmtree(data, ignore_errors=True)
        raise


def run(instance: Instance, *, as_json: bool) -> None:
    """In the foreground, until somebody stops it."""
    progress = StartProgress(as_json=as_json)
    layout = instance.layout
    children.take_data_directory(layout.data, layout.run, layout.logs, layout.database.parent)
    with InstanceLock(layout.lock):
        supervisor = Supervisor(ProcessFolders(layout.run, layout.logs))
        stop = StopSignals(supervisor.wake)
        _clean_up(layout, progress)
        pidfile.record(layout.run, "up", os.getpid(), command=tuple(sys.argv))
        try:
            instance.settle()
            pidfile.write_json(layout.last_up, {"virtual": instance.settings.virtual})
            problems = _start(instance, supervisor, progress, stop)
            if not stop():
                served = {"pid": os.getpid(), **instance.urls}
                pidfile.write_json(layout.ready, served | ({"problems": problems} if problems else {}))
                progress.ready(instance.urls, problems)
            supervisor.watch(stop)
        except KeyboardInterrupt:
            progress.say("stopping at once")
            supervisor.stop(grace_s=0)
        finally:
            _go_down(layout, supervisor, progress)


def with_last_virtual(settings: Settings) -> Settings:
    """As many virtual emulators as at the last `up` of the data directory, unless a flag or a setting says how many."""
    if "virtual" in settings.model_fields_set:
        return settings
    last = Layout(settings.data.absolute()).last_up
    try:
        count = json.loads(last.read_text(encoding="utf-8"))["virtual"]
        return settings.model_copy(update={"virtual": COUNT.validate_python(count)})
    except FileNotFoundError:
        return settings
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{last} cannot be read: {error}", remedy="say --virtual N, or delete the file") from error


def ensure_keys(settings: Settings) -> None:
    """Make a key in the data directory, where no key is set. Raises CliError where nothing would be encrypted."""
    if not settings.encryption.write:
        raise CliError(
            "`encryption.write` is off", remedy="take it out of the settings, or leave --encrypt away", code=2
        )
    if not settings.encryption.keys and settings.encryption_file is None:
        children.take_data_directory(settings.data)
        make_key_file(settings.data / KEYS_FILE)


def detach(settings: Settings, *, as_json: bool) -> None:
    """Start the instance as a process of its own, and return when it serves."""
    progress = StartProgress(as_json=as_json)
    with progress.working("starting"):
        content = launch(settings)
    if as_json:
        output.emit(content)
    else:
        urls = {name: str(value) for name, value in content.items() if name != "pid"}
        StartProgress(as_json=False).ready(urls, {})
        output.err.print(f"[dim]in the background as process {content['pid']}; end it with `droidherd down`[/dim]")


def launch(settings: Settings) -> dict[str, Any]:
    """Start the instance as a process of its own; what it says when it serves. Who is interrupted meanwhile ends it.

    NotReadyError: a part of it does not serve. The others do, and go on.
    """
    layout = Layout(settings.data.absolute())
    # Whoever holds the lock is named here, not in the log of a process that gave up.
    children.take_data_directory(layout.data, layout.logs)
    InstanceLock(layout.lock).take().give_back()
    layout.ready.unlink(missing_ok=True)
    log = layout.logs / UP_LOG
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
        content = _wait_ready(process, layout, log)
    except KeyboardInterrupt:
        process.terminate()
        process.wait(DETACHED_READY_S)
        raise
    if problems := content.get("problems"):
        raise NotReadyError(
            "; ".join(f"{name}: {why}" for name, why in problems.items()),
            remedy="the other parts serve; see `droidherd status` and `droidherd logs`, or end them: `droidherd down`",
        )
    return content


def _clean_up(layout: Layout, progress: StartProgress) -> None:
    layout.ready.unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)
    ended = supervise.end_leftovers(layout.run, END_ORDER, grace_s=LEFTOVER_GRACE_S)
    if ended:
        progress.say(
            "ended what an earlier start left behind: " + ", ".join(f"{one.name} ({one.pid})" for one in ended)
        )


def _start(
    instance: Instance, supervisor: Supervisor, progress: StartProgress, stop: Callable[[], bool]
) -> dict[str, str]:
    """Start group after group. Returns which parts do not serve, and why: they never take down those that do.

    Raises CliError when nothing can work: without Temporal, or where a process refuses its settings.
    """
    problems: dict[str, str] = {}
    for group in instance.specs():
        if stop():
            break
        for child in [supervisor.start(make()) for make in group]:
            name = child.spec.name
            with progress.working(f"starting {name}"):
                why = supervisor.wait_ready(child, stop)
            if why and not stop():
                _judge(child, why)
                problems[name] = why
                progress.say(f"{name}: {why}; the rest goes on. Its log, {child.log}, ends with:\n{tail(child.log)}")
            elif not why:
                progress.done(name, child.spec.address, time.monotonic() - child.started_s)
    return problems


def _judge(child: ChildProcess, why: str) -> None:
    if child.refused or child.spec.name == "temporal":
        raise CliError(f"{child.spec.name} {why}", remedy=f"its log, {child.log}, ends with:\n{tail(child.log)}")


def _go_down(layout: Layout, supervisor: Supervisor, progress: StartProgress) -> None:
    layout.ready.unlink(missing_ok=True)
    if supervisor.children:
        progress.say("going down")
    try:
        supervisor.stop(grace_s=drain_s(layout))
    except KeyboardInterrupt:
        supervisor.stop(grace_s=0)
    end_orphaned_adb(layout)
    (layout.run / "up.json").unlink(missing_ok=True)
    layout.order.unlink(missing_ok=True)


def drain_s(layout: Layout) -> float | None:
    """What `down --drain` asked for; None: what each process may take by the settings."""
    try:
        return float(json.loads(layout.order.read_text(encoding="utf-8"))["drain_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _flags(settings: Settings, layout: Layout) -> list[str]:
    ui = ["--ui"] if settings.temporal.ui else []
    return ["--data", str(layout.data), "--virtual", str(settings.virtual), *ui]


def _wait_ready(process: "subprocess.Popen[bytes]", layout: Layout, log: Path) -> dict[str, Any]:
    until = time.monotonic() + DETACHED_READY_S
    while process.poll() is None and time.monotonic() < until:
        try:
            return json.loads(layout.ready.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(supervise.POLL_S)
    if process.poll() is None:
        process.terminate()
        raise NotReadyError("the instance does not get ready", remedy=f"{log} ends with:\n{tail(log)}")
    if process.returncode == UP_REFUSED:
        InstanceLock(layout.lock).take().give_back()  # another start was faster: raises with its process
    last = tail(log)
    with suppress(ValueError, KeyError, TypeError, IndexError):  # it may say itself what is wrong, as the last thing
        final = json.loads(last.splitlines()[-1])
        raise CliError(
            final["error"], remedy=final["remedy"], code=UP_REFUSED if process.returncode == UP_REFUSED else 1
        )
    raise CliError("the instance ended while it started", remedy=f"{log} ends with:\n{last}")
