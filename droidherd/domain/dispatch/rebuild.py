"""Rebuild: how a dispatcher that took over comes to know who waits and who holds what.

Its predecessor's snapshot is the best source; beside it everybody is asked. Without one it is blind: nothing is granted
until every open task answered, nor before the guards of a task that was closed unseen have run out.
"""

from collections.abc import Iterable
from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import Entry, EntryState, PoolEmulator
from droidherd.domain.dispatch.leases import HOLD_MAX_MS, Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import EMULATORS_MAX, RETIRED_KEPT, RETURNING_BYTES, DispatcherState
from droidherd.domain.dispatch.stats import Statistics
from droidherd.domain.messages import RevokeReason

LATE_MS = 3_600_000
"""An emulator that a dispatcher without memory meets for the first time within this is swept."""


class Rebuild:
    """Owns the state of the rebuild, and puts leases that others claim back on the board."""

    def __init__(
        self, state: DispatcherState, line: WaitingLine, leases: Leases, messenger: Messenger, statistics: Statistics
    ) -> None:
        self._state, self._board, self._keys, self._own = state, state.board, state.keys, state.rebuild
        self._line, self._leases, self._messenger, self._statistics = line, leases, messenger, statistics

    def begin(
        self, open_tasks: dict[str, str], now_ms: int, patience_s: float, *, blind: bool, emulators: Iterable[str]
    ) -> None:
        """Ask open tasks (id → run) what they want or hold, and emulators what they are."""
        known_emulators = list(emulators)
        asked = {task_id: run for task_id, run in open_tasks.items() if not self._waits(task_id, run)}
        unanswered = {**self._own.unanswered, **asked}  # what the predecessor asked, nobody answers any more
        # Also greater than that of a predecessor of which nothing is known: tasks remember the newest they heard.
        self._own.generation = max(self._own.generation + 1, now_ms)
        for task_id, run in unanswered.items():
            entry = self._board.entries.get(task_id)
            known = entry is not None and entry.key.run == run
            self.recall(task_id, entry.key if entry and known else m.Key(task_id, run, 0))
        for emulator_id in dict.fromkeys([*self._board.emulators, *known_emulators]):
            self._messenger.to_emulator(emulator_id, m.Recall(self._own.generation, voids=now_ms if blind else 0))
        stats = self._state.stats
        stats.since_ms = stats.since_ms or now_ms
        if blind:
            self._board.saw_ticket(now_ms)
            self._board.saw_ticket(-now_ms)
            stats.own = max(self._board.last_token, now_ms)
        if blind and (unanswered or known_emulators):
            self._own.unanswered = dict(unanswered)
            self._own.blind_since_ms = now_ms
            self._own.until_ms = now_ms + int(patience_s * 1000)
            self._own.quiet_until_ms = now_ms + int(self._state.config.fence_s * 1000)

    def recall(self, task_id: str, key: m.Key | None = None, *, seq: int = 0) -> None:
        """Ask a task to say again what it wants or holds. `seq`: of what was heard of it before, and is newer."""
        self._messenger.to_task(task_id, m.Recall(self._own.generation, key, seq=seq))

    def _waits(self, task_id: str, run: str) -> bool:
        entry = self._board.entries.get(task_id)
        return entry is not None and entry.lease is None and entry.key.run == run

    # --- until when -------------------------------------------------------------------------------------------

    def on_answered(self, task_id: str, run: str, recall: int) -> None:
        """This run said what it wants or holds, knowing that it was asked.

        What it sent before it was asked may be from before its grant, and a message of an older run says nothing.
        """
        if recall >= self._own.generation:
            self.on_closed(task_id, run)

    def on_closed(self, task_id: str, run: str) -> None:
        """This run is over, or has answered: it is not waited for any more."""
        if self._own.unanswered.get(task_id) == run:
            del self._own.unanswered[task_id]

    def forget(self, task_id: str) -> None:
        """Nobody is there to answer."""
        self._own.unanswered.pop(task_id, None)

    def lose_patience(self, now_ms: int) -> None:
        """Who has not answered by now is not waited for any more."""
        if self._own.until_ms and now_ms >= self._own.until_ms:
            self._own.unanswered.clear()

    def due_ms(self) -> Iterable[int]:
        if self._own.active:
            yield self._own.until_ms if self._own.unanswered else self._own.quiet_until_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether grants may be made. Who holds nothing that is known by now may have left remains: they are swept."""
        if not self._own.active:
            return True
        if self._own.unanswered or now_ms < self._own.quiet_until_ms:
            return False
        self._own.until_ms = self._own.quiet_until_ms = 0
        self._state.stats.own = max(self._state.stats.own, self._board.last_token)
        for emulator in self._board.emulators.values():
            holder = self._board.entries.get(emulator.active)
            if holder is None:
                self._leases.sweep(emulator, now_ms)
            elif holder.lease is not None and holder.lease.after:  # whom it stood behind is gone without a word
                emulator.dirty = max(emulator.dirty, holder.lease.after)
                self._leases.order_reset(emulator)
        return True

    def on_joined(self, emulator: PoolEmulator, now_ms: int) -> None:
        """An emulator nobody knew: what ran there before a dispatcher without memory is swept."""
        since_ms = self._own.blind_since_ms
        if since_ms and not self._own.active and now_ms - since_ms < LATE_MS:
            self._leases.sweep(emulator, now_ms)

    # --- leases that others claim -----------------------------------------------------------------------------

    def adopt(self, ask: m.Enqueue, lease: m.Lease, now_ms: int) -> None:
        """Believe a holder that survived our memory. Of two that contradict each other the newer lease is true."""
        emulator = self._board.emulators.get(lease.emulator_id)
        if self._is_full() or (emulator is None and self._state.refusal_of_emulator(lease.emulator_id)):
            self._messenger.to_task(ask.key.task_id, m.Revoked(ask.key, lease.token, RevokeReason.EXPIRED))
            return
        if emulator is None:
            emulator = self._state.add_emulator(lease.emulator_id, lease.host_id)
        lease = replace(lease, expires_at_ms=min(lease.expires_at_ms, now_ms + HOLD_MAX_MS))
        entry = Entry(replace(ask, lease=None), now_ms, EntryState.ACTIVE, lease=lease, granted_ms=now_ms)
        entry.ending, entry.held_ms = ask.single, now_ms
        self._statistics.on_adopted(entry, lease.token, rebuilding=self._own.active)
        self._board.saw_token(lease.token)
        self._board.saw_ticket(ask.ticket)
        self._line.enter(entry)
        self._board.lane(ask.lane).in_use += 1
        holders = [self._keys.held[key] for key in entry.needs() if key in self._keys.held]
        rivals = [self._board.entries[task_id] for task_id in dict.fromkeys(holders)]
        if any(rival.lease is None or rival.lease.token > lease.token for rival in rivals):
            self._unseat(entry, lease)
        else:
            for rival in rivals:
                self._unseat(rival, rival.lease)
            self._place(entry, lease, emulator)
        if entry.state is not EntryState.FENCING:
            self._keys.take(entry.needs(), entry.task_id)
        self._board.refresh(emulator)

    def _is_full(self) -> bool:
        """Whether one more holder would not fit: there are no more than there are emulators, and two for each."""
        too_many = len(self._board.leases) >= 2 * (EMULATORS_MAX + RETIRED_KEPT)
        return too_many or self._state.weight.is_full(RETURNING_BYTES)

    def _place(self, entry: Entry, lease: m.Lease, emulator: PoolEmulator) -> None:
        """Give an adopted lease its place on the emulator: active, on deck behind the other, or before it."""
        sitting = self._board.entries.get(emulator.active)
        if sitting is None or sitting.lease is None:
            emulator.active = entry.task_id
        elif sitting.lease.after == lease.token and not emulator.deck:
            sitting.state, emulator.deck, emulator.active = EntryState.DECK, emulator.active, entry.task_id
        elif lease.after == sitting.lease.token and not emulator.deck:
            entry.state, emulator.deck = EntryState.DECK, entry.task_id
        elif sitting.lease.token < lease.token:
            self._unseat(sitting, sitting.lease)
            emulator.active = entry.task_id
        else:
            self._unseat(entry, lease)

    def _unseat(self, entry: Entry, lease: m.Lease | None) -> None:
        """A lease that was fenced and freed once; its holder has yet to hear it."""
        if lease is None:
            return
        emulator = self._board.emulators[lease.emulator_id]
        emulator.active = "" if emulator.active == entry.task_id else emulator.active
        emulator.deck = "" if emulator.deck == entry.task_id else emulator.deck
        self._board.refresh(emulator)
        entry.state = EntryState.FENCING
        self._keys.free(entry.needs(), entry.task_id)
        self._messenger.to_task(entry.task_id, m.Revoked(entry.key, lease.token, RevokeReason.EXPIRED))
