"""One stay of a task on an emulator: seize, run a stage, clean up, let go. Ties flows, hands, eyes and artifacts."""

import json
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from droidherd import answering, evidence, telemetry
from droidherd.adb.client import AdbClient
from droidherd.adb.files import Files
from droidherd.adb.wire import Interrupt
from droidherd.artifacts.names import Taken
from droidherd.artifacts.writer import Writer
from droidherd.contracts.changes import Change, Value
from droidherd.contracts.plan import Lives
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.contracts.tasks import ArtifactView
from droidherd.credentials import Keeper, Vault
from droidherd.domain.errors import (
    DroidherdError,
    FencedError,
    FinalError,
    InfrastructureError,
    NeedsPersonError,
    UnclassifiedError,
    UnknownOutcomeError,
    WriterBusyError,
)
from droidherd.domain.ports import Artifacts, Frame, Lifeline
from droidherd.domain.things import State
from droidherd.emulator import lease
from droidherd.emulator.acts import NOTHING
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.eyes import EmulatorEyes, View
from droidherd.emulator.hands import EmulatorHands, Grip
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.reel import Reel
from droidherd.emulator.things import EmulatorThings
from droidherd.emulator.token import Token
from droidherd.evidence import Trail
from droidherd.evidence_folder import EvidenceFolder, doubts
from droidherd.flows import interpreter
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.chart import bearings
from droidherd.flows.run import Clock, Finder, StageRun, Tempo
from droidherd.flows.sight import FlowFinder
from droidherd.handlers.base import Web
from droidherd.handling import InventoryLabels, StayHandlers
from droidherd.ribbon import Ribbon
from droidherd.tapes.taping import taped
from droidherd.vision.pixels import encode_jpeg, encode_png

Recordings: TypeAlias = Literal["never", "failed", "always"]
TRACE_LINES = 30
"""Of what nobody foresaw: the end of its trace."""
FRESH_S = 1.0
"""A confirmation older than this is renewed before an act."""


class ConfirmedLifeline(Lifeline, Protocol):
    """A lifeline that knows when the engine last confirmed it."""

    def leaving(self) -> bool:
        """Whether the worker ends soon: nothing that follows will be run by it."""
        ...

    def confirmed_s(self) -> float:
        """On the host's monotonic clock: before the last confirmed beat was sent."""
        ...

    def send(self, progress: str = "") -> Callable[[], None]:
        """Post a beat; what is returned waits for its confirmation."""
        ...


class HostClock:
    """The host's own clock, as flows want it."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def date(self) -> datetime:
        return datetime.now(UTC)


def _unheard(_: str) -> None:
    pass


def _as_it_is(run: StageRun, _: Callable[[str], str]) -> StageRun:
    return run


@dataclass(frozen=True, slots=True)
class Outfit:
    """What a worker has at hand for every stay."""

    adb: AdbClient
    inventory: Inventory
    catalogue: Catalogue
    artifacts: Artifacts
    worker: str
    keeper: Keeper
    web: Web
    """Whom handlers may ask."""
    scratch: Path
    """A folder for what is on its way through this host."""
    tempo: Tempo = field(default_factory=Tempo)
    clock: Clock = field(default_factory=HostClock)
    """By which stages know what time is left to them."""
    writer: Writer = field(default_factory=Writer)
    """The one of this process."""
    cameras: Cameras | None = None
    """None: raw frames, without a probe."""
    reel: Reel = field(default_factory=lambda: Reel(encode_jpeg))
    heard: Callable[[str], None] = _unheard
    """Told of every line that is noted."""
    fitted: Callable[[StageRun, Callable[[str], str]], StageRun] = _as_it_is
    """Puts something between a stage and its emulator. It is also given what masks a text."""
    recordings: Recordings = "failed"
    """Which stages leave one."""
    trial: str = ""
    """What is run, where it is no task."""


class StayError(Exception):
    """Why a stage did not complete, and how the emulator was left."""

    def __init__(
        self,
        cause: DroidherdError,
        *,
        clean: bool,
        artifacts: tuple[ArtifactView, ...] = (),
        after: tuple[Value, ...] = (),
        mark: str = "",
    ) -> None:
        """`clean`: cleaned up and let go. `after`: what it changes by value, as it left it.

        `mark`: under which the answer to its question is kept.
        """
        super().__init__(str(cause))
        self.cause = cause
        self.mark = mark
        self.clean = clean
        self.artifacts = artifacts
        self.after = after


@dataclass(slots=True)
class Stay:
    """One try of one stage."""

    outfit: Outfit
    work: StageWork
    life: ConfirmedLifeline
    kept: list[ArtifactView] = field(default_factory=list)
    log: list[dict[str, object]] = field(default_factory=list)
    summary: dict[str, JsonValue] = field(default_factory=dict)
    _log: ArtifactView | None = None
    _lines_kept: int = 0
    _seized: lease.Seized | None = None
    _released: bool = False
    _again_at: datetime | None = None
    _finder: Finder | None = None
    _held: bool = False
    _after: tuple[Value, ...] = ()
    _trail: Trail = field(default_factory=Trail)
    _evidence: tuple[ArtifactView, ...] = ()
    _ribbon: Ribbon | None = None
    _taken: Taken = field(default_factory=Taken)
    _vault: Vault = field(init=False)

    def __post_init__(self) -> None:
        self._vault = Vault(self.outfit.keeper, self.work.account)

    def run(self) -> StageReport:
        """To the end of the stage, or to the boundary where it was asked to stop. Raises StayError."""
        with self._vault:
            return self._stay()

    def _stay(self) -> StageReport:
        began_s = time.monotonic()
        with self._explained():
            outcome, clean = self._run()
        return StageReport(
            outcome=outcome,
            worker=self.outfit.worker,
            clean=clean,
            released=self._released,
            seconds=time.monotonic() - began_s,
            artifacts=self._artifacts(),
            again_at=self._again_at,
            after=self._after,
            summary=self.summary,
        )

    def _run(self) -> tuple[StageOutcome, bool]:
        self._seize()
        stopped = ""
        stage = self.work.stage
        if stage is not None:
            self.note(f"stage {stage.name} begins on {self.work.emulator_id} as {self._token()}")
            limited = stage.model_copy(update={"limit_s": self.work.limit_s or stage.limit_s})
            outcome = interpreter.run_stage(limited, self._noted(self._stage_run()))
            stopped, self._again_at = outcome.stopped, outcome.again_at
            for name, count in (("done", outcome.acts), ("again", outcome.again), ("observed", outcome.observed)):
                telemetry.metrics.effects.labels(outcome=name).inc(count)
            self.note(f"stage {stage.name} {'stopped: ' + stopped if stopped else 'completed'}")
            if self.outfit.recordings == "always" and not stopped:
                self._keep_recording(None)
            self._see_after()
        clean = self._leave() if stopped or self.work.last or self.life.leaving() else self._stands()
        return (StageOutcome.STOPPED if stopped else StageOutcome.COMPLETED), clean

    def _seize(self) -> None:
        confirmed = self.life.send("seize")  # seizing needs no guard, so the two go together
        with telemetry.span("seize", emulator=self.work.emulator_id, token=str(self._token())):
            self._seized = lease.seize(
                self.outfit.adb,
                self._serial(),
                self._token(),
                after=self.work.after,
                journal=self._journal(),
                name=self.work.emulator_id,
            )
        confirmed()

    def _stands(self) -> bool:
        """What was seen last was seen here. Frames know no token: an address may lead elsewhere since the last act."""
        self._hands().tidy(NOTHING)
        return True

    @contextmanager
    def _explained(self) -> Generator[None]:
        """After an error, leave the emulator as well as can be, and say how that is."""
        try:
            yield
        except DroidherdError as error:
            self.note(f"{type(error).__name__}: {error}")
            if isinstance(error, UnknownOutcomeError) or doubts(error):
                telemetry.metrics.effects.labels(outcome="unknown").inc()
            raise self._ended(error) from error
        except Exception as error:
            # A bug, of ours or of a handler. Where it is translated, its emulator is out of reach.
            for line in "".join(traceback.format_exception(error)).splitlines()[-TRACE_LINES:]:
                self.note(line)
            bug = UnclassifiedError.of(error)
            bug.what = self._vault.masked(bug.what)
            raise self._ended(bug) from error
        finally:
            self._trail.last = None  # 4 MB, of a stay that is not cleared away at once

    def _ended(self, error: DroidherdError) -> StayError:
        """Keep what it was, then tidy up."""
        self._keep_evidence(error)
        clean = self._tidy_after(error)
        mark = answering.mark_of(self.work, error)
        return StayError(error, clean=clean, artifacts=self._artifacts(), after=self._after, mark=mark)

    # --- things that are changed by value ---------------------------------------------------------------------

    def _see_after(self) -> None:
        """What the stage changes, as it is now; before anybody else may touch it."""
        stage = self.work.stage
        if stage is not None and stage.changes:
            things = self._things(self._hands())
            self._after = tuple(
                value_of(change, things.read(change.thing, change.name)) for change in once(stage.changes)
            )

    # --- leaving ----------------------------------------------------------------------------------------------

    def _leave(self) -> bool:
        """Clean up, and say on the emulator that the lease ended."""
        report = interpreter.run_cleanup(
            self.work.cleanup, self._stage_run(), self.work.physics.cleanup_s, f"c{self._token().attempt_of_stage}."
        )
        if report.clean:
            self._keep_log()  # before the release: once this stage let go, the next one waits for it to return
            lease.release(self.outfit.adb, self._serial(), self._token())
            self._released = True
        return report.clean

    def _tidy_after(self, error: DroidherdError) -> bool:
        """After an error of the task itself the emulator is left in order; after one of the emulator it cannot be.

        Who asks a person and keeps the emulator leaves it as it is: what is asked about is to be seen there.
        """
        if self._seized is None or isinstance(error, InfrastructureError):
            return False
        if isinstance(error, NeedsPersonError) and error.asks.keep:
            return False
        try:
            self._see_after()
            return self._leave()
        except DroidherdError as trouble:
            self.note(f"could not clean up: {trouble}")
            return False

    # --- what the stage may touch -----------------------------------------------------------------------------

    def _stage_run(self) -> StageRun:
        work = self.work
        hands = self._hands()
        eyes = hands.aimed(self._eyes())
        things = self._things(hands)
        standing = answering.standing(work)
        if self._finder is None:
            self._finder = self._new_finder()
        run = StageRun(
            hands=hands,
            eyes=eyes,
            life=self.life,
            clock=self.outfit.clock,
            finder=self._finder,
            keep=self._keep,
            note=self.note,
            secret=self._vault.reveal,
            tempo=self.outfit.tempo,
            things=things,
            payload=self._payload,
            handlers=StayHandlers(
                registry=self.outfit.catalogue.handlers,
                task=(self.work.task_id, self.work.account),
                hands=hands,
                things=things,
                eyes=eyes,
                labels=InventoryLabels(self.outfit.inventory, self.work.emulator_id),
                web=self.outfit.web,
                scratch=self.outfit.scratch,
                writer=self.outfit.writer,
                before=self._before_values(),
                keep=self._keep_file,
                note=self.note,
                summarize=self.summary.update,
            ),
            told=answering.told(work),
            answers={**answering.chosen(work), **standing},
            standing=frozenset(standing),
            rounds=work.rounds,
            bearings=bearings(work.chart),
            lease=work.lease,
            seen=self._trail.seen,
        )
        return self.outfit.fitted(run, self._vault.masked)

    def _noted(self, run: StageRun) -> StageRun:
        """What it sees and does is noted; secrets go out of it when, and if, it is kept."""
        if self.outfit.recordings == "never":
            return run
        self._ribbon = Ribbon()
        return taped(self._ribbon)(run, str)

    def _eyes(self) -> EmulatorEyes:
        emulator, cameras, reel = self.work.emulator_id, self.outfit.cameras, self.outfit.reel
        take = partial(cameras.take, emulator) if cameras else self.outfit.adb.capture
        looking = Interrupt(pulse=lambda: self.life.beat("looking"))  # the elements of a screen may take long
        return EmulatorEyes(
            self.outfit.adb, self._serial(), interrupt=looking, view=View(take, partial(reel.add, emulator))
        )

    def _before_values(self) -> Mapping[tuple[str, str], State]:
        """For those who undo."""
        return {}

    def _payload(self, name: str) -> Path:
        return self.outfit.catalogue.payload(self.work.flow, self.work.flow_hash, name)

    def _new_finder(self) -> Finder:
        return FlowFinder(self.outfit.catalogue, self.work.flow, self.work.flow_hash)

    def _hands(self) -> EmulatorHands:
        fresh = not self._held and self._seized is not None and self._seized.journal_is_new
        self._held = True  # the journal is new to the first hands alone
        grip = Grip(self._serial(), self._journal(), self._token(), self.work.stage_index, fresh)
        alive = Interrupt(pulse=lambda: self.life.beat("at work"))
        return EmulatorHands(self.outfit.adb, grip, self._deadline_uptime, interrupt=alive)

    def _things(self, hands: EmulatorHands) -> EmulatorThings:
        files = Files(self.outfit.adb, self._serial())
        return EmulatorThings(hands, files, self._token(), lambda: self.life.beat("on its way"))

    def _deadline_uptime(self) -> int:
        """Until when acts are allowed: so long after the last beat the engine confirmed."""
        if self._seized is None:
            raise FencedError("nothing was seized", to=self.work.emulator_id)
        if time.monotonic() - self.life.confirmed_s() > FRESH_S:
            self.life.beat("act")
        return self._seized.clock.deadline(self.life.confirmed_s() + self.work.physics.lease_ttl_s)

    def _journal(self) -> str:
        """Effects that live in the account are written once per attempt, those on the emulator once per lease."""
        key = self.work.key.text()
        account = self.work.stage is not None and self.work.stage.lives is Lives.ACCOUNT
        return key if account else f"{key}.{self.work.lease}"

    def _token(self) -> Token:
        return Token(self.work.lease, self.work.stage_index, self.work.tries)

    def _serial(self) -> str:
        return self.outfit.inventory.address(self.work.emulator_id)

    # --- what it leaves behind --------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        line = self._vault.masked(text)
        self.log.append({"at": time.time(), "text": line})
        self.outfit.heard(line)

    def _keep(self, name: str, frame: Frame) -> None:
        self._keep_file(name, encode_png(frame), object())

    def _keep_file(self, name: str, content: bytes, whose: object) -> None:
        """Steps of a flow that is used twice give their files the same names; each is kept."""
        name = self._taken.name(name, whose)
        ref = self.outfit.artifacts.put(self.work.task_id, self._prefix() + name, content, "")
        self.kept.append(ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type))

    def _keep_log(self) -> None:
        """What was noted so far. A log that cannot be kept hides nothing else, and no emulator waits for a disk."""
        if self._lines_kept == len(self.log):
            return
        name = f"log-{self.work.key.attempt}-{self.work.lease}-{self.work.stage_index}-{self.work.tries}.jsonl"
        text = "".join(json.dumps(line) + "\n" for line in self.log)
        with suppress(FinalError, WriterBusyError, OSError):
            ref = self.outfit.artifacts.put(self.work.task_id, name, text.encode(), "application/jsonl", synced=False)
            self._log = ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type)
            self._lines_kept = len(self.log)

    def _keep_evidence(self, error: DroidherdError) -> None:
        """Before anything is tidied up. Evidence that cannot be kept must not hide what it is for."""
        if self._seized is None or not evidence.worth_keeping(error):
            return
        log = [str(line["text"]) for line in self.log]
        try:
            self._evidence = self._folder().keep(error, log, self._serial(), self._prefix())
        except (DroidherdError, OSError) as trouble:
            self.note(f"the evidence could not be kept: {trouble}")
        self._keep_recording(error)

    def _keep_recording(self, error: DroidherdError | None) -> None:
        if self._ribbon is None:
            return
        try:
            self._evidence = (*self._evidence, self._folder().record(self._ribbon, error, self._prefix()))
        except (DroidherdError, OSError) as trouble:
            self.note(f"the recording could not be kept: {trouble}")

    def _folder(self) -> EvidenceFolder:
        return EvidenceFolder(self.outfit, self.work, self._trail, self._vault.masked)

    def _prefix(self) -> str:
        return f"{self.work.key.attempt}-{self.work.stage_index}-{self.work.tries}-"

    def _artifacts(self) -> tuple[ArtifactView, ...]:
        """Everything kept, the log with it. The picture a person is asked about stands behind the evidence."""
        self._keep_log()
        return (*self._evidence, *self.kept, *((self._log,) if self._log else ()))


def once(changes: Iterable[Change]) -> list[Change]:
    """Each thing once, in the order of their first changes."""
    return list({(change.thing, change.name): change for change in reversed([*changes])}.values())[::-1]


def value_of(change: Change, state: State, kept: str = "") -> Value:
    return Value(
        step=change.step, thing=change.thing, name=change.name, there=state.there, value=state.value, kept=kept
    )
