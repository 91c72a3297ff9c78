"""The dispatcher of one pool, as a pure machine: messages in, messages out.

`DispatcherWorkflow` feeds it what arrives and sends what stands in its outbox; the protocol simulator does the same.
The rules it keeps are numbered in docs/protocol.md.
"""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.board import Entry, Lane, Place, Row
from droidherd.domain.messages import EmulatorState, RevokeReason
from droidherd.domain.moves import Moves, Tally

SIZE_LIMIT_BYTES = 1_500_000
STEAL_AFTER_MS = 2_000


class Dispatcher(Moves):
    """Board and keys behind one set of handlers. Handlers never wait; `assign` grants what can be granted."""

    # --- task → dispatcher ------------------------------------------------------------------------------------

    def on_enqueue(self, ask: m.Enqueue, now_ms: int) -> None:
        """A task waits, repeats itself, or (after a loss of memory) says what it holds."""
        task_id = ask.key.task_id
        entry = self.board.entries.get(task_id)
        if ask.seq <= (entry.ask.seq if entry else self.recent.get(task_id, -1)):
            return
        self.unheard.pop(task_id, None)
        if entry is not None and entry.key != ask.key:
            self._supersede(entry, now_ms)
            entry = None
        if entry is not None:
            self._repeat(entry, ask)
        elif ask.lease is not None:
            self._adopt(ask, ask.lease, now_ms)
        else:
            self._admit(ask, now_ms)
        self.assign(now_ms)
        entry = self.board.entries.get(task_id)
        if entry is not None and entry.lease is None:
            self._send(task_id, self._admitted(entry))  # a grant says as much

    def on_ending(self, message: m.Ending, now_ms: int) -> None:
        """The last stage stands on the emulator's queue: the next task may line up behind it."""
        entry = self.board.entries.get(message.key.task_id)
        if entry is not None and entry.key == message.key:
            entry.ending = True
            self.assign(now_ms)

    def on_done(self, message: m.Done, now_ms: int) -> None:
        """A task neither waits nor holds. True in any order, any number of times."""
        task_id = message.key.task_id
        entry = self.board.entries.get(task_id)
        self.unheard.pop(task_id, None)
        if entry is None or entry.key != message.key or message.seq < entry.ask.seq:
            if entry is None:
                self._remember(task_id, message.seq)
            return
        if entry.lease is not None and message.outcome:
            self._tally(entry, message, now_ms)
        if entry.lease is not None and not message.clean:
            self._soil(entry)
        self._remove(entry, message.seq, now_ms)
        self.note(now_ms, "done", task_id, detail=message.outcome)
        self.assign(now_ms)

    def on_closed(self, task_id: str, run: str, now_ms: int) -> None:
        """The holder's workflow is closed without having said `done`: fence its emulator, then free."""
        self.unheard.pop(task_id, None)
        entry = self.board.entries.get(task_id)
        if entry is None or entry.key.run != run:
            return
        self.outbox.forget(task_id)
        if entry.lease is None:
            self._remove(entry, entry.ask.seq, now_ms)
        else:
            self._fence(entry, now_ms)
        self.note(now_ms, "closed", task_id)
        self.assign(now_ms)

    def undeliverable(self, target: str, message: object, now_ms: int) -> None:
        """Nobody is there to take this message."""
        if isinstance(message, m.Grant | m.Revoked | m.Admitted):
            self.on_closed(message.key.task_id, message.key.run, now_ms)
        elif isinstance(message, m.Recall):
            self.unheard.pop(target, None)
            self.assign(now_ms)

    # --- emulator → dispatcher --------------------------------------------------------------------------------

    def on_announce(self, news: m.Announce, now_ms: int) -> None:
        """What an emulator is now. Not newer than the last seen: dropped."""
        row = self.board.rows.get(news.emulator_id)
        if row is None:
            row = self.board.rows[news.emulator_id] = Row(news.emulator_id, idle_since_ms=now_ms)
            self.joined_ms = now_ms
        if (news.incarnation, news.seq) <= (row.incarnation, row.seq):
            return
        restarted = row.active and news.incarnation > row.incarnation > 0
        rebooted = row.active and news.boot and row.boot and news.boot != row.boot
        row.incarnation, row.seq, row.host_id = news.incarnation, news.seq, news.host_id
        row.labels, row.boot = news.labels, news.boot or row.boot
        if row.state is not news.state:
            self.note(now_ms, f"emulator_{news.state}", "", news.emulator_id)
        row.state = news.state
        self._tidied(row, news.tidied, now_ms)
        self._tell_holders(row, rebooted=bool(rebooted), restarted=bool(restarted))
        if row.state is EmulatorState.RETIRED and not row.active:
            del self.board.rows[row.emulator_id]
            self.board.free.pop(row.emulator_id, None)
            return
        self.board.refresh(row)
        self.assign(now_ms)

    def _tell_holders(self, row: Row, *, rebooted: bool, restarted: bool) -> None:
        if row.state is EmulatorState.DOWN or row.state is EmulatorState.QUARANTINED:
            self._revoke(row.active, RevokeReason.DOWN)
            self._revoke(row.deck, RevokeReason.DECK)
        elif rebooted:
            self._revoke(row.active, RevokeReason.REBOOTED)
            self._revoke(row.deck, RevokeReason.DECK)
        elif row.state in (EmulatorState.DRAINING, EmulatorState.RETIRED):
            self._revoke(row.deck, RevokeReason.DECK)
        elif restarted and row.state is EmulatorState.UP:
            self._revoke(row.active, RevokeReason.RESTARTED, row.incarnation)

    def _tidied(self, row: Row, token: int, now_ms: int) -> None:
        if row.dirty and token >= row.dirty:
            row.dirty = 0
        holder = self.board.entries.get(row.active)
        if holder and holder.lease and holder.place is Place.FENCING and token >= holder.lease.token:
            self._remove(holder, holder.ask.seq, now_ms)

    # --- people -----------------------------------------------------------------------------------------------

    def pause(self, lane: str, actor: str, reason: str, now_ms: int) -> None:
        """No more grants in this lane (or all of them: empty name). What runs goes on."""
        for row in self._lanes(lane):
            row.paused_by, row.paused_why = actor or "somebody", reason
        self.note(now_ms, "lane_paused", "", detail=f"{lane or 'all lanes'} by {actor}: {reason}")

    def resume(self, lane: str, actor: str, now_ms: int) -> None:
        for row in self._lanes(lane):
            row.paused_by = row.paused_why = ""
        self.note(now_ms, "lane_resumed", "", detail=f"{lane or 'all lanes'} by {actor}")
        self.assign(now_ms)

    def set_capacity(self, lane: str, capacity: int, actor: str, now_ms: int) -> None:
        """Effective at once; nothing that runs is stopped."""
        self.board.lane(lane).capacity = capacity
        self.note(now_ms, "lane_capacity", "", detail=f"{lane} = {capacity} by {actor}")
        self.assign(now_ms)

    def prioritize(self, task_id: str, priority: int, actor: str, now_ms: int) -> bool:
        """The audited exception: to the front of its bucket, by priority and with the smallest ticket."""
        entry = self.board.entries.get(task_id)
        if entry is None or entry.lease is not None:
            return False
        parked_on = entry.parked_on
        self._take_out(entry)
        entry.ticket = min((line[0][0][1] for b in self.board.buckets.values() if (line := b.line)), default=1) - 1
        if parked_on:
            entry.place, entry.parked_on = Place.PARKED, parked_on
            self.keys.park(parked_on, self.board.order(entry), task_id)
        else:
            self.board.line_up(entry)
        self.note(now_ms, "prioritized", task_id, detail=f"priority {priority} by {actor}")
        self.assign(now_ms)
        return True

    def _lanes(self, name: str) -> list[Lane]:
        return [self.board.lane(name)] if name else list(self.board.lanes.values())

    # --- time -------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do next."""
        due = [e.fence_until_ms if e.place is Place.FENCING else e.lease.expires_at_ms
               for e in self.board.held() if e.lease is not None]  # fmt: skip
        if self.rebuild_until_ms:
            due.append(self.rebuild_until_ms)
        return min(due, default=None)

    def tick(self, now_ms: int) -> None:
        """End what has run out: leases, fences, the patience of a rebuild."""
        for entry in list(self.board.held()):
            lease = entry.lease
            if lease is None:
                continue
            if entry.place is Place.FENCING:
                if now_ms >= entry.fence_until_ms:
                    self._remove(entry, entry.ask.seq, now_ms)
            elif now_ms >= lease.expires_at_ms:
                self._send(entry.task_id, m.Revoked(entry.key, lease.token, RevokeReason.EXPIRED))
                self._fence(entry, now_ms)
                self.note(now_ms, "lease_expired", entry.task_id, lease.emulator_id)
        if self.rebuild_until_ms and now_ms >= self.rebuild_until_ms:
            self.unheard.clear()
        self.assign(now_ms)

    # --- rebuild ----------------------------------------------------------------------------------------------

    def rebuild(self, unheard: dict[str, str], now_ms: int, patience_s: float, *, blind: bool) -> None:
        """Ask open tasks what they want or hold. `blind`: nothing is known, so nothing is granted until they said."""
        self.generation += 1
        for task_id in unheard:
            self._send(task_id, m.Recall(self.generation))
        if blind and unheard:
            self.unheard = dict(unheard)
            self.rebuild_until_ms = now_ms + int(patience_s * 1000)
        self.assign(now_ms)

    @property
    def rebuilding(self) -> bool:
        return self.rebuild_until_ms > 0

    # --- granting ---------------------------------------------------------------------------------------------

    def assign(self, now_ms: int) -> None:
        """Grant everything that can be granted now."""
        if self.held_back or (self.rebuilding and self.unheard):
            return
        self.rebuild_until_ms = 0
        while self._grant_next(now_ms):
            pass
        while self._deck_next(now_ms):
            pass
        self._steal(now_ms)

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
        decks = [row for row in self.board.rows.values() if self.board.can_deck(row) and self._short(row)]
        if not decks:
            return False
        for lane in self.board.lanes_in_turn():
            for entry in self._heads(lane):
                row = next((r for r in decks if r.offers(entry.ask.requires)), None)
                if row is not None:
                    self.board.took_turn(lane)
                    self._grant(entry, row, now_ms)
                    return True
        return False

    def _heads(self, lane: Lane) -> list[Entry]:
        """The head of each bucket, longest-waiting first; heads with busy keys are parked on the way."""
        heads: list[Entry] = []
        for bucket in list(self.board.lines_of(lane)):
            while bucket.line:
                entry = self.board.entries[bucket.line[0][1]]
                busy = self.keys.busy(entry.needs(), entry.task_id)
                if not busy:
                    heads.append(entry)
                    break
                self._park(entry, busy)
        return sorted(heads, key=self.board.order)

    def _short(self, row: Row) -> bool:
        """Whether what runs there usually ends soon."""
        holder = self.board.entries[row.active]
        mean = self.tallies.get(holder.ask.task_type, Tally()).mean_s()
        return mean is not None and mean <= self.config.deck_horizon_s

    def _grant(self, entry: Entry, row: Row, now_ms: int) -> None:
        self.board.step_out(entry)
        self.board.waiting -= 1
        self.keys.leave(entry.ask.account, entry.ask.task_type, entry.task_id)
        self.keys.take(entry.needs(), entry.task_id)
        self.board.lane(entry.ask.lane).in_use += 1
        ahead = self.board.entries.get(row.active)
        after = ahead.lease.token if ahead and ahead.lease else 0
        expires = now_ms + int(entry.ask.hold_s * 1000)
        if ahead and ahead.lease:
            expires += max(0, ahead.lease.expires_at_ms - now_ms)
        token = self.board.draw_token(now_ms)
        entry.lease = m.Lease(token, row.emulator_id, row.host_id, expires, after, row.incarnation)
        entry.granted_ms, entry.ending = now_ms, entry.ask.single
        if after:
            entry.place, row.deck = Place.DECK, entry.task_id
        else:
            entry.place, row.active = Place.ACTIVE, entry.task_id
        self.board.refresh(row)
        self._send(entry.task_id, m.Grant(entry.key, entry.ticket, entry.lease))
        self.note(now_ms, "granted", entry.task_id, row.emulator_id, str(token))

    def _steal(self, now_ms: int) -> None:
        """An idle emulator takes over who stands on deck elsewhere behind something slow."""
        for emulator_id in list(self.board.free):
            idle = self.board.rows[emulator_id]
            for row in self.board.rows.values():
                entry = self.board.entries.get(row.deck)
                ahead = self.board.entries.get(row.active)
                if entry is None or ahead is None or not idle.offers(entry.ask.requires):
                    continue
                if now_ms - ahead.granted_ms > STEAL_AFTER_MS and self._revoke(row.deck, RevokeReason.DECK):
                    return

    # --- admission -----------------------------------------------------------------------------------------

    def _admit(self, ask: m.Enqueue, now_ms: int) -> None:
        task_id = ask.key.task_id
        known = ask.ticket > 0
        reason, holder = ("", "") if known else self._refusal(ask, now_ms)
        if reason:
            self._remember(task_id, ask.seq)
            self._send(task_id, m.Rejected(ask.key, ask.seq, reason, holder))
            self.note(now_ms, "rejected", task_id, detail=f"{reason} {holder}".strip())
            return
        self.board.last_ticket = max(self.board.last_ticket, ask.ticket)
        entry = Entry(ask, ask.ticket or self.board.draw_ticket(), now_ms)
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
            if reason:
                return reason, holder
        settled = self.board.rows and now_ms - self.joined_ms > self.config.settle_s * 1000
        if settled and not any(row.offers(ask.requires) for row in self.board.rows.values()):
            return "cannot_be_satisfied", ""
        return "", ""

    def _admitted(self, entry: Entry) -> m.Admitted:
        return m.Admitted(
            entry.key,
            entry.ask.seq,
            entry.ticket,
            self.board.position(entry),
            max(self.config.repeat_min_s, self.config.repeat_per_entry_s * self.board.waiting),
            self.why(entry),
        )

    def _repeat(self, entry: Entry, ask: m.Enqueue) -> None:
        """The same key again: the same answer."""
        entry.ask = replace(entry.ask, seq=ask.seq)
        if entry.lease is not None and entry.place in (Place.DECK, Place.ACTIVE):
            self._send(entry.task_id, m.Grant(entry.key, entry.ticket, entry.lease))

    def _adopt(self, ask: m.Enqueue, lease: m.Lease, now_ms: int) -> None:
        """Believe a holder that survived our memory, unless another one holds the place already."""
        row = self.board.rows.setdefault(lease.emulator_id, Row(lease.emulator_id, lease.host_id))
        if row.active:
            self._send(ask.key.task_id, m.Revoked(ask.key, lease.token, RevokeReason.EXPIRED))
            return
        entry = Entry(ask, ask.ticket, now_ms, Place.ACTIVE, lease=lease, granted_ms=now_ms, ending=ask.single)
        self._enter(entry)
        self.keys.take(entry.needs(), entry.task_id)
        self.board.lane(ask.lane).in_use += 1
        self.board.last_token = max(self.board.last_token, lease.token)
        row.active = entry.task_id
        self.board.refresh(row)

    # --- why --------------------------------------------------------------------------------------------------

    def why(self, entry: Entry) -> str:
        """Why a task waits, in one sentence."""
        lane = self.board.lane(entry.ask.lane)
        if lane.paused_by:
            return f"lane {lane.name} is paused by {lane.paused_by}: {lane.paused_why or 'no reason given'}"
        busy = self.keys.busy(entry.needs(), entry.task_id)
        if busy:
            what = "account" if busy.startswith("a:") else "mutex"
            return f"{what} {busy[2:]} is busy with task {self.keys.held[busy]}"
        if lane.in_use >= lane.capacity:
            return f"lane {lane.name} is at its capacity of {lane.capacity}"
        able = [row for row in self.board.rows.values() if row.offers(entry.ask.requires)]
        if not able:
            return f"no emulator of pool {self.pool} has {', '.join(entry.ask.requires) or 'joined yet'}"
        up = [row for row in able if row.state is EmulatorState.UP]
        if not up:
            return f"none of the {len(able)} emulators that could run it is up"
        return f"{self.board.position(entry) - 1} before it, {len(up)} emulators busy"
