"""What an attempt of a stage is given: the worker's services, and what people answered to this stage before."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from droidherd.adb.client import AdbClient
from droidherd.artifacts.writer import Writer
from droidherd.contracts.plan import Effect, OnAmbiguous, Stage
from droidherd.contracts.stage import StageWork
from droidherd.credentials import CredentialStore
from droidherd.domain.errors import DID_NOT, HAPPENED, About, Asks, DroidherdError, FinalError, NeedsPersonError
from droidherd.domain.ports import Artifacts, Lifeline, StageRecorder
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.inventory import Inventory
from droidherd.evidence.frame_buffer import FrameBuffer
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.run.context import Clock, Tempo
from droidherd.handlers.base import WebPort
from droidherd.vision.pixels import encode_jpeg

Recordings: TypeAlias = Literal["never", "failed", "always"]


class ConfirmedLifeline(Lifeline, Protocol):
    """A lifeline that knows when Temporal last confirmed it."""

    def leaving(self) -> bool:
        """Whether the worker ends soon: nothing that follows will be run by it."""
        ...

    def confirmed_s(self) -> float:
        """On the host's monotonic clock: before the last confirmed beat was sent."""
        ...

    def send(self, progress: str = "") -> Callable[[], None]:
        """Post a beat; what is returned waits for its confirmation."""
        ...

    def begin_writing(self) -> None:
        """Have it confirmed that the journal of the stage is about to be written."""
        ...


class HostClock:
    """The host's own clock, as flows want it."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def date(self) -> datetime:
        return datetime.now(UTC)


def _ignore(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class StageServices:
    """What a worker offers to all its attempts. `StageAttempt` makes the `StageContext` of one stage from it."""

    adb: AdbClient
    inventory: Inventory
    catalogue: Catalogue
    artifacts: Artifacts
    worker: str
    credentials: CredentialStore
    web: WebPort
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
    frame_buffer: FrameBuffer = field(default_factory=lambda: FrameBuffer(encode_jpeg))
    on_line: Callable[[str], None] = _ignore
    """Called with every line that is noted."""
    recorder: Callable[[Callable[[str], str]], StageRecorder] | None = None
    """Makes what is told of everything an attempt sees and does, its cleanup too. It is given what masks a text."""
    recordings: Recordings = "failed"
    """Which stages leave one."""
    trial: str = ""
    """What is run, where it is no task."""


# --- answers: each is kept under a mark, so that only the question it was given to finds it. A step's number says
# little: another stage has the same one, another emulator shows another screen.


def planned_flow(work: StageWork) -> PlannedFlow:
    """The version of the flow that this work is of."""
    return PlannedFlow(work.flow, work.flow_hash, work.stage.files if work.stage else None)


def mark_of(work: StageWork, error: DroidherdError) -> str:
    """For the question that ended this stage; empty when it was none."""
    return _mark(work, error.asks) if isinstance(error, NeedsPersonError) else ""


def effect_answers(work: StageWork) -> dict[str, bool]:
    """What people said about effects of unknown outcome of this stage: effect → whether it happened."""
    choices = _answers(work, About.EFFECT)
    return {effect: choice == HAPPENED for effect, choice in choices.items() if choice in (HAPPENED, DID_NOT)}


def had_completed(work: StageWork, stage: Stage) -> bool:
    """Whether a stage had done its work that wrote to a journal, when the emulator has none for this attempt.

    Nothing can be observed of a stage as a whole: its `on_ambiguous` decides, or what a person answered.
    """
    what = (
        f"stage {stage.name} may have acted before, and {work.emulator_id} does not know how far it came: "
        "was its work done?"
    )
    if stage.on_ambiguous is OnAmbiguous.REPEAT:
        return False
    if stage.on_ambiguous is OnAmbiguous.FAIL:
        raise FinalError(what, to=f"stage {stage.name}", remedy="look at the account, then submit the task anew")
    step = f"journal-{work.wrote_under}"
    answers = effect_answers(work)
    if step not in answers:
        remedy = f"look at the account: after {HAPPENED!r} the stage counts as completed, after {DID_NOT!r} it begins"
        raise NeedsPersonError(what, Asks(step, keep=False), to=f"stage {stage.name}", remedy=remedy)
    return answers[step]


def screen_answers(work: StageWork) -> Mapping[str, str]:
    """What people chose with this emulator kept for them: step → choice."""
    return _answers(work, About.SCREEN)


def task_answers(work: StageWork) -> Mapping[str, str]:
    """What people chose while no emulator was kept: step → choice."""
    return _answers(work, About.TASK)


def _mark(work: StageWork, asks: Asks) -> str:
    return f"{_scope(work, asks.about)}{asks.step}"


def _answers(work: StageWork, about: About) -> dict[str, str]:
    scope = _scope(work, about)
    return {mark.removeprefix(scope): choice for mark, choice in work.answers.items() if mark.startswith(scope)}


def _scope(work: StageWork, about: About) -> str:
    """How long an answer holds: the attempt, the lease, or whichever of them the journal lives as long as."""
    attempt = str(work.key.attempt)
    account = work.stage is not None and work.stage.effect is Effect.ACCOUNT
    whole = about is About.TASK or (about is About.EFFECT and account)
    where = attempt if whole else f"{attempt}.{work.lease}"
    return f"{about}:{where}:{work.stage_index}:"
