"""A task's side of the protocol: what it wants from the dispatcher, what it got, what it still has to say.

`TaskWorkflow` drives it; the protocol simulator drives the same code.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox


class Want(StrEnum):
    """Where a claim stands."""

    NOTHING = "nothing"
    EMULATOR = "emulator"
    HOLDING = "holding"


@dataclass(slots=True)
class Claim:
    """The wish of one task, attempt after attempt. `seq` only grows, over all runs of a task id."""

    dispatcher: str
    seq: int
    want: Want = Want.NOTHING
    ask: m.Enqueue | None = None
    ticket: int = 0
    lease: m.Lease | None = None
    admitted: m.Admitted | None = None
    rejected: m.Rejected | None = None
    revoked: m.Revoked | None = None
    outbox: Outbox[m.Enqueue | m.Ending | m.Done] = field(default_factory=Outbox)

    def _next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def _say(self, message: m.Enqueue | m.Ending | m.Done) -> None:
        self.outbox.put(self.dispatcher, message)

    # --- what the task does -----------------------------------------------------------------------------------

    def request(self, ask: m.Enqueue) -> None:
        """Wait for an emulator."""
        self.ask = replace(ask, seq=self._next_seq())
        self.want, self.ticket = Want.EMULATOR, ask.ticket
        self.lease = self.admitted = self.rejected = self.revoked = None
        self._say(self.ask)

    def repeat(self) -> None:
        """Say it again: the last net."""
        if self.ask is not None and self.want is Want.EMULATOR:
            self.ask = replace(self.ask, seq=self._next_seq(), ticket=self.ticket)
            self._say(self.ask)

    def ending(self) -> None:
        """The last stage stands on the emulator's queue."""
        if self.ask is not None and self.want is Want.HOLDING:
            self._say(m.Ending(self.ask.key, self._next_seq()))

    def done(self, outcome: str = "", *, clean: bool = True, seconds: float = 0.0) -> None:
        """Neither wait nor hold."""
        if self.ask is None or self.want is Want.NOTHING:
            return
        self._say(m.Done(self.ask.key, self._next_seq(), outcome, clean, seconds))
        self.want, self.lease, self.revoked = Want.NOTHING, None, None

    # --- what the dispatcher says -----------------------------------------------------------------------------

    def on_admitted(self, news: m.Admitted) -> None:
        if self._mine(news.key) and self.want is Want.EMULATOR:
            self.admitted, self.ticket = news, news.ticket

    def on_rejected(self, news: m.Rejected) -> None:
        if self._mine(news.key) and self.want is Want.EMULATOR and self.ask and news.seq >= self.ask.seq:
            self.rejected, self.want = news, Want.NOTHING

    def on_grant(self, grant: m.Grant) -> None:
        """Take what was waited for; give back what was not."""
        if self._mine(grant.key) and self.want is Want.EMULATOR:
            self.want, self.lease, self.ticket, self.revoked = Want.HOLDING, grant.lease, grant.ticket, None
        elif self._mine(grant.key) and self.want is Want.HOLDING:
            return
        elif self.ask is None or grant.key != self.ask.key or self.want is Want.NOTHING:
            self._say(m.Done(grant.key, self._next_seq()))

    def on_revoked(self, news: m.Revoked) -> None:
        """A request: what the task says next is the truth."""
        if self.lease is not None and news.token == self.lease.token:
            self.revoked = news

    def on_recall(self) -> None:
        """The dispatcher forgot: say again what is wanted or held."""
        if self.ask is None:
            return
        if self.want is Want.EMULATOR:
            self.repeat()
        elif self.want is Want.HOLDING:
            self._say(replace(self.ask, seq=self._next_seq(), ticket=self.ticket, lease=self.lease))
        else:
            self._say(m.Done(self.ask.key, self._next_seq()))

    def _mine(self, key: m.Key) -> bool:
        return self.ask is not None and self.ask.key == key
