"""Admission: whether a task may wait, what it is answered, and why it still waits."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import NAMED, SWITCH_ON, Entry, EntryState, PoolEmulator
from droidherd.domain.dispatch.keys import account_key
from droidherd.domain.dispatch.leases import ORPHAN, Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import RETURNING, RETURNING_BYTES, DispatcherState
from droidherd.domain.messages import EmulatorStatus

LOST = (EmulatorStatus.DOWN, EmulatorStatus.QUARANTINED)
"""What is so does not come back soon: a task that would like this emulator best goes on with another one."""
WHY_MAX = 1_000
REASONS = 3
"""Of so many emulators a task is told why they are not up."""


class AdmissionControl:
    """Takes requests into the line, or refuses them. Owns the tasks that left lately (`recent`)."""

    def __init__(self, state: DispatcherState, line: WaitingLine, leases: Leases, messenger: Messenger) -> None:
        self._state, self._board, self._keys = state, state.board, state.keys
        self._line, self._leases, self._messenger = line, leases, messenger

    def admit(self, ask: m.Enqueue, now_ms: int) -> None:
        """A task that is not on the board waits from now on, or is refused. With a ticket it was admitted before."""
        task_id = ask.key.task_id
        known = ask.ticket != 0
        lost = self._lost_home(ask)
        if lost:
            reason, holder = m.EMULATOR_LOST, lost
        else:
            reason, holder = self._refusal_of_returning() if known else self._refusal(ask, now_ms)
        if reason:
            self._state.recent.remember(task_id, ask.seq)
            self._messenger.to_task(task_id, m.Rejected(ask.key, ask.seq, reason, holder))
            self._state.events.append(now_ms, "rejected", task_id, detail=f"{reason} {holder}".strip())
            return
        self._board.saw_ticket(ask.ticket)
        self._line.wait(Entry(replace(ask, ticket=ask.ticket or self._board.draw_ticket()), now_ms))
        if not known:
            self._state.events.append(now_ms, "queued", task_id)

    def _lost_home(self, ask: m.Enqueue) -> str:
        """What the emulator is that a task waits for by its own choice, if it is lost."""
        home = self._board.emulators.get(ask.sticky)
        by_choice = home is not None and f"{NAMED}{ask.sticky}" in ask.requires
        return _state_of(home) if home is not None and by_choice and home.state in LOST else ""

    def on_emulator_lost(self, emulator: PoolEmulator, now_ms: int) -> None:
        """Those in line who wait for it by their own choice need not wait any longer."""
        if emulator.state not in LOST:
            return
        named = f"{NAMED}{emulator.emulator_id}"
        lines = [bucket.line for bucket in self._board.buckets.values() if named in bucket.requires]
        for entry in [self._board.entries[task_id] for line in lines for _, task_id in line]:
            if entry.ask.sticky == emulator.emulator_id:
                lost = m.Rejected(entry.key, entry.ask.seq, m.EMULATOR_LOST, _state_of(emulator))
                self._messenger.to_task(entry.task_id, lost)
                self._leases.remove(entry, entry.ask.seq, now_ms)

    def _refusal_of_returning(self) -> tuple[str, str]:
        """Of a task that stood in line before: only what would no longer fit into a snapshot is refused."""
        full = self._board.waiting >= self._state.config.limit + RETURNING
        return ("queue_full", "") if full or self._state.weight.is_full(RETURNING_BYTES) else ("", "")

    def _refusal(self, ask: m.Enqueue, now_ms: int) -> tuple[str, str]:
        """(reason, holder) when this task may not wait, else two empty texts."""
        config = self._state.config
        if self._board.waiting >= config.limit or self._state.weight.is_full():
            return "queue_full", ""
        if ask.on_busy is m.OnBusy.REJECT:
            reason, holder = self._keys.duplicate(ask.account, ask.task_type, ask.key.task_id)
            if reason and holder.partition(ORPHAN)[0] != ask.key.task_id:
                return reason, holder
        if self._state.rebuild.active:
            return "", ""
        emulators = [one for one in self._board.emulators.values() if one.state is not EmulatorStatus.RETIRED]
        settled = emulators and now_ms - self._state.joined_ms > config.settle_s * 1000
        if settled and not any(one.offers(ask.requires) for one in emulators):
            return "cannot_be_satisfied", ""
        return "", ""

    def repeat(self, entry: Entry, ask: m.Enqueue, now_ms: int) -> None:
        """The same key again: the same answer."""
        self._restore_priority(entry, ask)
        entry.ask = replace(entry.ask, seq=ask.seq, lost=ask.lost)
        if entry.lease is None:
            return
        if ask.lease is not None:
            self._leases.extend(entry, entry.lease, ask.lease, now_ms)
        if entry.state in (EntryState.DECK, EntryState.ACTIVE):
            self._leases.send_grant(entry, entry.lease)
        else:
            entry.asked_meanwhile = ask.lease is None

    def _restore_priority(self, entry: Entry, ask: m.Enqueue) -> None:
        """A task keeps the ticket of its priority. What it said before it knew may be all that a successor heard."""
        if entry.lease is None and ask.ticket < min(entry.ticket, 0):
            self._board.saw_ticket(ask.ticket)
            self._line.move(entry, min(ask.priority, entry.ask.priority), ask.ticket)

    def tell_position(self, entry: Entry) -> None:
        """Tell a task that waits where it stands."""
        self._messenger.to_task(entry.task_id, self.answer_for(entry))

    def answer_for(self, entry: Entry) -> m.Admitted:
        """Where a task stands, and after which time it repeats its request."""
        config = self._state.config
        repeat_after_s = max(config.repeat_min_s, config.repeat_per_entry_s * self._board.waiting)
        position = self._board.position(entry)
        why = self.why(entry)
        return m.Admitted(entry.key, entry.ask.seq, entry.ticket, position, repeat_after_s, why, entry.ask.priority)

    # --- why it waits -----------------------------------------------------------------------------------------

    def why(self, entry: Entry) -> str:
        """Why a task waits, in one sentence: what a person can change before all else."""
        return self._why(entry)[:WHY_MAX]

    def _why(self, entry: Entry) -> str:
        if self._state.rebuild.active:
            return self._state.rebuild.why(self._state.pool)
        lane = self._board.peek(entry.ask.lane)
        disabled = self._keys.disabled.get(account_key(entry.ask.account)) if entry.ask.account else None
        if disabled is not None:
            return f"account {entry.ask.account} is disabled by {disabled.actor}: {disabled.why or 'no reason given'}"
        if lane.paused_by:
            return f"lane {lane.name} is paused by {lane.paused_by}: {lane.paused_why or 'no reason given'}"
        busy = self._keys.busy(entry.needs(), entry.task_id)
        if busy:
            what = "account" if busy.startswith("a:") else "mutex"
            return f"{what} {busy[2:]} is busy with task {self._keys.held[busy]}"
        if lane.in_use >= lane.capacity:
            return f"lane {lane.name} is at its capacity of {lane.capacity}"
        return self._no_emulator(entry)

    def _no_emulator(self, entry: Entry) -> str:
        able = [one for one in self._board.emulators.values() if one.offers(entry.ask.requires)]
        if not able:
            return f"no emulator of pool {self._state.pool} has {', '.join(entry.ask.requires) or 'joined yet'}"
        if all(one.state is EmulatorStatus.RETIRED for one in able):
            named = next((need for need in entry.ask.requires if need.startswith(NAMED)), "")
            only = (
                f"emulator {named.removeprefix(NAMED)}, the only one that may run it," if named else "what could run it"
            )
            return f"{only} is retired: connect it again, or name another"
        up = [one for one in able if one.state is EmulatorStatus.UP]
        coming = [one for one in able if one.switch == SWITCH_ON]
        if not up and coming:
            return f"emulator {coming[0].emulator_id} is being switched on for it"
        if able[0].emulator_id == entry.ask.sticky and len(able) == 1:
            state = _named(able[0]) if not up else f"{able[0].emulator_id}, {self._held(able[0])}{self._ahead(entry)}"
            return f"waits for the emulator on which its stages completed: {state}"
        return self._all_busy(entry, up) if up else _none_up(able)

    def _all_busy(self, entry: Entry, up: list[PoolEmulator]) -> str:
        if f"{NAMED}{up[0].emulator_id}" in entry.ask.requires:
            return f"only {up[0].emulator_id} may run it, {self._held(up[0])}{self._ahead(entry)}"
        busy = f"{len(up)} emulators busy" if len(up) > 1 else "1 emulator busy"
        return f"{self._board.position(entry) - 1} before it, {busy}"

    def _held(self, emulator: PoolEmulator) -> str:
        """Why an emulator that is up is not free."""
        holder = self._board.entries.get(emulator.active)
        if holder is None:
            return "which is being reset" if emulator.dirty else "which is about to be free"
        task_id, orphan, _ = emulator.active.partition(ORPHAN)
        return f"which {f'an earlier run of task {task_id}' if orphan else f'task {task_id}'} holds"

    def _ahead(self, entry: Entry) -> str:
        before = self._board.position(entry) - 1
        return f"; {before} before it" if before else ""


def _state_of(emulator: PoolEmulator) -> str:
    """With what it says of itself."""
    return f"{emulator.state} ({emulator.why})" if emulator.why else emulator.state


def _named(emulator: PoolEmulator) -> str:
    return f"{emulator.emulator_id} is {_state_of(emulator)}"


def _none_up(able: list[PoolEmulator]) -> str:
    """Says which emulators could run it, and what is the matter with each."""
    shown = sorted(able, key=lambda one: not one.why)[:REASONS]
    states = [_named(one) for one in shown]
    if len(able) == 1:
        return f"the only emulator that could run it is not up: {states[0]}"
    return f"none of the {len(able)} emulators that could run it is up: {', '.join(states)}"
