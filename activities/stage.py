"""The stage activity: on the emulator's own queue, one at a time, the next one in hand."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from temporalio import activity
from temporalio.client import Client

from activities.errors import asking, translated
from activities.lifeline import EngineLifeline
from droidherd import telemetry
from droidherd.contracts.stage import Captured, StageOutcome, StageReport, StageWork, UndoReport, UndoWork
from droidherd.domain.errors import StillBusyError
from droidherd.stage.attempt import StageAttempt, StageFailedError
from droidherd.stage.capture import CaptureAttempt
from droidherd.stage.context import StageServices
from droidherd.stage.undo import UndoAttempt

R = TypeVar("R", bound=StageReport)
log = logging.getLogger("droidherd.stage")
SLOTS = 2
"""Per emulator: one stage runs, one waits for its turn, so that no round trip to the engine lies between the two."""


class Turns:
    """One stage at a time per emulator. Shared by all threads that run stages in one process."""

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}

    @contextmanager
    def take(
        self, emulator_id: str, every_s: float, wanted: Callable[[], bool], beat: Callable[[], None]
    ) -> Generator[bool]:
        """Wait until the stage that runs there has ended, with a `beat` now and then.

        Gives False when this one is not `wanted` any more: then the emulator may not be touched.
        """
        turn = self._locks.setdefault(emulator_id, threading.Lock())
        while not turn.acquire(timeout=every_s):
            beat()
            if not wanted():
                yield False
                return
        try:
            yield wanted()
        finally:
            turn.release()


class StageActivities:
    """Runs stages with one worker's services."""

    def __init__(
        self, services: StageServices, client: Client, loop: asyncio.AbstractEventLoop, beat_every_s: float
    ) -> None:
        """`loop` is where the client lives."""
        self._services = services
        self._client = client
        self._loop = loop
        self._beat_every_s = beat_every_s
        self._turns = Turns()
        self.hurry = threading.Event()
        """Set when the worker cannot wait for its stages any longer: they stop at their next boundary."""
        self.leaving = threading.Event()
        """Set as soon as the worker is asked to stop: whoever ends from now on leaves its emulator in order."""

    @activity.defn(name="run_stage", no_thread_cancel_exception=True)
    @translated
    def run_stage(self, work: StageWork) -> StageReport:
        with self._turn(work) as life:
            if life is None:
                return StageReport(outcome=StageOutcome.NOT_BEGUN, worker=self._services.worker)
            timed = telemetry.measured("stage", telemetry.metrics.stage_seconds, type=work.task_type)
            with timed, _logged(work, "stage") as keep:
                try:
                    return keep(StageAttempt(self._services, work, life).run())
                except StageFailedError as error:
                    return keep(asking(error, self._services.worker))

    @activity.defn(name="capture_before", no_thread_cancel_exception=True)
    @translated
    def capture_before(self, work: StageWork) -> Captured:
        with self._turn(work) as life:
            if life is None:
                return Captured(outcome=StageOutcome.NOT_BEGUN, worker=self._services.worker)
            with _logged(work, "capture") as keep:
                return keep(CaptureAttempt(self._services, work, life).capture())

    @activity.defn(name="undo_stage", no_thread_cancel_exception=True)
    @translated
    def undo_stage(self, work: UndoWork) -> UndoReport:
        with self._turn(work) as life:
            if life is None:
                return UndoReport(outcome=StageOutcome.NOT_BEGUN, worker=self._services.worker)
            undo = UndoAttempt(self._services, work, life, undo=work.undo, force=work.force)
            with _logged(work, "undo") as keep:
                return keep(undo.take_back())

    @contextmanager
    def _turn(self, work: StageWork) -> Generator[EngineLifeline | None]:
        """The emulator's turn, one after the other; none when nobody wants it any more before it came."""
        patience_s = work.timing.heartbeat_timeout_s
        life = EngineLifeline(self._client, self._loop, self._beat_every_s, patience_s, (self.leaving, self.hurry))
        until_s = time.monotonic() + max(work.ahead_s, patience_s)
        token = f"{work.lease}.{work.stage_index}.{work.tries}"

        def wanted() -> bool:
            return not (life.stopping() or activity.is_worker_shutdown())

        def beat() -> None:
            life.beat("waits for its turn")
            if time.monotonic() > until_s:
                raise StillBusyError("the stage before does not end", to=work.emulator_id)

        with telemetry.bound(task=work.task_id, attempt=work.key.attempt, emulator=work.emulator_id, token=token):
            if work.tries == 1:
                log.info("granted", extra={"type": work.task_type, "after": work.after, "waiting": work.waiting})
            with self._turns.take(work.emulator_id, self._beat_every_s, wanted, beat) as taken:
                yield life if taken else None

    def all(self) -> list[Callable[..., object]]:
        return [self.run_stage, self.capture_before, self.undo_stage]


@contextmanager
def _logged(work: StageWork, what: str) -> Generator[Callable[[R], R]]:
    """A line in the worker's log at the beginning and at the end, with the outcome of the report that is kept."""
    known = {"stage": work.stage.name if work.stage else "cleanup", "type": work.task_type}
    log.info("%s begins", what, extra=known)
    began_s, outcome = time.monotonic(), "failed"

    def keep(report: R) -> R:
        nonlocal outcome
        outcome = str(report.outcome)
        return report

    try:
        yield keep
    except StageFailedError as error:
        outcome = type(error.cause).__name__
        raise
    finally:
        seconds = round(time.monotonic() - began_s, 3)
        log.info("%s ends", what, extra={**known, "outcome": outcome, "seconds": seconds})
