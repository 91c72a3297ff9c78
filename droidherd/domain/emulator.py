"""One emulator as a pure machine: what hosts see of it, what its pool is told, when it must pass a gate.

    registering → up ⇄ suspect → down → recovering → up        quarantined, draining, retired

`EmulatorWorkflow` drives it; the protocol simulator drives the same code. Busy is not a state: it follows from
the lease.
"""

from dataclasses import dataclass, field
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.messages import EmulatorState, Sight
from droidherd.domain.outbox import Outbox, pack, unpack

GATE_TRIES = 5


@dataclass(frozen=True, slots=True)
class GateOrder:
    """What the host must do before this emulator may be used: the boot gate, the tidying up, or both."""

    boot: str
    full: bool
    fence: int
    """Fence every lease up to this one."""


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
    outbox: Outbox[m.Announce] = field(default_factory=Outbox)

    def on_seen(self, seen: m.Seen) -> None:
        """A host's probe found something new."""
        said = self.words.get(seen.host_id)
        if said is not None and (seen.incarnation, seen.seq) <= self._when(said):
            return
        self.words[seen.host_id] = pack(seen)
        if self.owner in ("", seen.host_id):
            self._believe(seen)
        if self.sight in (Sight.DOWN, Sight.LEFT):
            self._change_owner()
        self._settle()

    def _change_owner(self) -> None:
        """One owner: another host must wait until the first one lost it or let go."""
        for word in self.words.values():
            seen = unpack(word)
            if seen.sight is Sight.GOOD and seen.host_id != self.owner:
                self._believe(seen)
                return

    def _when(self, word: list[Any]) -> tuple[int, int]:
        seen = unpack(word)
        return seen.incarnation, seen.seq

    def _believe(self, seen: m.Seen) -> None:
        if self.owner != seen.host_id or seen.incarnation > self.host_incarnation:
            self.incarnation = max(self.incarnation + 1, seen.incarnation)
            self.tries = 0
        self.owner, self.sight = seen.host_id, seen.sight
        self.host_incarnation, self.seen_seq = seen.incarnation, seen.seq
        self.dispatcher = f"dispatcher/{seen.pool}"
        self.address, self.labels = seen.address or self.address, seen.labels
        self.serialno = seen.serialno or self.serialno
        if seen.boot and seen.boot != self.boot:
            self.boot, self.tries = seen.boot, 0

    def on_recall(self) -> None:
        """The pool's dispatcher lost its memory."""
        self._settle(always=True)

    def on_tidy(self, order: m.Tidy) -> None:
        """The pool asks to fence a lease and to remove its remains."""
        self.tidy = max(self.tidy, order.token)
        self._settle()

    def on_drain(self, *, on: bool, actor: str = "", reason: str = "") -> None:
        """No new grants; what runs may end."""
        self.draining = on
        self.asked = ("drain" if on else "undrain", actor or "somebody", reason)
        if not on:
            self.tries = 0  # a person looked at it: out of quarantine, to the gate again
        self._settle()

    def order(self) -> GateOrder | None:
        """What must be done on the emulator now, if anything."""
        if self.sight is not Sight.GOOD or self.state is EmulatorState.QUARANTINED:
            return None
        full = self.boot != self.gated_boot
        if not full and self.tidy <= self.tidied:
            return None
        return GateOrder(self.boot, full, self.tidy)

    def on_gate(self, order: GateOrder, evidence: str) -> None:
        """How it went: an empty `evidence` means passed."""
        if evidence:
            self.tries += 1
            self.evidence = evidence
        else:
            self.tries, self.evidence = 0, ""
            self.tidied = max(self.tidied, order.fence)
            if order.full:
                self.gated_boot = order.boot
        self._settle(always=not evidence)

    def _settle(self, *, always: bool = False) -> None:
        """Work the state out, and tell the pool when it changed."""
        before = self.state
        self.state = self._state()
        news = (self.state, self.incarnation, self.boot, self.labels, self.tidied)
        if self.dispatcher and (always or before is not self.state or news != self.told):
            self.told = news
            self.seq += 1
            self.outbox.put(self.dispatcher, self.announcement())
            self.asked = ("", "", "")

    def _state(self) -> EmulatorState:
        if self.sight is Sight.LEFT:
            return EmulatorState.RETIRED
        if self.sight is Sight.DOWN:
            return EmulatorState.DOWN
        if self.tries >= GATE_TRIES:
            return EmulatorState.QUARANTINED
        if self.boot != self.gated_boot:
            return EmulatorState.RECOVERING
        if self.draining or self.sight is Sight.LEAVING:
            return EmulatorState.DRAINING
        return EmulatorState.SUSPECT if self.sight is Sight.SUSPECT else EmulatorState.UP

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
        )
