"""One attempt of a flow on one emulator, without an engine: the stages a worker runs, in this process.

Nothing of it is durable. When this process dies, nobody goes on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from droidherd.artifacts.names import Taken
from droidherd.contracts.plan import Plan, TaskTiming
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.domain.errors import DroidherdError, NeedsPersonError
from droidherd.domain.messages import Key
from droidherd.domain.ports import Artifacts
from droidherd.evidence.recording import COMPLETED, RecordingWriter
from droidherd.stage.attempt import StageAttempt, StageFailedError
from droidherd.stage.context import StageServices

_COMMON = tuple(sorted(Plan.model_fields.keys() & StageWork.model_fields.keys()))
"""What a plan tells each of its stages: the flow, its hash, its app, its cleanup, ..."""


@dataclass(frozen=True, slots=True)
class FlowRun:
    """What became of a flow."""

    error: DroidherdError | None
    """Why it did not complete."""
    clean: bool
    """The emulator was cleaned up and let go."""
    stages: tuple[StageReport, ...]
    """Those that completed."""
    steps: tuple[str, ...]
    """The way it went: `collect 2` is the second step of the stage collect, `open 3.1.2` one inside a block."""
    frames: Mapping[str, bytes]
    """PNG files by the names the flow gives them; `<stage>.failed.png` is what was seen last."""
    log: tuple[str, ...]
    stopped: str = ""
    """Why it stopped at a step boundary, if somebody asked it to."""


@dataclass(frozen=True, slots=True)
class ManualSession:
    """As whom a run acts on its emulator: the lease of its token, and where in it the stages are counted from."""

    emulator_id: str
    lease: int
    stage: int = 0
    attempt: int = 1


def _never() -> str:
    return ""


def _unheard(_: str) -> None:
    pass


def _nobody(_: NeedsPersonError) -> str:
    return ""


@dataclass(slots=True)
class RunOptions:
    """How a run is followed."""

    task_id: str = "a-flow"
    """Under which its artifacts are kept."""
    account: str = ""
    stopping: Callable[[], str] = _never
    """Why it is to stop at the next step boundary; empty: it is not."""
    stepped: Callable[[str], None] = _unheard
    """Told of each step when it begins."""
    asked: Callable[[NeedsPersonError], str] = _nobody
    """Answers a question with one of its choices; empty: nobody does, and the run has failed."""


@dataclass(slots=True)
class _Way:
    """What a run has done so far."""

    steps: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    reports: list[StageReport] = field(default_factory=list)
    error: DroidherdError | None = None
    clean: bool = False
    stopped: str = ""

    @property
    def over(self) -> bool:
        return self.error is not None or bool(self.stopped)


def rehearse(plan: Plan, services: StageServices, session: ManualSession, manner: RunOptions | None = None) -> FlowRun:
    """Run it, stage by stage. What happens on the way is in the result."""
    manner, way = manner or RunOptions(), _Way()
    services = replace(services, trial=f"trial of {plan.flow}, no task")
    for index in range(len(plan.stages)):
        work: StageWork | None = _work(plan, index, session, manner)
        while work is not None:
            work = _try_stage(work, services, manner, way)
        if way.over:
            break
    frames = _frames(services.artifacts, manner.task_id)
    return FlowRun(way.error, way.clean, tuple(way.reports), tuple(way.steps), frames, tuple(way.log), way.stopped)


def record_run(
    plan: Plan, services: StageServices, session: ManualSession, manner: RunOptions, tape: RecordingWriter
) -> FlowRun:
    """Rehearse a flow and write it down."""
    heard = manner.stepped

    def stepped(step: str) -> None:
        tape.where = step
        heard(step)

    def asked(question: NeedsPersonError) -> str:
        choice = manner.asked(question)
        if choice:
            tape.answer(question.asks.step, choice)
        return choice

    tape.begin(plan.flow, plan.params, plan.flow_hash)
    with_recorder = replace(services, recorder=tape.masking)
    run = rehearse(plan, with_recorder, session, replace(manner, stepped=stepped, asked=asked))
    tape.end(str(run.error) if run.error else f"stopped: {run.stopped}" if run.stopped else COMPLETED)
    return run


def _try_stage(work: StageWork, services: StageServices, manner: RunOptions, way: _Way) -> StageWork | None:
    """The work that is left when somebody was asked, and answered."""
    attempt = StageAttempt(services, work, _Life(work.stage.name if work.stage else "", manner, way.steps))
    try:
        report = attempt.run()
    except StageFailedError as stopped:
        choice = manner.asked(stopped.cause) if isinstance(stopped.cause, NeedsPersonError) else ""
        if choice:
            answers = {**work.answers, stopped.mark: choice}
            return work.model_copy(update={"tries": work.tries + 1, "answers": answers})
        way.error, way.clean = stopped.cause, stopped.clean
    else:
        way.clean = report.clean
        if report.outcome is StageOutcome.STOPPED:
            way.stopped = manner.stopping() or "asked to"
        else:
            way.reports.append(report)
    finally:
        way.log.extend(str(line["text"]) for line in attempt.log)
    return None


def _work(plan: Plan, index: int, session: ManualSession, manner: RunOptions) -> StageWork:
    return StageWork(
        task_id=manner.task_id,
        key=Key(manner.task_id, f"{session.lease:08}-{session.stage}-{session.attempt}", 1),
        emulator_id=session.emulator_id,
        lease=session.lease,
        stage_index=session.stage + index,
        tries=session.attempt if index == 0 else 1,
        account=manner.account,
        stage=plan.stages[index],
        last=index + 1 == len(plan.stages),
        timing=TaskTiming(),
        **{name: getattr(plan, name) for name in _COMMON},
    )


@dataclass(slots=True)
class _Life:
    """Nobody but a person listens, so every beat is confirmed at once; what beats say is the way."""

    stage: str
    manner: RunOptions
    steps: list[str]

    def beat(self, progress: str = "") -> None:
        step = f"{self.stage} {progress}"
        if any(char.isdigit() for char in progress) and step not in self.steps[-1:]:
            self.steps.append(step)
            self.manner.stepped(step)

    def send(self, progress: str = "") -> Callable[[], None]:
        return lambda: self.beat(progress)

    def stopping(self) -> str:
        return self.manner.stopping()

    def leaving(self) -> bool:
        return False

    def confirmed_s(self) -> float:
        return time.monotonic()

    def begin_writing(self) -> None:
        pass


def _frames(store: Artifacts, task_id: str) -> dict[str, bytes]:
    """Without the attempt, stage and try before their names; what a later try kept under one name is numbered."""
    taken = Taken()
    names: Sequence[str] = [ref.name for ref in store.list(task_id) if ref.name.endswith(".png")]
    return {taken.name(name.split("-", 3)[-1], name): store.get(task_id, name) for name in names}
