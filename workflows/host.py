"""One host: which emulators it sees, through one heartbeating presence activity, whoever its worker is."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.fleet import HostInput, Join, Joined, PresenceEnd, PresenceWork, Reports
    from droidherd.domain.messages import Seen, Sight
    from droidherd.domain.outbox import Outbox, pack, unpack
    from workflows import options
    from workflows.courier import Courier
    from workflows.handles import ignore, unless_ended

UNLISTED_HAVE_LEFT = "who-is-not-listed-has-left"
SHOWN = 100
"""Emulators listed in the Web UI."""


@workflow.defn(name=names.Workflow.HOST)
class HostWorkflow:
    """Passes on what its worker sees. Silence makes emulators suspect, longer silence down."""

    @workflow.init
    def __init__(self, start: HostInput) -> None:
        self._host = start.host_id
        self._worker: Join | None = None
        self._alive = False
        # After a run that was terminated, what it says must not be taken for older than what that one said.
        self._seq = int(workflow.info().workflow_start_time.timestamp() * 1000)
        self._last: dict[str, Seen] = {}
        self._outbox: Outbox[Seen] = Outbox()
        if start.carry:
            self._restore(start.carry)

    @workflow.run
    async def run(self, start: HostInput) -> None:
        courier = Courier(self._outbox)
        loops = [asyncio.create_task(courier.run()), asyncio.create_task(self._watch())]
        await unless_ended(lambda: workflow.info().is_continue_as_new_suggested(), *loops)
        try:
            await workflow.wait_condition(
                lambda: courier.idle() and workflow.all_handlers_finished(), timeout=options.CONTINUE_DRAIN_S
            )
        except TimeoutError:
            workflow.logger.warning("continuing with %d sightings undelivered", len(self._outbox))
        for loop in loops:
            ignore(loop)
            loop.cancel()
        workflow.continue_as_new(start.model_copy(update={"carry": self._dump()}), task_queue=names.FLEET_QUEUE)

    # --- the worker -------------------------------------------------------------------------------------------

    @workflow.update
    def join(self, join: Join) -> Joined:
        """A worker takes this host's place. A second machine under the same id is refused while the first lives."""
        present = self._worker
        if present is not None and self._alive and present.machine != join.machine:
            return Joined(accepted=False, reason=f"host id {self._host} is served by {present.worker}")
        if present is not None and join.incarnation <= present.incarnation:
            accepted = join.incarnation == present.incarnation
            return Joined(accepted=accepted, reason="" if accepted else "a newer worker has joined already")
        self._worker = join
        return Joined(accepted=True)

    @workflow.signal
    def reports(self, reports: Reports) -> None:
        """What the presence activity of the present worker found."""
        if self._worker is None or reports.incarnation != self._worker.incarnation:
            return
        self._alive = True
        if reports.listed is not None:
            self._pass_on(self._unlisted(frozenset(reports.listed)))
        self._pass_on(reports.seen)

    @workflow.query
    def view(self) -> dict[str, str]:
        """Which emulator was seen how, last."""
        return {name: seen.sight for name, seen in self._last.items()}

    # --- presence ---------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """One presence activity after the other, for the worker that joined last."""
        while True:
            await workflow.wait_condition(lambda: self._worker is not None)
            worker = self._worker
            if worker is not None:
                await self._watch_worker(worker)

    async def _watch_worker(self, worker: Join) -> None:
        presence = workflow.start_activity(
            "presence",
            PresenceWork(host_id=self._host, incarnation=worker.incarnation, pool=worker.pool),
            task_queue=names.host_id(self._host),
            result_type=PresenceEnd,
            schedule_to_start_timeout=options.seconds(worker.physics.presence_grace_s),
            start_to_close_timeout=options.PRESENCE_LIFE,
            heartbeat_timeout=options.seconds(worker.physics.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"presence of {worker.worker}",
        )
        self._show()
        await workflow.wait_condition(lambda: presence.done() or self._worker is not worker)
        if not presence.done():
            ignore(presence)
            presence.cancel()
            return
        try:
            end = await presence
        except ActivityError as error:
            self._lost(error)
        else:
            self._pass_on(end.seen)
            self._alive = False
            if self._worker is worker:
                self._worker = None
            self._show()

    def _lost(self, error: ActivityError) -> None:
        """Silence: suspect. Not even a restart within the grace: down, until a worker joins again."""
        cause = error.cause
        never_started = isinstance(cause, ActivityTimeout) and cause.type == TimeoutType.SCHEDULE_TO_START
        workflow.logger.warning("presence of %s was lost: %s", self._host, cause)
        if never_started:
            self._worker, self._alive = None, False
        sight = Sight.DOWN if never_started else Sight.SUSPECT
        before = (Sight.GOOD, Sight.LEAVING, *((Sight.SUSPECT,) if never_started else ()))
        # Without `care`: nobody is left here who could do anything for them.
        lost = [replace(seen, sight=sight, care=None) for seen in self._last.values() if seen.sight in before]
        self._pass_on(lost)

    def _unlisted(self, listed: frozenset[str]) -> list[Seen]:
        """Who was taken off the list while no presence followed it: nobody else would ever say that it left."""
        gone = [seen for name, seen in self._last.items() if name not in listed]
        if not gone or not workflow.patched(UNLISTED_HAVE_LEFT):
            return []
        return [replace(seen, sight=Sight.LEFT, boot="", care=None) for seen in gone]

    def _pass_on(self, seen: Iterable[Seen]) -> None:
        """To each emulator's own workflow, numbered by us: an order over all workers of this host."""
        incarnation = self._worker.incarnation if self._worker else 0
        for one in seen:
            self._seq += 1
            message = replace(one, seq=self._seq, incarnation=max(one.incarnation, incarnation))
            self._last[one.emulator_id] = message
            if message.sight is Sight.LEFT:
                del self._last[one.emulator_id]
            self._outbox.put(names.emulator_id(one.emulator_id), message)
        self._show()

    def _show(self) -> None:
        by = f"watched by {self._worker.worker}" if self._worker else "watched by nobody"
        sights = "".join(f"\n- {name}: {seen.sight}" for name, seen in list(self._last.items())[:SHOWN])
        workflow.set_current_details(f"**host {self._host}**: {by}, {len(self._last)} emulators{sights}")

    def _dump(self) -> str:
        worker = self._worker.model_dump(mode="json") if self._worker else None
        last = [pack(seen) for seen in self._last.values()]
        return json.dumps(
            {"worker": worker, "alive": self._alive, "seq": self._seq, "last": last, "outbox": self._outbox.rows()}
        )

    def _restore(self, carry: str) -> None:
        carried = json.loads(carry)
        self._worker = Join.model_validate(carried["worker"]) if carried["worker"] else None
        self._alive, self._seq = carried["alive"], carried["seq"]
        self._last = {seen.emulator_id: seen for seen in map(unpack, carried["last"])}
        self._outbox.restore(carried["outbox"])
