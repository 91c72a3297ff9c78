"""One emulator as an entity: what hosts see of it, what its pool is told, when it must pass a gate."""

import asyncio
import json
from dataclasses import astuple
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.fleet import (
        CareOrder,
        DrainAsk,
        EmulatorInput,
        EmulatorView,
        GateResult,
        GateWork,
        TendResult,
        TendWork,
    )
    from droidherd.contracts.queue import Ordered
    from droidherd.domain import messages as m
    from droidherd.domain.emulator import Action, Ask, Emulator, GateOrder
    from droidherd.domain.ladder import BOOTS, Ladder, Measure, Rung, Trouble
    from workflows import options
    from workflows.courier import Courier
    from workflows.handles import ignore, unless_ended

RESTARTED_FOR_NOBODY = "whoever-is-restarted-is-granted-to-nobody"
HEIRS = "what-was-let-go-is-inherited"
MOVES = "a-pool-hears-of-who-leaves-it"
PROVEN = "restarts-are-forgiven-to-who-was-up"
KEPT = (
    "dispatcher",
    "owner",
    "state",
    "sight",
    "incarnation",
    "host_incarnation",
    "seen_seq",
    "seq",
    "boot",
    "gated_boot",
    "address",
    "serialno",
    "labels",
    "tidy",
    "tidied",
    "tries",
    "draining",
    "evidence",
    "words",
    "asked",
    "held",
    "given_up",
    "rest",
    "stopped",
    "wished",
    "switched",
)


@workflow.defn(name=names.Workflow.EMULATOR)
class EmulatorWorkflow:
    """Drives the machine of `droidherd.domain.emulator`."""

    @workflow.init
    def __init__(self, start: EmulatorInput) -> None:
        self._start = start
        self._machine = restore(start)
        self._machine.strict = workflow.patched(RESTARTED_FOR_NOBODY)
        self._machine.heirs = workflow.patched(HEIRS)
        self._machine.moves = workflow.patched(MOVES)
        self._machine.proven = workflow.patched(PROVEN)

    @workflow.run
    async def run(self, start: EmulatorInput) -> None:
        courier = Courier(self._machine.outbox)
        loops = [asyncio.create_task(one) for one in (courier.run(), self._pass_gates(), self._tend())]
        await unless_ended(lambda: workflow.info().is_continue_as_new_suggested(), *loops)
        try:
            await workflow.wait_condition(courier.idle, timeout=options.CONTINUE_DRAIN_S)
        except TimeoutError:
            workflow.logger.warning("continuing with %d announcements undelivered", len(self._machine.outbox))
        for loop in loops:
            ignore(loop)
            loop.cancel()
        workflow.continue_as_new(start.model_copy(update={"carry": dump(self._machine)}), task_queue=names.FLEET_QUEUE)

    @workflow.signal
    def seen(self, message: m.Seen) -> None:
        self._machine.on_seen(message, _now_ms(), _dice())
        workflow.set_current_details(self._details())

    @workflow.signal
    def tidy(self, message: m.Tidy) -> None:
        self._machine.on_tidy(message)

    @workflow.signal
    def recall(self, message: m.Recall) -> None:
        """The pool's dispatcher lost its memory: announce again."""
        self._machine.on_recall(message, _now_ms())

    @workflow.signal
    def drain(self, ask: DrainAsk) -> None:
        workflow.logger.info("drained by %s: %s", ask.actor, ask.reason)
        self._machine.on_drain(on=True, actor=ask.actor, reason=ask.reason)

    @workflow.signal
    def undrain(self, ask: DrainAsk) -> None:
        workflow.logger.info("undrained by %s: %s", ask.actor, ask.reason)
        self._machine.on_drain(on=False, actor=ask.actor, reason=ask.reason, now_ms=_now_ms())

    @workflow.signal
    def switch(self, message: m.Switch) -> None:
        """The pool needs this emulator, or does not."""
        self._machine.on_switch(message, _now_ms(), _dice())
        workflow.set_current_details(self._details())

    @workflow.update
    def care(self, order: CareOrder) -> Ordered:
        """What a person orders."""
        if order.action in ("drain", "undrain"):
            on, now_ms = order.action == "drain", _now_ms()
            self._machine.on_drain(on=on, actor=order.actor, reason=order.reason, now_ms=now_ms)
            refused = ""
        else:
            ask = Ask(Action(order.action), order.actor, order.reason)
            refused = self._machine.on_care(ask, _now_ms(), _dice())
        workflow.set_current_details(self._details())
        return Ordered(done=not refused, detail=refused)

    @workflow.query
    def view(self) -> EmulatorView:
        machine = self._machine
        return EmulatorView(
            emulator_id=machine.emulator_id,
            host=machine.owner,
            pool=machine.dispatcher.partition("/")[2],
            state=machine.state,
            labels=dict(label.split("=", 1) for label in machine.labels if "=" in label),
            address=machine.address,
            serialno=machine.serialno,
            boot=machine.boot,
            evidence=machine.held or machine.evidence,
            controller=machine.care.controller if machine.care else "",
            doing=_doing(machine),
        )

    async def _pass_gates(self) -> None:
        """Whenever the machine says so: boot gate, fencing, tidying up, on the owner's host queue."""
        while True:
            await workflow.wait_condition(lambda: self._machine.order() is not None)
            order = self._machine.order()
            if order is None:
                continue
            incarnation, began_ms = self._machine.incarnation, _now_ms()
            evidence = await self._gate(order)
            if self._machine.incarnation != incarnation and evidence:
                continue  # its host's worker was replaced meanwhile: that says nothing about the emulator
            self._machine.on_gate(order, evidence, _now_ms(), _dice(), began_ms=began_ms)
            workflow.set_current_details(self._details())
            if evidence:
                await workflow.sleep(self._start.physics.gate_backoff_s * max(self._machine.tries, 1))

    async def _gate(self, order: GateOrder) -> str:
        """Run the gate on the host; give it up when another worker took the host over."""
        incarnation = self._machine.incarnation
        work = GateWork(
            emulator_id=self._machine.emulator_id,
            boot=order.boot,
            full=order.full,
            fence=order.fence,
            floor=int(workflow.time() * 1000),
        )
        physics = self._start.physics
        gate = workflow.start_activity(
            "pass_gate",
            work,
            task_queue=names.host_id(self._machine.owner),
            result_type=GateResult,
            schedule_to_start_timeout=options.seconds(physics.gate_timeout_s),
            start_to_close_timeout=options.seconds(physics.gate_timeout_s),
            heartbeat_timeout=options.seconds(physics.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"{'boot gate' if order.full else 'tidy up'} {self._machine.emulator_id}",
        )
        await workflow.wait_condition(lambda: gate.done() or self._machine.incarnation != incarnation)
        if not gate.done():
            ignore(gate)
            gate.cancel()
            return "the host's worker was replaced"
        try:
            result = await gate
        except ActivityError as error:
            return str(error.cause or error)
        return result.evidence

    # --- the ladder, and being switched on and off --------------------------------------------------------------

    async def _tend(self) -> None:
        """Whatever the machine says is due, on its host. Nothing is, unless a host says what it can do."""
        while True:
            await workflow.wait_condition(lambda: self._machine.due is not None)
            due = self._machine.due
            if due is None or not await self._still_due(due):
                continue
            self._machine.begin(due)
            workflow.set_current_details(self._details())
            result = await self._carry_out(due)
            if result is not None:
                self._machine.on_measure(due, result.evidence, _now_ms(), _dice(), idle=result.idle)
            workflow.set_current_details(self._details())

    async def _still_due(self, due: Measure) -> bool:
        """Wait as long as the measure says. False: it came to something else meanwhile."""
        if due.after_s:
            try:
                await workflow.wait_condition(lambda: self._machine.due != due, timeout=options.seconds(due.after_s))
            except TimeoutError:
                return True
        return self._machine.due == due

    async def _carry_out(self, due: Measure) -> TendResult | None:
        """None: called back, or its host's worker was replaced, or nobody knows whether it was switched off."""
        machine = self._machine
        incarnation, limit_s = machine.incarnation, machine.care.limit_s if machine.care else 0.0
        work = TendWork(
            emulator_id=machine.emulator_id,
            measure=due.rung,
            forced=due.trouble is Trouble.NONE,
            boot=machine.boot if due.trouble is Trouble.UNFIT else "",
            fence=machine.tidy,
            floor=int(workflow.time() * 1000),
            why=machine.evidence,
        )
        boots = due.rung in BOOTS
        tending = workflow.start_activity(
            "tend",
            work,
            task_queue=names.boots(machine.owner) if boots else names.host_id(machine.owner),
            result_type=TendResult,
            schedule_to_start_timeout=None if boots else options.seconds(self._start.physics.gate_timeout_s),
            start_to_close_timeout=options.seconds(max(limit_s, self._start.physics.gate_timeout_s)),
            heartbeat_timeout=options.seconds(self._start.physics.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"{due.rung} {machine.emulator_id}",
        )
        await workflow.wait_condition(
            lambda: tending.done() or machine.due != due or machine.incarnation != incarnation
        )
        if not tending.done():
            ignore(tending)
            tending.cancel()
            return None
        try:
            return await tending
        except ActivityError as error:
            if machine.strict and due.rung is Rung.STOP and isinstance(error.cause, ActivityTimeout):
                return None  # it may be off, or be switched off yet: it drains, and is switched off once more
            return TendResult(evidence=f"{due.rung}: {error.cause or error}")

    def _details(self) -> str:
        machine = self._machine
        said = machine.held or (f"last trouble: {machine.evidence}" if machine.evidence else "")
        doing = f", {_doing(machine)}" if machine.due else ""
        evidence = f"\n\n{said}" if said else ""
        return f"**{machine.state}** on host {machine.owner or '?'} at {machine.address or '?'}{doing}{evidence}"


def _doing(machine: Emulator) -> str:
    """What its host does for it, or is about to do."""
    if machine.due is None:
        return ""
    when = "" if machine.sent else f" in {machine.due.after_s:g} s, unless it comes back" if machine.due.after_s else ""
    return f"{machine.due.rung}{when}"


def _now_ms() -> int:
    return int(workflow.time() * 1000)


def _dice() -> float:
    return workflow.random().random()


def dump(machine: Emulator) -> str:
    """What the next run takes along."""
    kept: dict[str, Any] = {name: getattr(machine, name) for name in KEPT}
    ladder = machine.ladder
    tending = {
        "care": list(astuple(machine.care)) if machine.care else None,
        "ladder": [list(ladder.tried), ladder.restarts, ladder.restarted_ms, ladder.number, ladder.well_ms],
        "due": list(astuple(machine.due)) if machine.due else None,
    }
    return json.dumps({"kept": kept, "outbox": machine.outbox.rows(), "tending": tending})


def restore(start: EmulatorInput) -> Emulator:
    # A workflow that starts anew, after its predecessor was terminated, must not be taken for an older one.
    machine = Emulator(start.emulator_id, incarnation=int(workflow.info().workflow_start_time.timestamp() * 1000))
    if start.carry:
        load(machine, start.carry)
    return machine


def load(machine: Emulator, carry: str) -> None:
    """What the run before left."""
    carried = json.loads(carry)
    for name, value in carried["kept"].items():
        setattr(machine, name, value)
    machine.state, machine.sight = m.EmulatorState(machine.state), m.Sight(machine.sight)
    machine.labels = tuple(machine.labels)
    order, actor, reason = machine.asked
    machine.asked = (order, actor, reason)
    machine.outbox.restore(carried["outbox"])
    if tending := carried.get("tending"):
        _restore_tending(machine, tending)


def _restore_tending(machine: Emulator, tending: dict[str, Any]) -> None:
    """What was being done is done again: the run before may have ended in the middle of it."""
    if tending["care"]:
        machine.care = m.Care(*tending["care"])
    tried, restarts, restarted_ms, number, *well_ms = tending["ladder"]
    # A run that began before did not write down when it was up again.
    machine.ladder = Ladder(tuple(tried), restarts, restarted_ms, number, *(well_ms or [restarted_ms]))
    if tending["due"]:
        number, rung, trouble, after_s = tending["due"]
        machine.due = Measure(number, Rung(rung), Trouble(trouble), after_s)
