"""`droidherd flow run`: one attempt on one emulator, in this process, with all it says."""

import os
import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import JsonValue
from rich.markup import escape

from droidherd.artifacts.store import DirectoryStore
from droidherd.cli import output
from droidherd.cli.errors import CliError
from droidherd.cli.junit import JunitCase
from droidherd.cli.local.reach import ReachedEmulator, reach
from droidherd.domain.errors import NeedsPersonError
from droidherd.emulator.inventory import Inventory
from droidherd.evidence.folder import PAGE
from droidherd.evidence.recording import RecordingWriter
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular
from droidherd.flows.catalogue import Catalogue, catalogue_of
from droidherd.flows.lint.problems import LintProblem
from droidherd.flows.loading.folder import FILE, misnamed_files
from droidherd.flowtools import manual_session
from droidherd.flowtools.records import credential_store
from droidherd.flowtools.rehearsal import FlowRun, RunOptions, record_run
from droidherd.settings import Settings
from droidherd.stage.context import StageServices
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient

EVIDENCE = "evidence"
TRIES = 100


@dataclass(frozen=True, slots=True)
class FlowRunOptions:
    """What the command was told."""

    flow: str
    params: Mapping[str, JsonValue]
    secrets: Mapping[str, str]
    account: str = ""
    """For whom it acts, if its flow acts for one."""
    emulator: str = ""
    virtual: bool = False
    keep: Path | None = None
    as_json: bool = False
    answers: tuple[str, ...] = ()
    """To its questions, in their order."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run and where what it left is."""

    run: FlowRun
    folder: Path
    emulator: str
    flow_hash: str
    warnings: tuple[LintProblem, ...] = ()
    """What is odd about its flow."""
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        error = self.run.error
        return {
            "completed": self.completed,
            "emulator": self.emulator,
            "flow_hash": self.flow_hash,
            "error": str(error) if error else "",
            "kind": type(error).__name__ if error else "",
            "stopped": self.run.stopped,
            "clean": self.run.clean,
            "steps": list(self.run.steps),
            "frames": sorted(self.run.frames),
            "folder": str(self.folder),
            "page": str(self.page or ""),
        }

    @property
    def page(self) -> Path | None:
        """That of its end, if it ended badly and left one."""
        pages = [] if self.completed else [*(self.folder / EVIDENCE).glob(f"*.{PAGE}")]
        return max(pages, key=lambda path: path.stat().st_mtime_ns, default=None)

    @property
    def completed(self) -> bool:
        return self.run.error is None and not self.run.stopped


def found(settings: Settings, flow: str) -> tuple[Catalogue, str]:
    """The catalogue that has this flow, by its folder, its file or its name; its name."""
    path = Path(flow)
    folder = path.parent if path.name == FILE else path
    if (folder / FILE).is_file():
        whole = folder.resolve()
        allow = AllowList.of(settings.web.allow)
        paths = (whole.parent, *settings.flows.paths)
        return Catalogue(paths, settings.policies, may_ask=allow.check), whole.name
    if os.sep in flow or path.suffix:
        others = misnamed_files(path)
        remedy = f"rename {others[0]} to {FILE}" if others else f"a flow is a folder with a {FILE}"
        raise CliError(f"{flow}: no flow here", remedy=remedy, code=2)
    return catalogue_of(settings), flow


def run(settings: Settings, choices: FlowRunOptions) -> FinishedRun:
    """Nothing of it is durable; a task that is granted the emulator meanwhile takes it over."""
    keep = choices.keep
    if keep is not None and keep.is_dir() and any(keep.iterdir()):
        # Frames and evidence of two runs would be mixed, and what a person put there is not ours to remove.
        raise CliError(
            f"{keep}: something is in it already", remedy="name a folder that is empty, or not there", code=2
        )
    catalogue, name = found(settings, choices.flow)
    plan = catalogue.plan(name, choices.params, account=choices.account)
    warnings = catalogue.warnings(name)
    speech = _Speech(as_json=choices.as_json)
    speech.warns(warnings)
    with (
        reach(settings, choices.emulator, virtual=choices.virtual) as reached,
        WebClient(AllowList.of(settings.web.allow)) as web,
        stoppable() as stopping,
    ):
        speech.begins(name, reached)
        folder = keep or new_folder(settings.data / "runs", name)
        services = StageServices(
            reached.adb,
            Inventory(reached.home),
            catalogue,
            DirectoryStore(folder),
            "droidherd flow run",
            credential_store(choices.secrets, choices.account),
            web,
            reached.home / "scratch",
            on_line=speech.hears,
        )
        taken = manual_session.take(reached.adb, reached.entry.emulator_id, reached.address, reached.entry.serialno)
        asked = _Person([*choices.answers], asks=not choices.as_json and sys.stdin.isatty()).answers
        manner = RunOptions(EVIDENCE, choices.account, stopping, asked=asked)
        began_s = time.monotonic()
        done = record_run(plan, services, taken, manner, RecordingWriter(folder))
        seconds = time.monotonic() - began_s
        return FinishedRun(done, folder, reached.entry.emulator_id, plan.flow_hash, warnings, seconds)


def show(done: FinishedRun) -> None:
    run = done.run
    if done.completed:
        output.out.print("[green]completed[/green]", "" if run.clean else "(but its cleanup failed)")
    elif run.stopped:
        output.out.print(f"stopped: {run.stopped}", markup=False)
    else:
        output.out.print(f"[red]failed[/red] {type(run.error).__name__}: {escape(str(run.error))}")
    if done.page:
        where = f"open in a browser: {done.page}  (what was searched for, and what was there)"
        output.out.print(where, markup=False, soft_wrap=True)
    left = "(frames, log, and the recording for `droidherd flow replay`)"
    output.out.print(f"evidence: {done.folder}  {left}", markup=False)


def junit_case(flow: str, done: FinishedRun) -> JunitCase:
    run, why = done.run, ""
    if not done.completed:
        why = str(run.error) if run.error else f"stopped: {run.stopped}"
    evidence = f"evidence: {done.page or done.folder}"
    kind = type(run.error).__name__ if run.error else "stopped"
    return JunitCase(
        Path(flow).name, "flow", done.seconds, why, kind if why else "", f"{why}\n{evidence}", "\n".join(run.log)
    )


def new_folder(root: Path, name: str) -> Path:
    """Of one run: by its flow and the second it began in."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, TRIES):
        folder = root / (f"{name}-{stamp}" if number == 1 else f"{name}-{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise CliError(f"{root} has {TRIES} runs of this second", remedy="say where with --keep")


@contextmanager
def stoppable() -> Generator[Any]:
    """Ctrl-C stops at the next step boundary and cleans up; the second one ends everything at once."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: "Ctrl-C" if asked else ""
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class _Person:
    """Who answers what a flow asks: first what was given beforehand, then whoever sits at the terminal."""

    beforehand: list[str]
    asks: bool

    def answers(self, question: NeedsPersonError) -> str:
        choices = question.asks.choices
        while self.beforehand or self.asks:
            if not self.beforehand:
                output.err.print(f"{question.what}  [{', '.join(choices)}] ", markup=False, end="")
            choice = self.beforehand.pop(0) if self.beforehand else sys.stdin.readline().strip()
            if choice in choices:
                return choice
            if not choice:
                break
            output.err.print(f"{choice!r} is none of: {', '.join(choices)}", markup=False)
        question.remedy = question.remedy or f"answer with --answer: {', '.join(choices)}"
        return ""


@dataclass(slots=True)
class _Speech:
    """Says what goes on, on standard error: standard output is for the result."""

    as_json: bool
    began_s: float = 0.0

    def warns(self, warnings: Sequence[LintProblem]) -> None:
        if not self.as_json:
            for one in warnings:
                output.err.print(str(one), markup=False, highlight=False)

    def begins(self, name: str, reached: ReachedEmulator) -> None:
        self.began_s = time.monotonic()
        if not self.as_json:
            where = f"{reached.entry.emulator_id} at {reached.address}"
            output.err.print(f"{name} on {where}. Nothing of this is durable; Ctrl-C stops it in order.", markup=False)

    def hears(self, line: str) -> None:
        if not self.as_json:
            output.err.print(f"{time.monotonic() - self.began_s:6.1f} s  {line}", markup=False, highlight=False)


def secrets_of(given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """`name=env:VARIABLE` or `name=file:/path`: never the secret itself, which a list of processes would show."""
    found: dict[str, str] = {}
    for name, reference in given:
        scheme, _, place = reference.partition(":")
        if scheme == "env" and place in os.environ:
            found[name] = os.environ[place]
        elif scheme == "file" and Path(place).exists():
            found[name] = _secret_in(name, Path(place))
        else:
            raise CliError(f"--secret {name}: nothing is at {reference!r}", remedy="write name=env:VARIABLE", code=2)
    return found


def _secret_in(name: str, file: Path) -> str:
    try:
        return read_regular(file, TEXT_BYTES_MAX).decode().rstrip("\r\n")
    except OSError as error:
        raise CliError(f"--secret {name}: {file} cannot be read: {error.strerror}", code=2) from error
    except UnicodeDecodeError as error:
        raise CliError(f"--secret {name}: {file} is not UTF-8", code=2) from error
