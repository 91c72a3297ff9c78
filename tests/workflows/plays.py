"""What the stand-in activities do instead of driving emulators: one play per try of a stage, in order."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.failures import translate, unclassified
from droidherd.contracts.changes import Change, Conflict, Value
from droidherd.contracts.fleet import GateResult, GateWork
from droidherd.contracts.plan import Plan, Policy, Stage, TaskPhysics
from droidherd.contracts.post import Asking, Parting, Verdict
from droidherd.contracts.stage import (
    Captured,
    Planned,
    PlanRequest,
    StageOutcome,
    StageReport,
    StageTrouble,
    StageWork,
    UndoReport,
    UndoWork,
)
from droidherd.contracts.tasks import ArtifactView
from droidherd.domain.errors import Asks, BadParametersError, DroidherdError, NeedsPersonError
from droidherd.stay import StayError

Play = Callable[[StageWork], Awaitable[StageReport]]
BEAT_S = 0.05
PATIENCE_S = 30.0
"""No play lasts longer: a test that forgot to let go fails instead of hanging."""


async def completes(work: StageWork) -> StageReport:
    frame = ArtifactView(name=f"{work.key.attempt}-{work.stage_index}.png", size=7, content_type="image/png")
    return StageReport(outcome=StageOutcome.COMPLETED, worker="w1", released=work.last, seconds=0.5, artifacts=(frame,))


def fails(error: DroidherdError, *, clean: bool = True) -> Play:
    """Says so itself, with type and verdict, as a real stage would."""

    async def play(work: StageWork) -> StageReport:
        raise translate(error, StayError(error, clean=clean, artifacts=()))

    return play


def again_in(delay: timedelta) -> Play:
    """Completes, and wants to run again after a while."""

    async def play(work: StageWork) -> StageReport:
        at = activity.info().started_time + delay
        return (await completes(work)).model_copy(update={"again_at": at})

    return play


def asks(*, keep: bool = True, within_s: float = 20.0) -> Play:
    """Only a person can say how to go on."""
    error = NeedsPersonError("did it pay?", Asks("3", ("yes", "no"), within_s, keep))
    return fails(error, clean=not keep)


async def breaks(work: StageWork) -> StageReport:
    """A bug nobody foresaw."""
    raise unclassified(ZeroDivisionError("division by zero"))


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
class AtTheDoor(Hold):
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
class Stages:
    """What runs on every emulator's queue: stages, captures, undos. Things are texts in a table."""

    plays: dict[str, list[Play]] = field(default_factory=dict)
    seen: list[StageWork] = field(default_factory=list)
    captures: list[StageWork] = field(default_factory=list)
    undos: list[UndoWork] = field(default_factory=list)
    things: dict[tuple[str, str], str] = field(default_factory=dict)
    """(emulator, name) → what it is."""

    @activity.defn(name="run_stage")
    async def run_stage(self, work: StageWork) -> StageReport:
        self.seen.append(work)
        line = self.plays.get(work.task_id)
        return await (line.pop(0) if line else completes)(work)

    @activity.defn(name="capture_before")
    async def capture_before(self, work: StageWork) -> Captured:
        self.captures.append(work)
        return Captured(worker="w1", before=self._values(work.emulator_id, work.stage.changes if work.stage else ()))

    @activity.defn(name="undo_stage")
    async def undo_stage(self, work: UndoWork) -> UndoReport:
        self.undos.append(work)
        undo = work.undo
        after = {value.name: value.value for value in undo.after}
        found = {value.name: self.things.get((undo.emulator, value.name), "") for value in undo.before}
        conflicts = [
            Conflict(step=v.step, thing=v.thing, name=v.name, expected=after.get(v.name, ""), found=found[v.name])
            for v in undo.before
            if found[v.name] not in (v.value, after.get(v.name, ""))
        ]
        if conflicts and not work.force:
            return UndoReport(worker="w1", released=work.last, conflicts=tuple(conflicts))
        for value in undo.before:
            self.things[undo.emulator, value.name] = value.value
        return UndoReport(worker="w1", released=work.last, restored=tuple(value.step for value in undo.before))

    def sets(self, value: str, then: "Play | None" = None) -> Play:
        """A stage that changes every thing it names."""

        async def play(work: StageWork) -> StageReport:
            changes = work.stage.changes if work.stage else ()
            for change in changes:
                self.things[work.emulator_id, change.name] = value
            after = self._values(work.emulator_id, changes)
            try:
                report = await (then or completes)(work)
            except ApplicationError as error:
                trouble = StageTrouble.model_validate(error.details[0]).model_copy(update={"after": after})
                raise ApplicationError(error.message, trouble, type=error.type, non_retryable=True) from error
            return report.model_copy(update={"after": after})

        return play

    def _values(self, emulator: str, changes: tuple[Change, ...]) -> tuple[Value, ...]:
        return tuple(
            Value(step=c.step, thing=c.thing, name=c.name, value=self.things.get((emulator, c.name), ""))
            for c in changes
        )

    def all(self) -> list[Callable[..., object]]:
        return [self.run_stage, self.capture_before, self.undo_stage]

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
class Planner:
    """`plan_task`: the parameters themselves say what the plan is."""

    physics: TaskPhysics

    @activity.defn(name="plan_task")
    async def plan_task(self, request: PlanRequest) -> Planned:
        params = request.spec.params
        if "wrong" in params:
            raise translate(BadParametersError("wrong is not a parameter of it", to=request.spec.type))
        policy = Policy.model_validate(params.get("policy", {}))
        stages = cast("list[dict[str, JsonValue]]", params.get("stages", [{"name": "only"}]))
        return Planned(
            plan=Plan(
                task_type=request.spec.type,
                flow=request.spec.type,
                flow_hash="0123",
                params=params,
                stages=tuple(Stage.model_validate({"steps": [], **stage}) for stage in stages),
                policy=policy,
                emulator=str(params.get("bound", "")),
            ),
            physics=self.physics,
        )


@dataclass
class DeadLine:
    """Neither questions nor last words get through directly."""

    silent_s: float = 0.0
    """How long nothing is heard before the line breaks."""
    tried: Counter[str] = field(default_factory=Counter)

    @activity.defn
    async def ask(self, asking: Asking) -> Verdict:
        self.tried["ask"] += 1
        await asyncio.sleep(self.silent_s)
        raise ApplicationError("the line is dead", asking.dispatcher)

    @activity.defn
    async def part(self, parting: Parting) -> None:
        self.tried["part"] += 1
        await asyncio.sleep(self.silent_s)
        raise ApplicationError("the line is dead", parting.dispatcher)

    def all(self) -> list[Callable[..., object]]:
        return [self.ask, self.part]
