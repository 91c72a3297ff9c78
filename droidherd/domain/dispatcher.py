"""The dispatcher of one pool, as a pure machine: messages in, messages out.

`DispatcherWorkflow` feeds it what arrives and sends what stands in its outbox; the protocol simulator does the same.
The rules it keeps are numbered in docs/protocol.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain import power
from droidherd.domain.audit import Deed
from droidherd.domain.board import Entry, Place, Row
from droidherd.domain.keys import reserved
from droidherd.domain.lane import Lane
from droidherd.domain.messages import EmulatorState, RevokeReason
from droidherd.domain.moves import GHOST, MUTEX_OVERDUE, SIZE_LIMIT_BYTES, ToOthers
from droidherd.domain.orders import Orders
from droidherd.domain.reasons import why

STEAL_AFTER_MS = 2_000
RETIRED_KEPT = 256
HOLD_MAX_MS = 86_400_000
"""No lease is extended beyond this from now."""
FAR_MS = 2**62
LATE_MS = 3_600_000
"""An emulator that a dispatcher without memory meets for the first time within this is swept."""


class Dispatcher(Orders):
    """Board and keys behind one set of handlers. Handlers never wait; `assign` grants what can be granted."""

    # --- task → dispatcher ------------------------------------------------------------------------------------

    def ask(self, ask: m.Enqueue, now_ms: int) -> m.Admitted | m.Rejected | m.Recall | None:
        """`on_enqueue`, with the verdict handed back instead of sent. None: it is on its way, or a grant says it.

        What was to be said before is not taken back: the asker may have gone, and may wait for just that.
        """
        said_before = ask.key.task_id in self.outbox.lines
        self.on_enqueue(ask, now_ms)
        if said_before:
            return None
        verdict = self.outbox.take_last(ask.key.task_id, m.Admitted, m.Rejected, m.Recall)
        return verdict if isinstance(verdict, m.Admitted | m.Rejected | m.Recall) else None

    def on_enqueue(self, ask: m.Enqueue, now_ms: int) -> None:
        """A task waits, repeats itself, or (after a loss of memory) says what it holds."""
        task_id = ask.key.task_id
        entry = self.board.entries.get(task_id)
        known = entry.ask.seq if entry else self.recent.get(task_id, -1)
        if ask.seq < known:
            return
        if ask.seq == known and entry is None:
            # Its answer may be lost, and is forgotten here: it is to ask anew. With an entry it gets the same again.
            self._send(task_id, m.Recall(self.generation))
            return
        self._heard(task_id, ask.key.run)
        if entry is not None and entry.key != ask.key:
            self._supersede(entry, ask.key.run, now_ms)
            entry = None
        if entry is not None and self._outdated(entry, ask):
            self._soil(entry)
            self._remove(entry, entry.ask.seq, now_ms)
            entry = None
        if entry is not None:
            self._repeat(entry, ask, now_ms)
        elif ask.lease is not None:
            self._adopt(ask, ask.lease, now_ms)
        else:
            self._admit(ask, now_ms)
        self.assign(now_ms)
        entry = self.board.entries.get(task_id)
        if entry is not None and entry.lease is None:
            self.tell(entry)  # a grant says as much

    def on_soon(self, message: m.Soon, now_ms: int) -> None:
        """A task will ask at a time it names."""
        if message.key.task_id not in self.board.entries and message.seq > self.recent.get(message.key.task_id, -1):
            power.soon(self, message)
            self.assign(now_ms)

    def on_ending(self, message: m.Ending, now_ms: int) -> None:
        """The last stage stands on the emulator's queue: the next task may line up behind it."""
        entry = self.board.entries.get(message.key.task_id)
        if entry is not None and entry.key == message.key and message.seq > entry.ask.seq:
            entry.ending = True
            self.assign(now_ms)

    def on_done(self, message: m.Done, now_ms: int) -> None:
        """A task neither waits nor holds. True in any order, any number of times."""
        task_id = message.key.task_id
        entry = self.board.entries.get(task_id)
        self._heard(task_id, message.key.run)
        if entry is None or entry.key != message.key or message.seq < entry.ask.seq:
            self._hear(None, message)
            if entry is None:
                self._remember(task_id, message.seq)
            return
        self._hear(entry, message)
        if entry.lease is not None and message.abandoned:
            self._fence(entry, now_ms, closed=True)
            self.note(now_ms, "abandoned", task_id)
            self.assign(now_ms)
            return
        if entry.lease is not None and not (message.clean and self._speaks_of(message, entry.lease)):
            self._soil(entry)
        self._remove(entry, message.seq, now_ms)
        self.note(now_ms, "done", task_id, detail=message.outcome)
        self.assign(now_ms)

    def _speaks_of(self, message: m.Done, lease: m.Lease) -> bool:
        """Whether `clean` is said of this lease, or of one that its holder never knew of and so never used.

        Else it ended by an earlier word, which was lost with a terminated dispatcher.
        """
        return message.token == lease.token or message.lost < lease.token

    def on_closed(self, task_id: str, run: str, now_ms: int) -> None:
        """The holder's workflow is closed without having said `done`: fence its emulator, then free."""
        self._heard(task_id, run)
        entry = self.board.entries.get(task_id)
        if entry is None or entry.key.run != run:
            return
        self.outbox.forget(task_id, lambda message: _of_run(message, run))
        if entry.lease is None:
            self._remove(entry, entry.ask.seq, now_ms)
        else:
            if not entry.fence_until_ms:
                where = entry.lease.emulator_id
                self.act(Deed("fenced", "system:holder_closed", "its task is closed", "", task_id, where), now_ms)
            self._fence(entry, now_ms, closed=True)
        self.note(now_ms, "closed", task_id)
        self.assign(now_ms)

    def _heard(self, task_id: str, run: str) -> None:
        """This run said what it wants or holds, or that it is over. A late word of an older one says nothing."""
        self.soon.pop(task_id, None)
        if self.unheard.get(task_id) == run:
            del self.unheard[task_id]

    def to_audit(self) -> dict[str, str]:
        """Task → run of everybody we wait for and who would never say that its workflow is closed."""
        holders = {e.task_id: e.key.run for e in self.board.held() if not e.fence_until_ms}
        return {**self.unheard, **holders}

    def delivered(self, target: str, now_ms: int) -> None:
        """A message arrived. After a grant the next task may line up behind its receiver."""
        if target in self.board.entries:
            self.assign(now_ms)

    def undeliverable(self, target: str, message: object, now_ms: int) -> None:
        """Nobody is there to take this message."""
        if isinstance(message, m.Grant | m.Revoked | m.Admitted):
            self.on_closed(message.key.task_id, message.key.run, now_ms)
        elif isinstance(message, m.Recall):
            self.unheard.pop(target, None)
            if message.key is not None:
                self.on_closed(target, message.key.run, now_ms)
            self.assign(now_ms)

    # --- emulator → dispatcher --------------------------------------------------------------------------------

    def on_announce(self, news: m.Announce, now_ms: int) -> None:
        """What an emulator is now. Not newer than the last seen: dropped."""
        row = self.board.rows.get(news.emulator_id)
        if row is None:
            row = self.board.rows[news.emulator_id] = Row(news.emulator_id, idle_since_ms=now_ms)
            self.joined_ms = now_ms
            if self.blind_ms and not self.rebuilding and now_ms - self.blind_ms < LATE_MS:
                self._sweep(row, now_ms)
        if (news.incarnation, news.seq) <= (row.incarnation, row.seq):
            return
        rebooted = row.active and news.boot and row.boot and news.boot != row.boot
        power.hear(self, row, news, now_ms)
        row.incarnation, row.seq, row.host_id = news.incarnation, news.seq, news.host_id
        row.labels, row.boot = news.labels, news.boot or row.boot
        if row.state is not news.state:
            self.note(now_ms, f"emulator_{news.state}", "", news.emulator_id)
        if news.order:
            self.act(Deed(f"emulator_{news.order}", news.actor, news.reason, "", "", news.emulator_id), now_ms)
        row.state = news.state
        self._tidied(row, news.tidied, now_ms)
        self._tell_holders(row, rebooted=bool(rebooted))
        self.board.refresh(row)
        if row.state is EmulatorState.RETIRED:
            self._forget_retired()
        self.assign(now_ms)

    def _forget_retired(self) -> None:
        """A retired emulator is remembered for a while, so that a late repeat does not bring it back to life."""
        rows = self.board.rows.values()
        retired = [row for row in rows if row.state is EmulatorState.RETIRED and not row.active and not row.deck]
        for row in retired[:-RETIRED_KEPT]:
            del self.board.rows[row.emulator_id]

    def _tell_holders(self, row: Row, *, rebooted: bool) -> None:
        if row.state in (EmulatorState.DOWN, EmulatorState.QUARANTINED, EmulatorState.RETIRED):
            self._revoke(row.active, RevokeReason.DOWN)
            self._revoke(row.deck, RevokeReason.DECK)
        elif rebooted:
            self._revoke(row.active, RevokeReason.REBOOTED)
            self._revoke(row.deck, RevokeReason.DECK)
        elif row.state is EmulatorState.DRAINING:
            self._revoke(row.deck, RevokeReason.DECK)
            self._tell_restarted(row)
        elif row.state is EmulatorState.UP:
            self._tell_restarted(row)

    def _tidied(self, row: Row, token: int, now_ms: int) -> None:
        row.tidied = max(row.tidied, token)
        if row.tidied >= row.dirty:
            row.dirty = 0
        holder = self.board.entries.get(row.active)
        if holder is None or holder.lease is None:
            return
        if holder.place is Place.FENCING and row.tidied >= holder.lease.token:
            self._free_fenced(holder, now_ms)
        elif not row.dirty and row.tidied >= holder.lease.after > 0:
            holder.lease = replace(holder.lease, after=0)

    # --- time -------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do next."""
        due: list[int] = []
        for entry in self.board.held():
            if entry.place is not Place.FENCING:
                due.append(min(self._expires_ms(entry), self._mutex_until_ms(entry)))
            elif entry.fence_until_ms:
                due.append(entry.fence_until_ms)
        if self.rebuilding:
            due.append(self.rebuild_until_ms if self.unheard else self.quiet_until_ms)
        if self.board.free and not self.held_back:
            due.extend(due_ms for due_ms, _ in self._stealable())
            due.extend(due_ms for due_ms in (power.next_rest_ms(self),) if due_ms is not None)
        return min(due, default=None)

    def tick(self, now_ms: int) -> None:
        """End what has run out: leases, mutexes, fences, the patience of a rebuild."""
        for entry in list(self.board.held()):
            if entry.place is Place.FENCING:
                if entry.fence_until_ms and now_ms >= entry.fence_until_ms:
                    self._soil(entry)
                    self._free_fenced(entry, now_ms)
            elif now_ms >= self._expires_ms(entry):
                self._take_back(entry, Deed("lease_expired", "system:lease_expired", "held for too long"), now_ms)
            elif now_ms >= self._mutex_until_ms(entry):
                reason = f"a mutex may be held for {self.config.mutex_hold_s:g} s"
                detail = ", ".join(entry.ask.mutex)
                self._take_back(entry, Deed("mutex_overdue", "system:mutex_hold", reason, detail=detail), now_ms)
        if self.rebuild_until_ms and now_ms >= self.rebuild_until_ms:
            self.unheard.clear()
        self.assign(now_ms)
        if not self.held_back and not self.rebuilding:
            power.rest(self, now_ms)

    def _expires_ms(self, entry: Entry) -> int:
        return entry.lease.expires_at_ms if entry.lease is not None else FAR_MS

    def _mutex_until_ms(self, entry: Entry) -> int:
        """Until when its holder may keep its mutexes. That of a subscription keeps nobody else waiting: no limit."""
        limited = self.config.mutex_hold_s and not all(map(reserved, entry.ask.mutex))
        return entry.held_ms + int(self.config.mutex_hold_s * 1000) if limited else FAR_MS

    def _take_back(self, entry: Entry, deed: Deed, now_ms: int) -> None:
        """Ask the holder to let go, and fence its emulator: only then what it holds is free."""
        lease = entry.lease
        if lease is None:
            return
        if deed.kind == "mutex_overdue":
            entry.revoked = MUTEX_OVERDUE
        self.act(replace(deed, task_id=entry.task_id, emulator_id=lease.emulator_id, lane=entry.ask.lane), now_ms)
        self._send(entry.task_id, m.Revoked(entry.key, lease.token, RevokeReason.EXPIRED))
        self._fence(entry, now_ms, closed=False)

    # --- rebuild ----------------------------------------------------------------------------------------------

    def rebuild(
        self, open_tasks: dict[str, str], now_ms: int, patience_s: float, *, blind: bool, emulators: Iterable[str] = ()
    ) -> None:
        """Ask open tasks (id → run) what they want or hold, and emulators what they are.

        `blind`: nothing is known, so nothing is granted until everybody said, nor before the guards of a task that
        was closed unseen have run out. Not so in a pool that never had a life before: no tasks, no emulators.
        """
        before = list(emulators)
        unheard = {task_id: run for task_id, run in open_tasks.items() if not self._waits(task_id, run)}
        if blind or self.generation:
            reason = "without any memory of what was before" if blind else "with what its predecessor knew"
            self.act(Deed("rebuilt", "system:rebuild", reason), now_ms)
        self.generation += 1
        for task_id, run in unheard.items():
            entry = self.board.entries.get(task_id)
            known = entry is not None and entry.key.run == run
            self._send(task_id, m.Recall(self.generation, entry.key if entry and known else m.Key(task_id, run, 0)))
        for emulator_id in dict.fromkeys([*self.board.rows, *before]):
            self.outbox.put(f"emulator/{emulator_id}", m.Recall(self.generation, voids=now_ms if blind else 0))
        self.tallies.since_ms = self.tallies.since_ms or now_ms
        if blind:
            self.board.saw_ticket(now_ms)
            self.board.saw_ticket(-now_ms)
            self.tallies.own = max(self.board.last_token, now_ms)
        if blind and (unheard or before):
            self.unheard = dict(unheard)
            self.blind_ms = now_ms
            self.rebuild_until_ms = now_ms + int(patience_s * 1000)
            self.quiet_until_ms = now_ms + int(self.config.fence_s * 1000)
        self.assign(now_ms)

    # --- granting ---------------------------------------------------------------------------------------------

    def assign(self, now_ms: int) -> None:
        """Grant everything that can be granted now."""
        if self.held_back or (self.rebuilding and (self.unheard or now_ms < self.quiet_until_ms)):
            return
        if self.rebuilding:
            self._end_rebuild(now_ms)
        while self._once_more(self._grant_next, now_ms):
            pass
        while self._once_more(self._deck_next, now_ms):
            pass
        self._steal(now_ms)
        power.wake(self, now_ms)

    def _once_more(self, grant: Callable[[int], bool], now_ms: int) -> bool:
        """Whether to try again: something was granted, or parking one task has woken another."""
        self.woken = False
        return grant(now_ms) or self.woken

    def _grant_next(self, now_ms: int) -> bool:
        if not self.board.free:
            return False
        for lane in self.board.lanes_in_turn():
            for entry in self._heads(lane):
                row = self.board.choose(entry)
                if row is not None:
                    self.board.took_turn(lane)
                    self._grant(entry, row, now_ms)
                    return True
        return False

    def _deck_next(self, now_ms: int) -> bool:
        decks = [row for row in self.board.rows.values() if self.board.can_deck(row) and self._next_in(row)]
        if not decks:
            return False
        for lane in self.board.lanes_in_turn():
            for entry in self._heads(lane):
                able = [r for r in decks if r.offers(entry.ask.requires)]
                if able:
                    row = next((r for r in able if r.emulator_id != entry.ask.avoid), able[0])
                    self.board.took_turn(lane)
                    self._grant(entry, row, now_ms)
                    return True
        return False

    def _heads(self, lane: Lane) -> list[Entry]:
        """The head of each bucket, longest-waiting first; heads with busy keys are parked on the way."""
        heads: list[Entry] = []
        for bucket in list(self.board.lines_of(lane)):
            while bucket.line:  # of a bucket that is empty for a moment the successor is seen in the next round
                entry = self.board.entries[bucket.line[0][1]]
                busy = self.keys.busy(entry.needs(), entry.task_id)
                if not busy:
                    heads.append(entry)
                    break
                self._park(entry, busy)
        return sorted(heads, key=self.board.order)

    def _next_in(self, row: Row) -> bool:
        """Whether what runs there usually ends soon, and has a head start on whoever is granted the deck now.

        Two grants sent together would race for the emulator's queue; one that was delivered is a whole trip ahead.
        """
        holder = self.board.entries[row.active]
        underway = any(isinstance(message, m.Grant) for message in self.outbox.lines.get(holder.task_id, ()))
        if holder.ask.single and underway:
            return False
        mean = self.tallies.of(holder.ask.task_type).run.mean_s()
        return mean is not None and mean <= self.config.deck_horizon_s

    def _grant(self, entry: Entry, row: Row, now_ms: int) -> None:
        self.board.step_out(entry)
        self.board.waiting -= 1
        self.keys.leave(entry.ask.account, entry.ask.task_type, entry.task_id)
        self.keys.take(entry.needs(), entry.task_id)
        self.board.lane(entry.ask.lane).in_use += 1
        self.board.leases[entry.task_id] = None
        ahead = self.board.entries.get(row.active)
        after = ahead.lease.token if ahead and ahead.lease else 0
        expires = now_ms + int(entry.ask.hold_s * 1000)
        if ahead and ahead.lease:
            expires += max(0, ahead.lease.expires_at_ms - now_ms)
        token = self.board.draw_token(now_ms)
        entry.lease = m.Lease(token, row.emulator_id, row.host_id, expires, after, row.incarnation)
        entry.granted_ms, entry.held_ms, entry.ending = now_ms, now_ms, entry.ask.single
        if after:
            entry.place, row.deck = Place.DECK, entry.task_id
        else:
            entry.place, row.active = Place.ACTIVE, entry.task_id
        self.board.refresh(row)
        self._send(entry.task_id, m.Grant(entry.key, entry.ticket, entry.lease, entry.ask.seq))
        self.note(now_ms, "granted", entry.task_id, row.emulator_id, str(token))

    def _steal(self, now_ms: int) -> None:
        """An idle emulator takes over who stands on deck elsewhere behind something slow."""
        if not self.board.free:
            return
        for due_ms, row in self._stealable():
            if now_ms >= due_ms:
                self._revoke(row.deck, RevokeReason.DECK)
                return

    def _stealable(self) -> Iterator[tuple[int, Row]]:
        """Who stands on deck though a free emulator could run it, and from when on it is worth the change."""
        idle = [self.board.rows[emulator_id] for emulator_id in self.board.free]
        for row in self.board.rows.values():
            entry = self.board.entries.get(row.deck)
            ahead = self.board.entries.get(row.active)
            if entry is None or ahead is None or entry.revoked.startswith(RevokeReason.DECK):
                continue
            if entry.place is Place.DECK and any(one.offers(entry.ask.requires) for one in idle):
                yield ahead.granted_ms + STEAL_AFTER_MS, row

    # --- admission -----------------------------------------------------------------------------------------

    def _admit(self, ask: m.Enqueue, now_ms: int) -> None:
        task_id = ask.key.task_id
        known = ask.ticket != 0
        reason, holder = ("", "") if known else self._refusal(ask, now_ms)
        if reason:
            self._remember(task_id, ask.seq)
            self._send(task_id, m.Rejected(ask.key, ask.seq, reason, holder))
            self.note(now_ms, "rejected", task_id, detail=f"{reason} {holder}".strip())
            return
        self.board.saw_ticket(ask.ticket)
        ticket = ask.ticket or self.board.draw_ticket()
        entry = Entry(replace(ask, ticket=ticket), ticket, now_ms)
        self._enter(entry)
        self.board.waiting += 1
        self.board.line_up(entry)
        self.keys.queue(ask.account, ask.task_type, task_id)
        if not known:
            self.note(now_ms, "queued", task_id)

    def _refusal(self, ask: m.Enqueue, now_ms: int) -> tuple[str, str]:
        if self.board.waiting >= self.config.limit or self.size_bytes >= SIZE_LIMIT_BYTES:
            return "queue_full", ""
        if ask.on_busy is m.OnBusy.REJECT:
            reason, holder = self.keys.duplicate(ask.account, ask.task_type, ask.key.task_id)
            if reason and holder.partition(GHOST)[0] != ask.key.task_id:
                return reason, holder
        if self.rebuilding:
            return "", ""
        rows = [row for row in self.board.rows.values() if row.state is not EmulatorState.RETIRED]
        settled = rows and now_ms - self.joined_ms > self.config.settle_s * 1000
        if settled and not any(row.offers(ask.requires) for row in rows):
            return "cannot_be_satisfied", ""
        return "", ""

    def tell(self, entry: Entry) -> None:
        self._send(entry.task_id, self._admitted(entry))

    def _admitted(self, entry: Entry) -> m.Admitted:
        return m.Admitted(
            entry.key,
            entry.ask.seq,
            entry.ticket,
            self.board.position(entry),
            max(self.config.repeat_min_s, self.config.repeat_per_entry_s * self.board.waiting),
            self.why(entry),
            entry.ask.priority,
        )

    def _repeat(self, entry: Entry, ask: m.Enqueue, now_ms: int) -> None:
        """The same key again: the same answer."""
        self.hear_precedence(entry, ask)
        entry.ask = replace(entry.ask, seq=ask.seq, lost=ask.lost)
        if entry.lease is not None and ask.lease is not None:
            # It asks a person and holds on meanwhile; for how long at most, the pool says.
            wished_ms = min(ask.lease.expires_at_ms, now_ms + HOLD_MAX_MS)
            entry.lease = replace(entry.lease, expires_at_ms=max(entry.lease.expires_at_ms, wished_ms))
        if entry.lease is not None and entry.place in (Place.DECK, Place.ACTIVE):
            self._send(entry.task_id, m.Grant(entry.key, entry.ticket, entry.lease, entry.ask.seq))
        elif entry.lease is not None:
            entry.asks = ask.lease is None

    def why(self, entry: Entry) -> str:
        """Why a task waits, in one sentence."""
        return why(self, entry)


def _of_run(message: ToOthers, run: str) -> bool:
    """Whether it was meant for this run of a task, and for no later one."""
    return not isinstance(message, m.Tidy | m.Switch) and message.key is not None and message.key.run == run
