"""How a dispatcher that lost its memory comes to know again who holds what."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.board import Entry, Place, Row
from droidherd.domain.messages import RevokeReason
from droidherd.domain.moves import Moves


class Memory(Moves):
    """Believing, seating and sweeping: the moves of a rebuild. When it begins and ends the dispatcher decides."""

    def _waits(self, task_id: str, run: str) -> bool:
        entry = self.board.entries.get(task_id)
        return entry is not None and entry.lease is None and entry.key.run == run

    def _end_rebuild(self, now_ms: int) -> None:
        """Everybody said. What nobody claims may still carry the remains of somebody who is gone."""
        self.rebuild_until_ms = self.quiet_until_ms = 0
        self.tallies.own = max(self.tallies.own, self.board.last_token)
        for row in self.board.rows.values():
            holder = self.board.entries.get(row.active)
            if holder is None:
                self._sweep(row, now_ms)
            elif holder.lease is not None and holder.lease.after:  # whom it stood behind is gone without a word
                row.dirty = max(row.dirty, holder.lease.after)
                self.outbox.put(f"emulator/{row.emulator_id}", m.Tidy(row.dirty))

    def _sweep(self, row: Row, now_ms: int) -> None:
        """Fence and tidy up whatever may have run here before."""
        row.dirty = self.board.draw_token(now_ms)
        self.board.refresh(row)
        self.outbox.put(f"emulator/{row.emulator_id}", m.Tidy(row.dirty))

    @property
    def rebuilding(self) -> bool:
        return self.rebuild_until_ms > 0

    def _adopt(self, ask: m.Enqueue, lease: m.Lease, now_ms: int) -> None:
        """Believe a holder that survived our memory. Of two that contradict each other the newer lease is true."""
        row = self.board.rows.setdefault(lease.emulator_id, Row(lease.emulator_id, lease.host_id))
        told = replace(ask, lease=None)
        entry = Entry(told, ask.ticket, now_ms, Place.ACTIVE, lease=lease, granted_ms=now_ms, ending=ask.single)
        entry.held_ms = now_ms
        self._count_again(entry, lease.token)
        self.board.last_token = max(self.board.last_token, lease.token)
        self.board.saw_ticket(ask.ticket)
        self._enter(entry)
        self.board.lane(ask.lane).in_use += 1
        holders = [self.keys.held[key] for key in entry.needs() if key in self.keys.held]
        rivals = [self.board.entries[task_id] for task_id in dict.fromkeys(holders)]
        if any(rival.lease is None or rival.lease.token > lease.token for rival in rivals):
            self._unseat(entry)
        else:
            for rival in rivals:
                self._unseat(rival)
            self._seat(entry, lease, row)
        if entry.place is not Place.FENCING:
            self.keys.take(entry.needs(), entry.task_id)
        self.board.refresh(row)

    def _count_again(self, entry: Entry, token: int) -> None:
        """A lease that stands here again ended once: its end is counted already, or still to be told."""
        stint = self.tallies.unspoken.pop(token, None)
        ours = not self.rebuilding and token > self.tallies.own
        entry.told = stint is None and (ours or token in self.tallies.foreign)
        entry.adopted = stint is None or stint.waited_s < 0
        if stint is not None and stint.waited_s >= 0:
            entry.since_ms = entry.granted_ms - round(stint.waited_s * 1000)

    def _seat(self, entry: Entry, lease: m.Lease, row: Row) -> None:
        """Give an adopted lease its place on the emulator: active, on deck behind the other, or before it."""
        sitting = self.board.entries.get(row.active)
        if sitting is None or sitting.lease is None:
            row.active = entry.task_id
        elif sitting.lease.after == lease.token and not row.deck:
            sitting.place, row.deck, row.active = Place.DECK, row.active, entry.task_id
        elif lease.after == sitting.lease.token and not row.deck:
            entry.place, row.deck = Place.DECK, entry.task_id
        elif sitting.lease.token < lease.token:
            self._unseat(sitting)
            row.active = entry.task_id
        else:
            self._unseat(entry)

    def _unseat(self, entry: Entry) -> None:
        """A lease that was fenced and freed once; its holder has yet to hear it."""
        if entry.lease is None:
            return
        row = self.board.rows[entry.lease.emulator_id]
        row.active = "" if row.active == entry.task_id else row.active
        row.deck = "" if row.deck == entry.task_id else row.deck
        self.board.refresh(row)
        entry.place = Place.FENCING
        self.keys.free(entry.needs(), entry.task_id)
        self._send(entry.task_id, m.Revoked(entry.key, entry.lease.token, RevokeReason.EXPIRED))

    def _outdated(self, entry: Entry, ask: m.Enqueue) -> bool:
        """Whether the board holds this task's lease, or its place, in a way the task contradicts."""
        if ask.lease is not None:
            return entry.lease is None or entry.lease.token != ask.lease.token
        return entry.lease is not None and entry.lease.token <= ask.lost
