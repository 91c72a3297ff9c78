"""Leases: granted, put on deck, revoked, fenced and freed. What each leaves on its emulator is reset before the next.

At most one lease is active per emulator. `down` never frees one: it ends by its holder's word, by its holder being
closed, or by its expiry, and in the last two cases its emulator is fenced first.
"""

from collections.abc import Iterator
from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry, AuditRecorder
from droidherd.domain.dispatch.board import Entry, EntryState, PoolEmulator
from droidherd.domain.dispatch.keys import why_reserved
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import DispatcherState
from droidherd.domain.dispatch.stats import Statistics
from droidherd.domain.messages import EmulatorStatus, RevokeReason

ORPHAN = "~"
"""Between a task's id and the token of an orphan lease, which a closed run of it left behind. No id contains it."""
HOLD_MAX_MS = 86_400_000
"""No lease is extended beyond this from now."""
FAR_MS = 2**62
MUTEX_OVERDUE = f"{RevokeReason.EXPIRED} mutex"
"""Why a lease was taken back whose holder kept a mutex for too long."""


class Leases:
    """Owns `board.leases`, the holders of keys, and what stands on each emulator: active, on deck, dirty."""

    def __init__(
        self,
        state: DispatcherState,
        line: WaitingLine,
        messenger: Messenger,
        audit_recorder: AuditRecorder,
        statistics: Statistics,
    ) -> None:
        self._state, self._board, self._keys = state, state.board, state.keys
        self._line, self._messenger, self._audit_recorder, self._statistics = (
            line,
            messenger,
            audit_recorder,
            statistics,
        )

    # --- granting ---------------------------------------------------------------------------------------------

    def grant(self, entry: Entry, emulator: PoolEmulator, now_ms: int) -> None:
        """Give the head of a bucket this emulator: now, or on deck behind whoever is active there."""
        self._line.on_granted(entry)
        self._board.lane(entry.ask.lane).in_use += 1
        self._board.leases[entry.task_id] = None
        ahead = self._board.entries.get(emulator.active)
        after = ahead.lease.token if ahead and ahead.lease else 0
        expires = now_ms + int(entry.ask.hold_s * 1000)
        if ahead and ahead.lease:
            expires += max(0, ahead.lease.expires_at_ms - now_ms)
        token = self._board.draw_token(now_ms)
        entry.lease = m.Lease(
            token, emulator.emulator_id, emulator.host_id, expires, after, emulator.incarnation, self._board.waiting
        )
        entry.granted_ms, entry.held_ms, entry.ending = now_ms, now_ms, entry.ask.single
        if after:
            entry.state, emulator.deck = EntryState.DECK, entry.task_id
        else:
            entry.state, emulator.active = EntryState.ACTIVE, entry.task_id
        self._board.refresh(emulator)
        self.send_grant(entry, entry.lease)
        self._state.events.append(now_ms, "granted", entry.task_id, emulator.emulator_id, str(token))

    def send_grant(self, entry: Entry, lease: m.Lease) -> None:
        self._messenger.to_task(entry.task_id, m.Grant(entry.key, entry.ticket, lease, entry.ask.seq))

    def extend(self, entry: Entry, lease: m.Lease, wanted: m.Lease, now_ms: int) -> None:
        """Its holder asks a person and holds on meanwhile; for how long at most, the pool says."""
        until_ms = min(wanted.expires_at_ms, now_ms + HOLD_MAX_MS)
        entry.lease = replace(lease, expires_at_ms=max(lease.expires_at_ms, until_ms))

    # --- ending -----------------------------------------------------------------------------------------------

    def done(self, entry: Entry, message: m.Done, now_ms: int) -> bool:
        """Its holder neither waits nor holds any more. Whether it let go itself; else its emulator is fenced first."""
        if entry.lease is not None and message.abandoned:
            self.fence(entry, now_ms, closed=True)
            return False
        if entry.lease is not None and message.clean and _is_about(message, entry.lease):
            self._note_clean(entry.lease)
        else:
            self.mark_dirty(entry)
        self.remove(entry, message.seq, now_ms)
        return True

    def _note_clean(self, lease: m.Lease) -> None:
        """Its token may stand on the emulator until the next one is put there: that is in order."""
        emulator = self._board.emulators[lease.emulator_id]
        if not emulator.dirty:
            emulator.token = max(emulator.token, lease.token)

    def closed(self, entry: Entry, now_ms: int) -> None:
        """Its holder's workflow is closed without having said `done`: fence its emulator, then free."""
        if entry.lease is None:
            self.remove(entry, entry.ask.seq, now_ms)
            return
        if not entry.fence_until_ms:
            where = entry.lease.emulator_id
            why = AuditEntry("fenced", "system:holder_closed", "its task is closed", "", entry.task_id, where)
            self._audit_recorder.record(why, now_ms)
        self.fence(entry, now_ms, closed=True)

    def supersede(self, entry: Entry, run: str, now_ms: int) -> None:
        """The same task under a newer key: its older self is over, though it never said so.

        Within a run the task let go before it asked again. What an older run left behind may still act.
        """
        if entry.lease is not None and entry.key.run != run:
            self.orphan(entry, entry.lease, now_ms)
            return
        if entry.lease is not None:
            self.mark_dirty(entry)
        self.remove(entry, entry.ask.seq, now_ms)

    def orphan(self, entry: Entry, lease: m.Lease, now_ms: int) -> None:
        """Keep the lease of a closed run under a name of its own until its emulator is fenced.

        And its keys, unless others have them by now: the lease may have been fenced and freed before, and its holder
        did not hear of that.
        """
        task_id, orphan_id = entry.task_id, f"{entry.task_id}{ORPHAN}{lease.token}"
        emulator = self._board.emulators[lease.emulator_id]
        was_active, was_on_deck = emulator.active == task_id, emulator.deck == task_id
        held = self._keys_of_orphan(entry)
        self._line.drop(entry)
        del self._board.leases[task_id]
        self._keys.free(held, task_id)
        entry.ask = replace(entry.ask, key=replace(entry.key, task_id=orphan_id))
        self._line.enter(entry)
        self._keys.take(held, orphan_id)
        emulator.active = orphan_id if was_active else emulator.active
        emulator.deck = orphan_id if was_on_deck else emulator.deck
        self.fence(entry, now_ms, closed=True)

    def _keys_of_orphan(self, entry: Entry) -> list[str]:
        return [key for key in entry.needs() if self._keys.held.get(key) == entry.task_id]

    def remove(self, entry: Entry, seq: int, now_ms: int) -> None:
        """Take a task off the board, whatever it held."""
        self._line.drop(entry)
        self._state.recent.remember(entry.task_id, seq)
        if entry.lease is None:
            self._line.leave(entry)
        else:
            self._statistics.on_ended(entry, entry.lease)
            del self._board.leases[entry.task_id]
            self._board.lane(entry.ask.lane).in_use -= 1
            self._keys.free(entry.needs(), entry.task_id)
            self._vacate(entry, entry.lease, now_ms)
        self._board.drop_idle(entry.ask.lane)
        for key in entry.needs():
            self._line.wake(key)

    def _vacate(self, entry: Entry, lease: m.Lease, now_ms: int) -> None:
        emulator = self._board.emulators[lease.emulator_id]
        if emulator.deck == entry.task_id:
            emulator.deck = ""
        elif emulator.active == entry.task_id:
            emulator.active, emulator.idle_since_ms = "", now_ms
            if emulator.dirty > emulator.reset_up_to:
                self.order_reset(emulator)
            self._promote(emulator, now_ms)
        self._board.refresh(emulator)

    def _promote(self, emulator: PoolEmulator, now_ms: int) -> None:
        """Who stood on deck is the active one now."""
        deck = self._board.entries.get(emulator.deck)
        emulator.deck = ""
        if deck is None or deck.lease is None:
            return
        emulator.active, deck.granted_ms = deck.task_id, now_ms
        if not emulator.dirty:
            deck.lease = replace(deck.lease, after=0)
        if deck.state is EntryState.FENCING and deck.lease.token <= emulator.reset_up_to:
            self._free_fenced(deck, deck.lease, now_ms)
            return
        if deck.state is EntryState.FENCING:
            self.mark_dirty(deck)
            self.order_reset(emulator)
            return
        deck.state = EntryState.ACTIVE
        self._tell_restarted(emulator)

    # --- fencing ----------------------------------------------------------------------------------------------

    def fence(self, entry: Entry, now_ms: int, *, closed: bool) -> None:
        """Its holder will not let go: the emulator is fenced first, then the lease is freed.

        When the emulator cannot be reached, time fences it, but only if the holder is closed: the guards of a living
        one stay open for as long as its stage confirms itself.
        """
        if entry.lease is None:
            return
        if closed and not entry.fence_until_ms:
            entry.fence_until_ms = now_ms + int(self._state.config.fence_s * 1000)
        if entry.state is EntryState.FENCING:
            return
        entry.state = EntryState.FENCING
        emulator = self._board.emulators[entry.lease.emulator_id]
        if emulator.active == entry.task_id and entry.lease.token <= emulator.reset_up_to:
            self._free_fenced(entry, entry.lease, now_ms)  # fenced already, with all before it
        elif emulator.active == entry.task_id:
            self.mark_dirty(entry)
            self.order_reset(emulator)

    def mark_dirty(self, entry: Entry) -> None:
        """This lease did not end cleanly: no task is given the emulator before it was reset.

        A lease on deck may have begun already, because the one before it ended without our knowing yet. Its remains
        are reset once that one left: fencing it now would fence both.
        """
        if entry.lease is None:
            return
        emulator = self._board.emulators[entry.lease.emulator_id]
        if entry.task_id in (emulator.active, emulator.deck) and entry.lease.token > emulator.reset_up_to:
            emulator.dirty = max(emulator.dirty, entry.lease.token)
            self._board.refresh(emulator)
        if emulator.active == entry.task_id:
            self.revoke(emulator.deck, RevokeReason.DECK)

    def order_reset(self, emulator: PoolEmulator) -> None:
        """Have it fenced and reset up to the lease that made it dirty."""
        emulator.reset_ordered = emulator.dirty
        self._messenger.to_emulator(emulator.emulator_id, m.Reset(emulator.dirty))

    def repeat_reset(self, emulator: PoolEmulator) -> None:
        """Order again what was ordered and is not done: whoever was told may be gone."""
        if emulator.dirty and emulator.reset_ordered > emulator.reset_up_to:
            self._messenger.to_emulator(emulator.emulator_id, m.Reset(emulator.reset_ordered))

    def is_held_by_nobody(self, emulator: PoolEmulator, token: int) -> bool:
        """Whether this token, which was found on the emulator, is of no lease that stands there, nor of one before.

        What is dirty is reset in any case, and a dispatcher without memory sweeps what nobody claims once all answered.
        """
        if self._state.rebuild.active:
            return False
        holders = map(self._board.entries.get, (emulator.active, emulator.deck))
        ours = max((one.lease.token for one in holders if one is not None and one.lease is not None), default=0)
        return token > max(emulator.token, emulator.reset_up_to, emulator.dirty, ours)

    def sweep(self, emulator: PoolEmulator, now_ms: int) -> None:
        """Have whatever may have run here before fenced and reset."""
        emulator.dirty = self._board.draw_token(now_ms)
        self._board.refresh(emulator)
        if not emulator.active:  # else when that has left
            self.order_reset(emulator)

    def _free_fenced(self, entry: Entry, lease: m.Lease, now_ms: int) -> None:
        """Nothing of this lease can act any more, and its holder has not let go: free what it held."""
        if entry.revoked == MUTEX_OVERDUE:
            held, hold_s = ", ".join(entry.ask.mutex), self._state.config.mutex_hold_s
            reason = f"held for longer than {hold_s:g} s; its emulator is fenced"
            broken = AuditEntry("mutex_broken", "system:mutex_hold", reason, "", entry.task_id, lease.emulator_id, held)
            self._audit_recorder.record(broken, now_ms)
        self.remove(entry, entry.ask.seq, now_ms)
        if entry.asked_meanwhile:
            self._messenger.to_task(entry.task_id, m.Recall(self._state.rebuild.generation))

    # --- revoking ---------------------------------------------------------------------------------------------

    def revoke(self, task_id: str, reason: RevokeReason, incarnation: int = 0, *, fenced: bool = False) -> None:
        """Ask a holder to let go, once for each reason."""
        entry = self._board.entries.get(task_id)
        if entry is None or entry.lease is None or entry.state is EntryState.FENCING:
            return
        request = f"{reason} {incarnation}{' fenced' if fenced else ''}"
        if entry.revoked == request:
            return
        entry.revoked = request
        self._messenger.to_task(task_id, m.Revoked(entry.key, entry.lease.token, reason, incarnation, fenced))

    def emulator_changed(self, emulator: PoolEmulator, *, rebooted: bool) -> None:
        """Tell those who hold it what its new state means for them."""
        if emulator.state in (EmulatorStatus.DOWN, EmulatorStatus.QUARANTINED, EmulatorStatus.RETIRED):
            self.revoke(emulator.active, RevokeReason.DOWN)
            self.revoke(emulator.deck, RevokeReason.DECK)
        elif rebooted or self._is_revoked_for_reboot(emulator.active):
            # Who is up has passed its boot gate, which has every older lease refused.
            fenced = emulator.state is EmulatorStatus.UP
            self.revoke(emulator.active, RevokeReason.REBOOTED, emulator.incarnation, fenced=fenced)
            if rebooted:
                self.revoke(emulator.deck, RevokeReason.DECK)
        elif emulator.state is EmulatorStatus.DRAINING:
            self.revoke(emulator.deck, RevokeReason.DECK)
            self._tell_restarted(emulator)
        elif emulator.state is EmulatorStatus.UP:
            self._tell_restarted(emulator)

    def _is_revoked_for_reboot(self, task_id: str) -> bool:
        entry = self._board.entries.get(task_id)
        return entry is not None and entry.revoked.startswith(RevokeReason.REBOOTED)

    def _tell_restarted(self, emulator: PoolEmulator) -> None:
        """Stages that ran under an older worker are lost: by word, not by waiting for their heartbeats to run out."""
        active = self._board.entries.get(emulator.active)
        if active is not None and active.lease is not None and active.lease.incarnation < emulator.incarnation:
            self.revoke(emulator.active, RevokeReason.RESTARTED, emulator.incarnation)

    def was_reset(self, emulator: PoolEmulator, token: int, now_ms: int) -> None:
        """Every lease up to this one was fenced there and its remains reset."""
        emulator.reset_up_to = max(emulator.reset_up_to, token)
        if emulator.reset_up_to >= emulator.dirty:
            emulator.dirty = 0
        holder = self._board.entries.get(emulator.active)
        if holder is None or holder.lease is None:
            return
        if holder.state is EntryState.FENCING and emulator.reset_up_to >= holder.lease.token:
            self._free_fenced(holder, holder.lease, now_ms)
        elif not emulator.dirty and emulator.reset_up_to >= holder.lease.after > 0:
            holder.lease = replace(holder.lease, after=0)

    # --- time -------------------------------------------------------------------------------------------------

    def due_ms(self) -> Iterator[int]:
        """When a lease, a mutex or a fence runs out."""
        for entry in self._board.held():
            if entry.state is not EntryState.FENCING:
                yield min(self._expires_ms(entry), self._mutex_until_ms(entry))
            elif entry.fence_until_ms:
                yield entry.fence_until_ms

    def expire(self, now_ms: int) -> None:
        """End what has run out."""
        for entry in list(self._board.held()):
            if entry.lease is None:
                continue
            if entry.state is EntryState.FENCING:
                if entry.fence_until_ms and now_ms >= entry.fence_until_ms:
                    self.mark_dirty(entry)
                    self._free_fenced(entry, entry.lease, now_ms)
            elif now_ms >= self._expires_ms(entry):
                why = AuditEntry("lease_expired", "system:lease_expired", "held for too long")
                self._take_back(entry, entry.lease, why, now_ms)
            elif now_ms >= self._mutex_until_ms(entry):
                reason = f"a mutex may be held for {self._state.config.mutex_hold_s:g} s"
                entry.revoked = MUTEX_OVERDUE
                why = AuditEntry("mutex_overdue", "system:mutex_hold", reason, detail=", ".join(entry.ask.mutex))
                self._take_back(entry, entry.lease, why, now_ms)

    def _expires_ms(self, entry: Entry) -> int:
        return entry.lease.expires_at_ms if entry.lease is not None else FAR_MS

    def _mutex_until_ms(self, entry: Entry) -> int:
        """Until when its holder may keep its mutexes. That of a subscription keeps nobody else waiting: no limit."""
        hold_s = self._state.config.mutex_hold_s
        limited = hold_s and not all(map(why_reserved, entry.ask.mutex))
        return entry.held_ms + int(hold_s * 1000) if limited else FAR_MS

    def _take_back(self, entry: Entry, lease: m.Lease, why: AuditEntry, now_ms: int) -> None:
        """Ask the holder to let go, and fence its emulator: only then what it holds is free."""
        why = replace(why, task_id=entry.task_id, emulator_id=lease.emulator_id, lane=entry.ask.lane)
        self._audit_recorder.record(why, now_ms)
        self._messenger.to_task(entry.task_id, m.Revoked(entry.key, lease.token, RevokeReason.EXPIRED))
        self.fence(entry, now_ms, closed=False)


def _is_about(message: m.Done, lease: m.Lease) -> bool:
    """Whether `clean` is said of this lease, or of one that its holder never knew of and so never used.

    Else it ended by an earlier message, which was lost with a terminated dispatcher.
    """
    return message.token == lease.token or message.lost < lease.token
