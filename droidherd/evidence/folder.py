"""Puts the evidence of an attempt together, and keeps it among the task's artifacts."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.quote import quote
from droidherd.contracts.stage import StageWork
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import (
    AbandonedError,
    About,
    DroidherdError,
    FencedError,
    InfrastructureError,
    InvalidFrameError,
    LateError,
    LockedRecordError,
    NeedsPersonError,
    NotReleasedError,
    StillBusyError,
)
from droidherd.domain.ports import Recalled
from droidherd.domain.text import visible
from droidherd.evidence.frame_buffer import PER_EMULATOR, BufferedFrame
from droidherd.evidence.page import Evidence, EvidenceFrame, page
from droidherd.evidence.recording import COMPLETED, PACKED, PackedRecordingWriter, RecordedPart
from droidherd.evidence.replay import AvailableFrames, mask_texts, pack
from droidherd.evidence.trace import FRAMES_BYTES, Search, Trace
from droidherd.stage.context import StageServices, effect_answers, planned_flow, screen_answers, task_answers
from droidherd.vision.pixels import encode_jpeg

PAGE, APP_LOG = "evidence.html", "app.log"
FRAMES = 8
QUALITY = 92
TEMPLATE_BYTES = 512_000
LOG_READ_S = 5.0
LOG_READ_LINES = 2_000
LINE_CHARS = 8_000
LOG_KEPT_LINES = 400
LOG_KEPT_CHARS = 64_000
CLOCK_S = 1.0
"""The emulator says its time in whole seconds."""
_PIDS, _NOW = "droidherd-pids", "droidherd-now"
_BORN_OR_DIED = r"Start proc (\d+):{app}[/:]|Process {app} \(pid (\d+)\) has died|Process: {app}, PID: (\d+)"
"""How the system, and an app that crashes, name its process: one that is gone is in no list of processes."""
SILENT = (FencedError, AbandonedError, LateError, LockedRecordError, NotReleasedError, StillBusyError)
"""Ends that say nothing of what is on the screen: the emulator is somebody else's, or its turn never came."""
_IMAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\.png")
_STEP = re.compile(r"^step (\S+)")
NO_FLOW = "it ended because of its emulator, which a replay does not have: {}"
HANDLER = "its handler {} did not come to its end, and what a handler sees and does is not recorded"
UNKNOWN = "it ended because nobody could tell whether an act had happened, and a replay knows: {}"


@dataclass(frozen=True, slots=True)
class EvidenceFolder:
    """Of one attempt."""

    services: StageServices
    work: StageWork
    trace: Trace
    masked: Callable[[str], str]

    def keep(self, error: DroidherdError, log: Sequence[str], serial: str, prefix: str) -> tuple[ArtifactView, ...]:
        """The page and the app's log. `log` is what the attempt noted; names begin with `prefix`."""
        notes: list[str] = [*log]
        app_log = self._app_log(error, serial, notes)
        stage = self.work.stage.name if self.work.stage else "cleanup"
        files = {f"{prefix}{stage}.{PAGE}": page(self._put_together(error, notes, app_log), self.masked)}
        if app_log:
            files[f"{prefix}{stage}.{APP_LOG}"] = visible(self.masked(app_log))
        return tuple(self._put(name, text) for name, text in files.items())

    def record(self, error: DroidherdError | None, prefix: str) -> ArtifactView:
        """What the stage saw and did, for `droidherd flow replay`."""
        work, trace = self.work, self.trace
        stage = work.stage.name if work.stage else ""
        refused = refusal(trace, error)
        part = RecordedPart(
            stage, confirmed=effect_answers(work), lease=work.lease, rounds=work.rounds, refused=refused
        )
        shots = self.services.frame_buffer.last(work.emulator_id, PER_EMULATOR, trace.began_s)
        params = {name: mask_texts(value, self.masked) for name, value in work.params.items()}
        standing = screen_answers(work)
        writer = PackedRecordingWriter()
        writer.begin(work.flow, params, work.flow_hash)
        for step, choice in {**task_answers(work), **standing}.items():
            writer.where = stage
            writer.answer(step, self.masked(choice))
        trace.behind.update(dict.fromkeys(standing, Recalled.DONE))
        pack(AvailableFrames(shots, trace), part, writer, self.masked)
        writer.end(self.masked(str(error)) if error else COMPLETED)
        return self._keep(f"{prefix}{stage}{PACKED}", writer.content())

    def _put(self, name: str, text: str) -> ArtifactView:
        return self._keep(name, text.encode("utf-8", "replace"))

    def _keep(self, name: str, content: bytes) -> ArtifactView:
        ref = self.services.artifacts.put(self.work.task_id, name, content, "")
        return ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type)

    def _app_log(self, error: DroidherdError, serial: str, notes: list[str]) -> str:
        if not self.work.app or not worth_asking(error):
            return ""
        lasts_s = time.monotonic() - self.trace.began_s
        return read_app_log(self.services.adb, serial, AppLog(self.work.app, lasts_s), notes.append)

    def _put_together(self, error: DroidherdError, notes: list[str], app_log: str) -> Evidence:
        trace, offset_s = self.trace, time.time() - time.monotonic()
        shots = self.services.frame_buffer.last(self.work.emulator_id, FRAMES, trace.began_s)
        shown = annotate(trace, offset_s)
        return Evidence(
            title=f"{self.services.trial or self.work.task_id}: {type(error).__name__}",
            facts=self._facts(offset_s),
            error=f"{error.to}: {error.what}" if error.to else error.what,
            remedy=error.remedy,
            step=step_of(error, trace),
            annotated=shown,
            templates=templates(shown.searches if shown else (), self._image),
            pictures=frames_of(shots, trace, offset_s),
            rows=tuple(trace.rows),
            offset_s=offset_s,
            log=tuple(notes),
            app_log=app_log,
        )

    def _facts(self, offset_s: float) -> tuple[tuple[str, str], ...]:
        work = self.work
        ended = datetime.fromtimestamp(time.monotonic() + offset_s, UTC)
        return (
            *((("flow", work.flow),) if self.services.trial else (("task", work.task_id), ("type", work.task_type))),
            ("account", work.account),
            ("attempt", str(work.key.attempt)),
            ("stage", f"{work.stage.name} (number {work.stage_index})" if work.stage else "cleanup"),
            ("emulator", work.emulator_id),
            ("lease", f"{work.lease}.{work.stage_index}.{work.tries}"),
            ("app", work.app),
            ("ended", ended.isoformat(timespec="milliseconds")),
        )

    def _image(self, name: str) -> bytes:
        return self.services.catalogue.asset(planned_flow(self.work), name)[0].read_bytes()


def refusal(trace: Trace, error: DroidherdError | None) -> str:
    """Why it cannot come about again without the emulator it came about on; empty: it can."""
    if isinstance(error, InfrastructureError):
        return NO_FLOW.format(error)
    if trace.handler:
        return HANDLER.format(trace.handler)
    return UNKNOWN.format(error) if doubts(error) else ""


def doubts(error: DroidherdError | None) -> bool:
    """Whether a person is asked about an act whose outcome nobody knows."""
    return isinstance(error, NeedsPersonError) and error.asks.about is About.EFFECT


def worth_keeping(error: DroidherdError) -> bool:
    return not isinstance(error, SILENT)


def worth_asking(error: DroidherdError) -> bool:
    """Whether the emulator can be expected to answer a question about its log."""
    return not isinstance(error, InfrastructureError) or isinstance(error, InvalidFrameError)


def step_of(error: DroidherdError, trace: Trace) -> str:
    """The path of the step where it ended."""
    named = _STEP.match(error.to)
    return named[1].rstrip(":,") if named else trace.path


def annotate(trace: Trace, offset_s: float) -> EvidenceFrame | None:
    """The frame that was searched last, with all that was searched on it. `offset_s`: to the calendar's clock."""
    frame = trace.last
    if frame is None:
        return None
    here = tuple(one for one in trace.searches if one.at_s == frame.taken_at_s)
    content = encode_jpeg(frame, QUALITY)
    return EvidenceFrame(frame.taken_at_s + offset_s, frame.width, frame.height, content, here)


def frames_of(shots: tuple[BufferedFrame, ...], trace: Trace, offset_s: float) -> tuple[EvidenceFrame, ...]:
    """The last frames of this attempt, within a limit, oldest first."""
    kept: list[EvidenceFrame] = []
    left = FRAMES_BYTES
    for shot in reversed(shots):
        left -= len(shot.content)
        if left < 0:
            break
        on_it = tuple(one for one in trace.searches if shot.taken_at_s <= one.at_s <= shot.last_at_s)
        kept.append(EvidenceFrame(shot.taken_at_s + offset_s, shot.width, shot.height, shot.content, on_it))
    return tuple(reversed(kept))


def templates(searches: tuple[Search, ...], read: Callable[[str], bytes]) -> dict[str, bytes]:
    """The flow's images among what was searched, by name. `read` raises DroidherdError for what is no image of it."""
    found: dict[str, bytes] = {}
    for name in dict.fromkeys(name for one in searches for name in _IMAGE.findall(one.what)):
        try:
            content = read(name)
        except (DroidherdError, OSError):
            continue
        if len(content) <= TEMPLATE_BYTES:
            found[name] = content
    return found


@dataclass(frozen=True, slots=True)
class AppLog:
    """Whose lines are wanted, and of how long a time."""

    app: str
    lasts_s: float
    """How long the attempt lasts by now: what the emulator logged before is another one's."""


def read_app_log(adb: AdbClient, serial: str, wanted: AppLog, note: Callable[[str], None]) -> str:
    """The app's last lines. A log that cannot be read is an empty one, and `note` is told why."""
    now = f"echo {_NOW} $(date '+%Y-%m-%d %H:%M:%S')"
    line = f"{now}; echo {_PIDS} $(pidof {quote(wanted.app)}); logcat -d -v threadtime -t {LOG_READ_LINES}"
    try:
        text = adb.shell(serial, line, LOG_READ_S).text
    except DroidherdError as error:
        note(f"the app's log was not read: {error}")
        return ""
    return lines_of_app(text, wanted)


def lines_of_app(text: str, wanted: AppLog) -> str:
    """Lines the app's processes wrote, also those that died, and lines in which the system speaks of it."""
    app = wanted.app
    raw = text.replace("\r\n", "\n").split("\n", 2 * LOG_READ_LINES)
    named = re.compile(_BORN_OR_DIED.format(app=re.escape(app)))
    pids = {parse.number(pid) for line in raw if line.startswith(_PIDS) for pid in line[:LINE_CHARS].split()}
    pids |= {parse.number(pid) for found in named.findall(text) for pid in found if pid}
    parsed = ((line, parse.log_line(line)) for line in raw)
    now = next((parse.log_moment(line.removeprefix(_NOW).strip()) for line in raw if line.startswith(_NOW)), None)
    begin = now - timedelta(seconds=wanted.lasts_s + CLOCK_S) if now else None
    found = [line for line, one in parsed if one and (one.pid in pids or app in line) and _is_after(one.at, begin, now)]
    kept = found[-LOG_KEPT_LINES:]
    while sum(len(line) + 1 for line in kept) > LOG_KEPT_CHARS and len(kept) > 1:
        kept = kept[len(kept) // 4 + 1 :]
    return "".join(f"{line[:LOG_KEPT_CHARS]}\n" for line in kept)


def _is_after(at: str, begin: datetime | None, now: datetime | None) -> bool:
    """A time that makes no sense is no reason to leave a line out."""
    moment = parse.log_moment(at, now)
    return begin is None or moment is None or moment >= begin
