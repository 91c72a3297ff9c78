"""Child processes: started in order, watched, restarted within bounds, ended in reverse order."""

import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from droidherd.processes import pidfile
from droidherd.processes.children import STANDBY
from droidherd.processes.pidfile import PidFile

POLL_S = 0.05
"""Between two looks at what starts."""
LOOK_S = 0.5
"""Between two looks at logs, while nothing starts and nothing ends."""
READY_S = 60.0
"""How long one start of a process may take until it serves."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
WELL_S = 10.0
"""Who lived so long had started well."""
STANDBY_AFTER_S = 1.0
"""Who lived so long is through its start, and its stand-by takes no time from it."""
RESTARTS_A_MINUTE = 8
SPACE_BYTES = 2_000_000
"""With less free disk space nothing is started again: it would die in its start. Who died so is not to blame."""
SPACE_PAUSE_S = 1.0
LOG_LIMIT_BYTES = 10_000_000
LINE_MAX = 500
"""Characters of a line of a log, where its end is quoted."""
STANDBYS = "standby"
"""The folder, beside the pid files of those who serve, with those of who stands by."""

_log = logging.getLogger("droidherd.up")


def _nothing() -> None:
    pass


def _may_pass(_why: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start, and how to see that it is ready."""

    name: str
    command: Sequence[str]
    ready: Callable[[int], str]
    """Why the process of this pid does not serve yet; empty when it does. Returns soon, and is asked again."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """The whole environment of the process."""
    address: str = ""
    grace_s: float = 10.0
    """How long it may take to stop when asked."""
    hurry_s: float = 0.0
    """And how long when asked a second time. 0: it is not."""
    before: Callable[[], None] = _nothing
    """Done before each start of the process."""
    checks_again: bool = False
    """Whether `ready` has something to do after a restart, too."""
    refusals: frozenset[int] = frozenset()
    """Exit codes that say: not with these settings."""
    folder: Path | None = None
    """Where it runs; None: where we do."""
    is_hopeless: Callable[[str], bool] = _may_pass
    """Whether this, which `ready` said, does not change while it runs: nobody waits for it any longer."""
    standby: bool = False
    """Whether a second process stands by, with its modules imported, to take over when this one ends."""


@dataclass(frozen=True, slots=True)
class ProcessFolders:
    """Where pid files and logs go."""

    run: Path
    logs: Path


class ChildProcess:
    """One process under supervision, across its restarts."""

    def __init__(self, spec: ProcessSpec, places: ProcessFolders, wake: Callable[[], None] = _nothing) -> None:
        """Not started yet. `wake` is called, from another thread, when it ends."""
        self.spec = spec
        self.log = places.logs / f"{spec.name}.log"
        self.gave_up = False
        self.ended: int | None = None
        """How it ended the last time, if it did."""
        self.restarts = 0
        self.is_late = False
        """Started again, and not seen ready since."""
        self.started_s = 0.0
        self._places = places
        self._wake = wake
        self._process: subprocess.Popen[bytes] | None = None
        self._standby: subprocess.Popen[bytes] | None = None
        self._ends: deque[float] = deque()
        self._failed_starts = 0
        """In a row."""
        self._due: float | None = None

    @property
    def refused(self) -> bool:
        """It said itself that it cannot work with these settings: starting it again brings nothing."""
        return self.ended in self.spec.refusals

    @property
    def is_settling(self) -> bool:
        """It waits for its next start, or is not ready after one."""
        return self._due is not None or self.is_late

    def start(self) -> None:
        """Let its stand-by begin, if there is one; otherwise start it."""
        self.spec.before()
        self.started_s = time.monotonic()
        self._process = self._call_standby() or self._launch()
        known = {"command": tuple(self.spec.command), "address": self.spec.address, "restarts": self.restarts}
        try:
            pidfile.record(self._places.run, self.spec.name, self._process.pid, **known)
        except OSError:
            # Without its file nobody could end it once this process is dead.
            self._process.kill()
            self._process.wait(timeout=30)
            raise
        threading.Thread(target=self._await_end, args=(self._process,), daemon=True).start()

    def stand_by(self) -> None:
        """Have a process beside it that needs no more than a word to take over. It leaves when we are gone."""
        if self.spec.standby and self._standby is None:
            with suppress(OSError):  # it is tried again at the next look; until then a restart takes longer
                self._standby = self._launch(STANDBY)
                pidfile.record(self._places.run / STANDBYS, self.spec.name, self._standby.pid)

    def not_ready(self) -> str:
        """Why it does not serve yet; empty when it does."""
        if self._process is None or self._process.poll() is not None:
            return "it ended while it started"
        try:
            return self.spec.ready(self._process.pid)
        except OSError as error:
            return str(error)

    def keep_running(self, now: float) -> None:
        """Bring it back when it died, later each time, and not for ever."""
        rotate(self.log)
        if self.gave_up or self._process is None:
            return
        code = self._process.poll()
        if code is None:
            self.is_late = self.is_late and bool(self.not_ready())
            if now - self.started_s > STANDBY_AFTER_S:
                self.stand_by()
            return
        if self._due is None:
            self.ended = code
            self._plan_restart(code, now)
            if self.refused:
                return  # whoever waits for it hears that first
        if self._due is not None and now >= self._due:
            self._restart(now)

    def stop(self, *, grace_s: float) -> None:
        self.gave_up = True
        self._end_standby()
        file = pidfile.read(self._pid_path)
        if self._process is not None and self._process.poll() is None and file is not None:
            file.end(grace_s=grace_s, hurry_s=self.spec.hurry_s)
        if self._process is not None:
            self._process.wait(timeout=30)
            self._process = None
        self._pid_path.unlink(missing_ok=True)

    @property
    def _pid_path(self) -> Path:
        return self._places.run / f"{self.spec.name}.json"

    @property
    def _standby_path(self) -> Path:
        return self._places.run / STANDBYS / f"{self.spec.name}.json"

    def _restart(self, now: float) -> None:
        """On a full disk: later."""
        try:
            if not self._has_space():
                self._due = now + SPACE_PAUSE_S
                return
            self.restarts += 1
            self.start()
        except OSError as error:
            _log.error("%s cannot be started: %s", self.spec.name, error)
            self._due = now + SPACE_PAUSE_S
            return
        self._due = None
        self.is_late = self.spec.checks_again

    def _has_space(self) -> bool:
        try:
            return shutil.disk_usage(self._places.run).free >= SPACE_BYTES
        except OSError:
            return True  # the start makes the folder, or says why not

    def _launch(self, *words: str) -> "subprocess.Popen[bytes]":
        """Run its command. With more `words` it reads what to do from us."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*self.spec.command, *words],
                stdin=subprocess.PIPE if words else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.spec.environment),
                cwd=self.spec.folder,
                # Ctrl-C in the terminal is for us: we end them, in order.
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    def _await_end(self, process: "subprocess.Popen[bytes]") -> None:
        """In a thread of its own: whoever keeps the processes hears at once that one ended, and alone acts on it."""
        process.wait()
        self._wake()

    def _call_standby(self) -> "subprocess.Popen[bytes] | None":
        """The stand-by, told to begin; None when there is none that lives."""
        standby = self._standby
        if standby is None or standby.stdin is None or standby.poll() is not None:
            self._end_standby()
            return None
        try:
            with standby.stdin:
                standby.stdin.write(b"begin\n")
        except OSError:
            self._end_standby()
            return None
        self._standby = None
        self._standby_path.unlink(missing_ok=True)
        return standby

    def _end_standby(self) -> None:
        standby, self._standby = self._standby, None
        self._standby_path.unlink(missing_ok=True)
        if standby is not None:
            standby.kill()
            standby.wait(timeout=30)
            if standby.stdin is not None:
                with suppress(OSError):
                    standby.stdin.close()

    def _plan_restart(self, code: int, now: float) -> None:
        if not self._has_space():
            _log.error("%s ended with %s, the disk is full: it waits for space", self.spec.name, ending(code))
            self._due = now + SPACE_PAUSE_S
            return
        self._ends.append(now)
        while self._ends and self._ends[0] < now - 60:
            self._ends.popleft()
        if len(self._ends) > RESTARTS_A_MINUTE:
            self.gave_up = True
            _log.error(
                "%s ended %d times within a minute, the last time with %s: given up, see %s",
                *(self.spec.name, len(self._ends), ending(code), self.log),
            )
            return
        # Who did well until it died is back at once; who dies in each start, later and later.
        self._failed_starts = self._failed_starts + 1 if now - self.started_s < WELL_S else 0
        pause = min(FIRST_PAUSE_S * 2 ** (self._failed_starts - 2), LONGEST_PAUSE_S) if self._failed_starts > 1 else 0.0
        self._due = now + pause
        _log.warning("%s ended with %s: started again in %.1f s", self.spec.name, ending(code), pause)


class Supervisor:
    """Starts children, and keeps all of them from the first moment on."""

    def __init__(self, places: ProcessFolders) -> None:
        """No children yet."""
        self.children: list[ChildProcess] = []
        self._places = places
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start(self, spec: ProcessSpec) -> ChildProcess:
        child = ChildProcess(spec, self._places, self.wake)
        self.children.append(child)
        child.start()
        return child

    def wait_ready(self, child: ChildProcess, stop: Callable[[], bool], *, seconds: float = READY_S) -> str:
        """Until it serves; then an empty text. Otherwise why it does not: given up, refused, or late.

        A child that dies in its start has its whole time again; how often it may die is bounded.
        """
        why = ""
        while not stop():
            now = time.monotonic()
            self.restart_dead(now)
            if child.refused or child.gave_up:
                return f"ended with {ending(child.ended or 0)}"
            why = child.not_ready()
            if not why or child.spec.is_hopeless(why) or now - child.started_s > seconds:
                return why
            # Some ask by a program of their own: most of the processor is for those who start.
            self._rest(max(POLL_S, time.monotonic() - now))
        return why

    def restart_dead(self, now: float) -> None:
        """Bring back who died."""
        for child in self.children:
            child.keep_running(now)

    def watch(self, stop: Callable[[], bool]) -> None:
        """Until `stop` says so."""
        while not stop():
            self.restart_dead(time.monotonic())
            self._rest(POLL_S if any(child.is_settling for child in self.children) else LOOK_S)

    def wake(self) -> None:
        """Look at once: something happened. From any thread, and from a handler of signals."""
        self._news.put(None)

    def _rest(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._news.get(timeout=seconds)

    def stop(self, *, grace_s: float | None = None) -> None:
        """In reverse order. `grace_s` overrules what each child may take."""
        for child in reversed(self.children):
            child.stop(grace_s=child.spec.grace_s if grace_s is None else min(grace_s, child.spec.grace_s))
        self.children.clear()


def end_leftovers(run: Path, order: Sequence[str], *, grace_s: float) -> list[PidFile]:
    """End what a dead predecessor left behind, in this order. What is not named comes first."""
    files = {file.name: file for file in pidfile.read_all(run)}
    names = [*sorted(set(files) - set(order)), *[name for name in order if name in files]]
    ended = [files[name] for name in names if files[name].end(grace_s=grace_s)]
    for name in names:
        (run / f"{name}.json").unlink(missing_ok=True)
    for standby in pidfile.read_all(run / STANDBYS):
        standby.end(grace_s=0)  # it would leave by itself, once its modules are imported
        (run / STANDBYS / f"{standby.name}.json").unlink(missing_ok=True)
    return ended


def rotate(log: Path, limit: int = LOG_LIMIT_BYTES) -> None:
    """Keep one predecessor. The writer has the file open for appending, so it goes on at the start."""
    try:
        if log.stat().st_size <= limit:
            return
    except FileNotFoundError:
        return
    before = log.with_suffix(".log.1")
    try:
        shutil.copyfile(log, before)
    except OSError as error:
        before.unlink(missing_ok=True)
        _log.warning("%s is too long and cannot be copied: it begins anew (%s)", log.name, error)
    os.truncate(log, 0)


def tail(log: Path, lines: int = 15) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"    {_shortened(line)}" for line in text.splitlines()[-lines:])


def _shortened(line: str) -> str:
    """A line of JSON holds a whole traceback."""
    return line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]} … ({len(line)} characters)"


def ending(code: int) -> str:
    """`signal SIGKILL` or `code 3`."""
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"code {code}"
