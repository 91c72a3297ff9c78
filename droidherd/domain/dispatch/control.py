"""What operators, the system and the settings change while a pool runs. Effective at once, and audited.

Nothing that runs is stopped by any of it. Each method says whether it changed anything; the dispatcher grants.
"""

from collections.abc import Callable, Iterable

from droidherd.domain.dispatch.admission import AdmissionControl
from droidherd.domain.dispatch.audit import TEXT_MAX, AuditEntry, AuditRecorder
from droidherd.domain.dispatch.board import Entry, EntryState
from droidherd.domain.dispatch.keys import DISABLED_MAX, DisabledKey, account_key
from droidherd.domain.dispatch.lane import KEPT_BY_HAND, LANES, Lane, Ordering, is_system
from droidherd.domain.dispatch.leases import Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.messages import RevokeReason


class LaneCommands:
    """Pause, capacity and order of lanes. Owns the settings of `board.lanes`."""

    def __init__(self, state: DispatcherState, line: WaitingLine, audit_recorder: AuditRecorder) -> None:
        self._state, self._board = state, state.board
        self._line, self._audit_recorder = line, audit_recorder

    def refusal(self, lane: str) -> str:
        """Why nothing can be set on this lane; empty when it can. A lane nobody was in yet can be set, too."""
        kept = [one.name for one in self._board.lanes.values() if one.name not in LANES and self._board.by_hand(one)]
        if not lane or lane in self._board.lanes or len(kept) < KEPT_BY_HAND:
            return ""
        remedy = "give one back: droidherd queue lanes LANE --reset, or DELETE /api/queue/lanes/LANE"
        pool = self._state.pool
        return f"pool {pool} keeps {len(kept)} lanes set by hand, and no more; {remedy}. They are {', '.join(kept)}"

    def pause(self, lane: str, actor: str, reason: str, now_ms: int) -> bool:
        """No more grants in this lane (or all of them, also those to come: empty name). What runs goes on.

        Whether it did anything: the system overrules nobody.
        """
        actor = actor or "somebody"
        paused = [one for one in self._lanes_called(lane) if one.pause(actor, reason)]
        if paused:
            detail = f"{lane or 'all lanes'} by {actor}: {reason}"
            self._audit_recorder.record(AuditEntry("lane_paused", actor, reason, lane, detail=detail), now_ms)
        self._board.drop_idle(lane)
        return bool(paused)

    def resume(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Grant again. Whether anything was paused; the system takes back only what it did itself."""
        resumed = [one for one in self._lanes_called(lane) if one.resume(actor)]
        if resumed:
            detail = f"{lane or 'all lanes'} by {actor}"
            self._audit_recorder.record(AuditEntry("lane_resumed", actor, reason, lane, detail=detail), now_ms)
        self._board.drop_idle(lane)
        return bool(resumed)

    def set_capacity(self, lane: str, capacity: int, actor: str, now_ms: int, reason: str = "") -> None:
        """By hand. What the settings say as well is theirs again, and follows them."""
        one = self._board.lane(lane)
        by = "" if capacity == self._board.rules.capacity(lane) else actor
        if (capacity, by) != (one.capacity, one.capacity_by):
            one.capacity, one.capacity_by = capacity, by
            detail = f"{lane} = {capacity} by {actor}"
            self._audit_recorder.record(AuditEntry("lane_capacity", actor, reason, lane, detail=detail), now_ms)
        self._board.drop_idle(lane)

    def set_ordering(self, lane: str, ordering: Ordering, actor: str, now_ms: int, reason: str = "") -> None:
        """Who goes first from now on, by hand."""
        one = self._board.lane(lane)
        by = "" if ordering == self._board.rules.ordering(lane) else actor
        if (ordering, by) != (one.ordering, one.ordering_by):
            self._line.reorder(one, ordering)
            one.ordering_by = by
            detail = f"{lane} {_describe(ordering)} by {actor}"
            self._audit_recorder.record(AuditEntry("lane_ordering", actor, reason, lane, detail=detail), now_ms)
        self._board.drop_idle(lane)

    def reset(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Take back what was set on this lane by hand, a pause of its own included. Whether there was anything."""
        one = self._board.lanes.get(lane)
        if one is None or not self._board.by_hand(one):
            return False
        rules, pattern = self._board.rules, self._board.pattern
        one.capacity_by = one.ordering_by = ""
        one.paused_by, one.paused_why = pattern.paused_by, pattern.paused_why
        self._line.reorder(one, rules.ordering(lane))
        one.obey(rules)
        detail = f"{lane} as the settings say, by {actor}"
        self._audit_recorder.record(AuditEntry("lane_reset", actor, reason, lane, detail=detail), now_ms)
        self._board.drop_idle(lane)
        return True

    def configure(self, config: PoolConfig, now_ms: int) -> bool:
        """What the settings say now. What was set by hand stays. Whether they say anything new."""
        changes = list(_changes(self._state.config, config))
        if not changes:
            return False
        self._state.apply(config)
        for lane in self._board.lanes.values():
            self._line.reorder(lane, lane.ordering if lane.ordering_by else config.rules.ordering(lane.name))
            lane.obey(config.rules)
        for name in list(self._board.lanes):
            self._board.drop_idle(name)  # the settings named it before
        for name in config.rules.capacities:
            self._board.lane(name)
        entry = AuditEntry("configured", "system:settings", "a process started", detail="; ".join(changes))
        self._audit_recorder.record(entry, now_ms)
        return True

    def _lanes_called(self, name: str) -> list[Lane]:
        """One lane; or all of them, and the pattern for those to come."""
        return [self._board.lane(name)] if name else [self._board.pattern, *self._board.lanes.values()]


class Priorities:
    """The audited exception to the order of arrival."""

    def __init__(
        self, state: DispatcherState, line: WaitingLine, admission: AdmissionControl, audit_recorder: AuditRecorder
    ) -> None:
        self._board, self._line, self._admission, self._audit_recorder = state.board, line, admission, audit_recorder

    def prioritize(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        """Make a task as urgent as this, never less, and put it in front of all who are no more urgent.

        The task is told, so that it comes back with its priority from wherever it goes. Returns whether it waits.
        """
        return self._move(
            task_id, priority, lambda e: self._audit_recorder.record(_prioritize_entry(e, actor, reason), now_ms)
        )

    def prioritize_in_bulk(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        """The same for one of many that share one audit entry: it is a live event only."""
        return self._move(
            task_id, priority, lambda e: self._audit_recorder.show(_prioritize_entry(e, actor, reason), now_ms)
        )

    def _move(self, task_id: str, priority: int, write: Callable[[Entry], object]) -> bool:
        entry = self._board.entries.get(task_id)
        if entry is None or entry.lease is not None:
            return False
        priority = min(priority, entry.ask.priority)
        if priority == entry.ask.priority and entry.ticket == self._board.first_ticket < 0:
            return True  # nobody was put in front of it since
        self._line.move(entry, priority, self._board.draw_priority_ticket())
        write(entry)
        self._admission.tell_position(entry)
        return True


class AccountCommands:
    """Accounts that are given nothing. Owns `keys.disabled`."""

    def __init__(
        self, state: DispatcherState, line: WaitingLine, leases: Leases, audit_recorder: AuditRecorder
    ) -> None:
        self._state, self._board, self._keys = state, state.board, state.keys
        self._line, self._leases, self._audit_recorder = line, leases, audit_recorder

    def is_disabled(self, account: str) -> bool:
        return account_key(account) in self._keys.disabled

    def refusal(self, account: str) -> str:
        """Why one more account cannot be disabled; empty when it can."""
        pool = self._state.pool
        if self.is_disabled(account):
            return ""
        if len(self._keys.disabled) >= DISABLED_MAX:
            return f"pool {pool} keeps {DISABLED_MAX} accounts disabled, and no more: enable or remove some first"
        if self._state.weight.is_full():
            return f"the queue of pool {pool} is full to the last byte: cancel tasks of account {account} instead"
        return ""

    def disable(self, account: str, actor: str, reason: str, now_ms: int) -> bool:
        """Nothing more is granted to this account; who stands on deck for it is taken off, what runs goes on.

        Whether it did anything: the system overrules nobody, and saying it twice is saying it once.
        """
        key = account_key(account)
        before = self._keys.disabled.get(key)
        after = DisabledKey((actor or "somebody")[:TEXT_MAX], reason[:TEXT_MAX], now_ms)
        same = before is not None and before.actor == after.actor and after.why in ("", before.why)
        if same or (before is not None and is_system(actor)):
            return False
        self._state.weight.replace_disabled(account, before, after)
        self._keys.disabled[key] = after
        holder = self._board.entries.get(self._keys.held.get(key, ""))
        if holder is not None and holder.state is EntryState.DECK:
            self._leases.revoke(holder.task_id, RevokeReason.DECK)
        self._audit_recorder.record(AuditEntry("account_disabled", after.actor, reason, detail=account), now_ms)
        return True

    def enable(self, account: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Grant again. Whether it was disabled; the system takes back only what it did itself."""
        key = account_key(account)
        disabled = self._keys.disabled.get(key)
        if disabled is None or (is_system(actor) and disabled.actor != actor):
            return False
        del self._keys.disabled[key]
        self._state.weight.replace_disabled(account, disabled, None)
        self._audit_recorder.record(AuditEntry("account_enabled", actor or "somebody", reason, detail=account), now_ms)
        self._line.wake(key)
        return True


def _prioritize_entry(entry: Entry, actor: str, reason: str) -> AuditEntry:
    detail = f"priority {entry.ask.priority} by {actor}"
    return AuditEntry("prioritized", actor, reason, entry.ask.lane, entry.task_id, detail=detail)


def _describe(ordering: Ordering) -> str:
    if not ordering.by_priority:
        return "by arrival"
    return f"by priority, ageing {ordering.ageing}" if ordering.ageing else "by priority"


def _changes(before: PoolConfig, after: PoolConfig) -> Iterable[str]:
    """What is different, for people."""
    if before.limit != after.limit:
        yield f"limit {before.limit} → {after.limit}"
    if before.mutex_hold_s != after.mutex_hold_s:
        yield f"mutex_hold_s {before.mutex_hold_s:g} → {after.mutex_hold_s:g}"
    if (before.idle_stop_s, before.idle_keep) != (after.idle_stop_s, after.idle_keep):
        yield f"idle: stopped after {after.idle_stop_s:g} s, {after.idle_keep} kept"
    lanes = dict.fromkeys([*before.rules.capacities, *after.rules.capacities])
    for lane in lanes:
        old, new = before.rules.capacity(lane), after.rules.capacity(lane)
        if old != new:
            yield f"capacity of {lane} {old} → {new}"
    if before.rules.by_priority != after.rules.by_priority or before.rules.ageing != after.rules.ageing:
        names = ", ".join(after.rules.by_priority) or "no lane"
        yield f"by priority: {names}, ageing {after.rules.ageing}"
