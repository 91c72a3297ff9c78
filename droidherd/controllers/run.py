"""Runs the programs of vendors: argument lists without a shell, a deadline, a limit on what is read."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO

from droidherd.controllers.model import POLL_S, ControllerCall, ControllerError

OUTPUT_LIMIT_BYTES = 1 << 20
PRINTED_LIMIT_BYTES = 64 << 20
"""More than that is no answer; where temporary files are kept in memory it would cost the whole host."""
KILLED_S = 5.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a program answered."""

    rc: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Chinese vendors print the code page of their country."""
        for encoding in ("utf-8", "gb18030"):
            with contextlib.suppress(UnicodeDecodeError):
                return self.out.decode(encoding)
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last line of what it said, errors first."""
        words = self.err.decode("utf-8", "replace").strip() or self.text.strip()
        return words.splitlines()[-1][:200] if words else "it said nothing"


def run(line: Sequence[str], call: ControllerCall, *, to: str, remedy: str) -> Output:
    """To its end. A program that cannot be started or is too slow is an error; what its return code means is not said.

    `remedy` is what to do when there is no such program.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = launch(line, call, (out.fileno(), err.fileno()), to=to, remedy=remedy)
        try:
            _wait(process, line[0], replace(call, beat=lambda: _check_output(line[0], (out, err), call, to)), to)
        finally:
            end(process)
        out.seek(0)
        err.seek(0)
        return Output(process.returncode, out.read(OUTPUT_LIMIT_BYTES), err.read(OUTPUT_LIMIT_BYTES))


def launch(
    line: Sequence[str], call: ControllerCall, prints: tuple[int, int], *, to: str, remedy: str
) -> "subprocess.Popen[bytes]":
    """Start it as the first of a group of its own, with nothing but the environment that the call names."""
    out, err = prints
    try:
        return subprocess.Popen(
            list(line),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(call.environment),
            start_new_session=True,
        )
    except OSError as error:
        raise ControllerError(f"{line[0]} cannot be started: {error.strerror}", to=to, remedy=remedy) from error
    except ValueError as error:
        raise ControllerError(f"{line[0]} cannot be started: {error}", to=to, remedy="correct its arguments") from error


def _wait(process: "subprocess.Popen[bytes]", program: str, call: ControllerCall, to: str) -> None:
    until_s = time.monotonic() + call.deadline_s
    while process.poll() is None:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise ControllerError(
                f"{program} did not end within {call.deadline_s:g} s",
                to=to,
                remedy="try it by hand; a slow machine needs a longer controllers.call_s",
            )
        call.beat()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(POLL_S, left_s))


def _check_output(program: str, printed: "Sequence[IO[bytes]]", call: ControllerCall, to: str) -> None:
    """A beat that looks at what was printed so far."""
    if sum(os.fstat(one.fileno()).st_size for one in printed) > PRINTED_LIMIT_BYTES:
        raise ControllerError(
            f"{program} printed more than {PRINTED_LIMIT_BYTES >> 20} MB", to=to, remedy="let it print less"
        )
    call.beat()


def end(process: "subprocess.Popen[bytes]") -> None:
    """With all it started. Nothing happens to one that ended by itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait(KILLED_S)


def until(true: Callable[[], bool], call: ControllerCall, problem: ControllerError) -> None:
    """Ask again and again. Raises the problem when time is up."""
    until_s = time.monotonic() + call.deadline_s
    while not true():
        if time.monotonic() >= until_s:
            raise problem
        call.beat()
        time.sleep(POLL_S)


def findable(program: str) -> bool:
    """Whether there is such a program, on PATH or at the path it names."""
    return shutil.which(program) is not None
