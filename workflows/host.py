"""One host: which emulators it sees, through one heartbeating presence activity, whoever its worker is."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout

from droidherd.contracts import names
from droidherd.contracts.fleet import HostInput, HostState, Join, Joined, PresenceEnd, PresenceWork, Reports
from droidherd.domain import messages as m
from droidherd.domain.messages import Health, Seen
from droidherd.domain.outbox import Outbox
from workflows import calls, options
from workflows.delivery import Delivery
from workflows.handles import start_timer
from workflows.inbound import protected

SHOWN = 100
"""Emulators listed in the Web UI."""
EMULATORS_MAX = 500
EMULATORS_BYTES = 200_000
"""Emulators of one host, and what their names, labels and addresses may have in characters."""


@dataclass(frozen=True, slots=True)
class _Presence:
    """The presence activity of one worker."""

    worker: Join
    activity: calls.Call[PresenceEnd]


@protected(own=("state",), cancellable=False)
@workflow.defn(name=names.Workflow.HOST)
class HostWorkflow:
    """Passes on what its worker sees. Silence makes emulators suspect, longer silence down.

    Only `_turn` issues commands.
    """

    @workflow.init
    def __init__(self, start: HostInput) -> None:
        self._host = start.host_id
        # After a run that was terminated, what it reports must not be taken for older than what that one reported.
        began_ms = int(workflow.info().workflow_start_time.timestamp() * 1000)
        self._state = start.state or HostState(seq=began_ms)
        self._outbox = Outbox(self._state.outbox)
        self._delivery = Delivery(self._outbox)
        self._weight = sum(map(_weight, self._state.last.values()))
        self._presence: _Presence | None = None
        self._failed: Join | None = None
        """The worker whose presence raised an error: it is begun again after a pause."""
        self._pauses = False

    @workflow.run
    async def run(self, start: HostInput) -> None:
        while not workflow.info().is_continue_as_new_suggested():
            await workflow.wait_condition(lambda: self._is_due() or workflow.info().is_continue_as_new_suggested())
            await self._turn()
        await self._delivery.drain()
        workflow.continue_as_new(start.model_copy(update={"state": self._state}), task_queue=names.FLEET_QUEUE)

    # --- what arrives: changes the state, and nothing else ----------------------------------------------------

    @workflow.update
    def join(self, join: Join) -> Joined:
        """A worker takes this host's place. A second machine under the same id is refused while the first lives."""
        state, present = self._state, self._state.worker
        if present is not None and state.alive and present.machine != join.machine:
            return Joined(accepted=False, reason=f"host id {self._host} is served by {present.worker}")
        if present is not None and join.incarnation == present.incarnation:
            return Joined(accepted=True)
        if present is not None and join.incarnation < present.incarnation:
            return Joined(accepted=False, reason="a newer worker has joined already", newest=present.incarnation)
        now_ms = int(workflow.now().timestamp() * 1000)
        if m.leaps(join.incarnation, state.joined, now_ms):
            ahead_s = (join.incarnation - now_ms) // 1000
            reason = f"the clock of its machine is {ahead_s} s ahead of Temporal's: set it"
            workflow.logger.warning("worker %s of host %s: %s", join.worker, self._host, reason)
            return Joined(accepted=False, reason=reason, newest=max(state.joined, now_ms))
        if join.incarnation != state.joined:
            state.joined, state.newest = join.incarnation, max(state.newest + 1, join.incarnation)
        state.worker = join
        return Joined(accepted=True)

    @workflow.signal
    def recall(self, recall: m.Recall) -> None:
        """An emulator heard a newer report than one of ours: it is told anew how it is seen, beyond that."""
        state = self._state
        if recall.incarnation > state.newest:
            state.newest = recall.incarnation + 1
        state.seq = max(state.seq, recall.seq)
        last = state.last.get(recall.emulator_id)
        if last is not None:
            self._pass_on([last])

    @workflow.signal
    def reports(self, reports: Reports) -> None:
        """What the presence activity of the present worker found."""
        state = self._state
        if state.worker is None or reports.incarnation != state.worker.incarnation:
            return
        state.alive = True
        if reports.listed is not None:
            self._pass_on(self._find_unlisted(frozenset(reports.listed)))
        self._pass_on(reports.seen)

    @workflow.query
    def view(self) -> dict[str, str]:
        """Which emulator was seen how, last."""
        return {name: seen.health for name, seen in self._state.last.items()}

    @workflow.query
    def state(self) -> HostState:
        """Everything that is known of it."""
        return self._state

    # --- the loop ---------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Whether a turn has something to do."""
        return self._delivery.is_due() or self._presence_is_due()

    def _presence_is_due(self) -> bool:
        if self._presence is None:
            return self._may_begin() or (self._failed is not None and not self._pauses)
        return self._presence.activity.done() or self._is_replaced(self._presence)

    async def _turn(self) -> None:
        """First what ended, then deliveries, then the presence of the worker that joined last."""
        self._settle_presence()
        await self._delivery.send()
        if self._failed is not None and not self._pauses:
            self._pauses = True
            start_timer(options.PRESENCE_BACKOFF_S, self._end_pause, "begins the presence anew")
        self._follow_presence()
        self._show()

    def _may_begin(self) -> bool:
        """Whether a worker joined whose presence is not about to fail once more."""
        return self._state.worker is not None and self._state.worker is not self._failed

    def _end_pause(self) -> None:
        self._failed, self._pauses = None, False

    def _is_replaced(self, presence: _Presence) -> bool:
        return presence.worker is not self._state.worker

    def _settle_presence(self) -> None:
        """Take note of a presence that ended: its worker left in order, or fell silent."""
        presence = self._presence
        if presence is None or not presence.activity.done():
            return
        self._presence = None
        try:
            end = presence.activity.result()
        except ActivityError as error:
            self._lose(presence, error)
            return
        self._pass_on(end.seen)
        self._state.alive = False
        if not self._is_replaced(presence):
            self._state.worker = None

    def _follow_presence(self) -> None:
        """Call back the presence of a worker that was replaced; begin one for the worker that joined last."""
        if self._presence is not None and self._is_replaced(self._presence):
            self._presence.activity.drop()
            self._presence = None
        worker = self._state.worker
        if self._presence is None and worker is not None and self._may_begin():
            self._presence = _Presence(worker, self._begin_presence(worker))

    def _begin_presence(self, worker: Join) -> calls.Call[PresenceEnd]:
        return calls.start_activity(
            "presence",
            PresenceWork(host_id=self._host, incarnation=worker.incarnation, pool=worker.pool),
            PresenceEnd,
            task_queue=names.host_id(self._host),
            schedule_to_start_timeout=options.seconds(worker.timing.presence_grace_s),
            start_to_close_timeout=options.PRESENCE_LIFE,
            heartbeat_timeout=options.seconds(worker.timing.presence_timeout_s),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            retry_policy=options.ONCE,
            summary=f"presence of {worker.worker}",
        )

    def _lose(self, presence: _Presence, error: ActivityError) -> None:
        """Silence: suspect. Not even a restart within the grace: down, until a worker joins again."""
        state, cause = self._state, error.cause
        never_started = isinstance(cause, ActivityTimeout) and cause.type == TimeoutType.SCHEDULE_TO_START
        workflow.logger.warning("presence of %s was lost: %s", self._host, cause)
        if isinstance(cause, ApplicationError):
            self._failed = presence.worker  # begun again at once, it would fail again and again
        if never_started and not self._is_replaced(presence):
            state.worker, state.alive = None, False
        health = Health.DOWN if never_started else Health.SUSPECT
        before = (Health.GOOD, Health.LEAVING, *((Health.SUSPECT,) if never_started else ()))
        # Without `recovery`: nobody is left here who could do anything for them.
        self._pass_on(
            [replace(seen, health=health, recovery=None) for seen in state.last.values() if seen.health in before]
        )

    # --- reports ----------------------------------------------------------------------------------------------

    def _find_unlisted(self, listed: frozenset[str]) -> list[Seen]:
        """Who was taken off the list while no presence followed it: nobody else would ever report that it left."""
        gone = [seen for name, seen in self._state.last.items() if name not in listed]
        return [replace(seen, health=Health.LEFT, boot="", recovery=None) for seen in gone]

    def _pass_on(self, seen: Iterable[Seen]) -> None:
        """To each emulator's own workflow, numbered by us: an order over all workers of this host."""
        state = self._state
        for one in seen:
            if one.emulator_id not in state.last and not self._may_watch(one):
                continue
            state.seq += 1
            message = replace(one, seq=state.seq, incarnation=max(one.incarnation, state.newest))
            self._weight += _weight(message) - _weight(state.last.get(one.emulator_id))
            state.last[one.emulator_id] = message
            if message.health is Health.LEFT:
                self._weight -= _weight(state.last.pop(one.emulator_id))
            # What is seen now is all that matters: an emulator drops what is older than what it heard.
            self._outbox.put_instead(names.emulator_id(one.emulator_id), message, lambda _: True)

    def _may_watch(self, one: Seen) -> bool:
        """Whether this host may have one more emulator."""
        if len(self._state.last) < EMULATORS_MAX and self._weight + _weight(one) <= EMULATORS_BYTES:
            return True
        workflow.logger.error(
            "emulator %s is not watched: host %s has %d already, with %d characters of names, labels and addresses; "
            "serve it from another host",
            one.emulator_id, self._host, len(self._state.last), self._weight,
        )  # fmt: skip
        return False

    def _show(self) -> None:
        state = self._state
        by = f"watched by {state.worker.worker}" if state.worker else "watched by nobody"
        lines = "".join(f"\n- {name}: {seen.health}" for name, seen in list(state.last.items())[:SHOWN])
        workflow.set_current_details(f"**host {self._host}**: {by}, {len(state.last)} emulators{lines}")


def _weight(seen: Seen | None) -> int:
    """Characters that are kept of an emulator; those that are the same for all are not counted."""
    if seen is None:
        return 0
    return sum(map(len, (seen.emulator_id, seen.boot, seen.address, seen.serialno, seen.pool, *seen.labels)))
