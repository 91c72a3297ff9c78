"""`droidherd flow record` and `replay`."""

import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from droidherd.cli import output
from droidherd.cli.commands import flow_runs
from droidherd.cli.commands.flow_runs import FlowRunOptions
from droidherd.cli.errors import CliError
from droidherd.cli.local.reach import reach
from droidherd.evidence import recording
from droidherd.evidence.recording import RecordingWriter
from droidherd.flows.lint.judge import judge
from droidherd.flows.lint.problems import LintProblem, errors_of
from droidherd.flows.loading.folder import FILE
from droidherd.flowtools import manual_session, new, replay
from droidherd.flowtools.composing import Composed, compose
from droidherd.flowtools.page import CANCELLED, PageServer, RecorderPage
from droidherd.flowtools.recorder import RecordedAction, Recorder
from droidherd.flowtools.replay import Difference, FlowReplay
from droidherd.settings import Settings

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What `record` was told."""

    name: str
    root: Path
    app: str = ""
    fresh: bool = False
    emulator: str = ""
    virtual: bool = False
    browser: bool = True


@dataclass(frozen=True, slots=True)
class RecordedFlow:
    """A flow that a person recorded, and what became of its first test."""

    file: Path
    folder: Path
    """Of the recording."""
    notes: tuple[str, ...]
    problems: tuple[LintProblem, ...]
    differences: tuple[Difference, ...]

    @property
    def good(self) -> bool:
        return not self.problems and not self.differences


def record(settings: Settings, session: RecordOptions) -> RecordedFlow:
    """Serve the page until the person is finished; then make the flow, judge it and replay it."""
    new.check_name(session.name)
    if session.app:
        new.check_app(session.app)
    file = session.root / session.name / FILE
    if file.exists():
        raise CliError(f"{file} is there already", remedy="choose another name, or remove it")
    if session.fresh and not session.app:
        raise CliError("--fresh needs to know whose data to take away", remedy="add --app", code=2)
    folder = flow_runs.new_folder(settings.data / "runs", session.name)
    tape = RecordingWriter(folder)
    tape.begin(session.name, {}, by_person=True)
    with reach(settings, session.emulator, virtual=session.virtual) as reached:
        taken = manual_session.take(reached.adb, reached.entry.emulator_id, reached.address, reached.entry.serialno)
        recorder = Recorder(reached.adb, reached.address, taken, tape)
        _open_app(recorder, session)
        _person(RecorderPage(recorder), browser=session.browser)
    tape.end(recording.COMPLETED)
    return write_flow(session, compose(session.name, recorder.episodes, session.app), file, folder)


def _open_app(recorder: Recorder, session: RecordOptions) -> None:
    """A flow of one app begins with that app, and always in the same state."""
    if session.app:
        recorder.do(RecordedAction(kind="clear_app" if session.fresh else "stop_app", app=session.app))
        recorder.do(RecordedAction(kind="start_app", app=session.app))


def _person(page: RecorderPage, *, browser: bool) -> None:
    server = PageServer(page)
    end = server.run()
    try:
        output.out.print(f"recording: open {server.address}", markup=False, soft_wrap=True)
        if browser:
            webbrowser.open(server.address)
        while not page.over.wait(POLL_S):
            pass  # Ctrl-C gets through between two waits
    finally:
        end()
    if page.how == CANCELLED:
        raise CliError("the recording was cancelled; nothing was written")
    if not page.recorder.episodes:
        raise CliError("nothing was done, so there is no flow")


def write_flow(session: RecordOptions, composed: Composed, file: Path, folder: Path) -> RecordedFlow:
    """Written, judged as `flow lint` judges, and replayed against its recording."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new.lay_schema(session.root)
    for name, content in composed.images.items():
        (file.parent / name).write_bytes(content)
    file.write_text(composed.text, encoding="utf-8")
    problems = judge(file.parent)
    differences = () if errors_of(problems) else replay.replay(folder, file.parent).differences
    return RecordedFlow(file, folder, composed.notes, tuple(problems), differences)


def show(done: RecordedFlow) -> None:
    output.out.print(f"{done.file}  recording: {done.folder}", markup=False)
    for line in (*done.notes, *map(str, done.problems), *map(str, done.differences)):
        output.out.print(f"  {line}", markup=False)
    if done.good:
        output.out.print("it lints clean and replays as recorded")
    output.out.print(f"next: droidherd flow run {done.file.parent} --virtual", markup=False)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What `replay` was told."""

    folder: Path
    flow: str = ""
    virtual: bool = False
    emulator: str = ""
    as_json: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)


def replay_recording(settings: Settings, again: ReplayOptions) -> FlowReplay:
    """Against the recorded frames; or on an emulator, whose acts are then held against the recorded ones."""
    recorded = recording.read(_place(settings, again.folder))
    name = again.flow or recorded.flow
    if not again.flow and name not in flow_runs.found(settings, name)[0].names():
        raise CliError(f"there is no flow {name!r} here", remedy="say where it is with --flow PATH")
    if not again.virtual and not again.emulator:
        catalogue, found = flow_runs.found(settings, name)
        return replay.replay(recorded, catalogue=catalogue, name=found)
    part = recorded.part
    if part is not None and (part.behind or part.refused):
        why = part.refused or f"it begins at {part.where}, and no emulator can be brought there"
        raise CliError(f"{again.folder}: {why}", remedy="replay it without --virtual and --emulator")
    params, account = dict(recorded.params), replay.account_of(recorded)
    answers = tuple(recorded.answers.values())
    where = (again.emulator, again.virtual, None, again.as_json, answers)
    choices = FlowRunOptions(name, params, again.secrets, account, *where)
    done = flow_runs.run(settings, choices)
    differences = replay.compare(recorded, recording.read(done.folder))
    return FlowReplay(differences, 0 if differences else len(recorded.acts()), done.run.log)


def _place(settings: Settings, folder: Path) -> Path:
    """As it is named; or what the task of this id left in the store of this machine."""
    kept = settings.artifact_directory / folder
    return kept if not folder.exists() and folder.name == str(folder) and kept.is_dir() else folder


def tell(done: FlowReplay) -> None:
    for line in (*done.notes, *map(str, done.differences)):
        output.out.print(line, markup=False, soft_wrap=True)
    if done.notes:
        end = "and it ends at the same place" if done.same else "before that"
        output.out.print(f"acts as recorded: {done.acts}, {end}")
    elif done.same:
        output.out.print("as recorded")
