"""The dispatcher of one pool, as a pure machine: messages in, messages out.

`DispatcherWorkflow` feeds it what arrives and sends what stands in its outbox; the protocol simulator does the same.
The rules it keeps are numbered in docs/protocol.md.
"""

from collections.abc import Iterable
from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.dispatch import control
from droidherd.domain.dispatch.admission import AdmissionControl
from droidherd.domain.dispatch.audit import TEXT_MAX, AuditEntry, AuditRecorder
from droidherd.domain.dispatch.board import Entry, PoolEmulator
from droidherd.domain.dispatch.deck import Deck
from droidherd.domain.dispatch.lane import Ordering
from droidherd.domain.dispatch.leases import Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.matching import Matching
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.power import PowerControl
from droidherd.domain.dispatch.rebuild import Rebuild
from droidherd.domain.dispatch.state import EMULATORS_BYTES, RETIRED_KEPT, DispatcherState, PoolConfig
from droidherd.domain.dispatch.stats import Statistics
from droidherd.domain.messages import EmulatorStatus

UNSERVED = "no worker took a stage from its queue, or none could read it"


class Dispatcher:
    """Hands each message to the part it concerns, then lets `assign` grant what can be granted. Nothing here waits."""

    def __init__(self, pool: str = "", config: PoolConfig | None = None, state: DispatcherState | None = None) -> None:
        """A pool that begins, or one that goes on with this state (and then with its settings)."""
        if state is None:
            state = DispatcherState(pool)
            state.apply(config or PoolConfig())
        self.state = state
        self.board, self.keys, self.outbox, self.stats = state.board, state.keys, state.outbox, state.stats
        self.held_back = False
        """Nothing more is granted: this run of the dispatcher is about to hand over to the next."""
        self.audit_recorder = AuditRecorder(state.events, state.audit)
        self.messenger = Messenger(state.outbox)
        self.line = WaitingLine(state.board, state.keys, state.weight)
        self.statistics = Statistics(state.stats)
        self.leases = Leases(state, self.line, self.messenger, self.audit_recorder, self.statistics)
        self.deck = Deck(state, self.messenger)
        self.matching = Matching(state.board, self.line, self.leases, self.deck)
        self.admission = AdmissionControl(state, self.line, self.leases, self.messenger)
        self.rebuild = Rebuild(state, self.line, self.leases, self.messenger, self.statistics)
        self.power = PowerControl(state, self.messenger, self.audit_recorder)
        self.lanes = control.LaneCommands(state, self.line, self.audit_recorder)
        self.priorities = control.Priorities(state, self.line, self.admission, self.audit_recorder)
        self.accounts = control.AccountCommands(state, self.line, self.leases, self.audit_recorder)

    # --- task → dispatcher ------------------------------------------------------------------------------------

    def ask(self, ask: m.Enqueue, now_ms: int) -> m.Admitted | m.Rejected | m.Recall | None:
        """`on_enqueue`, with the answer returned instead of sent. None: it is on its way, or a grant says it.

        What was to be said before is not taken back: the asker may have gone, and may wait for just that.
        """
        already_queued = self.messenger.has_for(ask.key.task_id)
        self.on_enqueue(ask, now_ms)
        return None if already_queued else self.messenger.take_answer(ask.key.task_id)

    def on_enqueue(self, ask: m.Enqueue, now_ms: int) -> None:
        """A task waits, repeats itself, or (after a loss of memory) says what it holds."""
        task_id = ask.key.task_id
        self.board.saw_token(ask.lost)
        entry = self.board.entries.get(task_id)
        known = entry.ask.seq if entry else self.state.recent.seq(task_id)
        if ask.seq < known:
            self._ask_anew(task_id, entry, known)
            return
        if ask.seq == known >= 0 and entry is None:
            # Its answer may be lost, and is forgotten here: it is to ask anew. With an entry it gets the same again.
            self.rebuild.recall(task_id)
            return
        self._heard_of(task_id, ask.key.run, ask.recall)
        entry = self._still_true(entry, ask, now_ms) if entry is not None else None
        if entry is not None:
            self.admission.repeat(entry, ask, now_ms)
        elif ask.lease is not None:
            self.rebuild.adopt(ask, ask.lease, now_ms)
        else:
            self.admission.admit(ask, now_ms)
        self.assign(now_ms)
        entry = self.board.entries.get(task_id)
        if entry is not None and entry.lease is None:
            self.admission.tell_position(entry)  # a grant says as much

    def _ask_anew(self, task_id: str, entry: Entry | None, known: int) -> None:
        """A message is older than one that was heard. A late copy, mostly; or its sender lost the step that said more.

        Only the task knows which, so it is asked. It would wait for an answer to what is not heard otherwise.
        """
        self.rebuild.recall(task_id, entry.key if entry else None, seq=known)

    def _still_true(self, entry: Entry, ask: m.Enqueue, now_ms: int) -> Entry | None:
        """The task's entry, unless its request shows that it is over."""
        if entry.key != ask.key:
            self.leases.supersede(entry, ask.key.run, now_ms)
            return None
        if _contradicts(entry, ask):
            self.leases.mark_dirty(entry)
            self.leases.remove(entry, entry.ask.seq, now_ms)
            return None
        return entry

    def on_soon(self, message: m.Soon, now_ms: int) -> None:
        """A task will ask at a time it names."""
        task_id = message.key.task_id
        if task_id not in self.board.entries and message.seq > self.state.recent.seq(task_id):
            self.power.expect(message)
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
        self.board.saw_token(message.lost)
        entry = self.board.entries.get(task_id)
        self._heard_of(task_id, message.key.run, message.recall)
        if entry is None or entry.key != message.key or message.seq < entry.ask.seq:
            self.statistics.report(None, message)
            if entry is None:
                self.state.recent.remember(task_id, message.seq)
            elif entry.key == message.key:
                self._ask_anew(task_id, entry, entry.ask.seq)
            return
        self.statistics.report(entry, message)
        if message.unserved and entry.lease is not None:
            self._suspect(entry.lease, now_ms)
        if self.leases.done(entry, message, now_ms):
            self.state.events.append(now_ms, "done", task_id, detail=message.outcome)
        else:
            self.state.events.append(now_ms, "abandoned", task_id)
        self.assign(now_ms)

    def on_closed(self, task_id: str, run: str, now_ms: int) -> None:
        """This run of a task is closed, and did not say `done`."""
        self.power.on_arrived(task_id)
        self.rebuild.on_closed(task_id, run)
        entry = self.board.entries.get(task_id)
        if entry is None or entry.key.run != run:
            return
        self.messenger.forget_run(task_id, run)
        self.leases.closed(entry, now_ms)
        self.state.events.append(now_ms, "closed", task_id)
        self.assign(now_ms)

    def _heard_of(self, task_id: str, run: str, recall: int) -> None:
        self.power.on_arrived(task_id)
        self.rebuild.on_answered(task_id, run, recall)

    def to_audit(self, host_id: str = "") -> dict[str, str]:
        """Task → run of everybody we wait for and who would never say that its workflow is closed.

        `host_id`: of those, the ones a worker of this host looks after. Leases on its own emulators, and everything
        that no host with an emulator that is up looks after.
        """
        present = {one.host_id for one in self.board.emulators.values() if one.state is EmulatorStatus.UP}
        others = present - {host_id} if host_id else set[str]()
        holders = {
            e.task_id: e.key.run
            for e in self.board.held()
            if not e.fence_until_ms and e.lease is not None and e.lease.host_id not in others
        }
        return {**self.state.rebuild.unanswered, **holders}

    def on_delivered(self, target: str, now_ms: int) -> None:
        """A message arrived. After a grant the next task may line up behind its receiver."""
        if target in self.board.entries:
            self.assign(now_ms)

    def undeliverable(self, target: str, message: object, now_ms: int) -> None:
        """No open workflow takes this message."""
        if isinstance(message, m.Grant | m.Revoked | m.Admitted):
            self.on_closed(message.key.task_id, message.key.run, now_ms)
        elif isinstance(message, m.Recall):
            self.rebuild.forget(target)
            if message.key is not None:
                self.on_closed(target, message.key.run, now_ms)
            self.assign(now_ms)

    # --- emulator → dispatcher --------------------------------------------------------------------------------

    def _suspect(self, lease: m.Lease, now_ms: int) -> None:
        """Nobody took a stage from the queue of this emulator: it is granted to nobody until it announces anew."""
        emulator = self.board.emulators[lease.emulator_id]
        if emulator.state is EmulatorStatus.UP and emulator.incarnation <= lease.incarnation:
            before = replace(emulator)
            emulator.state, emulator.why = EmulatorStatus.SUSPECT, UNSERVED
            self.state.weight.replace_emulator(before, emulator)
            self.state.events.append(now_ms, f"emulator_{emulator.state}", "", emulator.emulator_id, UNSERVED)
            self.board.refresh(emulator)

    def on_announce(self, news: m.Announce, now_ms: int) -> None:
        """What an emulator is now. Not newer than the last seen: dropped, and the emulator is told what is newest.

        It is told so, too, when its counters leap: then it says what is true beyond them, if others had sent them.
        """
        emulator = self.board.emulators.get(news.emulator_id)
        news = self._within_limits(news, emulator, now_ms)
        if emulator is None:
            if why := self.state.refusal_of_emulator(news.emulator_id):
                self.state.events.append(now_ms, "emulator_refused", "", news.emulator_id, why)
                return
            emulator = self.state.add_emulator(news.emulator_id, idle_since_ms=now_ms)
            self.state.joined_ms = now_ms
            self.rebuild.on_joined(emulator, now_ms)
        heard = emulator.incarnation, emulator.seq
        if (news.incarnation, news.seq) <= heard:
            if (news.incarnation, news.seq) != heard or news.state is not emulator.state:
                self._ask_emulator_anew(emulator)
            return
        leaps = m.leaps(news.incarnation, heard[0], now_ms) or m.leaps(news.seq, heard[1], now_ms)
        before = replace(emulator)
        rebooted = emulator.active and news.boot and emulator.boot and news.boot != emulator.boot
        self.power.on_announced(emulator, news, now_ms)
        emulator.incarnation, emulator.seq, emulator.host_id = news.incarnation, news.seq, news.host_id
        emulator.labels, emulator.boot = news.labels, news.boot or emulator.boot
        if emulator.state is not news.state:
            self.state.events.append(now_ms, f"emulator_{news.state}", "", news.emulator_id)
        self.audit_announced(news, now_ms)
        emulator.state, emulator.why = news.state, news.why
        self.state.weight.replace_emulator(before, emulator)
        self.board.saw_token(max(news.reset_up_to, news.token))
        self.leases.was_reset(emulator, news.reset_up_to, now_ms)
        if self.leases.is_held_by_nobody(emulator, news.token):
            detail = f"token {news.token} holds it, and no task does: it is fenced"
            self.state.events.append(now_ms, "emulator_ahead", "", news.emulator_id, detail)
            self.leases.sweep(emulator, now_ms)
        if not self.state.rebuild.active:
            emulator.token = max(emulator.token, news.token)
        self.leases.repeat_reset(emulator)
        self.leases.emulator_changed(emulator, rebooted=bool(rebooted))
        self.admission.on_emulator_lost(emulator, now_ms)
        self.board.refresh(emulator)
        if leaps:
            ahead_s = (max(news.incarnation, news.seq) - now_ms) // 1000
            detail = f"its counters lie {ahead_s} s ahead of the clock: it is asked whether it said so"
            self.state.events.append(now_ms, "emulator_ahead", "", news.emulator_id, detail)
            self._ask_emulator_anew(emulator)
        if emulator.state is EmulatorStatus.RETIRED:
            self._forget_retired()
        self.assign(now_ms)

    def _ask_emulator_anew(self, emulator: PoolEmulator) -> None:
        """What it says next must be newer than this to be heard."""
        recall = m.Recall(self.state.rebuild.generation, seq=emulator.seq, incarnation=emulator.incarnation)
        self.messenger.to_emulator(emulator.emulator_id, recall)

    def _within_limits(self, news: m.Announce, known: PoolEmulator | None, now_ms: int) -> m.Announce:
        """The same, cut to what a pool keeps. Labels for which there is no room are not taken over."""
        news = replace(news, boot=news.boot[:TEXT_MAX], why=news.why[:TEXT_MAX])
        added = sum(map(len, news.labels)) - sum(map(len, known.labels if known else ()))
        if added <= 0 or self.state.weight.emulator_bytes + added <= EMULATORS_BYTES:
            return news
        why = f"no room for its labels: those of a pool may have {EMULATORS_BYTES} characters together; remove some"
        self.state.events.append(now_ms, "labels_refused", "", news.emulator_id, why)
        return replace(news, labels=known.labels if known else ())

    def audit_announced(self, news: m.Announce, now_ms: int) -> None:
        """What a person did to an emulator."""
        if news.action:
            entry = AuditEntry(f"emulator_{news.action}", news.actor, news.reason, "", "", news.emulator_id)
            self.audit_recorder.record(entry, now_ms)

    def _forget_retired(self) -> None:
        """A retired emulator is remembered for a while, so that a late repeat does not bring it back to life."""
        emulators = self.board.emulators.values()
        held = {entry.lease.emulator_id for entry in self.board.held() if entry.lease is not None}
        retired = [one for one in emulators if one.state is EmulatorStatus.RETIRED]
        free = [one for one in retired if not one.active and not one.deck and one.emulator_id not in held]
        for emulator in free[:-RETIRED_KEPT]:
            self.state.drop_emulator(emulator)

    # --- time -------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do next."""
        due = [*self.leases.due_ms(), *self.rebuild.due_ms()]
        if not self.held_back:
            due.extend(self.deck.due_ms())
            due.extend(self.power.due_ms() if self.board.free else ())
        return min(due, default=None)

    def tick(self, now_ms: int) -> None:
        """End what has run out: leases, mutexes, fences, the patience of a rebuild."""
        self.leases.expire(now_ms)
        self.rebuild.lose_patience(now_ms)
        self.assign(now_ms)
        if not self.held_back and not self.state.rebuild.active:
            self.power.switch_off(now_ms)

    def assign(self, now_ms: int) -> None:
        """Grant everything that can be granted now."""
        if self.held_back or not self.rebuild.is_over(now_ms):
            return
        self.matching.grant_all(now_ms)
        self.power.switch_on(now_ms)

    def take_over(
        self, open_tasks: dict[str, str], now_ms: int, patience_s: float, *, blind: bool, emulators: Iterable[str] = ()
    ) -> None:
        """Ask open tasks (id → run) what they want or hold, and emulators what they are.

        `blind`: nothing is known. A pool that never had a life before, without tasks and emulators, waits for nobody.
        """
        if blind or self.state.rebuild.generation:
            reason = self._reason_of_rebuild(blind=blind)
            self.audit_recorder.record(AuditEntry("rebuilt", "system:rebuild", reason), now_ms)
        self.rebuild.begin(open_tasks, now_ms, patience_s, blind=blind, emulators=emulators)
        self.assign(now_ms)

    def _reason_of_rebuild(self, *, blind: bool) -> str:
        if not blind:
            return "with what its predecessor knew"
        if self.state.events.cursor:
            return "with what people had set; its predecessor cannot be asked for more"
        return "without any memory of what was before"

    # --- operators and settings -------------------------------------------------------------------------------

    def pause(self, lane: str, actor: str, reason: str, now_ms: int) -> bool:
        return self.lanes.pause(lane, actor, reason, now_ms)

    def resume(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        resumed = self.lanes.resume(lane, actor, now_ms, reason)
        self.assign(now_ms)
        return resumed

    def set_capacity(self, lane: str, capacity: int, actor: str, now_ms: int, reason: str = "") -> None:
        self.lanes.set_capacity(lane, capacity, actor, now_ms, reason)
        self.assign(now_ms)

    def set_ordering(self, lane: str, ordering: Ordering, actor: str, now_ms: int, reason: str = "") -> None:
        self.lanes.set_ordering(lane, ordering, actor, now_ms, reason)
        self.assign(now_ms)

    def reset_lane(self, lane: str, actor: str, now_ms: int, reason: str = "") -> bool:
        done = self.lanes.reset(lane, actor, now_ms, reason)
        if done:
            self.assign(now_ms)
        return done

    def configure(self, config: PoolConfig, now_ms: int) -> bool:
        done = self.lanes.configure(config, now_ms)
        if done:
            self.assign(now_ms)
        return done

    def prioritize(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        done = self.priorities.prioritize(task_id, priority, actor, now_ms, reason)
        if done:
            self.assign(now_ms)
        return done

    def prioritize_in_bulk(self, task_id: str, priority: int, actor: str, now_ms: int, reason: str = "") -> bool:
        done = self.priorities.prioritize_in_bulk(task_id, priority, actor, now_ms, reason)
        if done:
            self.assign(now_ms)
        return done

    def disable(self, account: str, actor: str, reason: str, now_ms: int) -> bool:
        return self.accounts.disable(account, actor, reason, now_ms)

    def enable(self, account: str, actor: str, now_ms: int, reason: str = "") -> bool:
        done = self.accounts.enable(account, actor, now_ms, reason)
        if done:
            self.assign(now_ms)
        return done


def _contradicts(entry: Entry, ask: m.Enqueue) -> bool:
    """Whether the board holds this task's lease, or its place in line, in a way the task contradicts."""
    if ask.lease is not None:
        return entry.lease is None or entry.lease.token != ask.lease.token
    return entry.lease is not None and entry.lease.token <= ask.lost
