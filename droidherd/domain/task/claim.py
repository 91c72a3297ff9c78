"""A task's side of the protocol: what it wants from the dispatcher, what it got, what it still has to say.

`TaskWorkflow` drives it; the protocol simulator drives the same code.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox

REPEAT_S = 300.0
UNANSWERED_S = 5.0
"""After this a request without any answer is repeated; each time it waits twice as long, up to REPEAT_S."""
UNANSWERED_MAX = 10
SEQ_STEP = 366 * 86_400_000
"""How far behind its dispatcher's word of it a task can be, in milliseconds since it began: by steps that were lost, or
by what others said in its name, which may lie as far ahead as any counter."""
UNHEARD_MAX = 100
"""Messages that its dispatcher has yet to hear; a task on its own has a handful."""


class Want(StrEnum):
    """Where a claim stands."""

    NOTHING = "nothing"
    EMULATOR = "emulator"
    HOLDING = "holding"


@dataclass(slots=True)
class Claim:
    """What one task requests, attempt after attempt. `seq` only grows, over all runs of a task id."""

    dispatcher: str
    seq: int
    want: Want = Want.NOTHING
    ask: m.Enqueue | None = None
    ticket: int = 0
    """Kept while the task loses its emulator through no fault of its own; always, below 0: a person put it in front."""
    priority: int = 0
    """How urgent the dispatcher has it; 0: as was asked."""
    lease: m.Lease | None = None
    admitted: m.Admitted | None = None
    rejected: m.Rejected | None = None
    revoked: m.Revoked | None = None
    run: str = ""
    """The first run of this workflow: leases of other runs are none of its business."""
    since: int = 0
    """The `seq` of the first request for the present attempt."""
    given_up: int = 0
    """Every lease up to this token is over."""
    last_done: m.Done | None = None
    """The last `done`, for a dispatcher that lost it."""
    last_outcome: m.Done | None = None
    """The last one that said how an attempt ended."""
    ending_sent: bool = False
    unanswered: int = 0
    """How often the present request was repeated without an answer to it."""
    recall: int = 0
    """The newest recall that was heard."""
    unserved: bool = False
    """Nobody took its stage from the queue of the emulator that it holds."""
    outbox: Outbox[m.ToDispatcher] = field(default_factory=Outbox[m.ToDispatcher])

    def _next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def _say(self, message: m.ToDispatcher) -> None:
        if isinstance(message, m.Enqueue | m.Done):
            message = replace(message, recall=self.recall)
        self.outbox.put_instead(self.dispatcher, message, lambda before: _says_as_much(message, before))

    def _answer(self, message: m.Done) -> None:
        """To what the task did not ask for. There is no end of that; a dispatcher without an answer asks again."""
        if self.outbox.waiting(self.dispatcher) < UNHEARD_MAX:
            self._say(message)

    # --- what the task does -----------------------------------------------------------------------------------

    def request(self, ask: m.Enqueue) -> None:
        """Wait for an emulator."""
        self.ask = replace(ask, seq=self._next_seq(), lost=self.given_up)
        self.want, self.ticket, self.run, self.since = Want.EMULATOR, ask.ticket, ask.key.run, self.seq
        self.lease = self.admitted = self.rejected = self.revoked = None
        self.ending_sent, self.unserved, self.unanswered = False, False, 0
        self._say(self.ask)

    def soon(self, key: m.Key, at_ms: int, requires: tuple[str, ...], lane: str) -> None:
        """Its time is near: who is switched off may be started until then. Only a hint."""
        self._say(m.Soon(key, self._next_seq(), at_ms, requires, lane))

    def renounce(self) -> None:
        """The next request draws a new ticket. A place in front that a person gave stays."""
        self.ticket = min(self.ticket, 0)

    def forget(self) -> None:
        """The next request is as it was submitted: priority that a person gave was for what is over."""
        self.ticket = self.priority = 0

    def repeat(self) -> None:
        """Say it again: the last net. On deck it also asks whether the lease has become the active one."""
        if self.ask is None or self.want is Want.NOTHING:
            return
        self.unanswered = min(self.unanswered + (self.admitted is None), UNANSWERED_MAX)
        priority = self.priority or self.ask.priority
        self.ask = replace(self.ask, seq=self._next_seq(), ticket=self.ticket, priority=priority, lost=self.given_up)
        self._say(replace(self.ask, lease=self.lease))

    @property
    def repeat_after_s(self) -> float:
        """How long the task waits for news before it says its request again."""
        if self.admitted is not None:
            return self.admitted.repeat_after_s
        return min(UNANSWERED_S * 2.0**self.unanswered, REPEAT_S)

    def extend(self, until_ms: int) -> None:
        """Hold the lease longer: a person is asked. The dispatcher is told at once."""
        if self.lease is not None and self.want is Want.HOLDING:
            self.lease = replace(self.lease, expires_at_ms=max(self.lease.expires_at_ms, until_ms))
            self.repeat()

    def ending(self) -> None:
        """The last stage stands on the emulator's queue."""
        if self.ask is not None and self.want is Want.HOLDING:
            self.ending_sent = True
            self._say(m.Ending(self.ask.key, self._next_seq()))

    def done(
        self,
        outcome: str = "",
        *,
        clean: bool = True,
        seconds: float = 0.0,
        final: bool = False,
        abandoned: bool = False,
    ) -> None:
        """Neither wait nor hold. `final`: and nothing that may still come can change that."""
        if self.ask is None or self.want is Want.NOTHING:
            return
        token = self.lease.token if self.lease is not None else 0
        self.given_up = max(self.given_up, token)
        self.last_done = m.Done(
            self.ask.key, self._next_seq(), outcome, clean, seconds, final, abandoned, token, self.given_up,
            unserved=self.unserved,
        )  # fmt: skip
        self._say(self.last_done)
        if outcome:
            self.last_outcome = self.last_done
        self.want, self.lease, self.revoked = Want.NOTHING, None, None

    def disclaim(self, key: m.Key) -> None:
        """Nothing was asked under this key, as far as we know: a step that was lost may have asked."""
        self._say(m.Done(key, self._next_seq()))

    # --- what the dispatcher says -----------------------------------------------------------------------------

    def hear(self, news: m.FromDispatcher) -> None:
        """Whatever the dispatcher says, as the answer to a request or by itself."""
        match news:
            case m.Admitted():
                self.on_admitted(news)
            case m.Rejected():
                self.on_rejected(news)
            case m.Grant():
                self.on_grant(news)
            case m.Revoked():
                self.on_revoked(news)
            case m.Recall():
                self.on_recall(news)

    def comes_late(self, news: m.Admitted) -> bool:
        """Whether it puts an earlier request in front: where the present one waits, nobody knows of that."""
        present = self._mine(news.key) and news.seq >= self.since
        return self._prefers(news) and self.want is Want.EMULATOR and not present

    def _prefers(self, news: m.Admitted) -> bool:
        return news.ticket < min(self.ticket, 0) and news.key.run == self.run

    def on_admitted(self, news: m.Admitted) -> None:
        """In line. A place in front is the task's: it holds for whatever it requests now, and nothing takes it back.

        If it comes late, the present request is repeated with it.
        """
        late = self.comes_late(news)
        if self._prefers(news):
            self.ticket, self.priority = news.ticket, news.priority
        if self._mine(news.key) and self.want is Want.EMULATOR and news.seq >= self.since:
            self.admitted = news
            self.ticket = self.ticket if self.ticket < 0 else news.ticket
        if late:
            self.repeat()

    def on_rejected(self, news: m.Rejected) -> None:
        if self._mine(news.key) and self.want is Want.EMULATOR and self.ask and news.seq >= self.ask.seq:
            self.rejected, self.want = news, Want.NOTHING

    def overtakes(self, grant: m.Grant) -> bool:
        """Whether it was granted by a dispatcher that did not know that this task was put in front."""
        return self.ticket < 0 and self.ticket < grant.ticket

    def on_grant(self, grant: m.Grant) -> None:
        """Take what was waited for; give back what was not."""
        if self.run and grant.key.run != self.run:
            return  # what another run of this task left running is fenced before it is freed; not ours to give back
        waits = self._mine(grant.key) and self.want is Want.EMULATOR
        if grant.lease.token <= self.given_up:
            if waits and grant.seq >= self.since:
                self.repeat()  # the dispatcher has not heard of all that is over: it must draw a greater token
            elif not waits and not self._holds_a_newer(grant):
                self._done_again(grant.key)
        elif waits and grant.seq < self.since:
            self.repeat()  # for a request that was withdrawn: `done` is on its way, or was lost with a dispatcher
        elif waits:
            self.ticket = self.ticket if self.overtakes(grant) else grant.ticket
            self.want, self.lease, self.revoked = Want.HOLDING, grant.lease, None
        elif self.lease is None or not self._mine(grant.key):
            self.given_up = max(self.given_up, grant.lease.token)
            self._answer(m.Done(grant.key, self._next_seq(), token=grant.lease.token))
            if self.is_behind(grant):
                self.repeat()
        elif grant.lease.token == self.lease.token:
            self.lease = replace(self.lease, after=grant.lease.after)

    def _holds_a_newer(self, grant: m.Grant) -> bool:
        """A late copy of a grant whose end the dispatcher knows: it granted another one since, under the same key."""
        return self.lease is not None and self._mine(grant.key) and grant.lease.token < self.lease.token

    def is_behind(self, grant: m.Grant) -> bool:
        """Whether it is for an attempt that is over: its sender may not know that the present one waits."""
        return self.want is Want.EMULATOR and not self._mine(grant.key)

    def on_revoked(self, news: m.Revoked) -> None:
        """A request: what the task says next is the truth."""
        if self.lease is None or news.token != self.lease.token:
            return
        if news.reason is m.RevokeReason.RESTARTED:
            if news.incarnation <= self.lease.incarnation:
                return  # that worker is the one we run on already
            self.lease = replace(self.lease, incarnation=news.incarnation)
        if not self.is_fenced:
            self.revoked = news

    @property
    def is_fenced(self) -> bool:
        """Whether the emulator refuses whatever the present lease still sends."""
        return self.revoked is not None and self.revoked.fenced

    @property
    def is_over(self) -> bool:
        """Whether nothing that began under the present lease can act any more: fenced, and its worker is gone."""
        if self.lease is None or self.revoked is None:
            return False
        return self.revoked.fenced and self.revoked.incarnation > self.lease.incarnation

    def on_recall(self, news: m.Recall | None = None) -> None:
        """The dispatcher forgot: say again what is wanted or held, and what is no longer."""
        self.recall = max(self.recall, news.generation if news else 0)
        if news is not None and news.seq <= self.seq + SEQ_STEP:
            self.seq = max(self.seq, news.seq)
        key = news.key if news else None
        asked_of_another = key is not None and not self._mine(key) and (key.attempt > 0 or self.ask is None)
        if key is not None and asked_of_another and self.run in ("", key.run):
            self._done_again(key)
        if self.want is not Want.NOTHING:
            self.repeat()
            if self.ending_sent:
                self.ending()
        elif self.ask is not None:
            self._done_again(self.ask.key)

    def _done_again(self, key: m.Key) -> None:
        """Repeat a `done` that may have been lost. How it ended is only known of the last one."""
        known = next((one for one in (self.last_done, self.last_outcome) if one is not None and one.key == key), None)
        if known is not None:
            self._answer(replace(known, seq=self._next_seq()))
        else:
            self._answer(m.Done(key, self._next_seq(), clean=False))

    def _mine(self, key: m.Key) -> bool:
        return self.ask is not None and self.ask.key == key


def _says_as_much(message: m.ToDispatcher, before: m.ToDispatcher) -> bool:
    """Whether what waits to be said need not be said any more: nobody bounds how often a task is asked."""
    match message, before:
        case m.Enqueue(), m.Enqueue():
            return before.key == message.key and before.lease == message.lease
        case m.Done(), m.Done():
            return message == replace(before, seq=message.seq, lost=message.lost, recall=message.recall)
        case m.Ending(), m.Ending():
            return before.key == message.key
        case _:
            return False
