"""One emulator as a pure machine: what hosts see of it, what its pool is told, when it must pass a gate.

    registering → up ⇄ suspect → down → recovering → up        quarantined, draining, stopped, retired

`EmulatorWorkflow` drives it; the protocol simulator drives the same code. Busy is not a status: it follows from
the lease.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from droidherd.domain import messages as m
from droidherd.domain.fleet.recovery import (
    BOOTS,
    EmulatorTrouble,
    PlannedStep,
    RecoveryStep,
    RecoverySteps,
    has_controller,
)
from droidherd.domain.messages import EmulatorStatus, Health, RecoveryPolicy
from droidherd.domain.outbox import Outbox

GATE_TRIES = 5
HOSTS_MAX = 16
"""Hosts whose reports are kept: one emulator is seen by one, or by two while it moves."""
POOLS_MAX = 8
"""Pools that have yet to hear that it left them; before they did, it enters no other."""
ORDERS_MAX = 20
"""Orders of people that its pool has yet to hear of."""
TEXT_MAX = 200
EVIDENCE_MAX = 2_000
SILENT = "answers no probe"
HELD_AHEAD = "its token {token} lies more than a day ahead of the clock, and shuts out everybody: restart it"
WHY_MAX = 200
"""Characters of a reason that a pool is told."""
RECOVERY = "system:recovery"
"""The actor of recovery steps."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What the host must do before this emulator may be used: the boot gate, the reset, or both."""

    boot: str
    full: bool
    fence: int
    """Fence every lease up to this one."""


class EmulatorAction(StrEnum):
    """What a person can order for an emulator, beside draining it."""

    RESTART = "restart"
    RECOVER = "recover"
    QUARANTINE = "quarantine"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class EmulatorRequest:
    """Who orders what, and why."""

    action: EmulatorAction
    actor: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StandingOrders:
    """What people ordered for an emulator, and have not taken back."""

    draining: bool = False
    drained_by: str = ""
    quarantined_by: str = ""


_Announced: TypeAlias = tuple[EmulatorStatus, int, str, tuple[str, ...], int, bool, int]
"""Status, incarnation, boot, labels, reset, startable, switched: a change of any of them is announced."""


@dataclass(slots=True)
class EmulatorState:
    """Everything that is known of one emulator: handed over whole when its workflow continues as new."""

    emulator_id: str
    dispatcher: str = ""
    owner: str = ""
    """The host whose reports count."""
    status: EmulatorStatus = EmulatorStatus.REGISTERING
    health: Health = Health.DOWN
    incarnation: int = 0
    """As the pool knows it: grows with each new worker and each change of owner."""
    host_incarnation: int = 0
    seq: int = 0
    """Of the last announcement."""
    boot: str = ""
    gated_boot: str = ""
    """The boot that passed the boot gate last."""
    address: str = ""
    serialno: str = ""
    labels: tuple[str, ...] = ()
    reset_wanted: int = 0
    """Every lease up to this token is to be fenced, and its remains removed."""
    reset_done: int = 0
    tries: int = 0
    """Gates in a row that it did not pass."""
    draining: bool = False
    good_at_ms: int = 0
    """When a probe was answered last, as far as its host told; 0: never."""
    drained_by: str = ""
    """Who drained it by hand, and why."""
    evidence: str = ""
    """What went wrong last."""
    announced: _Announced | None = None
    """What the pool was told last."""
    request: tuple[str, str, str] = ("", "", "")
    """What was ordered, by whom and why, until the pool is told."""
    reports: dict[str, m.Seen] = field(default_factory=dict[str, m.Seen])
    """host → its last report: a second host that sees this emulator waits with it."""
    recovery: RecoveryPolicy | None = None
    steps: RecoverySteps = field(default_factory=RecoverySteps)
    due: PlannedStep | None = None
    """What is to be done for it on its host, or is being done."""
    sent: bool = False
    """Its host was told to do it."""
    quarantined_by: str = ""
    """Who quarantined it by hand, and why."""
    given_up: bool = False
    """No recovery step is left."""
    unneeded: bool = False
    """It is to be switched off, and stay so."""
    stopped: bool = False
    """It was switched off."""
    switch_seq: int = 0
    """The last `Switch` that was received."""
    switch_done: int = 0
    """The last `Switch` that was carried out, or given up."""
    token: int = 0
    """The lease of the greatest token of others that a gate found on it."""
    outbox: dict[str, list[m.Announce | m.Recall]] = field(default_factory=dict[str, list[m.Announce | m.Recall]])

    def why(self) -> str:
        """Why it cannot be granted, in a few words; empty while it can, or while nothing more is known."""
        match self.status:
            case EmulatorStatus.QUARANTINED:
                why = self.quarantined_by.removeprefix("quarantined ") or self.evidence
            case EmulatorStatus.DRAINING:
                why = self.drained_by if self.draining else ""
            case EmulatorStatus.DOWN:
                why = self.evidence or SILENT
            case EmulatorStatus.RECOVERING:
                why = self.evidence
            case _:
                why = ""
        return why if len(why) <= WHY_MAX else f"{why[: WHY_MAX - 1]}…"


def _says_less(before: m.Announce | m.Recall) -> bool:
    """Whether the newest announcement says all of it."""
    return isinstance(before, m.Announce) and not before.action


class Emulator:
    """The transitions of one emulator: each changes the state and puts what the pool must know into the outbox."""

    def __init__(self, state: EmulatorState) -> None:
        self.state = state
        self.outbox: Outbox[m.Announce | m.Recall] = Outbox(state.outbox)
        self._ordered: set[str] = set()
        """What people ordered since this machine was made: `drain`, `quarantine`."""

    def orders(self) -> StandingOrders:
        state = self.state
        return StandingOrders(state.draining, state.drained_by, state.quarantined_by)

    def restore(self, orders: StandingOrders) -> None:
        """Go on with what people had ordered before its workflow was terminated. What they order now counts more."""
        state = self.state
        if "drain" not in self._ordered:
            state.draining, state.drained_by = orders.draining, orders.drained_by
        if "quarantine" not in self._ordered:
            state.quarantined_by = orders.quarantined_by
        self._update_status()

    def resume(self) -> None:
        """Begin a new run: its host is told again what to do, and the pool what it knows."""
        self.state.sent, self.state.announced = False, None

    # --- what its hosts report --------------------------------------------------------------------------------

    def on_seen(self, seen: m.Seen, now_ms: int = 0, dice: float = 0.5) -> None:
        """A host's probe found something new."""
        state = self.state
        last = state.reports.get(seen.host_id)
        if last is not None and (seen.incarnation, seen.seq) <= (last.incarnation, last.seq):
            self._ask_host_anew(last)
            return
        if last is None and not self._may_report():
            return
        heard = (last.incarnation, last.seq) if last is not None else (0, 0)
        if m.leaps(seen.incarnation, heard[0], now_ms) or m.leaps(seen.seq, heard[1], now_ms):
            self._ask_host_anew(seen)
        seen = replace(seen, **{name: getattr(seen, name)[:TEXT_MAX] for name in ("boot", "address", "serialno")})
        state.reports[seen.host_id] = seen
        state.good_at_ms = max(state.good_at_ms, seen.good_at_ms)
        if state.owner in ("", seen.host_id):
            self._accept(seen)
        if state.health in (Health.DOWN, Health.LEFT):
            self._change_owner()
        self._plan(now_ms, dice)
        self._update_status(always=last is not None and replace(seen, seq=last.seq, good_at_ms=last.good_at_ms) == last)

    def _ask_host_anew(self, newest: m.Seen) -> None:
        """A report was older than this one, which leads the clock by too much, or comes late. Its host says the truth.

        What it says next must be newer than this to be heard.
        """
        recall = m.Recall(0, seq=newest.seq, incarnation=newest.incarnation, emulator_id=self.state.emulator_id)
        host = f"host/{newest.host_id}"
        self.outbox.forget(host, lambda _: True)
        self.outbox.put(host, recall)

    def _may_report(self) -> bool:
        """Whether the report of one more host is kept, in the place of one that let go."""
        state = self.state
        if len(state.reports) < HOSTS_MAX:
            return True
        gone = (name for name, one in state.reports.items() if name != state.owner and one.health is not Health.GOOD)
        host = next(gone, None)
        if host is None:
            return False
        del state.reports[host]
        return True

    def _change_owner(self) -> None:
        """One owner: another host must wait until the first one lost it or let go.

        What was let go also belongs to a host that does not reach it now, and could start it: nobody else ever would.
        """
        state = self.state
        others = [seen for seen in state.reports.values() if seen.host_id != state.owner]
        heirs = [seen for seen in others if seen.health is Health.GOOD]
        if state.health is Health.LEFT:
            heirs += [seen for seen in others if seen.health is not Health.LEFT and has_controller(seen.recovery)]
        if heirs:
            self._accept(heirs[0])

    def _accept(self, seen: m.Seen) -> None:
        """Take over what the owner reports."""
        state = self.state
        if state.owner != seen.host_id or seen.incarnation > state.host_incarnation:
            state.incarnation = max(state.incarnation + 1, seen.incarnation)
            state.tries = 0
        before, state.owner, state.health = state.health, seen.host_id, seen.health
        state.host_incarnation = seen.incarnation
        self._enter_pool(f"dispatcher/{seen.pool}")
        state.address, state.labels = seen.address or state.address, seen.labels
        state.serialno = seen.serialno or state.serialno
        if seen.recovery is not None and seen.recovery.on_demand and has_controller(seen.recovery) and not state.boot:
            state.unneeded = state.stopped = state.health is Health.DOWN
        state.recovery = seen.recovery
        seen_again = before is Health.DOWN and seen.health is Health.GOOD and seen.boot == state.boot
        if state.stopped and state.unneeded and seen_again:
            state.stopped = False  # its host did not reach it, but it was not off
        if seen.boot and seen.boot != state.boot:
            state.boot, state.tries, state.given_up = seen.boot, 0, False
            if state.stopped:
                state.unneeded = state.stopped = False  # somebody else switched it on

    def _enter_pool(self, dispatcher: str) -> None:
        """Tell a pool that it leaves: that pool would keep granting it beside the new one."""
        state = self.state
        pools = [target for target in state.outbox if target.startswith("dispatcher/")]
        if len(pools) >= POOLS_MAX and dispatcher not in pools:
            return
        if state.dispatcher not in ("", dispatcher):
            state.seq += 1
            self.outbox.put(state.dispatcher, replace(self.announcement(), state=EmulatorStatus.RETIRED))
            state.announced = None
        state.dispatcher = dispatcher

    # --- what its pool asks for -------------------------------------------------------------------------------

    def on_recall(self, recall: m.Recall | None = None, now_ms: int = 0) -> None:
        """The pool's dispatcher lost its memory: announce again, and carry out no switch that it forgot."""
        state = self.state
        if recall is not None:  # others may have spoken in its name, or the one before it
            if recall.incarnation > state.incarnation:
                state.incarnation = recall.incarnation + 1  # greater: what was ordered of that one is ordered anew
            state.seq = max(state.seq, recall.seq)
        if recall is not None and recall.voids > state.switch_seq:
            state.switch_seq = recall.voids
            if state.unneeded and not state.stopped and not state.sent:
                state.unneeded, state.switch_done = False, state.switch_seq
            self._plan(now_ms, 0.5)
        self._update_status(always=True)

    def on_reset(self, request: m.Reset) -> None:
        """The pool asks to fence a lease and to remove its remains."""
        self.state.reset_wanted = max(self.state.reset_wanted, request.token)
        self._update_status()

    def on_switch(self, switch: m.Switch, now_ms: int = 0, dice: float = 0.5) -> None:
        """The pool does not need it now, or does again. What is older than one it heard is answered with that one."""
        state = self.state
        if switch.seq <= state.switch_seq:
            if switch.seq < state.switch_seq and state.due is None and state.unneeded == state.stopped:
                state.switch_done = state.switch_seq
                self._update_status(always=True)
            return
        state.switch_seq, state.unneeded = switch.seq, not switch.on
        if not has_controller(state.recovery) or (switch.on and not state.stopped and state.due is None):
            state.switch_done, state.unneeded = switch.seq, False  # nothing to be done
        self._plan(now_ms, dice)
        self._update_status(always=True)

    # --- what people order ------------------------------------------------------------------------------------

    def on_drain(self, *, on: bool, actor: str = "", reason: str = "", now_ms: int = 0) -> None:
        """No new grants; what runs may end."""
        state = self.state
        self._ordered.add("drain")
        state.draining = on
        state.drained_by = f"by {actor or 'somebody'}: {reason or 'no reason given'}" if on else ""
        state.request = ("drain" if on else "undrain", actor or "somebody", reason)
        if not on:  # a person looked at it: out of quarantine, to the gate again
            state.tries, state.given_up = 0, False
            state.steps.forgive()
            self._plan(now_ms, 0.5)  # nobody else would ever start what is down
        self._update_status(always=True)

    def why_idle(self, action: str) -> str:
        """Why an order would change nothing; empty: it would change something."""
        state = self.state
        if state.given_up or state.tries or state.steps.tried or state.steps.restarts:
            return ""  # it would be forgiven what was tried for it
        if action == EmulatorAction.RELEASE and not state.quarantined_by:
            return f"it is not quarantined, but {state.status}"
        if action == "undrain" and not state.draining:
            return f"it is not drained, but {state.status}"
        return ""

    def on_control(self, request: EmulatorRequest, now_ms: int = 0, dice: float = 0.5) -> str:
        """Carry out a person's request. Returns why not, or nothing."""
        state, action = self.state, request.action
        if self.is_unheard():
            return f"{state.dispatcher} has not heard of the last {ORDERS_MAX} orders: see `droidherd status`"
        if action in (EmulatorAction.RESTART, EmulatorAction.RECOVER) and state.recovery is None:
            return "its host is away"
        if action is EmulatorAction.RESTART and not has_controller(state.recovery):
            return "nobody can start and stop it: give it a controller in the inventory"
        actor = request.actor or "somebody"
        state.request = (action, actor, request.reason)
        state.due, state.sent = None, False
        match action:
            case EmulatorAction.QUARANTINE:
                self._ordered.add("quarantine")
                state.quarantined_by = f"quarantined by {actor}: {request.reason or 'no reason given'}"
            case EmulatorAction.RELEASE:
                self._release()
            case EmulatorAction.RECOVER:
                self._release()
                state.gated_boot, state.unneeded = "", False
                if state.health is Health.GOOD:
                    state.due = state.steps.plan(RecoveryStep.RECONNECT)
            case EmulatorAction.RESTART:
                state.given_up, state.tries = False, 0
                state.due = state.steps.plan(RecoveryStep.START if state.stopped else RecoveryStep.RESTART)
                state.unneeded = False
        self._plan(now_ms, dice)
        self._update_status(always=True)
        return ""

    def _release(self) -> None:
        state = self.state
        self._ordered.add("quarantine")
        state.quarantined_by, state.given_up, state.tries = "", False, 0
        state.steps.forgive()

    # --- gates ------------------------------------------------------------------------------------------------

    def gate_request(self) -> GateRequest | None:
        """What must be done on the emulator before it may be used, if anything."""
        state = self.state
        if state.health is not Health.GOOD or state.status in (EmulatorStatus.QUARANTINED, EmulatorStatus.STOPPED):
            return None
        if self._step_comes_first():
            return None
        full = state.boot != state.gated_boot
        if not full and state.reset_wanted <= state.reset_done:
            return None
        return GateRequest(state.boot, full, state.reset_wanted)

    def _step_comes_first(self) -> bool:
        """Whether its gate waits for a recovery step. Not for the restart of one that came back meanwhile."""
        return self.state.due is not None and self.state.due.trouble is not EmulatorTrouble.SILENT

    def note_token(self, token: int, now_ms: int) -> str:
        """A gate found the token of this lease on it, and had not put it there. Why it cannot be used, if so."""
        if token > now_ms + m.AHEAD_MS:
            return HELD_AHEAD.format(token=token)
        self.state.token = max(self.state.token, token)
        return ""

    def on_gate(
        self, request: GateRequest, evidence: str, now_ms: int = 0, dice: float = 0.5, *, began_ms: int = 0
    ) -> None:
        """How it went: an empty `evidence` means passed."""
        state = self.state
        if self._step_comes_first():
            return  # somebody ordered something meanwhile: it passes another one after that
        if evidence:
            state.tries += 1
            state.evidence = evidence[:EVIDENCE_MAX]
            self._plan_next_step(EmulatorTrouble.UNFIT, dice, began_ms or now_ms)
        else:
            state.tries, state.evidence = 0, ""
            state.steps.passed_gate(now_ms)
            state.reset_done = max(state.reset_done, request.fence)
            if request.full:
                state.gated_boot = request.boot
        self._update_status(always=not evidence)

    # --- what its host does for it ----------------------------------------------------------------------------

    def _plan(self, now_ms: int, dice: float) -> None:
        """Plan or call back a step, by what was seen and ordered."""
        state = self.state
        self._call_back()
        if state.due is not None or state.quarantined_by or not has_controller(state.recovery):
            return
        if state.unneeded and not state.stopped and state.health in (Health.GOOD, Health.SUSPECT):
            state.due = state.steps.plan(RecoveryStep.STOP)
        elif state.stopped and not state.unneeded:
            state.due = state.steps.plan(RecoveryStep.START)
        elif state.health is Health.DOWN and state.unneeded:
            state.stopped, state.switch_done = True, state.switch_seq  # it went by itself, and nobody needs it
        elif state.health is Health.DOWN and not state.stopped:
            self._plan_next_step(EmulatorTrouble.SILENT, dice, now_ms)

    def _call_back(self) -> None:
        """Drop a step that is needed no more, unless its host was told already."""
        state = self.state
        if state.due is None or state.sent:
            return
        if state.due.trouble is EmulatorTrouble.SILENT and state.health is not Health.DOWN:
            state.due = None  # it came back by itself
        elif state.due.step is RecoveryStep.STOP and not state.unneeded:
            state.due, state.switch_done = None, state.switch_seq  # it is needed after all

    def _plan_next_step(self, trouble: EmulatorTrouble, dice: float, began_ms: int) -> None:
        """Plan the next recovery step, if its host can do anything for it."""
        state = self.state
        if state.recovery is None or state.due is not None or state.quarantined_by or state.given_up:
            return
        state.steps.forgive_after_uptime(state.recovery, began_ms)
        state.due = state.steps.next(trouble, state.recovery, dice)
        if state.due is None and has_controller(state.recovery):
            state.given_up = True
            state.request = (EmulatorAction.QUARANTINE, RECOVERY, "the last recovery step did not help")
            if trouble is EmulatorTrouble.SILENT:
                state.evidence = f"{SILENT}, and {state.steps.restarts} restarts did not help"

    def begin_step(self, due: PlannedStep) -> None:
        """The host is told now: from here on only people call it back."""
        state = self.state
        state.sent = state.due == due
        if due.step is RecoveryStep.RESTART and due.trouble is not EmulatorTrouble.NONE:
            state.request = (EmulatorAction.RESTART, RECOVERY, state.evidence or SILENT)
            self._update_status(always=True)

    def on_step_done(
        self, done: PlannedStep, evidence: str, now_ms: int = 0, dice: float = 0.5, *, idle: bool = False
    ) -> None:
        """What its host did: an empty `evidence` means that it worked. `idle`: nothing had to be done."""
        state = self.state
        if state.due != done:
            return
        state.due, state.sent = None, False
        match done.step:
            case RecoveryStep.STOP:
                state.stopped, state.unneeded = not evidence, state.unneeded and not evidence
                state.switch_done = state.switch_seq if state.unneeded or evidence else state.switch_done
            case RecoveryStep.START:
                state.stopped = False
                state.switch_done = state.switch_seq if evidence else state.switch_done
            case RecoveryStep.RESTART:
                if not idle:
                    state.steps.count_restart()
            case _:
                pass
        state.evidence = evidence[:EVIDENCE_MAX] or state.evidence
        self._plan(now_ms, dice)
        self._update_status()

    # --- its status -------------------------------------------------------------------------------------------

    def _update_status(self, *, always: bool = False) -> None:
        """Work the status out, and tell the pool when anything changed that it must know."""
        state = self.state
        before, state.status = state.status, self._status()
        if state.status is EmulatorStatus.UP:
            state.switch_done = state.switch_seq
        changed = before is not state.status
        if changed and state.status is EmulatorStatus.QUARANTINED and state.recovery is not None:
            state.due, state.sent = state.steps.plan(RecoveryStep.EVIDENCE), False
        news: _Announced = (
            state.status,
            state.incarnation,
            state.boot,
            state.labels,
            state.reset_done,
            self._is_startable(),
            state.switch_done,
        )
        if state.dispatcher and (always or changed or news != state.announced):
            state.announced = news
            state.seq += 1
            if self.is_unheard():
                state.request = ("", "", "")
            # The newest says what it is now. One that tells of an order of a person tells also that.
            self.outbox.put_instead(state.dispatcher, self.announcement(), _says_less)
            state.request = ("", "", "")

    def is_unheard(self) -> bool:
        """Whether its pool has yet to hear of so many orders that no more is kept for its audit."""
        return self.outbox.waiting(self.state.dispatcher) >= ORDERS_MAX

    def _status(self) -> EmulatorStatus:
        state = self.state
        if state.health is Health.LEFT:
            return EmulatorStatus.RETIRED
        absent = (
            EmulatorStatus.STOPPED if state.stopped else EmulatorStatus.DOWN if state.health is Health.DOWN else None
        )
        if state.quarantined_by or state.given_up or (absent is None and state.tries >= GATE_TRIES):
            return EmulatorStatus.QUARANTINED
        if absent is not None:
            return absent
        if state.boot != state.gated_boot:
            return EmulatorStatus.RECOVERING
        if state.draining or state.unneeded or self._is_going_down() or state.health is Health.LEAVING:
            return EmulatorStatus.DRAINING
        return EmulatorStatus.SUSPECT if state.health is Health.SUSPECT else EmulatorStatus.UP

    def _is_going_down(self) -> bool:
        """Its host was told to stop or restart it, or a person ordered that: it may answer, and nobody new gets it."""
        due = self.state.due
        if due is None:
            return False
        ordered = due.step in BOOTS and due.trouble is EmulatorTrouble.NONE
        return ordered or (self.state.sent and due.step in (*BOOTS, RecoveryStep.STOP))

    def _is_startable(self) -> bool:
        return has_controller(self.state.recovery) and self.state.status is not EmulatorStatus.QUARANTINED

    def announcement(self) -> m.Announce:
        state = self.state
        return m.Announce(
            state.emulator_id,
            state.owner,
            state.incarnation,
            state.seq,
            state.status,
            state.labels,
            state.gated_boot,
            state.reset_done,
            *state.request,
            startable=self._is_startable(),
            switched=state.switch_done,
            why=state.why(),
            token=state.token,
        )
