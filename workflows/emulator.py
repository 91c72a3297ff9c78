"""One emulator as an entity: what hosts see of it, what its pool is told, when it must pass a gate."""

import asyncio
import json
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.fleet import DrainAsk, EmulatorInput, EmulatorView, GateResult, GateWork
    from droidherd.domain import messages as m
    from droidherd.domain.emulator import Emulator, GateOrder
    from workflows import options
    from workflows.courier import Courier
    from workflows.handles import ignore, unless_ended

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
)


@workflow.defn(name=names.Workflow.EMULATOR)
class EmulatorWorkflow:
    """Drives the machine of `droidherd.domain.emulator`."""

    @workflow.init
    def __init__(self, start: EmulatorInput) -> None:
        self._start = start
        self._machine = restore(start)

    @workflow.run
    async def run(self, start: EmulatorInput) -> None:
        courier = Courier(self._machine.outbox)
        loops = [asyncio.create_task(courier.run()), asyncio.create_task(self._pass_gates())]
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
        self._machine.on_seen(message)
        workflow.set_current_details(self._details())

    @workflow.signal
    def tidy(self, message: m.Tidy) -> None:
        self._machine.on_tidy(message)

    @workflow.signal
    def recall(self, message: m.Recall) -> None:  # noqa: ARG002 - the contract of the signal
        """The pool's dispatcher lost its memory: announce again."""
        self._machine.on_recall()

    @workflow.signal
    def drain(self, ask: DrainAsk) -> None:
        workflow.logger.info("drained by %s: %s", ask.actor, ask.reason)
        self._machine.on_drain(on=True, actor=ask.actor, reason=ask.reason)

    @workflow.signal
    def undrain(self, ask: DrainAsk) -> None:
        workflow.logger.info("undrained by %s: %s", ask.actor, ask.reason)
        self._machine.on_drain(on=False, actor=ask.actor, reason=ask.reason)

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
            evidence=machine.evidence,
        )

    async def _pass_gates(self) -> None:
        """Whenever the machine says so: boot gate, fencing, tidying up, on the owner's host queue."""
        while True:
            await workflow.wait_condition(lambda: self._machine.order() is not None)
            order = self._machine.order()
            if order is None:
                continue
            incarnation = self._machine.incarnation
            evidence = await self._gate(order)
            if self._machine.incarnation != incarnation and evidence:
                continue  # its host's worker was replaced meanwhile: that says nothing about the emulator
            self._machine.on_gate(order, evidence)
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

    def _details(self) -> str:
        machine = self._machine
        evidence = f"\n\nlast trouble: {machine.evidence}" if machine.evidence else ""
        return f"**{machine.state}** on host {machine.owner or '?'} at {machine.address or '?'}{evidence}"


def dump(machine: Emulator) -> str:
    """What the next run takes along."""
    kept: dict[str, Any] = {name: getattr(machine, name) for name in KEPT}
    return json.dumps({"kept": kept, "outbox": machine.outbox.rows()})


def restore(start: EmulatorInput) -> Emulator:
    # A workflow that starts anew, after its predecessor was terminated, must not be taken for an older one.
    machine = Emulator(start.emulator_id, incarnation=int(workflow.info().workflow_start_time.timestamp() * 1000))
    if start.carry:
        carried = json.loads(start.carry)
        for name, value in carried["kept"].items():
            setattr(machine, name, value)
        machine.state, machine.sight = m.EmulatorState(machine.state), m.Sight(machine.sight)
        machine.labels = tuple(machine.labels)
        order, actor, reason = machine.asked
        machine.asked = (order, actor, reason)
        machine.outbox.restore(carried["outbox"])
    return machine
