"""What people, the system and the settings may order a pool to do while it runs. Effective at once, and audited."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.audit import SAID, Deed
from droidherd.domain.board import Entry, Place
from droidherd.domain.keys import BARRED_MAX, Bar, account_key
from droidherd.domain.lane import KEPT_BY_HAND, LANES, Lane, Ordering, is_system
from droidherd.domain.memory import Memory
from droidherd.domain.messages import RevokeReason
from droidherd.domain.moves import SIZE_LIMIT_BYTES, Config


class Orders(Memory):
    """Pause, capacity, order, precedence, disabled accounts. Nothing that runs is stopped by any of them."""

    @abstractmethod
    def assign(self, now_ms: int) -> None:
        """Grant everything that can be granted now."""

    @abstractmethod
    def tell(self, entry: Entry) -> None:
        """Say to a task that waits where it stands."""

    def refusal(self, lane: str) -> str:
        """Why nothing can be set on this lane; empty when it can. A lane nobody was in yet can be set, too."""
        kept = [one.name for one in self.board.lanes.values() if one.name not in LANES and self.board.by_hand(one)]
        if not lane or lane in self.board.lanes or len(kept) < KEPT_BY_HAND:
            return ""
        remedy = "give one back: droidherd lanes LANE --reset, or DELETE /api/queue/lanes/LANE"
        return (
            f"pool {self.pool} keeps {len(kept)} lanes set by hand, and no more; {remedy}. They are {', '.join(kept)}"
        )

    def pause(self, lane: str, actor: str, reason: str, now_ms: int) -> bool:
        """No more grants in this lane (or all of them, also those to come: empty name). What runs goes on.

        Whether it did anything: the system overrules nobody.
        """
        actor = actor or "somebody"
        paused = [one for one in self._lanes(lane) if one.pause(actor, reason)]
        if paused:
            detail = f"{lane or 'all lanes'} by {actor}: {reason}"
            self.act(Deed("lane_paused", actor, reason, lane, detail=detail), now_ms)
        self.board.drop_idle(lane)
        return bool(paused)

    def resume(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Grant again. Whether anything was paused; the system takes back only what it did itself."""
        resumed = [one for one in self._lanes(lane) if one.resume(actor)]
        if resumed:
            self.act(Deed("lane_resumed", actor, reason, lane, detail=f"{lane or 'all lanes'} by {actor}"), now_ms)
        self.board.drop_idle(lane)
        self.assign(now_ms)
        return bool(resumed)

    def set_capacity(self, lane: str, capacity: int, actor: str, now_ms: int, reason: str = "") -> None:
        """By hand. What the settings say as well is theirs again, and follows them."""
        one = self.board.lane(lane)
        by = "" if capacity == self.board.rules.capacity(lane) else actor
        if (capacity, by) != (one.capacity, one.capacity_by):
            one.capacity, one.capacity_by = capacity, by
            self.act(Deed("lane_capacity", actor, reason, lane, detail=f"{lane} = {capacity} by {actor}"), now_ms)
        self.board.drop_idle(lane)
        self.assign(now_ms)

    def set_ordering(self, lane: str, ordering: Ordering, actor: str, now_ms: int, reason: str = "") -> None:
        """Who goes first from now on, by hand."""
        one = self.board.lane(lane)
        by = "" if ordering == self.board.rules.ordering(lane) else actor
        if (ordering, by) != (one.ordering, one.ordering_by):
            self._reorder(one, ordering)
            one.ordering_by = by
            detail = f"{lane} {_said(ordering)} by {actor}"
            self.act(Deed("lane_ordering", actor, reason, lane, detail=detail), now_ms)
        self.board.drop_idle(lane)
        self.assign(now_ms)

    def reset(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Take back what was set on this lane by hand, a pause of its own included. Whether there was anything."""
        one = self.board.lanes.get(lane)
        if one is None or not self.board.by_hand(one):
            return False
        rules, pattern = self.board.rules, self.board.pattern
        one.capacity_by = one.ordering_by = ""
        one.paused_by, one.paused_why = pattern.paused_by, pattern.paused_why
        self._reorder(one, rules.ordering(lane))
        one.obey(rules)
        self.act(Deed("lane_reset", actor, reason, lane, detail=f"{lane} as the settings say, by {actor}"), now_ms)
        self.board.drop_idle(lane)
        self.assign(now_ms)
        return True

    def prioritize(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        """The audited exception: as urgent as this, never less, and in front of all who are no more urgent.

        The task is told, so that it comes back with its precedence from wherever it goes.
        """
        return self._in_front(
            task_id, priority, now_ms, lambda entry: self.act(_prioritized(entry, actor, reason), now_ms)
        )

    def prioritize_in_bulk(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        """One of many: a line in the audit for each would push out what others did."""
        return self._in_front(
            task_id, priority, now_ms, lambda entry: self.show(_prioritized(entry, actor, reason), now_ms)
        )

    def _in_front(self, task_id: str, priority: int, now_ms: int, write: Callable[[Entry], object]) -> bool:
        entry = self.board.entries.get(task_id)
        if entry is None or entry.lease is not None:
            return False
        priority = min(priority, entry.ask.priority)
        if priority == entry.ask.priority and entry.ticket == self.board.first_ticket < 0:
            return True  # nobody was put in front of it since
        self._advance(entry, priority, self.board.draw_precedence())
        write(entry)
        self.tell(entry)
        self.assign(now_ms)
        return True

    def prioritize_untold(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> None:
        """As it was before tasks were told, for histories of then: the smallest ticket, and whatever priority."""
        entry = self.board.entries.get(task_id)
        if entry is not None and entry.lease is None:
            self._advance(entry, priority, max(1, min(e.ticket for e in self.board.entries.values()) - 1))
            self.act(_prioritized(entry, actor, reason), now_ms)
            self.assign(now_ms)

    def hear_precedence(self, entry: Entry, ask: m.Enqueue) -> None:
        """Precedence is the task's. What it said before it knew of it may be all that a successor heard."""
        if self.strict and entry.lease is None and ask.ticket < min(entry.ticket, 0):
            self.board.saw_ticket(ask.ticket)
            self._advance(entry, min(ask.priority, entry.ask.priority), ask.ticket)

    def _advance(self, entry: Entry, priority: int, ticket: int) -> None:
        """To another place in line; parked or not: if its key is busy it is parked again when its turn comes."""
        self._take_out(entry)
        entry.ticket = ticket
        entry.ask = replace(entry.ask, priority=priority, ticket=ticket)
        self.board.line_up(entry)

    def is_disabled(self, account: str) -> bool:
        return account_key(account) in self.keys.barred

    def refusal_to_disable(self, account: str) -> str:
        """Why one more account cannot be disabled; empty when it can."""
        if self.is_disabled(account):
            return ""
        if len(self.keys.barred) >= BARRED_MAX:
            return f"pool {self.pool} keeps {BARRED_MAX} accounts disabled, and no more: enable or remove some first"
        if self.size_bytes >= SIZE_LIMIT_BYTES:
            return f"the queue of pool {self.pool} is full to the last byte: cancel tasks of account {account} instead"
        return ""

    def disable(self, account: str, actor: str, reason: str, now_ms: int) -> bool:
        """Nothing more is granted to this account; who stands on deck for it is taken off, what runs goes on.

        Whether it did anything: the system overrules nobody, and saying it twice is saying it once.
        """
        key = account_key(account)
        before = self.keys.barred.get(key)
        bar = Bar((actor or "somebody")[:SAID], reason[:SAID], now_ms)
        same = before is not None and before.actor == bar.actor and bar.why in ("", before.why)
        if same or (before is not None and is_system(actor)):
            return False
        self._weigh_bar(account, before, -1)
        self._weigh_bar(account, bar, 1)
        self.keys.barred[key] = bar
        holder = self.board.entries.get(self.keys.held.get(key, ""))
        if holder is not None and holder.place is Place.DECK:
            self._revoke(holder.task_id, RevokeReason.DECK)
        self.act(Deed("account_disabled", bar.actor, reason, detail=account), now_ms)
        return True

    def enable(self, account: str, actor: str, now_ms: int, reason: str = "") -> bool:
        """Grant again. Whether it was disabled; the system takes back only what it did itself."""
        key = account_key(account)
        bar = self.keys.barred.get(key)
        if bar is None or (is_system(actor) and bar.actor != actor):
            return False
        del self.keys.barred[key]
        self._weigh_bar(account, bar, -1)
        self.act(Deed("account_enabled", actor or "somebody", reason, detail=account), now_ms)
        self._wake(key)
        self.assign(now_ms)
        return True

    def configure(self, config: Config, now_ms: int) -> bool:
        """What the settings say now. What was set by hand stays. Whether they say anything new."""
        changes = list(_changes(self.config, config))
        if not changes:
            return False
        self.config, self.board.rules = config, config.rules
        for lane in self.board.lanes.values():
            self._reorder(lane, lane.ordering if lane.ordering_by else config.rules.ordering(lane.name))
            lane.obey(config.rules)
        for name in config.rules.capacities:
            self.board.lane(name)
        self.act(Deed("configured", "system:settings", "a process started", detail="; ".join(changes)), now_ms)
        self.assign(now_ms)
        return True

    def _lanes(self, name: str) -> list[Lane]:
        """One lane; or all of them, and the pattern for those to come."""
        return [self.board.lane(name)] if name else [self.board.pattern, *self.board.lanes.values()]

    def _reorder(self, lane: Lane, ordering: Ordering) -> None:
        """Who waits in this lane stands in line anew; who was parked is parked again when its turn comes."""
        if ordering == lane.ordering:
            return
        waiting = [e for e in self.board.entries.values() if e.lease is None and e.ask.lane == lane.name]
        for entry in waiting:
            self._take_out(entry)
        lane.ordering = ordering
        for entry in waiting:
            self.board.line_up(entry)


def _prioritized(entry: Entry, actor: str, reason: str) -> Deed:
    detail = f"priority {entry.ask.priority} by {actor}"
    return Deed("prioritized", actor, reason, entry.ask.lane, entry.task_id, detail=detail)


def _said(ordering: Ordering) -> str:
    if not ordering.by_priority:
        return "by arrival"
    return f"by priority, ageing {ordering.ageing}" if ordering.ageing else "by priority"


def _changes(before: Config, after: Config) -> Iterable[str]:
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
