"""Puts the evidence of a stay together, and keeps it among the task's artifacts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from droidherd import answering, evidence
from droidherd.adb.client import AdbClient
from droidherd.contracts.stage import StageWork
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import About, DroidherdError, InfrastructureError, NeedsPersonError
from droidherd.domain.ports import Artifacts, Recalled
from droidherd.emulator import applog
from droidherd.emulator.reel import PER_EMULATOR, Reel
from droidherd.evidence import Evidence, Trail
from droidherd.evidence_page import page
from droidherd.flows.catalogue import Catalogue
from droidherd.ribbon import Ribbon, Screens, hidden, packed
from droidherd.tapes.recording import COMPLETED, PACKED, Part
from droidherd.tapes.tape import PackedTape

PAGE, APP_LOG = "evidence.html", "app.log"
NO_FLOW = "it ended because of its emulator, which a replay does not have: {}"
HANDLER = "its handler {} did not come to its end, and what a handler sees and does is not recorded"
UNKNOWN = "it ended because nobody could tell whether an act had happened, and a replay knows: {}"


class Means(Protocol):
    """What of a worker's outfit is needed."""

    @property
    def adb(self) -> AdbClient: ...
    @property
    def catalogue(self) -> Catalogue: ...
    @property
    def artifacts(self) -> Artifacts: ...
    @property
    def reel(self) -> Reel: ...
    @property
    def trial(self) -> str: ...


@dataclass(frozen=True, slots=True)
class EvidenceFolder:
    """Of one stay."""

    means: Means
    work: StageWork
    trail: Trail
    masked: Callable[[str], str]

    def keep(self, error: DroidherdError, log: Sequence[str], serial: str, prefix: str) -> tuple[ArtifactView, ...]:
        """The page and the app's log. `log` is what the stay noted; names begin with `prefix`."""
        notes: list[str] = [*log]
        app_log = self._app_log(error, serial, notes)
        stage = self.work.stage.name if self.work.stage else "cleanup"
        files = {f"{prefix}{stage}.{PAGE}": page(self._put_together(error, notes, app_log), self.masked)}
        if app_log:
            files[f"{prefix}{stage}.{APP_LOG}"] = self.masked(app_log)
        return tuple(self._put(name, text) for name, text in files.items())

    def record(self, ribbon: Ribbon, error: DroidherdError | None, prefix: str) -> ArtifactView:
        """What the stage saw and did, for `droidherd flow replay`."""
        work, stage = self.work, self.work.stage.name if self.work.stage else ""
        part = Part(
            stage,
            told=answering.told(work),
            lease=work.lease,
            rounds=work.rounds,
            refused=refusal(ribbon, error),
        )
        shots = self.means.reel.last(work.emulator_id, PER_EMULATOR, self.trail.began_s)
        params = {name: hidden(value, self.masked) for name, value in work.params.items()}
        standing = answering.standing(work)
        tape = PackedTape()
        tape.begin(work.flow, params, work.flow_hash)
        for step, choice in {**answering.chosen(work), **standing}.items():
            tape.where = stage
            tape.answer(step, self.masked(choice))
        ribbon.behind.update(dict.fromkeys(standing, Recalled.DONE))
        packed(ribbon, Screens(shots, self.trail), part, tape, self.masked)
        tape.end(self.masked(str(error)) if error else COMPLETED)
        return self._kept(f"{prefix}{stage}{PACKED}", tape.content())

    def _put(self, name: str, text: str) -> ArtifactView:
        return self._kept(name, text.encode("utf-8", "replace"))

    def _kept(self, name: str, content: bytes) -> ArtifactView:
        ref = self.means.artifacts.put(self.work.task_id, name, content, "")
        return ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type)

    def _app_log(self, error: DroidherdError, serial: str, notes: list[str]) -> str:
        if not self.work.app or not evidence.worth_asking(error):
            return ""
        return applog.read(self.means.adb, serial, self.work.app, notes.append)

    def _put_together(self, error: DroidherdError, notes: list[str], app_log: str) -> Evidence:
        trail, offset_s = self.trail, time.time() - time.monotonic()
        shots = self.means.reel.last(self.work.emulator_id, evidence.FRAMES, trail.began_s)
        shown = evidence.annotated(trail, offset_s)
        return Evidence(
            title=f"{self.means.trial or self.work.task_id}: {type(error).__name__}",
            facts=self._facts(offset_s),
            error=f"{error.to}: {error.what}" if error.to else error.what,
            remedy=error.remedy,
            step=evidence.step_of(error, trail),
            annotated=shown,
            templates=evidence.templates(shown.sought if shown else (), self._image),
            pictures=evidence.pictures(shots, trail, offset_s),
            rows=tuple(trail.rows),
            offset_s=offset_s,
            log=tuple(notes),
            app_log=app_log,
        )

    def _facts(self, offset_s: float) -> tuple[tuple[str, str], ...]:
        work = self.work
        ended = datetime.fromtimestamp(time.monotonic() + offset_s, UTC)
        return (
            *((("flow", work.flow),) if self.means.trial else (("task", work.task_id), ("type", work.task_type))),
            ("account", work.account),
            ("attempt", str(work.key.attempt)),
            ("stage", f"{work.stage.name} (number {work.stage_index})" if work.stage else "cleanup"),
            ("emulator", work.emulator_id),
            ("lease", f"{work.lease}.{work.stage_index}.{work.tries}"),
            ("app", work.app),
            ("ended", ended.isoformat(timespec="milliseconds")),
        )

    def _image(self, name: str) -> bytes:
        return self.means.catalogue.asset(self.work.flow, self.work.flow_hash, name).read_bytes()


def refusal(ribbon: Ribbon, error: DroidherdError | None) -> str:
    """Why it cannot come about again without the emulator it came about on; empty: it can."""
    if isinstance(error, InfrastructureError):
        return NO_FLOW.format(error)
    if ribbon.handler:
        return HANDLER.format(ribbon.handler)
    return UNKNOWN.format(error) if doubts(error) else ""


def doubts(error: DroidherdError | None) -> bool:
    """Whether a person is asked about an act whose outcome nobody knows."""
    return isinstance(error, NeedsPersonError) and error.asks.about is About.EFFECT
