"""One emulator as a pure machine: what hosts see of it, what its pool is told, when it must pass a gate.

    registering → up ⇄ suspect → down → recovering → up        quarantined, draining, stopped, retired

`EmulatorWorkflow` drives it; the protocol simulator drives the same code. Busy is not a state: it follows from
the lease.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.ladder import BOOTS, Ladder, Measure, Rung, Trouble, has_controller
from droidherd.domain.messages import Care, EmulatorState, Sight
from droidherd.domain.outbox import Outbox, pack, unpack

GATE_TRIES = 5
RECOVERY = "system:recovery"
"""Who acts when the ladder is climbed."""


@dataclass(frozen=True, slots=True)
class GateOrder:
    """What the host must do before this emulator may be used: the boot gate, the tidying up, or both."""

    boot: str
    full: bool
    fence: int
    """Fence every lease up to this one."""


class Action(StrEnum):
    """What a person can order for an emulator, beside draining it."""

    RESTART = "restart"
    RECOVER = "recover"
    QUARANTINE = "quarantine"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Ask:
    """Who orders what, and why."""

    action: Action
    actor: str = ""
    reason: str = ""


@dataclass(slots=True)
class Emulator:
    """State of one emulator. Its `seq` grows with each announcement of an incarnation."""

    emulator_id: str
    dispatcher: str = ""
    owner: str = ""
    state: EmulatorState = EmulatorState.REGISTERING
    sight: Sight = Sight.DOWN
    incarnation: int = 0
    """As the pool knows it: grows with each new worker and each change of owner."""
    host_incarnation: int = 0
    seen_seq: int = -1
    seq: int = 0
    boot: str = ""
    gated_boot: str = ""
    address: str = ""
    serialno: str = ""
    labels: tuple[str, ...] = ()
    tidy: int = 0
    tidied: int = 0
    tries: int = 0
    draining: bool = False
    evidence: str = ""
    told: tuple[object, ...] = ()
    """What the pool was told last."""
    asked: tuple[str, str, str] = ("", "", "")
    """What a person ordered, who and why, until the pool is told."""
    words: dict[str, list[Any]] = field(default_factory=dict)
    """host → the last thing it said, as a row: a second host that sees this emulator waits with it."""
    care: Care | None = None
    ladder: Ladder = field(default_factory=Ladder)
    due: Measure | None = None
    """What is to be done for it on its host, or is being done."""
    sent: bool = False
    """The host was told so."""
    held: str = ""
    """Who quarantined it by hand, and why."""
    given_up: bool = False
    """The ladder has no rung left."""
    rest: bool = False
    """Nobody needs it: it is to be switched off, and stay so."""
    stopped: bool = False
    """It was switched off."""
    wished: int = 0
    """The last `Switch` that was heard."""
    switched: int = 0
    strict: bool = True
    """Whoever is restarted is granted to nobody. False: in a run that began before that was so."""
    heirs: bool = True
    """Who could start it may have what its owner let go, also while it is down. False: in a run that began before."""
    moves: bool = True
    """The pool it leaves hears of it. False: in a run that began before."""
    proven: bool = True
    """Restarts are forgiven to who was up for long since. False: in a run that began before."""
    outbox: Outbox[m.Announce] = field(default_factory=Outbox)

    def on_seen(self, seen: m.Seen, now_ms: int = 0, dice: float = 0.5) -> None:
        """A host's probe found something new."""
        said = self.words.get(seen.host_id)
        if said is not None and (seen.incarnation, seen.seq) <= self._when(said):
            return
        self.words[seen.host_id] = pack(seen)
        if self.owner in ("", seen.host_id):
            self._believe(seen)
        if self.sight in (Sight.DOWN, Sight.LEFT):
            self._change_owner()
        self._react(now_ms, dice)
        self._settle()

    def _change_owner(self) -> None:
        """One owner: another host must wait until the first one lost it or let go.

        What was let go also belongs to a host that does not reach it now, and could start it: nobody else ever would.
        """
        others = [seen for seen in map(unpack, self.words.values()) if seen.host_id != self.owner]
        heirs = [seen for seen in others if seen.sight is Sight.GOOD]
        if self.heirs and self.sight is Sight.LEFT:
            heirs += [seen for seen in others if seen.sight is not Sight.LEFT and has_controller(seen.care)]
        if heirs:
            self._believe(heirs[0])

    def _when(self, word: list[Any]) -> tuple[int, int]:
        seen = unpack(word)
        return seen.incarnation, seen.seq

    def _believe(self, seen: m.Seen) -> None:
        if self.owner != seen.host_id or seen.incarnation > self.host_incarnation:
            self.incarnation = max(self.incarnation + 1, seen.incarnation)
            self.tries = 0
        before, self.owner, self.sight = self.sight, seen.host_id, seen.sight
        self.host_incarnation, self.seen_seq = seen.incarnation, seen.seq
        self._enter(f"dispatcher/{seen.pool}")
        self.address, self.labels = seen.address or self.address, seen.labels
        self.serialno = seen.serialno or self.serialno
        if seen.care is not None and seen.care.on_demand and has_controller(seen.care) and not self.boot:
            self.rest = self.stopped = self.sight is Sight.DOWN
        self.care = seen.care
        seen_again = before is Sight.DOWN and seen.sight is Sight.GOOD and seen.boot == self.boot
        if self.strict and self.stopped and self.rest and seen_again:
            self.stopped = False  # it was out of sight, and not off
        if seen.boot and seen.boot != self.boot:
            self.boot, self.tries, self.given_up = seen.boot, 0, False
            if self.stopped:
                self.rest = self.stopped = False  # somebody else switched it on

    def _enter(self, dispatcher: str) -> None:
        """A pool that it leaves is told so: it would believe in it for ever, and grant it beside the other one."""
        if self.moves and self.dispatcher not in ("", dispatcher):
            self.seq += 1
            self.outbox.put(self.dispatcher, replace(self.announcement(), state=EmulatorState.RETIRED))
            self.told = ()
        self.dispatcher = dispatcher

    def on_recall(self, recall: m.Recall | None = None, now_ms: int = 0) -> None:
        """The pool's dispatcher lost its memory. What it forgot that it wished does not come true any more."""
        if recall is not None and recall.voids > self.wished:
            self.wished = recall.voids
            if self.rest and not self.stopped and not self.sent:
                self.rest, self.switched = False, self.wished
            self._react(now_ms, 0.5)
        self._settle(always=True)

    def on_tidy(self, order: m.Tidy) -> None:
        """The pool asks to fence a lease and to remove its remains."""
        self.tidy = max(self.tidy, order.token)
        self._settle()

    def on_drain(self, *, on: bool, actor: str = "", reason: str = "", now_ms: int = 0) -> None:
        """No new grants; what runs may end."""
        self.draining = on
        self.asked = ("drain" if on else "undrain", actor or "somebody", reason)
        if not on:
            self.tries, self.given_up = 0, False  # a person looked at it: out of quarantine, to the gate again
            if self.strict:
                self.ladder.forgive()
                self._react(now_ms, 0.5)  # nobody else would ever start what is down
        self._settle(always=self.strict)

    def order(self) -> GateOrder | None:
        """What must be done on the emulator now, if anything."""
        if self.sight is not Sight.GOOD or self.state in (EmulatorState.QUARANTINED, EmulatorState.STOPPED):
            return None
        if self.due is not None and self.due.trouble is not Trouble.SILENT:
            return None
        full = self.boot != self.gated_boot
        if not full and self.tidy <= self.tidied:
            return None
        return GateOrder(self.boot, full, self.tidy)

    def on_gate(
        self, order: GateOrder, evidence: str, now_ms: int = 0, dice: float = 0.5, *, began_ms: int = 0
    ) -> None:
        """How it went: an empty `evidence` means passed."""
        if self.strict and self.due is not None and self.due.trouble is not Trouble.SILENT:
            return  # somebody ordered something meanwhile: it passes another one after that
        if evidence:
            self.tries += 1
            self.evidence = evidence
            self._climb(Trouble.UNFIT, now_ms, dice, began_ms or now_ms)
        else:
            self.tries, self.evidence = 0, ""
            self.ladder.well(now_ms)
            self.tidied = max(self.tidied, order.fence)
            if order.full:
                self.gated_boot = order.boot
        self._settle(always=not evidence)

    # --- what its host does for it ----------------------------------------------------------------------------

    def _climb(self, trouble: Trouble, now_ms: int, dice: float, began_ms: int) -> None:
        """The next rung of the ladder, if its host knows of ladders."""
        if self.care is None or self.due is not None or self.held or self.given_up:
            return
        if self.proven:
            self.ladder.lapse(self.care, began_ms)
        else:
            self.ladder.lapse_unproven(trouble, self.care, now_ms)
        self.due = self.ladder.climb(trouble, self.care, dice)
        if self.due is None and has_controller(self.care):
            self.given_up = True
            self.asked = (Action.QUARANTINE, RECOVERY, "the last rung of the ladder did not help")
            if trouble is Trouble.SILENT:
                self.evidence = f"answers no probe, and {self.ladder.restarts} restarts did not help"

    def _react(self, now_ms: int, dice: float) -> None:
        """What follows from what was seen or wished."""
        due = self.due
        if due is not None and not self.sent and due.trouble is Trouble.SILENT and self.sight is not Sight.DOWN:
            due = self.due = None  # it came back by itself
        if due is not None and not self.sent and due.rung is Rung.STOP and not self.rest:
            due, self.due, self.switched = None, None, self.wished  # it is needed after all
        if due is not None or self.held or not has_controller(self.care):
            return
        if self.rest and not self.stopped and self.sight in (Sight.GOOD, Sight.SUSPECT):
            self.due = self.ladder.take(Rung.STOP)
        elif self.stopped and not self.rest:
            self.due = self.ladder.take(Rung.START)
        elif self.sight is Sight.DOWN and self.rest:
            self.stopped, self.switched = True, self.wished  # it went by itself, and nobody misses it
        elif self.sight is Sight.DOWN and not self.stopped:
            self._climb(Trouble.SILENT, now_ms, dice, now_ms)

    def begin(self, due: Measure) -> None:
        """The host is told now: from here on only people call it back."""
        self.sent = self.due == due
        if due.rung is Rung.RESTART and due.trouble is not Trouble.NONE:
            self.asked = (Action.RESTART, RECOVERY, self.evidence or "answers no probe")
            self._settle(always=True)

    def on_measure(
        self, done: Measure, evidence: str, now_ms: int = 0, dice: float = 0.5, *, idle: bool = False
    ) -> None:
        """What its host did: an empty `evidence` means that it worked. `idle`: nothing had to be done."""
        if self.due != done:
            return
        self.due, self.sent = None, False
        match done.rung:
            case Rung.STOP:
                self.stopped, self.rest = not evidence, self.rest and not evidence
                self.switched = self.wished if self.rest or evidence else self.switched
            case Rung.START:
                self.stopped = False
                self.switched = self.wished if evidence else self.switched
            case Rung.RESTART:
                if not idle:
                    self.ladder.restarted(now_ms)
            case _:
                pass
        self.evidence = evidence or self.evidence
        self._react(now_ms, dice)
        self._settle()

    def on_switch(self, switch: m.Switch, now_ms: int = 0, dice: float = 0.5) -> None:
        """The pool does not need it now, or does again."""
        if switch.seq <= self.wished:
            return
        self.wished, self.rest = switch.seq, not switch.on
        if not has_controller(self.care) or (switch.on and not self.stopped and self.due is None):
            self.switched, self.rest = switch.seq, False  # nothing to be done
        self._react(now_ms, dice)
        self._settle(always=True)

    def on_care(self, ask: Ask, now_ms: int = 0, dice: float = 0.5) -> str:
        """What a person orders. Returns why not, or nothing."""
        if ask.action in (Action.RESTART, Action.RECOVER) and self.care is None:
            return "its host is away"
        if ask.action is Action.RESTART and not has_controller(self.care):
            return "nobody can start and stop it: give it a controller in the inventory"
        self.asked = (ask.action, ask.actor or "somebody", ask.reason)
        self.due, self.sent = None, False
        match ask.action:
            case Action.QUARANTINE:
                self.held = f"quarantined by {ask.actor or 'somebody'}: {ask.reason or 'no reason given'}"
            case Action.RELEASE:
                self._pardon()
            case Action.RECOVER:
                self._pardon()
                self.gated_boot, self.rest = "", False
                if self.sight is Sight.GOOD:
                    self.due = self.ladder.take(Rung.RECONNECT)
            case Action.RESTART:
                self.given_up, self.tries = False, 0
                self.due = self.ladder.take(Rung.START if self.stopped else Rung.RESTART)
                self.rest = False
        self._react(now_ms, dice)
        self._settle(always=True)
        return ""

    def _pardon(self) -> None:
        self.held, self.given_up, self.tries = "", False, 0
        self.ladder.forgive()

    def _settle(self, *, always: bool = False) -> None:
        """Work the state out, and tell the pool when it changed."""
        before = self.state
        self.state = self._state()
        if self.state is EmulatorState.UP:
            self.switched = self.wished
        if self.state is EmulatorState.QUARANTINED and before is not self.state and self.care is not None:
            self.due, self.sent = self.ladder.take(Rung.EVIDENCE), False
        startable = has_controller(self.care) and self.state is not EmulatorState.QUARANTINED
        news = (self.state, self.incarnation, self.boot, self.labels, self.tidied, startable, self.switched)
        if self.dispatcher and (always or before is not self.state or news != self.told):
            self.told = news
            self.seq += 1
            self.outbox.put(self.dispatcher, self.announcement())
            self.asked = ("", "", "")

    def _state(self) -> EmulatorState:
        if self.sight is Sight.LEFT:
            return EmulatorState.RETIRED
        absent = EmulatorState.STOPPED if self.stopped else EmulatorState.DOWN if self.sight is Sight.DOWN else None
        if self.held or self.given_up or (absent is None and self.tries >= GATE_TRIES):
            return EmulatorState.QUARANTINED
        if absent is not None:
            return absent
        if self.boot != self.gated_boot:
            return EmulatorState.RECOVERING
        if self.draining or self.rest or self._goes() or self.sight is Sight.LEAVING:
            return EmulatorState.DRAINING
        return EmulatorState.SUSPECT if self.sight is Sight.SUSPECT else EmulatorState.UP

    def _goes(self) -> bool:
        """Its host was told to stop or restart it, or a person ordered that: it may answer, and nobody new gets it."""
        due = self.due
        if due is None or not self.strict:
            return False
        return (due.rung in BOOTS and due.trouble is Trouble.NONE) or (self.sent and due.rung in (*BOOTS, Rung.STOP))

    def announcement(self) -> m.Announce:
        return m.Announce(
            self.emulator_id,
            self.owner,
            self.incarnation,
            self.seq,
            self.state,
            self.labels,
            self.gated_boot,
            self.tidied,
            *self.asked,
            startable=has_controller(self.care) and self.state is not EmulatorState.QUARANTINED,
            switched=self.switched,
        )
