"""What the stand-in activities do instead of driving emulators: one play per try of a stage, in order."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from activities.delivery import DeliveryActivities
from activities.errors import translate, waiting_for_key
from droidherd.contracts.delivery import AskDispatcher, Batch, BatchResult, DispatcherAnswer
from droidherd.contracts.fleet import GateResult, GateWork, RecoveryResult, RecoveryWork
from droidherd.contracts.plan import Plan, Policy, Stage, TaskTiming
from droidherd.contracts.stage import (
    Captured,
    Planned,
    PlanRequest,
    StageOutcome,
    StageReport,
    StageWork,
    UndoReport,
    UndoWork,
)
from droidherd.domain.errors import BadParametersError
from droidherd.engine.errors import MissingKeyError
from droidherd.testing.answers import Answer, FakeThings, again_in, asks, breaks, completes, fails

__all__ = ["again_in", "asks", "breaks", "completes", "fails"]
"""Answers that users have too, for those who write plays."""

Play = Answer
BEAT_S = 0.05
PATIENCE_S = 30.0
"""No play lasts longer: a test that forgot to let go fails instead of hanging."""


async def is_unknown_to_us(work: StageWork) -> StageReport:
    """A foreign worker's failure, without our details."""
    raise ApplicationError("something else", type="ForeignError", non_retryable=True)


@dataclass
class Hold:
    """Runs until it is let go or asked to stop."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, work: StageWork) -> StageReport:
        self.began.set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not self.let_go.is_set():
                    activity.heartbeat()
                    await asyncio.sleep(BEAT_S)
        except asyncio.CancelledError:
            return StageReport(outcome=StageOutcome.STOPPED, worker="w1", released=True)
        return await completes(work)


@dataclass
class AwaitsTurn(Hold):
    """In its worker's hands, and its turn has not come: it leaves as soon as it is let go or asked to stop."""

    async def __call__(self, work: StageWork) -> StageReport:
        await super().__call__(work)
        return StageReport(outcome=StageOutcome.NOT_BEGUN, worker="w1")


@dataclass
class Deaf(Hold):
    """Runs until it is let go, and does not listen when asked to stop."""

    end: "Play" = completes

    async def __call__(self, work: StageWork) -> StageReport:
        self.began.set()
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while not self.let_go.is_set() and asyncio.get_running_loop().time() < until:
            with contextlib.suppress(asyncio.CancelledError):
                activity.heartbeat()
                await asyncio.sleep(BEAT_S)
        return await self.end(work)


@dataclass
class Silent(Hold):
    """Its heartbeats stop; its slot is free again when the engine has noticed."""

    seconds: float = 1.5

    async def __call__(self, work: StageWork) -> StageReport:
        self.began.set()
        await asyncio.sleep(self.seconds)
        return await completes(work)


@dataclass
class Stages(FakeThings):
    """What runs on every emulator's queue: stages, captures, undos."""

    plays: dict[str, list[Play]] = field(default_factory=dict)
    before: dict[str, list[Play]] = field(default_factory=dict)
    """What comes before the next captures of a task."""
    back: dict[str, list[Play]] = field(default_factory=dict)
    """What becomes of its next undos; then they take back."""
    seen: list[StageWork] = field(default_factory=list)

    @activity.defn(name="run_stage")
    async def run_stage(self, work: StageWork) -> StageReport:
        self.seen.append(work)
        line = self.plays.get(work.task_id)
        return await (line.pop(0) if line else completes)(work)

    @activity.defn(name="capture_before")
    @override
    async def capture_before(self, work: StageWork) -> Captured:
        self.captures.append(work)
        report = await line.pop(0)(work) if (line := self.before.get(work.task_id)) else None
        if report is not None and report.outcome is StageOutcome.NOT_BEGUN:
            return Captured(outcome=report.outcome, worker="w1")
        return self.captured(work)

    @activity.defn(name="undo_stage")
    @override
    async def undo_stage(self, work: UndoWork) -> UndoReport:
        self.undos.append(work)
        report = await line.pop(0)(work) if (line := self.back.get(work.task_id)) else None
        if report is not None and report.outcome is StageOutcome.NOT_BEGUN:
            return UndoReport(outcome=report.outcome, worker="w1")
        return self.restored(work)

    def all(self) -> list[Callable[..., object]]:
        return [self.run_stage, *self.changing()]

    def of(self, task_id: str) -> list[StageWork]:
        return [work for work in self.seen if work.task_id == task_id]


@dataclass
class Gates:
    """`pass_gate` on the host's queue. `evidence` is what the next gates of an emulator find; else they pass."""

    evidence: dict[str, list[str]] = field(default_factory=dict)
    seen: list[GateWork] = field(default_factory=list)
    holding: dict[str, asyncio.Event] = field(default_factory=dict)

    @activity.defn(name="pass_gate")
    async def pass_gate(self, work: GateWork) -> GateResult:
        self.seen.append(work)
        hold = self.holding.pop(work.emulator_id, None)
        if hold is not None:
            async with asyncio.timeout(PATIENCE_S):
                while not hold.is_set():
                    activity.heartbeat()
                    await asyncio.sleep(BEAT_S)
        found = self.evidence.get(work.emulator_id)
        evidence = found.pop(0) if found else ""
        return GateResult(passed=not evidence, boot=work.boot, evidence=evidence)


@dataclass
class Recoveries:
    """`recover` on the queues of a host. `evidence` is what goes wrong with the next ones; else they work."""

    evidence: dict[str, list[str]] = field(default_factory=dict)
    seen: list[RecoveryWork] = field(default_factory=list)
    holding: dict[str, asyncio.Event] = field(default_factory=dict)
    silent: dict[str, asyncio.Event] = field(default_factory=dict)
    """Until then the next one says nothing any more, not even that it goes on."""
    at_once: int = 0
    most_at_once: int = 0

    @activity.defn(name="recover")
    async def recover(self, work: RecoveryWork) -> RecoveryResult:
        self.seen.append(work)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if silence := self.silent.pop(work.emulator_id, None):
                async with asyncio.timeout(PATIENCE_S):
                    await silence.wait()
            hold = self.holding.pop(work.emulator_id, None)
            if hold is not None:
                async with asyncio.timeout(PATIENCE_S):
                    while not hold.is_set():
                        activity.heartbeat()
                        await asyncio.sleep(BEAT_S)
        finally:
            self.at_once -= 1
        found = self.evidence.get(work.emulator_id)
        return RecoveryResult(evidence=found.pop(0) if found else "")

    def of(self, emulator: str) -> list[str]:
        """What was done for it, in order."""
        return [work.step for work in self.seen if work.emulator_id == emulator]


def lacks_key() -> ApplicationError:
    """What a worker raises that cannot decrypt a record."""
    return waiting_for_key(MissingKeyError("its account is encrypted with the key 'k1', which this process lacks"))


async def meets_locked_record(work: StageWork) -> StageReport:
    """Cannot read the record of its account."""
    raise lacks_key()


@dataclass
class Planner:
    """`plan_task`: the parameters themselves say what the plan is."""

    timing: TaskTiming
    flow_hash: str = "0123"
    lacks_key: bool = False

    @activity.defn(name="plan_task")
    async def plan_task(self, request: PlanRequest) -> Planned:
        params = request.spec.params
        if "wrong" in params:
            raise translate(BadParametersError("wrong is not a parameter of it", to=request.spec.type))
        if "locked" in params or self.lacks_key:
            raise lacks_key()
        policy = Policy.model_validate(params.get("policy", {}))
        stages = cast("list[dict[str, JsonValue]]", params.get("stages", [{"name": "only"}]))
        return Planned(
            plan=Plan(
                task_type=request.spec.type,
                flow=request.spec.type,
                flow_hash=self.flow_hash,
                params=params,
                stages=tuple(Stage.model_validate({"steps": [], **stage}) for stage in stages),
                policy=policy,
                emulator=str(params.get("bound", "")),
            ),
            timing=self.timing,
        )


class NothingDirect(DeliveryActivities):
    """Neither questions nor last words get through directly; batches do."""

    def __init__(self, client: Client, silent_s: float = 0.0) -> None:
        """`silent_s`: how long nothing is heard before it fails."""
        super().__init__(client)
        self.silent_s = silent_s
        self.tried: Counter[str] = Counter()

    @activity.defn
    @override
    async def ask_dispatcher(self, question: AskDispatcher) -> DispatcherAnswer:
        self.tried["ask_dispatcher"] += 1
        await asyncio.sleep(self.silent_s)
        raise ApplicationError("not reached", question.dispatcher)

    @activity.defn
    @override
    async def deliver(self, batch: Batch) -> BatchResult:
        if not activity.info().is_local:
            return await super().deliver(batch)
        self.tried["deliver"] += 1
        await asyncio.sleep(self.silent_s)
        raise ApplicationError("not reached", batch.envelopes[0].target)
