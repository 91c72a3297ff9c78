"""The stage activity: on the emulator's own queue, one at a time, the next one in hand."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from temporalio import activity
from temporalio.client import Client

from activities.failures import translated
from activities.lifeline import EngineLifeline
from droidherd import telemetry
from droidherd.capture import CaptureStay
from droidherd.contracts.stage import Captured, StageOutcome, StageReport, StageWork, UndoReport, UndoWork
from droidherd.domain.errors import StillBusyError
from droidherd.emulator.turns import Turns
from droidherd.stay import Outfit, Stay
from droidherd.undoing import UndoStay

R = TypeVar("R", bound=StageReport)
SLOTS = 2
"""Per emulator: one stage runs, one waits at its door, so that no round trip to the engine lies between the two."""


class StageActivities:
    """Runs stages with one worker's outfit."""

    def __init__(self, outfit: Outfit, client: Client, loop: asyncio.AbstractEventLoop, beat_every_s: float) -> None:
        """`loop` is where the client lives."""
        self._outfit = outfit
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
        def run(life: EngineLifeline) -> StageReport:
            with telemetry.measured("stage", telemetry.metrics.stage_seconds, type=work.task_type):
                return Stay(self._outfit, work, life).run()

        return self._in_turn(work, StageReport, run)

    @activity.defn(name="capture_before", no_thread_cancel_exception=True)
    @translated
    def capture_before(self, work: StageWork) -> Captured:
        return self._in_turn(work, Captured, lambda life: CaptureStay(self._outfit, work, life).capture())

    @activity.defn(name="undo_stage", no_thread_cancel_exception=True)
    @translated
    def undo_stage(self, work: UndoWork) -> UndoReport:
        def take_back(life: EngineLifeline) -> UndoReport:
            return UndoStay(self._outfit, work, life, undo=work.undo, force=work.force).take_back()

        return self._in_turn(work, UndoReport, take_back)

    def _in_turn(self, work: StageWork, report: type[R], act: Callable[[EngineLifeline], R]) -> R:
        """What the act reports, or that it never began."""
        with self._turn(work) as life:
            return act(life) if life else report(outcome=StageOutcome.NOT_BEGUN, worker=self._outfit.worker)

    @contextmanager
    def _turn(self, work: StageWork) -> Generator[EngineLifeline | None]:
        """The emulator's turn, one after the other; none when nobody wants it any more before it came."""
        patience_s = work.physics.heartbeat_timeout_s
        life = EngineLifeline(self._client, self._loop, self._beat_every_s, patience_s, (self.leaving, self.hurry))
        until_s = time.monotonic() + max(work.ahead_s, patience_s)
        token = f"{work.lease}.{work.stage_index}.{work.tries}"

        def wanted() -> bool:
            return not (life.stopping() or activity.is_worker_shutdown())

        def beat() -> None:
            life.beat("waits for its turn")
            if time.monotonic() > until_s:
                raise StillBusyError("the stage before does not end", to=work.emulator_id)

        with (
            telemetry.bound(task=work.task_id, attempt=work.key.attempt, emulator=work.emulator_id, token=token),
            self._turns.taken(work.emulator_id, self._beat_every_s, wanted, beat) as taken,
        ):
            yield life if taken else None

    def all(self) -> list[Callable[..., object]]:
        return [self.run_stage, self.capture_before, self.undo_stage]
