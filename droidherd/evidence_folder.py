"""Puts the evidence of a stay together, and keeps it among the task's artifacts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from droidherd import evidence
from droidherd.adb.client import AdbClient
from droidherd.contracts.stage import StageWork
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import DroidherdError
from droidherd.domain.ports import Artifacts
from droidherd.emulator import applog
from droidherd.emulator.reel import Reel
from droidherd.evidence import Evidence, Trail
from droidherd.evidence_page import page
from droidherd.flows.catalogue import Catalogue

PAGE, APP_LOG = "evidence.html", "app.log"


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

    def _put(self, name: str, text: str) -> ArtifactView:
        ref = self.means.artifacts.put(self.work.task_id, name, text.encode("utf-8", "replace"), "")
        return ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type)

    def _app_log(self, error: DroidherdError, serial: str, notes: list[str]) -> str:
        if not self.work.app or not evidence.worth_asking(error):
            return ""
        return applog.read(self.means.adb, serial, self.work.app, notes.append)

    def _put_together(self, error: DroidherdError, notes: list[str], app_log: str) -> Evidence:
        trail, offset_s = self.trail, time.time() - time.monotonic()
        shots = self.means.reel.last(self.work.emulator_id, evidence.FRAMES, trail.began_s)
        shown = evidence.annotated(trail, offset_s)
        sought = tuple(trail.sought)
        return Evidence(
            title=f"{self.work.task_id}: {type(error).__name__}",
            facts=self._facts(offset_s),
            error=f"{error.to}: {error.what}" if error.to else error.what,
            remedy=error.remedy,
            step=evidence.step_of(error, trail),
            annotated=shown,
            templates=evidence.templates(shown.sought if shown else (), self._image),
            pictures=evidence.pictures(shots, trail, offset_s),
            sought=sought,
            sought_at=tuple(one.at_s + offset_s for one in sought),
            log=tuple(notes),
            app_log=app_log,
        )

    def _facts(self, offset_s: float) -> tuple[tuple[str, str], ...]:
        work = self.work
        ended = datetime.fromtimestamp(time.monotonic() + offset_s, UTC)
        return (
            ("task", work.task_id),
            ("type", work.task_type),
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
