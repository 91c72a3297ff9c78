"""The parts of a dispatcher around one state, for tests that drive one of them alone."""

from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.dispatch.admission import AdmissionControl
from droidherd.domain.dispatch.audit import AuditRecorder
from droidherd.domain.dispatch.board import Entry, PoolEmulator
from droidherd.domain.dispatch.deck import Deck
from droidherd.domain.dispatch.leases import Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.dispatch.matching import Matching
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.power import PowerControl
from droidherd.domain.dispatch.rebuild import Rebuild
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.dispatch.stats import Statistics
from droidherd.domain.messages import EmulatorStatus, OnBusy

NOW = 1_700_000_000_000


class Parts:
    """Nothing connects them: what a test does not call does not happen."""

    def __init__(self, **config: Any) -> None:
        self.state = state = DispatcherState("pool")
        state.apply(PoolConfig(**config))
        self.board, self.keys = state.board, state.keys
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

    def emulator(self, name: str = "e1", state: EmulatorStatus = EmulatorStatus.UP, **fields: Any) -> PoolEmulator:
        """On the board, and free if it is up."""
        emulator = PoolEmulator(name, "h", state, incarnation=1, boot="b1", **fields)
        self.board.emulators[name] = emulator
        self.board.refresh(emulator)
        return emulator

    def ask(self, task_id: str, lane: str = "anonymous", *, run: str = "r1", seq: int = 1, **fields: Any) -> m.Enqueue:
        given: dict[str, Any] = {"on_busy": OnBusy.QUEUE, **fields}
        return m.Enqueue(m.Key(task_id, run, 1), seq, lane, "check", **given)

    def waits(self, task_id: str, lane: str = "anonymous", **fields: Any) -> Entry:
        """In line, with the next ticket."""
        given: dict[str, Any] = {"ticket": self.board.draw_ticket(), **fields}
        entry = Entry(self.ask(task_id, lane, **given), NOW)
        self.line.wait(entry)
        return entry

    def holds(self, task_id: str, emulator: PoolEmulator, now_ms: int = NOW, **fields: Any) -> Entry:
        """With a lease: active, or on deck behind who is."""
        entry = self.waits(task_id, **fields)
        self.leases.grant(entry, emulator, now_ms)
        return entry

    def lease(self, task_id: str) -> m.Lease:
        lease = self.board.entries[task_id].lease
        assert lease is not None
        return lease

    def sent_to(self, target: str) -> list[Any]:
        """What this one was sent since last asked."""
        return self.state.outbox.lines.pop(target, [])

    def kinds(self, target: str) -> list[str]:
        return [type(one).__name__ for one in self.sent_to(target)]

    def audited(self) -> list[str]:
        return [one.kind for one in (*self.state.audit.by_people, *self.state.audit.by_system)]
