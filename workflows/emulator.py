"""One emulator as an entity: what hosts see of it, what its pool is told, when it must pass a gate."""

import asyncio
import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as ActivityTimeout

from droidherd.contracts import names
from droidherd.contracts.engine import OrdersWork
from droidherd.contracts.fleet import (
    DrainRequest,
    EmulatorControl,
    EmulatorInput,
    EmulatorView,
    GateResult,
    GateWork,
    RecoveryResult,
    RecoveryWork,
)
from droidherd.contracts.queue import CommandResult
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import (
    Emulator,
    EmulatorAction,
    EmulatorRequest,
    EmulatorState,
    GateRequest,
    StandingOrders,
)
from droidherd.domain.fleet.recovery import BOOTS, EmulatorTrouble, PlannedStep, RecoveryStep
from workflows import calls, options
from workflows.delivery import Delivery
from workflows.handles import start_timer
from workflows.inbound import protected

R = TypeVar("R")
S = TypeVar("S")


@dataclass(slots=True)
class _HostJob(Generic[R, S]):
    """An activity that its host carries out, and what it was asked for."""

    activity: calls.Call[R]
    asked: S
    incarnation: int
    began_ms: int


@dataclass(slots=True)
class _Pause:
    """A timer before a planned step."""

    step: PlannedStep
    timer: asyncio.TimerHandle | None = None
    over: bool = False

    def end(self) -> None:
        self.over = True


@protected(own=("state",), cancellable=False)
@workflow.defn(name=names.Workflow.EMULATOR)
class EmulatorWorkflow:
    """Drives the machine of `droidherd.domain.fleet.emulator`. Only `_turn` issues commands."""

    @workflow.init
    def __init__(self, start: EmulatorInput) -> None:
        self._timing = start.timing
        self._machine = _machine(start)
        self._knows_orders = start.state is not None
        """Until then an order may change something although nothing here says so."""
        self._delivery = Delivery(self._machine.outbox)
        self._gate: _HostJob[GateResult, GateRequest] | None = None
        self._gate_failed = False
        """The gate that ended last was not passed: the next one waits for a while."""
        self._gate_backoff = False
        self._step: _HostJob[RecoveryResult, PlannedStep] | None = None
        self._pause: _Pause | None = None
        self._logged = self._machine.state.status
        self._written = StandingOrders()
        """What stands in the memo, as far as this run wrote it."""

    @workflow.run
    async def run(self, start: EmulatorInput) -> None:
        if start.state is None:
            self._machine.restore(await self._find_orders())
            self._knows_orders = True
        while not workflow.info().is_continue_as_new_suggested():
            await workflow.wait_condition(lambda: self._is_due() or workflow.info().is_continue_as_new_suggested())
            await self._turn()
        await self._delivery.drain()
        workflow.continue_as_new(start.model_copy(update={"state": self._machine.state}), task_queue=names.FLEET_QUEUE)

    async def _find_orders(self) -> StandingOrders:
        """Its pool is told nothing before this is known, so it is asked until it is answered."""
        state = self._machine.state
        while True:
            try:
                return await calls.execute_activity(
                    "find_orders",
                    OrdersWork(emulator_id=state.emulator_id, run_id=workflow.info().run_id),
                    StandingOrders,
                    summary=f"looks for what people ordered for {state.emulator_id}",
                    start_to_close_timeout=options.ENGINE_TIMEOUT,
                    schedule_to_close_timeout=options.ENGINE_TOTAL,
                    retry_policy=options.ENGINE_RETRY,
                )
            except ActivityError as error:
                workflow.logger.warning("what people ordered is not found yet: %s", error.cause)

    # --- what arrives: changes the state, and nothing else ----------------------------------------------------

    @workflow.signal
    def seen(self, message: m.Seen) -> None:
        self._machine.on_seen(message, _now_ms(), _dice())

    @workflow.signal
    def reset(self, message: m.Reset) -> None:
        self._machine.on_reset(message)

    @workflow.signal
    def recall(self, message: m.Recall) -> None:
        """The pool's dispatcher lost its memory: announce again."""
        self._machine.on_recall(message, _now_ms())

    @workflow.signal
    def drain(self, request: DrainRequest) -> None:
        """No new task starts on it; the running one may end."""
        workflow.logger.info("drained by %s: %s", request.actor, request.reason)
        self._machine.on_drain(on=True, actor=request.actor, reason=request.reason)

    @workflow.signal
    def undrain(self, request: DrainRequest) -> None:
        """Let new tasks start on it again."""
        workflow.logger.info("undrained by %s: %s", request.actor, request.reason)
        self._machine.on_drain(on=False, actor=request.actor, reason=request.reason, now_ms=_now_ms())

    @workflow.signal
    def switch(self, message: m.Switch) -> None:
        """The pool needs this emulator, or does not."""
        self._machine.on_switch(message, _now_ms(), _dice())

    @workflow.update
    def control(self, request: EmulatorControl) -> CommandResult:
        """What a person orders."""
        if self._knows_orders and (why := self._machine.why_idle(request.action)):
            return CommandResult(done=True, detail=f"nothing to do: {why}")
        if request.action in ("drain", "undrain"):
            on, now_ms = request.action == "drain", _now_ms()
            self._machine.on_drain(on=on, actor=request.actor, reason=request.reason, now_ms=now_ms)
            return CommandResult(done=True)
        action = EmulatorRequest(EmulatorAction(request.action), request.actor, request.reason)
        refused = self._machine.on_control(action, _now_ms(), _dice())
        return CommandResult(done=not refused, detail=refused)

    @workflow.query
    def view(self) -> EmulatorView:
        """The emulator as its host sees it."""
        state = self._machine.state
        return EmulatorView(
            emulator_id=state.emulator_id,
            host=state.owner,
            pool=state.dispatcher.partition("/")[2],
            state=state.status,
            labels=dict(label.split("=", 1) for label in state.labels if "=" in label),
            address=state.address,
            serialno=state.serialno,
            boot=state.boot,
            evidence=state.quarantined_by or _drained_or_found(state),
            controller=state.recovery.controller if state.recovery else "",
            doing=_doing(state),
            last_good_probe=datetime.fromtimestamp(state.good_at_ms / 1000, UTC) if state.good_at_ms else None,
        )

    @workflow.query
    def state(self) -> EmulatorState:
        """Everything that is known of it."""
        return self._machine.state

    # --- the loop ---------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Whether a turn has something to do."""
        unwritten = self._machine.orders() != self._written
        return unwritten or self._delivery.is_due() or self._gate_is_due() or self._step_is_due()

    async def _turn(self) -> None:
        """First what ended, then deliveries, then what the host is to do and when."""
        self._settle_gate()
        self._settle_step()
        await self._delivery.send()
        self._follow_gate()
        self._follow_step()
        self._write_orders()
        self._log_status()
        workflow.set_current_details(self._details())

    def _write_orders(self) -> None:
        """Into the memo: it survives a terminate, and whoever reads it needs no replay."""
        orders = self._machine.orders()
        if orders != self._written:
            workflow.upsert_memo({names.MEMO_ORDERS: dataclasses.asdict(orders)})
            self._written = orders

    def _log_status(self) -> None:
        state = self._machine.state
        before, self._logged = self._logged, state.status
        if before is not state.status:
            facts = {"emulator": state.emulator_id, "state": state.status, "before": before, "why": state.why()}
            workflow.logger.info("emulator is %s", state.status, extra=facts)

    # --- gates: boot gate, fencing, reset ---------------------------------------------------------------------

    def _gate_is_due(self) -> bool:
        if self._gate is not None:
            return self._gate.activity.done() or self._is_outdated(self._gate)
        return self._gate_failed or (not self._gate_backoff and self._machine.gate_request() is not None)

    def _settle_gate(self) -> None:
        """Take note of a gate that ended. How it went under a worker that was replaced says nothing."""
        job = self._gate
        if job is None or not job.activity.done():
            return
        self._gate = None
        evidence, token = _result_of_gate(job.activity)
        if evidence and self._is_outdated(job):
            return
        evidence = evidence or self._machine.note_token(token, _now_ms())
        self._machine.on_gate(job.asked, evidence, _now_ms(), _dice(), began_ms=job.began_ms)
        self._gate_failed = bool(evidence)

    def _follow_gate(self) -> None:
        """Call back the gate of a worker that was replaced, wait after one that failed, begin the next."""
        if self._gate is not None and self._is_outdated(self._gate):
            _call_back(self._gate.activity)
            self._gate = None
        if self._gate_failed:
            self._gate_failed, self._gate_backoff = False, True
            backoff_s = self._timing.gate_backoff_s * max(self._machine.state.tries, 1)
            start_timer(backoff_s, self._end_gate_backoff, "tries the boot gate again")
        request = self._machine.gate_request()
        if self._gate is None and request is not None and not self._gate_backoff:
            self._gate = _HostJob(self._begin_gate(request), request, self._machine.state.incarnation, _now_ms())

    def _end_gate_backoff(self) -> None:
        self._gate_backoff = False

    def _begin_gate(self, request: GateRequest) -> calls.Call[GateResult]:
        state, timing = self._machine.state, self._timing
        work = GateWork(
            emulator_id=state.emulator_id,
            boot=request.boot,
            full=request.full,
            fence=request.fence,
            floor=max(_now_ms(), state.token),
        )
        return calls.start_activity(
            "pass_gate",
            work,
            GateResult,
            task_queue=names.host_id(state.owner),
            schedule_to_start_timeout=options.seconds(timing.gate_timeout_s),
            start_to_close_timeout=options.seconds(timing.gate_timeout_s),
            heartbeat_timeout=options.seconds(timing.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"{'boot gate' if request.full else 'reset'} {state.emulator_id}",
        )

    # --- recovery steps, and being switched on and off --------------------------------------------------------

    def _step_is_due(self) -> bool:
        due = self._machine.state.due
        if self._step is not None:
            return self._step.activity.done() or self._is_called_back(self._step)
        if self._pause is not None:
            return self._pause.over or self._pause.step != due
        return due is not None

    def _is_called_back(self, job: _HostJob[RecoveryResult, PlannedStep]) -> bool:
        return job.asked != self._machine.state.due or self._is_outdated(job)

    def _settle_step(self) -> None:
        """Take note of a step that ended, and begin one whose pause is over."""
        job = self._step
        if job is not None and job.activity.done():
            self._step = None
            result = _result_of_step(job)
            if result is not None:
                self._machine.on_step_done(job.asked, result.evidence, _now_ms(), _dice(), idle=result.idle)

    def _follow_step(self) -> None:
        """Call back what is wanted no more; wait as long as the planned step says, then begin it."""
        if self._step is not None and self._is_called_back(self._step):
            _call_back(self._step.activity)
            self._step = None
        due = self._machine.state.due
        if self._pause is not None and self._pause.step != due:
            if self._pause.timer is not None:
                self._pause.timer.cancel()
            self._pause = None
        if self._step is not None or due is None:
            return
        if self._pause is None and due.after_s:
            self._pause = _Pause(due)
            self._pause.timer = start_timer(due.after_s, self._pause.end, f"{due.step}, unless it comes back")
        elif self._pause is None or self._pause.over:
            self._pause = None
            self._machine.begin_step(due)
            self._step = _HostJob(self._begin_step(due), due, self._machine.state.incarnation, _now_ms())

    def _begin_step(self, due: PlannedStep) -> calls.Call[RecoveryResult]:
        state, timing = self._machine.state, self._timing
        work = RecoveryWork(
            emulator_id=state.emulator_id,
            step=due.step,
            forced=due.trouble is EmulatorTrouble.NONE,
            boot=state.boot if due.trouble is EmulatorTrouble.UNFIT else "",
            fence=state.reset_wanted,
            floor=_now_ms(),
            why=state.evidence,
        )
        boots = due.step in BOOTS
        limit_s = state.recovery.limit_s if state.recovery else 0.0
        return calls.start_activity(
            "recover",
            work,
            RecoveryResult,
            task_queue=names.boots(state.owner) if boots else names.host_id(state.owner),
            schedule_to_start_timeout=None if boots else options.seconds(timing.gate_timeout_s),
            start_to_close_timeout=options.seconds(max(limit_s, timing.gate_timeout_s)),
            heartbeat_timeout=options.seconds(timing.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"{due.step} {state.emulator_id}",
        )

    def _is_outdated(self, job: "_HostJob[GateResult, GateRequest] | _HostJob[RecoveryResult, PlannedStep]") -> bool:
        """Whether another worker took the host over meanwhile."""
        return job.incarnation != self._machine.state.incarnation

    def _details(self) -> str:
        state = self._machine.state
        parts = [f"**{state.status}** on host {state.owner or '?'} at {state.address or '?'}"]
        if why := state.quarantined_by or state.drained_by:
            parts.append(why)
        if state.evidence and not state.quarantined_by:
            parts.append(f"last trouble: {state.evidence}")
        if state.due:
            parts.append(f"next: {_doing(state)}")
        if state.good_at_ms:
            good_at = datetime.fromtimestamp(state.good_at_ms / 1000, UTC)
            parts.append(f"last good probe that its host reported: {good_at:%Y-%m-%d %H:%M:%S} UTC")
        return "\n\n".join(parts)


def _machine(start: EmulatorInput) -> Emulator:
    if start.state is not None:
        machine = Emulator(start.state)
        machine.resume()
        return machine
    # A workflow that starts anew, after its predecessor was terminated, must not be taken for an older one.
    began_ms = int(workflow.info().workflow_start_time.timestamp() * 1000)
    return Emulator(EmulatorState(start.emulator_id, incarnation=began_ms, seq=began_ms))


def _result_of_gate(gate: calls.Call[GateResult]) -> tuple[str, int]:
    """Why it was not passed, and the lease of a token of others that stands on the emulator."""
    try:
        result = gate.result()
    except ActivityError as error:
        return str(error.cause or error), 0
    return result.evidence, result.token


def _result_of_step(job: _HostJob[RecoveryResult, PlannedStep]) -> RecoveryResult | None:
    """None: nobody knows whether it was switched off, or will be. It drains, and is switched off once more."""
    try:
        return job.activity.result()
    except ActivityError as error:
        if job.asked.step is RecoveryStep.STOP and isinstance(error.cause, ActivityTimeout):
            return None
        return RecoveryResult(evidence=f"{job.asked.step}: {error.cause or error}")


def _call_back(activity: calls.Call[R]) -> None:
    if not activity.done():
        activity.drop()


def _drained_or_found(state: EmulatorState) -> str:
    """Who drained it and why, and what was found wrong with it."""
    drained = f"drained {state.drained_by}" if state.draining else ""
    return "; ".join(one for one in (drained, state.evidence) if one)


def _doing(state: EmulatorState) -> str:
    """What its host does for it, or is about to do."""
    if state.due is None:
        return ""
    when = "" if state.sent else f" in {state.due.after_s:g} s, unless it comes back" if state.due.after_s else ""
    return f"{state.due.step}{when}"


def _now_ms() -> int:
    return int(workflow.time() * 1000)


def _dice() -> float:
    return workflow.random().random()
