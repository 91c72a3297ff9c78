"""One attempt of a stage on one emulator: seize it, run the stage, clean up, release. The last word is a report."""

import json
import time
import traceback
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from droidherd import telemetry
from droidherd.adb.files import DeviceFiles
from droidherd.adb.wire import CallInterrupt
from droidherd.artifacts.names import Taken
from droidherd.contracts.changes import Change, Value
from droidherd.contracts.plan import Effect, Stage
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.contracts.tasks import ArtifactView, secret_texts
from droidherd.credentials import Redactor
from droidherd.domain.errors import (
    DroidherdError,
    FencedError,
    FinalError,
    InfrastructureError,
    LockedRecordError,
    NeedsPersonError,
    UnclassifiedError,
    UnknownOutcomeError,
    WriterBusyError,
)
from droidherd.domain.ports import NO_RECORDER, Frame, StageRecorder
from droidherd.domain.task.things import State
from droidherd.emulator import lease
from droidherd.emulator.acts import NOTHING
from droidherd.emulator.eyes import EmulatorEyes, FrameSource
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.emulator.things import EmulatorThings
from droidherd.emulator.token import Token
from droidherd.evidence.folder import EvidenceFolder, doubts, worth_keeping
from droidherd.evidence.trace import Trace
from droidherd.flows.model.screens import parse_screen_map
from droidherd.flows.run import interpreter
from droidherd.flows.run.context import Finder, StageContext
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.past import of_steps
from droidherd.stage.context import (
    ConfirmedLifeline,
    StageServices,
    effect_answers,
    had_completed,
    mark_of,
    planned_flow,
    screen_answers,
    task_answers,
)
from droidherd.stage.handlers import StageHandlers
from droidherd.vision.pixels import encode_png

TRACE_LINES = 30
SECRET_MIN = 6
"""Shorter parameters are masked only where they stand by their name: they are parts of too many words."""
"""Of what nobody foresaw: the end of its trace."""
FRESH_S = 1.0
"""A confirmation older than this is renewed before an act."""


class StageFailedError(Exception):
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
        self.wrote = False
        """To the journal of its stage."""
        self.seized = True
        """It took the emulator."""
        self.mark = mark
        self.clean = clean
        self.artifacts = artifacts
        self.after = after


@dataclass(slots=True)
class StageAttempt:
    """One attempt of one stage."""

    services: StageServices
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
    _wrote: bool = False
    """It wrote to a journal that is one for the whole attempt."""
    _finder: Finder | None = None
    _held: bool = False
    _recorded: bool = False
    """Its trace holds what a recording needs."""
    _after: tuple[Value, ...] = ()
    _trace: Trace = field(default_factory=Trace)
    _evidence: tuple[ArtifactView, ...] = ()
    _taken: Taken = field(default_factory=Taken)
    _redactor: Redactor = field(init=False)

    def __post_init__(self) -> None:
        self._redactor = Redactor(self.services.credentials, self.work.account)
        for text in secret_texts(self.work.params):
            if len(text) >= SECRET_MIN:
                self._redactor.hide(text)

    def run(self) -> StageReport:
        """To the end of the stage, or to the boundary where it was asked to stop. Raises StageFailedError."""
        began_s, stage, stopped = time.monotonic(), self.work.stage, ""
        with self._redactor, self._explain_errors():
            self._seize()
            if stage is not None:
                self.note(f"stage {stage.name} begins on {self.work.emulator_id} as {self._token()}")
                outcome = interpreter.RunOutcome("")
                if not self._is_known_to_be_done(stage):
                    limited = stage.model_copy(update={"limit_s": self.work.limit_s or stage.limit_s})
                    outcome = interpreter.run_stage(limited, self._context(self._stage_recorder()))
                stopped = outcome.stopped
                self._end_stage(stage.name, outcome)
            leaves = bool(stopped) or self.work.last or self.life.leaving()
            clean = self._leave() if leaves else self._stands()
        return StageReport(
            outcome=StageOutcome.STOPPED if stopped else StageOutcome.COMPLETED,
            worker=self.services.worker,
            clean=clean,
            released=self._released,
            seconds=time.monotonic() - began_s,
            artifacts=self._artifacts(),
            again_at=self._again_at,
            after=self._after,
            summary=self.summary,
            wrote=self._wrote,
        )

    def _is_known_to_be_done(self, stage: Stage) -> bool:
        """Whether its journal is gone, and a person said that its work was done. Raises while nobody said anything."""
        if not self.work.wrote_under or self._seized is None or self._seized.has_steps:
            return False
        done = had_completed(self.work, stage)
        self.note(f"stage {stage.name}: its journal is gone; it {'was done' if done else 'begins anew'}")
        return done

    def _before_act(self, effect: str) -> None:
        """Before a stage with an effect in the account first writes, the task must be able to know that it did."""
        if self._wrote or not self._has_effect_in_account() or not of_steps([effect]):
            return
        if self.work.wrote_under != self.work.lease:
            self.life.begin_writing()
        self._wrote = True

    def _end_stage(self, name: str, outcome: interpreter.RunOutcome) -> None:
        """Count and keep what a stage that did not fail leaves."""
        self._again_at = outcome.again_at
        for kind, count in (("done", outcome.acts), ("again", outcome.again), ("observed", outcome.observed)):
            telemetry.metrics.effects.labels(outcome=kind).inc(count)
        self.note(f"stage {name} {'stopped: ' + outcome.stopped if outcome.stopped else 'completed'}")
        if self.services.recordings == "always" and not outcome.stopped:
            self._keep_recording(None)
        self._read_after()

    def _seize(self) -> None:
        confirmed = self.life.send("seize")  # seizing needs no guard, so the two go together
        with telemetry.span("seize", emulator=self.work.emulator_id, token=str(self._token())):
            self._seized = lease.seize(
                self.services.adb,
                self._serial(),
                self._token(),
                after=self.work.after,
                journal=self._journal(),
                name=self.work.emulator_id,
            )
        confirmed()

    def _stands(self) -> bool:
        """What was seen last was seen here. Frames know no token: an address may lead elsewhere since the last act."""
        self._hands().run_unjournaled(NOTHING)
        return True

    @contextmanager
    def _explain_errors(self) -> Generator[None]:
        """After an error, leave the emulator as well as can be, and say how that is."""
        try:
            yield
        except DroidherdError as error:
            self.note(f"{type(error).__name__}: {error}")
            if isinstance(error, UnknownOutcomeError) or doubts(error):
                telemetry.metrics.effects.labels(outcome="unknown").inc()
            raise self._fail(error) from error
        except Exception as error:
            # A bug, of ours or of a handler. Where it is translated, its emulator is out of reach.
            for line in "".join(traceback.format_exception(error)).splitlines()[-TRACE_LINES:]:
                self.note(line)
            bug = UnclassifiedError.of(error)
            bug.what = self._redactor.masked(bug.what)
            raise self._fail(bug) from error
        finally:
            self._trace.last = None  # 4 MB, of an attempt that is not cleared away at once

    def _fail(self, error: DroidherdError) -> StageFailedError:
        """Keep what shows why, then clean up."""
        self._keep_evidence(error)
        clean = self._leave_after(error)
        mark = mark_of(self.work, error)
        failed = StageFailedError(error, clean=clean, artifacts=self._artifacts(), after=self._after, mark=mark)
        failed.wrote, failed.seized = self._wrote, self._seized is not None
        return failed

    # --- things that are changed by value ---------------------------------------------------------------------

    def _read_after(self) -> None:
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
            self.work.cleanup, self._context(), self.work.timing.cleanup_s, f"c{self._token().attempt_of_stage}."
        )
        if report.clean:
            self._keep_log()  # before the release: once this stage let go, the next one waits for it to return
            lease.release(self.services.adb, self._serial(), self._token())
            self._released = True
        return report.clean

    def _leave_after(self, error: DroidherdError) -> bool:
        """After an error of the task itself the emulator is left in order; after one of the emulator it cannot be.

        Who asks a person and keeps the emulator leaves it as it is: what is asked about is to be seen there.
        """
        if self._seized is None:
            return False
        if isinstance(error, InfrastructureError) and not isinstance(error, LockedRecordError):
            return False
        if isinstance(error, NeedsPersonError) and error.asks.keep:
            return False
        try:
            self._read_after()
            return self._leave()
        except DroidherdError as trouble:
            self.note(f"could not clean up: {trouble}")
            return False

    # --- what the stage may touch -----------------------------------------------------------------------------

    def _context(self, recorder: StageRecorder | None = None) -> StageContext:
        """`recorder`: of the stage. What cleans up is told only to whoever records everything."""
        work, services = self.work, self.services
        recorder = recorder or self._whole_recorder()
        hands = self._hands(recorder)
        eyes = self._eyes(hands, recorder)
        things = self._things(hands, recorder)
        standing = screen_answers(work)
        if self._finder is None:
            self._finder = self._new_finder()
        return StageContext(
            hands=hands,
            eyes=eyes,
            life=self.life,
            clock=services.clock,
            finder=self._finder,
            keep=self._keep,
            note=self.note,
            secret=self._redactor.reveal,
            tempo=services.tempo,
            things=things,
            payload=self._payload,
            handlers=StageHandlers(
                services=services,
                work=work,
                hands=hands,
                things=things,
                eyes=eyes,
                before=self._before_values(),
                keep=self._keep_file,
                note=self.note,
                summarize=self.summary.update,
                recorder=recorder,
            ),
            confirmed=effect_answers(work),
            answers={**task_answers(work), **standing},
            standing=frozenset(standing),
            rounds=work.rounds,
            screen_map=parse_screen_map(work.screen_map),
            lease=work.lease,
            seen=self._trace.seen,
        )

    def _whole_recorder(self) -> StageRecorder:
        make = self.services.recorder
        return make(self._redactor.masked) if make else NO_RECORDER

    def _stage_recorder(self) -> StageRecorder:
        """Secrets go out of the trace when, and if, it is kept."""
        self._recorded = self.services.recorder is None and self.services.recordings != "never"
        return self._trace if self._recorded else self._whole_recorder()

    def _eyes(self, hands: EmulatorHands, recorder: StageRecorder) -> EmulatorEyes:
        emulator, cameras = self.work.emulator_id, self.services.cameras
        take = partial(cameras.take, emulator) if cameras else self.services.adb.capture
        return EmulatorEyes(
            self.services.adb,
            self._serial(),
            interrupt=CallInterrupt(pulse=lambda: self.life.beat("looking")),  # a dump of the elements may take long
            source=FrameSource(take, partial(self.services.frame_buffer.add, emulator), hands.coordinates),
            recorder=recorder,
        )

    def _before_values(self) -> Mapping[tuple[str, str], State]:
        """For those who undo."""
        return {}

    def _payload(self, name: str) -> Path:
        return self.services.catalogue.payload(planned_flow(self.work), name)

    def _new_finder(self) -> Finder:
        return FlowFinder(self.services.catalogue, planned_flow(self.work))

    def _hands(self, recorder: StageRecorder = NO_RECORDER) -> EmulatorHands:
        fresh = not self._held and self._seized is not None and self._seized.journal_is_new
        self._held = True  # the journal is new to the first hands alone
        named = (self._serial(), self._journal(), self._token(), self.work.stage_index)
        begun = self._seized.has_steps if self._seized is not None and self._has_effect_in_account() else None
        handle = LeaseHandle(*named, fresh, begun, self._before_act)
        alive = CallInterrupt(pulse=lambda: self.life.beat("at work"))
        return EmulatorHands(self.services.adb, handle, self._deadline_uptime, interrupt=alive, recorder=recorder)

    def _things(self, hands: EmulatorHands, recorder: StageRecorder = NO_RECORDER) -> EmulatorThings:
        files = partial(DeviceFiles, self.services.adb, self._serial())
        return EmulatorThings(hands, files, self._token(), lambda: self.life.beat("on its way"), recorder)

    def _deadline_uptime(self) -> int:
        """Until when acts are allowed: so long after the last beat that Temporal confirmed."""
        if self._seized is None:
            raise FencedError("nothing was seized", to=self.work.emulator_id)
        if time.monotonic() - self.life.confirmed_s() > FRESH_S:
            self.life.beat("act")
        return self._seized.clock.deadline(self.life.confirmed_s() + self.work.timing.lease_ttl_s)

    def _journal(self) -> str:
        """Effects that live in the account are written once per attempt, those on the emulator once per lease."""
        key = self.work.key.text()
        return key if self._has_effect_in_account() else f"{key}.{self.work.lease}"

    def _has_effect_in_account(self) -> bool:
        return self.work.stage is not None and self.work.stage.effect is Effect.ACCOUNT

    def _token(self) -> Token:
        return Token(self.work.lease, self.work.stage_index, self.work.tries)

    def _serial(self) -> str:
        return self.services.inventory.address(self.work.emulator_id)

    # --- what it leaves behind --------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        line = self._redactor.masked(text)
        self.log.append({"at": time.time(), "text": line})
        self.services.on_line(line)

    def _keep(self, name: str, frame: Frame) -> None:
        self._keep_file(name, encode_png(frame), object())

    def _keep_file(self, name: str, content: bytes, whose: object) -> None:
        """Steps of a flow that is used twice give their files the same names; each is kept."""
        name = self._taken.name(name, whose)
        ref = self.services.artifacts.put(self.work.task_id, self._prefix() + name, content, "")
        self.kept.append(ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type))

    def _keep_log(self) -> None:
        """What was noted so far. A log that cannot be kept hides nothing else, and no emulator waits for a disk."""
        if self._lines_kept == len(self.log):
            return
        name = f"log-{self.work.key.attempt}-{self.work.lease}-{self.work.stage_index}-{self.work.tries}.jsonl"
        text = "".join(json.dumps(line) + "\n" for line in self.log)
        with suppress(FinalError, WriterBusyError, OSError):
            ref = self.services.artifacts.put(
                self.work.task_id, name, text.encode(), "application/x-ndjson", synced=False
            )
            self._log = ArtifactView(name=ref.name, size=ref.size, content_type=ref.content_type)
            self._lines_kept = len(self.log)

    def _keep_evidence(self, error: DroidherdError) -> None:
        """Before anything is cleaned up. Evidence that cannot be kept must not hide what it is for."""
        if self._seized is None or not worth_keeping(error):
            return
        log = [str(line["text"]) for line in self.log]
        try:
            self._evidence = self._folder().keep(error, log, self._serial(), self._prefix())
        except (DroidherdError, OSError) as trouble:
            self.note(f"the evidence could not be kept: {trouble}")
        self._keep_recording(error)

    def _keep_recording(self, error: DroidherdError | None) -> None:
        if not self._recorded:
            return
        try:
            self._evidence = (*self._evidence, self._folder().record(error, self._prefix()))
        except (DroidherdError, OSError) as trouble:
            self.note(f"the recording could not be kept: {trouble}")

    def _folder(self) -> EvidenceFolder:
        return EvidenceFolder(self.services, self.work, self._trace, self._redactor.masked)

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
